package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cks-trueup/trueup/internal/server/notice"
)

func environment(pairs map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := pairs[name]; return v, ok }
}

func parse(t *testing.T, text string) (Config, error) {
	t.Helper()
	return Parse([]byte(text), "/etc/trueup/trueup.yaml", environment(map[string]string{"HOME": "/home/op", "SET": "x"}))
}

const least = "endpoints: [{name: a, profile: p, clusters: [{}]}]\n"

func TestDefaults(t *testing.T) {
	got, err := parse(t, least)
	if err != nil {
		t.Fatal(err)
	}
	want := Config{Listen: "127.0.0.1:9464", Log: Log{"text", "info"}, Store: Store{"/home/op/.local/state/trueup/serve.db", 90 * day},
		Scan: Scan{Every: 2 * time.Minute, Clusters: 8, Sample: day, Timeout: time.Minute}, Heal: Heal{Clusters: 1},
		Endpoints: []Endpoint{{Name: "a", Profile: "p", RequestsPerSecond: 5, Rules: []Rule{{Policy: Observe, DriftAfter: 10 * time.Minute}}}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	c, err := Parse([]byte(least), "x", environment(map[string]string{"STATE_DIRECTORY": "/var/lib/trueup:/b", "HOME": "/h"}))
	if err != nil || c.Store.Path != "/var/lib/trueup/trueup.db" {
		t.Errorf("under systemd: %q, %v", c.Store.Path, err)
	}
}

// Each line is a mistake: the problem must stand at that place and say this.
func TestMistakes(t *testing.T) {
	endpoint := func(text string) string {
		return "endpoints:\n- name: a\n  profile: p\n  clusters:\n  - " + text + "\n"
	}
	for text, want := range map[string]string{
		"":                                       "it is empty",
		"a: [":                                   "no YAML",
		"endpoints: *x":                          "no YAML",
		"[]":                                     ":1: expected keys with values, found a list",
		least + "---\nlisten: x":                 ":2: a second document begins here",
		"endpont: []":                            ":1: endpont: unknown key; did you mean endpoints?",
		least + "pprof: yes":                     ":2: pprof: expected true or false, found text",
		least + "pprof:":                         ":2: pprof: has no value",
		least + "listen: 0.0.0.0:1":              ":2: listen: \"0.0.0.0:1\" is no loopback address",
		least + "listen: ':9464'":                "is no loopback address",
		least + "listen: 127.0.0.1":              "expected HOST:PORT",
		least + "scan: {every: 9s}":              ":2: scan.every: \"9s\": expected a duration from 10s to 24h",
		least + "scan: {every: 60}":              "has no unit",
		least + "scan: {every: -2m}":             "is no duration",
		least + "scan: {every: 1h, sample: 30m}": "scan.sample: is shorter than scan.every, 1h",
		least + "scan: {clusters: 0}":            "expected a whole number from 1 to 256",
		least + "pprof: true\npprof: false":      ":3: pprof: stands twice; the first is in line 2",
		least + "store: {path: ~/x}":             "begins with ~",
		least + "log: {level: inf}":              "did you mean info?",
		least + "log: [text]":                    ":2: log: expected keys with values, found a list",
		"endpoints: []":                          "at least one CloudStack",
		"endpoints: [{name: a, profile: p, clusters: []}]":                                          "clusters: is empty, so nothing would be watched",
		"endpoints: [{name: a, profile: p}]":                                                        "endpoints[0]: clusters is missing",
		"endpoints: [{name: a, clusters: [{}]}]":                                                    "has no credentials",
		"endpoints: [{name: a, profile: p, url: 'https://x', clusters: [{}]}]":                      "has a profile and keys of its own",
		"endpoints: [{name: a, url: 'https://x', apiKey: {env: SET}, clusters: [{}]}]":              "secretKey is missing",
		"endpoints: [{name: a, url: 'http://example.com/x', clusters: [{}]}]":                       "must be https",
		"endpoints: [{name: a, profile: p, clusters: [{}]}, {name: a, profile: p, clusters: [{}]}]": "is the name of another one too, in line 1",
		endpoint("policies: heal"):                                                                  ":5: endpoints[0].clusters[0].policies: unknown key; did you mean policy?",
		endpoint("policy: heel"):                                                                    "did you mean heal?",
		endpoint("names: ['[']"):                                                                    "is no pattern",
		endpoint("names: prod"):                                                                     "names: expected a list, found text",
		endpoint("names: [12]"):                                                                     "expected text (put it in quotes), found a number",
		endpoint("windows: []"):                                                                     "windows: is empty",
		endpoint("windows: [{from: '22:00', to: '22:00'}]"):                                         "from and to are equal",
		endpoint("windows: [{from: '22:00'}]"):                                                      "to is missing",
		endpoint("windows: [{from: '2:00', to: '25:00'}]"):                                          "expected a time of day",
		endpoint("windows: [{from: '24:00', to: '02:00'}]"):                                         "24:00 is the end of a day",
		endpoint("windows: [{from: '00:00', to: '02:00', zone: X/Y}]"):                              "is no time zone",
		endpoint("windows: [{days: [monday], from: '00:00', to: '02:00'}]"):                         "\"monday\" is no day",
		endpoint("reach: {guestVia: pod, kubeVia: tunnel}"):                                         "clusters[0].reach: kubeVia: tunnel goes over SSH",
		endpoint("reach: {guestImage: x}"):                                                          "are for guestVia: pod",
		endpoint("reach: {sshVia: forwarded, sshPort: 22}"):                                         "sshPort is for the nodes' own addresses",
		endpoint("reach: {kubeContext: x}"):                                                         "give kubeconfig as well",
		endpoint("reach: {sshVia: jump=host}"):                                                      "expected direct, forwarded",
		endpoint("{<<: {policy: heal}}"):                                                            "merging (<<) is not known here",
		least + "notices: [{name: x, slack: {url: {env: SET}}, kinds: [fail]}]":                     "did you mean failed?",
		least + "notices: [{name: x}]":                                                              "expected one of webhook, slack and mail, found 0",
		least + "notices: [{name: x, webhook: {url: {env: SET}}}]":                                  "webhook: key is missing",
		least + "notices: [{name: x, mail: {server: h, from: me, to: [a@b]}}]":                      "expected HOST:PORT",
	} {
		c, err := parse(t, text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
		if diff := cmp.Diff(Config{}, c); diff != "" {
			t.Errorf("%s: a configuration beside the error", text)
		}
	}
}

func TestAllMistakesAtOnce(t *testing.T) {
	_, err := parse(t, "listen: x\nlog: {level: loud}\nendpoints: [{}]\nheal: {clusters: many}\n")
	var all *Error
	if !errors.As(err, &all) {
		t.Fatal(err)
	}
	var lines []int
	for _, p := range all.Problems {
		lines = append(lines, p.Line)
	}
	if want := []int{1, 2, 3, 3, 3, 4}; !slices.Equal(lines, want) {
		t.Errorf("lines %v, want %v:\n%v", lines, want, err)
	}
}

func TestRule(t *testing.T) {
	c, err := parse(t, `endpoints:
- name: a
  profile: p
  reach: {sshUser: admin, sshPort: 2222}
  clusters:
  - {names: ["prod-*"], labels: {env: "pr*"}, policy: heal, reach: {sshPort: 22}}
  - {projects: ["team-?"]}
  - {ids: [i3], paused: true}
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		cluster Cluster
		rule    int // -1: not watched
	}{
		{Cluster{Name: "prod-1", Labels: map[string]string{"env": "prod"}}, 0},
		{Cluster{Name: "prod-1", Labels: map[string]string{"env": "test"}}, -1},
		{Cluster{Name: "prod-1"}, -1},
		{Cluster{Name: "x", Project: "team-a"}, 1},
		{Cluster{Name: "x", ProjectID: "team-b"}, 1},
		{Cluster{Name: "x", Project: "team-ab"}, -1},
		{Cluster{Name: "x", ID: "i3"}, 2},
		{Cluster{Name: "x", ID: "i33"}, -1},
	} {
		got, ok := c.Endpoints[0].Rule(row.cluster)
		if ok != (row.rule >= 0) || ok && !cmp.Equal(got, c.Endpoints[0].Rules[row.rule]) {
			t.Errorf("%+v: %v %+v, want rule %d", row.cluster, ok, got, row.rule)
		}
	}
	if r := c.Endpoints[0].Rules; r[0].Reach != (Reach{SSHUser: "admin", SSHPort: 22}) || r[1].Reach != (Reach{SSHUser: "admin", SSHPort: 2222}) {
		t.Errorf("reach: %+v, %+v", r[0].Reach, r[1].Reach)
	}
}

func TestFilesAreLookedAt(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(folder, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	load := func(key, ca string) (Config, error) {
		write("c.yaml", "endpoints:\n- name: a\n  url: https://x/client/api\n  apiKey: {file: "+key+"}\n  secretKey: {env: SET}\n  caFile: "+ca+"\n  clusters: [{}]\n", 0o600)
		return Load(filepath.Join(folder, "c.yaml"), environment(map[string]string{"SET": "x"}))
	}
	write("key", "x", 0o600)
	write("open", "x", 0o644)
	write("nothing", "", 0o600)
	c, err := load("key", "key")
	if err != nil || len(c.Warnings) > 0 || c.Endpoints[0].APIKey.File != filepath.Join(folder, "key") {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err = load("open", "key"); err != nil || len(c.Warnings) != 1 || c.Warnings[0].Line != 4 {
		t.Errorf("a secret that all may read: %+v, %v", c.Warnings, err)
	}
	if c, err = load("/run/credentials/trueup.service/no", "key"); err != nil || len(c.Warnings) != 1 {
		t.Errorf("a credential while the service does not run: %+v, %v", c.Warnings, err)
	}
	for name, want := range map[string]string{"gone": ":4: endpoints[0].apiKey: the file does not exist", "nothing": "is empty", ".": "no regular file"} {
		if _, err = load(name, "lost"); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "lost does not exist") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRestart(t *testing.T) {
	a, _ := parse(t, least)
	b, _ := parse(t, least+"listen: localhost:1\nstore: {path: /x}\npprof: true\n")
	if got := Restart(a, b); !slices.Equal(got, []string{"listen", "store.path"}) || Restart(a, a) != nil {
		t.Errorf("%v", got)
	}
}

func TestNotices(t *testing.T) {
	c, err := parse(t, least+`notices:
- {name: oncall, webhook: {url: {env: SET}, key: {file: k}}, kinds: [failed, waiting]}
- {name: mail, mail: {server: "h:587", from: a@b.c, to: [d@e.f]}}
`)
	if err != nil {
		t.Fatal(err)
	}
	want := []Channel{
		{Name: "oncall", Kinds: []notice.Kind{notice.Failed, notice.Waiting}, Webhook: &Webhook{URL: Secret{Env: "SET"}, Key: Secret{File: "/etc/trueup/k"}}},
		{Name: "mail", Kinds: notice.Kinds(), Mail: &Mail{Server: "h:587", From: "a@b.c", To: []string{"d@e.f"}}},
	}
	if diff := cmp.Diff(want, c.Notices); diff != "" {
		t.Error(diff)
	}
}

// The example that is shipped, and the one of the documentation, are configurations.
func TestExamples(t *testing.T) {
	shipped, err := os.ReadFile("../../../packaging/trueup.yaml")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	example, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("docs/config.md has no example")
	}
	for name, text := range map[string]string{"packaging/trueup.yaml": string(shipped), "docs/config.md": example} {
		if c, err := parse(t, text); err != nil || len(c.Notices) == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
