package cloudstack

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// profiles is a CloudMonkey configuration as cmk 6 writes it, with one profile for each case.
const cmkConfig = `prompt     = 🐱
asyncblock = true
timeout    = 1800
output     = json
verifycert = true
profile    = lab

[lab]
url       = https://lab.example.com/client/api
username  =
apikey    = lab-key
secretkey = lab-secret%(x)s#;=tail

[prod]
url       = https://prod.example.com/client/api
apikey    = prod-key
secretkey = prod-secret

[insecure]
url        = https://10.0.0.1/client/api
apikey     = insecure-key
secretkey  = insecure-secret
verifycert = false

[by-password]
url      = https://lab.example.com/client/api
username = admin
password = canary-password
`

// world is one case: files, environment and command line.
type world struct {
	env     map[string]string
	config  string // of CloudMonkey; "-" for no file
	secret  string // of the secret-key file; empty for no file
	sources Sources
}

func (w world) resolve(t *testing.T) (Credentials, error) {
	t.Helper()
	home := t.TempDir()
	s := w.sources
	s.Home = home
	s.Env = func(name string) (string, bool) { value, ok := w.env[name]; return value, ok }
	if w.config != "-" {
		write(t, filepath.Join(home, ".cmk", "config"), w.config)
	}
	if w.secret != "" {
		s.SecretKeyFile = filepath.Join(home, "secret")
		write(t, s.SecretKeyFile, w.secret)
	}
	return Resolve(s)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestResolve(t *testing.T) {
	full := map[string]string{"CLOUDSTACK_API_URL": "https://env/api", "CLOUDSTACK_API_KEY": "env-key", "CLOUDSTACK_SECRET_KEY": "env-secret"}
	python := map[string]string{"CLOUDSTACK_ENDPOINT": "https://py/api", "CLOUDSTACK_KEY": "py-key", "CLOUDSTACK_SECRET": "py-secret"}
	for _, tt := range []struct {
		name             string
		world            world
		url, key, secret string
		source           string
	}{
		{"default profile", world{config: cmkConfig},
			"https://lab.example.com/client/api", "lab-key", "lab-secret%(x)s#;=tail", `profile "lab"`},
		{"environment before default profile", world{config: cmkConfig, env: full},
			"https://env/api", "env-key", "env-secret", "the environment"},
		{"environment without any file", world{config: "-", env: full},
			"https://env/api", "env-key", "env-secret", "the environment"},
		{"environment despite a broken file", world{config: "[", env: full},
			"https://env/api", "env-key", "env-secret", "the environment"},
		{"names of the Python client", world{config: "-", env: python},
			"https://py/api", "py-key", "py-secret", "the environment"},
		{"named profile before environment", world{config: cmkConfig, env: full, sources: Sources{Profile: "prod"}},
			"https://prod.example.com/client/api", "prod-key", "prod-secret", `profile "prod"`},
		{"command line before all", world{config: cmkConfig, env: full, secret: "file-secret\n", sources: Sources{URL: "https://flag/api", APIKey: "flag-key", Profile: "prod"}},
			"https://flag/api", "flag-key", "file-secret", "the command line"},
		{"command line completed by the environment", world{config: "-", env: full, sources: Sources{APIKey: "flag-key"}},
			"https://env/api", "flag-key", "env-secret", "the command line"},
		{"secret from a file, the rest from a profile", world{config: cmkConfig, secret: "file-secret", sources: Sources{Profile: "by-password", APIKey: "flag-key"}},
			"https://lab.example.com/client/api", "flag-key", "file-secret", "the command line"},
		{"profile that does not verify, with a CA file", world{config: cmkConfig, sources: Sources{Profile: "insecure", CAFile: "ca.pem"}},
			"https://10.0.0.1/client/api", "insecure-key", "insecure-secret", `profile "insecure"`},
		{"empty variables count as not set", world{config: cmkConfig, env: map[string]string{"CLOUDSTACK_API_KEY": "", "CLOUDSTACK_API_URL": " "}},
			"https://lab.example.com/client/api", "lab-key", "lab-secret%(x)s#;=tail", `profile "lab"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.world.resolve(t)
			if err != nil {
				t.Fatal(err)
			}
			if got.URL != tt.url || got.APIKey.reveal() != tt.key || got.SecretKey.reveal() != tt.secret || !strings.HasPrefix(got.Source, tt.source) {
				t.Errorf("got %s %s %s from %s", got.URL, got.APIKey.reveal(), got.SecretKey.reveal(), got.Source)
			}
			if got.CAFile != tt.world.sources.CAFile {
				t.Errorf("CA file %q", got.CAFile)
			}
		})
	}
}

func TestResolveRefuses(t *testing.T) {
	for _, tt := range []struct {
		name  string
		world world
		says  []string
	}{
		{"nothing anywhere", world{config: "-"}, []string{
			"no API URL (not given with --api-url, CLOUDSTACK_API_URL is not set)",
			"no API key (not given with --api-key, CLOUDSTACK_API_KEY is not set)",
			"no secret key (not given with --secret-key-file, CLOUDSTACK_SECRET_KEY is not set)",
		}},
		{"environment without secret", world{config: "-", env: map[string]string{"CLOUDSTACK_API_URL": "u", "CLOUDSTACK_API_KEY": "canary"}},
			[]string{"incomplete: no secret key (", "CLOUDSTACK_SECRET_KEY is not set"}},
		{"unknown profile", world{config: cmkConfig, sources: Sources{Profile: "prdo"}}, []string{`profile "prdo" is not in`, "lab, prod, insecure, by-password"}},
		{"unknown profile in an empty file", world{config: "", sources: Sources{Profile: "x"}}, []string{"it has none"}},
		{"default profile missing", world{config: "profile = gone\n[lab]\nurl = u\n"}, []string{`profile "gone", the default in`, "it has lab"}},
		{"no default profile", world{config: "[lab]\nurl = u\n"}, []string{"names no default profile", "--profile", "it has lab"}},
		{"named profile without a file", world{config: "-", sources: Sources{Profile: "prod"}}, []string{"profiles", "config"}},
		{"profile by password", world{config: cmkConfig, sources: Sources{Profile: "by-password"}}, []string{`profile "by-password" in`, "has no apikey, but a username", "has no secretkey"}},
		{"named profile does not borrow from the environment", world{config: cmkConfig, env: map[string]string{"CLOUDSTACK_API_KEY": "k", "CLOUDSTACK_SECRET_KEY": "canary"}, sources: Sources{Profile: "by-password"}}, []string{"has no apikey"}},
		{"profile does not verify", world{config: cmkConfig, sources: Sources{Profile: "insecure"}}, []string{"verifycert = false", "--ca-file"}},
		{"file does not verify", world{config: strings.Replace(cmkConfig, "verifycert = true", "verifycert = false", 1)}, []string{"verifycert = false", "--ca-file"}},
		{"keys of two sources", world{config: cmkConfig, env: map[string]string{"CLOUDSTACK_API_KEY": "k"}}, []string{"the API key from the environment", `the secret key from profile "lab"`}},
		{"URL of another source", world{config: cmkConfig, env: map[string]string{"CLOUDSTACK_API_KEY": "k", "CLOUDSTACK_SECRET_KEY": "canary"}}, []string{`the API URL comes from profile "lab"`}},
		{"unreadable file", world{config: "secretkey canary-in-a-line\n[x", sources: Sources{Profile: "x"}}, []string{"can't be read"}},
		{"secret-key file missing", world{config: "-", sources: Sources{SecretKeyFile: "/nonexistent/secret"}}, []string{"read the secret key"}},
		{"secret-key file empty", world{config: "-", secret: "\n"}, []string{"is empty"}},
		{"secret-key file with more", world{config: "-", secret: "canary and more"}, []string{"alone"}},
		{"secret-key file too long", world{config: "-", secret: strings.Repeat("c", maxSecretFile+1)}, []string{"alone"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.world.resolve(t)
			if err == nil {
				t.Fatalf("got %+v, want an error", got)
			}
			for _, says := range tt.says {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("error %q does not say %q", err, says)
				}
			}
			for _, secret := range []string{"canary", "lab-secret", "prod-secret", "insecure-secret", "lab-key"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("error %q holds %q", err, secret)
				}
			}
		})
	}
}
