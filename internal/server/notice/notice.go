// Package notice tells people what a server does to their clusters: by webhook, Slack and mail.
//
// A notice is written into an outbox before Post returns, is sent until the receiver has taken it, and an equal one is not sent again, also
// not by the next start of the program. A kill between a receiver's answer and its record sends one notice twice, with the same id.
// No secret is held for longer than one request, and none is in an error: see Secret and Error.
package notice

import (
	"cmp"
	"context"
	"strings"
	"time"
)

// Kind says what a notice tells.
type Kind string

// The kinds of notice.
const (
	Started   Kind = "started"   // a rollout or a healing began
	Succeeded Kind = "succeeded" // a rollout ended, every node is verified
	Failed    Kind = "failed"    // a rollout ended with a fault
	Waiting   Kind = "waiting"   // nothing goes on without a person
	Drift     Kind = "drift"     // views of a node disagree, for longer than the settable time
	Healed    Kind = "healed"    // drift was healed by the server
)

// Kinds returns every kind, in the order in which they are documented.
func Kinds() []Kind { return []Kind{Started, Succeeded, Failed, Waiting, Drift, Healed} }

// ends lists the kinds whose episode a notice of this kind ends: what it told is over, and the same thing is told again when it comes again.
func (k Kind) ends() []Kind {
	switch k {
	case Started:
		return []Kind{Waiting}
	case Succeeded, Healed:
		return []Kind{Waiting, Drift}
	default:
		return nil
	}
}

// bodyVersion is the version of a notice's JSON. Fields are only ever added within it.
const bodyVersion = 1

// Notice is one thing to tell. It holds no secret.
type Notice struct {
	Version   int       `json:"v"` // set by Post
	Kind      Kind      `json:"kind"`
	Time      time.Time `json:"time"`
	Endpoint  string    `json:"endpoint,omitempty"` // the CloudStack endpoint's name in the configuration
	ClusterID string    `json:"clusterID"`
	Cluster   string    `json:"cluster"`
	Run       string    `json:"run,omitempty"`
	// About tells notices of one kind and cluster apart that belong to no run: for drift the lagging views of each node. It must not
	// change while the thing itself does not, so it holds no time.
	About string `json:"about,omitempty"`
	// Text says what happened, in sentences. Next is the command for a person, if one is needed.
	Text string `json:"text"`
	Next string `json:"next,omitempty"`
}

// Title is the notice in one line.
func (n Notice) Title() string {
	what := map[Kind]string{Started: "rollout started", Succeeded: "rollout succeeded", Failed: "rollout failed", Waiting: "waiting for a person",
		Drift: "drift found", Healed: "drift healed"}
	return cmp.Or(n.Cluster, n.ClusterID) + ": " + cmp.Or(what[n.Kind], string(n.Kind))
}

// key is equal for notices that tell the same.
func (n Notice) key() string {
	return strings.Join([]string{string(n.Kind), n.ClusterID, n.Run, n.About}, "\n")
}

// Channel is one way to tell people. Its errors are of type *Error and hold no secret.
type Channel interface {
	Name() string
	// Send tells the receiver once. The id is the same in every attempt at one notice.
	Send(ctx context.Context, id string, n Notice) error
}

// Error says why a channel could not send. It keeps no cause: causes quote addresses and answers, which may hold a secret.
type Error struct {
	Channel string
	Reason  string
	// RetryAfter is how long the receiver asked to wait; zero if it did not.
	RetryAfter time.Duration
}

// Error prints channel and reason.
func (e *Error) Error() string { return "notice by " + e.Channel + ": " + e.Reason }
