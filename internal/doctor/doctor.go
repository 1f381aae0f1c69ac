// Package doctor judges what each node of a cluster needs before it can be scaled live: nothing, a stop and start, an administrator or the cold
// method, a reconciliation, or first of all to be reached.
//
// It is pure. Its invariant: a node is called live-scalable only if every view of it was read and agrees, and nothing that was read stands in the way.
package doctor

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// Verdict is what a node, or a cluster as a whole, needs.
type Verdict string

// The verdicts, from the best to the worst. A cluster has the worst of its nodes.
const (
	Live        Verdict = "live"        // can be scaled live now
	Prepare     Verdict = "prepare"     // can be after a stop and start: trueup prepare
	Cold        Verdict = "cold"        // can't be, as long as nobody changes what only an administrator can: the cold method
	Drifting    Verdict = "drifting"    // its views disagree
	Unfinished  Verdict = "unfinished"  // a rollout has left it claimed
	Unreachable Verdict = "unreachable" // a view of it, or the whole cluster, can't be read
	NotManaged  Verdict = "not managed" // CloudStack neither runs nor scales the cluster
	NotRunning  Verdict = "not running" // nothing of the cluster runs: its offerings can be changed as it is
)

// rank orders the verdicts by how urgent they are.
func (v Verdict) rank() int {
	return slices.Index([]Verdict{Live, NotManaged, NotRunning, Prepare, Cold, Drifting, Unfinished, Unreachable}, v)
}

// Finding is one thing that was found, and what mends it.
type Finding struct {
	Verdict Verdict `json:"verdict"`
	Text    string  `json:"text"`
	// Remedy is a command line to copy, empty where there is none.
	Remedy string `json:"remedy,omitempty"`
}

// Node is what is judged of a node.
type Node struct {
	Name string       `json:"name"`
	Role rollout.Role `json:"role"`
	// Verdict is the worst of the findings, live without any.
	Verdict  Verdict   `json:"verdict"`
	Findings []Finding `json:"findings,omitempty"`
}

// Facts are what was read of a node.
type Facts struct {
	Target rollout.Target
	// Unread are the views that could not be read, and why; Enroll says that what is missing is a host key.
	Unread []string
	Enroll bool
	// Drifts are the views that lag; that of the record is no fault of a node.
	Drifts  []capacity.Drift
	Claimed bool
	// Unprepared is what a stop and start of the instance mends, Obstacles what only an administrator can change.
	Unprepared []capacity.Check
	Obstacles  []string
}

// Judge judges one node.
func Judge(f Facts) Node {
	n := Node{Name: f.Target.Name, Role: f.Target.Role, Verdict: Live}
	cluster, name := rollout.Word(cmp.Or(f.Target.ClusterName, f.Target.ClusterID)), rollout.Word(f.Target.Name)
	add := func(v Verdict, text, remedy string) {
		n.Findings = append(n.Findings, Finding{v, text, remedy})
		if v.rank() > n.Verdict.rank() {
			n.Verdict = v
		}
	}
	for _, text := range f.Unread {
		remedy := "trueup status " + cluster
		if f.Enroll {
			remedy = "trueup ssh enroll " + cluster + " --node " + name
		}
		add(Unreachable, text, remedy)
	}
	if f.Claimed {
		add(Unfinished, "an unfinished rollout has claimed it", "trueup resume "+cluster)
	}
	for _, d := range f.Drifts {
		if d.View != capacity.ViewRecord {
			add(Drifting, fmt.Sprintf("the %s lags: %s", d.View, d.Why), "trueup reconcile "+cluster+" "+name)
		}
	}
	for _, text := range f.Obstacles {
		add(Cold, text, fmt.Sprintf("trueup scale %s --%s OFFERING --node %s --method cold", cluster, f.Target.Role, name))
	}
	if len(f.Obstacles) == 0 {
		for _, c := range f.Unprepared {
			add(Prepare, c.String(), "trueup prepare "+cluster+" --node "+name)
		}
	}
	return n
}

// Worst is the verdict on all of these nodes.
func Worst(nodes []Node) Verdict {
	worst := Live
	for _, n := range nodes {
		if n.Verdict.rank() > worst.rank() {
			worst = n.Verdict
		}
	}
	return worst
}
