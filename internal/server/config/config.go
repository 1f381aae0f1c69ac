// Package config reads the configuration of `trueup serve`: one YAML file.
//
// Its invariants: a key that is not known, a key that stands twice, a value of the wrong kind or out of its bounds is an error that names the line; all
// errors are told at once; a Config that is returned has every default in its place; and no error holds a secret, since secrets stand in other files or
// in the environment, and what somebody wrote where one belongs is not repeated.
package config

import (
	"time"

	"github.com/cks-trueup/trueup/internal/server/notice"
)

// Config is the whole configuration. Paths in it are absolute.
type Config struct {
	// Listen is the loopback address of metrics and health, HOST:PORT.
	Listen string
	// PProf serves profiles of the program there as well.
	PProf     bool
	Log       Log
	Store     Store
	Scan      Scan
	Heal      Heal
	Endpoints []Endpoint
	Notices   []Channel
	// Warnings are what looks wrong and may yet be meant, in the order of their lines.
	Warnings []Problem
}

// Log says what the log looks like: see logs.New.
type Log struct {
	Format string // text or json
	Level  string // debug, info, warn or error
}

// Store says where history, audit and notices are kept, and for how long.
type Store struct {
	Path      string
	Retention time.Duration
}

// Scan says how the fleet is looked at.
type Scan struct {
	// Every is the time from one scan of a cluster to the next.
	Every time.Duration
	// Clusters is how many clusters of one endpoint are read at the same time.
	Clusters int
	// Sample is the time in which each guest is read at least once, even where nothing looks wrong.
	Sample time.Duration
	// Timeout bounds the reading of one cluster.
	Timeout time.Duration
}

// Heal says how drift is healed.
type Heal struct {
	// Clusters is how many clusters are healed at the same time, over all endpoints.
	Clusters int
}

// Endpoint is one CloudStack. Its credentials come from Profile, or from URL, APIKey and SecretKey: never from both.
type Endpoint struct {
	Name string
	// Profile is a profile of CloudMonkey's configuration; CMKConfig is that file, ~/.cmk/config if empty.
	Profile, CMKConfig string
	URL                string
	APIKey, SecretKey  Secret
	CAFile             string
	RequestsPerSecond  float64
	Rules              []Rule
}

// Policy says what is done about drift.
type Policy string

// The policies.
const (
	Observe Policy = "observe" // tell
	HealIt  Policy = "heal"    // tell, and reconcile guest and node with the instance; never changes an offering
)

// Rule says which clusters are watched, and how.
type Rule struct {
	// What the rule is for. Each kind that is given must match; none given matches every cluster.
	Names    []string          // patterns of path.Match
	IDs      []string          // exact
	Projects []string          // patterns over the project's id or name
	Labels   map[string]string // patterns by key

	Policy Policy
	// Paused means: look, but neither tell of drift nor heal.
	Paused bool
	// DriftAfter is how long drift must persist before it is told or acted on.
	DriftAfter time.Duration
	// Windows are the times in which a change may begin; none: always.
	Windows Windows
	// Reach is the endpoint's with what the rule itself says.
	Reach Reach
}

// Reach says how clusters are reached, as the flags of the same names do. Zero fields leave it to the program.
type Reach struct {
	Kubeconfig, KubeContext, KubeVia string
	SSHKey, SSHUser, SSHVia          string
	SSHPort                          int
	KnownHosts                       string
	AcceptNewHostKeys                bool
	GuestVia, GuestImage             string
	GuestNamespace                   string
}

// Cluster is what rules are matched with.
type Cluster struct {
	Name, ID           string
	ProjectID, Project string
	// Labels are the CloudStack tags of the cluster's VMs. Where they differ in a key's value, leave the key out.
	Labels map[string]string
}

// Channel is one way to tell people. Exactly one of Webhook, Slack and Mail is set.
type Channel struct {
	Name    string
	Kinds   []notice.Kind // never empty
	Webhook *Webhook
	Slack   *Slack
	Mail    *Mail
}

// Webhook gets notices as signed JSON: see notice.WebhookOptions.
type Webhook struct {
	URL, Key Secret
	CAFile   string
}

// Slack gets them as text: see notice.SlackOptions.
type Slack struct {
	URL    Secret
	CAFile string
}

// Mail gets them by SMTP: see notice.MailOptions.
type Mail struct {
	Server      string // HOST:PORT
	From        string
	To          []string
	User        string
	Password    Secret
	ImplicitTLS bool
	CAFile      string
}

// Secret says where a secret is kept: in a file or an environment variable. It never holds the secret.
type Secret struct {
	File string
	Env  string
}

// IsZero tells whether no place is named.
func (s Secret) IsZero() bool { return s == Secret{} }

// Reader reads the secret each time that it is used.
func (s Secret) Reader(env func(string) (string, bool)) notice.Secret {
	if s.File != "" {
		return notice.FromFile(s.File)
	}
	return notice.FromEnv(env, s.Env)
}

// The keys that only a new start of the program can change, as Restart names them.
const (
	keyListen    = "listen"
	keyStorePath = "store.path"
)

// Restart names the keys that differ and that only a new start of the program can change.
func Restart(old, changed Config) (keys []string) {
	if old.Listen != changed.Listen {
		keys = append(keys, keyListen)
	}
	if old.Store.Path != changed.Store.Path {
		keys = append(keys, keyStorePath)
	}
	return keys
}
