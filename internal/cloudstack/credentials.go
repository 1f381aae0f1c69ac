package cloudstack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Credentials say which CloudStack to talk to, and as whom.
type Credentials struct {
	URL       string // of the API, like https://cloud.example.com/client/api
	APIKey    Secret
	SecretKey Secret
	CAFile    string // certificates in PEM form to trust beside the system's; empty for none
	// Source says for people where the keys come from.
	Source string
}

// Sources are the places that credentials may come from. The command line beats the environment, and the environment beats the
// profile that the configuration file names as its default. A profile that is named on the command line beats the
// environment as a whole: nothing of it is then used, so that the keys of one cloud never reach another.
type Sources struct {
	// The command line. There is no flag for the secret key itself: other users of the machine could see it.
	URL, APIKey, SecretKeyFile, CAFile, Profile string
	// Env looks up the environment; os.LookupEnv.
	Env func(name string) (string, bool)
	// ConfigFile is CloudMonkey's configuration; ~/.cmk/config under Home if empty.
	ConfigFile string
	Home       string
}

// maxSecretFile bounds a secret-key file, in bytes: CloudStack's keys have 86.
const maxSecretFile = 4096

// layer is what one source says; what it does not say is empty.
type layer struct {
	name           string
	url            string
	key, secret    Secret
	lacksURL       string // what to set, for errors
	lacksKey       string
	lacksSecret    string
	refuseInsecure error // set if the source asks not to verify TLS
}

// Resolve finds the credentials. Its errors say which source lacks which value, and hold no secret.
func Resolve(s Sources) (Credentials, error) {
	flags, err := s.flags()
	if err != nil {
		return Credentials{}, err
	}
	layers := []layer{flags}
	if s.Profile == "" {
		layers = append(layers, s.environment())
	}
	if !complete(layers) || s.Profile != "" {
		profile, err := s.profile()
		if err != nil && (s.Profile != "" || !errors.Is(err, os.ErrNotExist)) {
			return Credentials{}, err
		}
		if err == nil {
			layers = append(layers, profile)
		}
	}
	return s.merge(layers)
}

func complete(layers []layer) bool {
	var url, key, secret bool
	for _, l := range layers {
		url, key, secret = url || l.url != "", key || !l.key.IsZero(), secret || !l.secret.IsZero()
	}
	return url && key && secret
}

// merge takes each value from the first source that has it, and refuses a pair of keys that do not belong together.
func (s Sources) merge(layers []layer) (Credentials, error) {
	url := first(layers, func(l layer) bool { return l.url != "" })
	key := first(layers, func(l layer) bool { return !l.key.IsZero() })
	secret := first(layers, func(l layer) bool { return !l.secret.IsZero() })
	var lacking []string
	for _, need := range []struct {
		name  string
		found *layer
		hint  func(layer) string
	}{
		{"API URL", url, func(l layer) string { return l.lacksURL }},
		{"API key", key, func(l layer) string { return l.lacksKey }},
		{"secret key", secret, func(l layer) string { return l.lacksSecret }},
	} {
		if need.found == nil {
			lacking = append(lacking, need.name+" ("+hints(layers, need.hint)+")")
		}
	}
	if len(lacking) > 0 {
		return Credentials{}, fmt.Errorf("CloudStack credentials are incomplete: no %s", strings.Join(lacking, "; no "))
	}
	if err := agree(&layers[0], url, key, secret); err != nil {
		return Credentials{}, err
	}
	for _, used := range []*layer{url, key, secret} {
		if used.refuseInsecure != nil && s.CAFile == "" {
			return Credentials{}, used.refuseInsecure
		}
	}
	return Credentials{URL: url.url, APIKey: key.key, SecretKey: secret.secret, CAFile: s.CAFile, Source: key.name}, nil
}

// agree refuses a URL, an API key and a secret key of several sources: the keys of one cloud must not reach another, and two
// keys that do not belong together only ever give "unable to verify user credentials". The command line may complete
// another source, since there somebody has just decided so.
func agree(flags, url, key, secret *layer) error {
	var other *layer
	for _, used := range []*layer{url, key, secret} {
		switch {
		case used == flags || used == other:
		case other == nil:
			other = used
		default:
			return fmt.Errorf("the API URL comes from %s, the API key from %s, the secret key from %s: one source must have all three, "+
				"or name a profile with --profile", url.name, key.name, secret.name)
		}
	}
	return nil
}

func first(layers []layer, has func(layer) bool) *layer {
	for i := range layers {
		if has(layers[i]) {
			return &layers[i]
		}
	}
	return nil
}

func hints(layers []layer, hint func(layer) string) string {
	var out []string
	for _, l := range layers {
		if h := hint(l); h != "" {
			out = append(out, h)
		}
	}
	return strings.Join(out, ", ")
}

func (s Sources) flags() (layer, error) {
	l := layer{
		name: "the command line", url: s.URL, key: NewSecret(s.APIKey),
		lacksURL: "not given with --api-url", lacksKey: "not given with --api-key", lacksSecret: "not given with --secret-key-file",
	}
	if s.SecretKeyFile == "" {
		return l, nil
	}
	secret, err := readSecret(s.SecretKeyFile)
	l.secret = secret
	return l, err
}

// readSecret reads a file with nothing but the secret key in it.
func readSecret(path string) (Secret, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return Secret{}, fmt.Errorf("read the secret key: %w", err)
	}
	text := strings.TrimSpace(string(raw))
	switch {
	case text == "":
		return Secret{}, fmt.Errorf("the secret-key file %s is empty", path)
	case len(raw) > maxSecretFile || strings.ContainsAny(text, " \t\r\n"):
		return Secret{}, fmt.Errorf("the secret-key file %s must hold the secret key alone, on one line", path)
	}
	return NewSecret(text), nil
}

// The environment's names: Terraform's first, then those of the Python client and Ansible.
func (s Sources) environment() layer {
	return layer{
		name:        "the environment",
		url:         s.env("CLOUDSTACK_API_URL", "CLOUDSTACK_ENDPOINT"),
		key:         NewSecret(s.env("CLOUDSTACK_API_KEY", "CLOUDSTACK_KEY")),
		secret:      NewSecret(s.env("CLOUDSTACK_SECRET_KEY", "CLOUDSTACK_SECRET")),
		lacksURL:    "CLOUDSTACK_API_URL is not set",
		lacksKey:    "CLOUDSTACK_API_KEY is not set",
		lacksSecret: "CLOUDSTACK_SECRET_KEY is not set",
	}
}

func (s Sources) env(names ...string) string {
	if s.Env == nil {
		return ""
	}
	for _, name := range names {
		if value, ok := s.Env(name); ok && strings.TrimSpace(value) != "" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func (s Sources) configFile() string {
	if s.ConfigFile != "" {
		return s.ConfigFile
	}
	return filepath.Join(s.Home, ".cmk", "config")
}
