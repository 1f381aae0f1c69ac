// Package preflight checks a whole cluster before a rollout is started on it. Each check has a name, evidence, and a remedy.
//
// Its invariant: what could not be found out is said to be unknown, and never counted as passed or failed. The checks of a single
// node, which must hold again before every effect, are rollout.Refusals.
package preflight

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// Verdict is the outcome of a check.
type Verdict string

// The verdicts.
const (
	Pass    Verdict = "pass"
	Warn    Verdict = "warn" // not as it should be, and no reason to refuse
	Fail    Verdict = "fail"
	Unknown Verdict = "unknown" // the account may not read what the check needs
	Ignored Verdict = "ignored" // it failed, and the person decided to go on
)

// Check is the outcome of one named check.
type Check struct {
	// ID is the check's own: stable, unique, and the one by which it can be ignored, if it can. See docs/preflight.md.
	ID       string  `json:"id"`
	Name     string  `json:"name"` // the same for people
	Verdict  Verdict `json:"verdict"`
	Evidence string  `json:"evidence"`         // what was seen
	Remedy   string  `json:"remedy,omitempty"` // what a person can do about a failure
}

// String prints the check for people.
func (c Check) String() string {
	if c.Remedy == "" {
		return c.Name + ": " + c.Evidence
	}
	return fmt.Sprintf("%s: %s. %s", c.Name, c.Evidence, c.Remedy)
}

// Cluster is what the checks look at.
type Cluster struct {
	Name string
	// State and Type are CloudStack's words: Running, …; CloudManaged or ExternalManaged.
	State, Type string
	// Nodes is how many virtual machines have each role.
	Nodes map[rollout.Role]int
	// DynamicScaling is whether the zone lets running machines be scaled (enable.dynamic.scale.vm); nil if it can't be read.
	DynamicScaling *bool
	// Version is CloudStack's own, empty if it can't be read.
	Version string
	// Hypervisors are those of the machines, each once.
	Hypervisors []string
	// Offline says that nothing of the cluster runs, and that its offerings are to be changed in CloudStack alone.
	Offline bool
	// Cold says that the nodes are to be stopped and started: no running machine is scaled.
	Cold bool
	// StoppedByUs says that an unfinished rollout of the cold method is open: CloudStack calls the cluster Alert while one of its machines is stopped.
	StoppedByUs bool
	// Commands are the API commands that the account may use; nil if they can't be read. Needed are those without which the change is not begun.
	Commands, Needed []string
}

// Checks runs every check of a live rollout with these goals, or of a change of what does not run.
func Checks(c Cluster, goals map[rollout.Role]capacity.Offering) []Check {
	out := []Check{managed(c), running(c)}
	for _, role := range rollout.Roles() {
		if goal, ok := goals[role]; ok {
			out = append(out, members(c, role, goal), fixed(role, goal))
		}
	}
	if c.Offline || c.Cold {
		return append(out, commands(c))
	}
	return append(out, cloudStackVersion(c), hypervisor(c), dynamicScaling(c), commands(c))
}

// Ignorable tells whether a person may decide to go on against a check of the cluster. What they may read of it can be wrong; its state and type are not.
func Ignorable(id string) bool {
	switch id {
	case "zone-dynamic-scaling", "cloudstack-permissions", "cloudstack-version", "kubernetes-permissions", "offering-compatible", "requests-fit", "account-limits":
		return true
	}
	return false
}

// Ignore marks the failed checks that a person decided to go on against.
func Ignore(checks []Check, ids []string) []Check {
	out := slices.Clone(checks)
	for i, c := range out {
		if c.Verdict == Fail && Ignorable(c.ID) && slices.Contains(ids, c.ID) {
			out[i].Verdict = Ignored
		}
	}
	return out
}

// Failures returns the checks that failed.
func Failures(checks []Check) []Check {
	return slices.DeleteFunc(slices.Clone(checks), func(c Check) bool { return c.Verdict != Fail })
}

func verdict(ok bool) Verdict {
	if ok {
		return Pass
	}
	return Fail
}

func managed(c Cluster) Check {
	out := Check{ID: "cluster-type", Name: "cluster type", Verdict: verdict(c.Type == "CloudManaged" || c.Type == ""), Evidence: orUnknown(c.Type)}
	if out.Verdict == Fail {
		out.Remedy = "CloudStack neither scales such a cluster nor keeps a kubeconfig for it: change it with the tool that made it"
	}
	return out
}

func running(c Cluster) Check {
	out := Check{ID: "cluster-state", Name: "cluster state", Verdict: verdict(c.State == "Running" || c.Offline && NothingRuns(c.State)), Evidence: fmt.Sprintf("cluster %s is %s", c.Name, orUnknown(c.State))}
	if c.State == "Alert" && c.StoppedByUs {
		out.Verdict, out.Evidence = Warn, out.Evidence+", as long as a machine is stopped by the unfinished rollout"
	}
	if out.Verdict == Fail {
		out.Remedy = stateRemedy(c.State)
	}
	return out
}

// Passing tells whether CloudStack leaves the state by itself.
func Passing(state string) bool {
	switch state {
	case "Alert", "Scaling", "ScalingStoppedCluster", "Upgrading", "Starting", "Stopping", "Importing", "RemovingNodes", "Recovering":
		return true
	}
	return false
}

// NothingRuns tells whether nothing of a cluster in that state runs: there is no API server to ask and no guest to look at. CloudStack's own state
// machine is the lock then, and its record and the offerings of the machines are all that can be changed.
func NothingRuns(state string) bool { return state == "Created" || state == "Stopped" }

// stateRemedy says what a state means for a live rollout, and what to wait for.
func stateRemedy(state string) string {
	switch {
	case state == "Alert":
		return "CloudStack's own scanner returns a healthy cluster from Alert to Running within about a minute: try again when `trueup clusters` shows Running"
	case state == "Stopped", state == "ScalingStoppedCluster":
		return "Nothing runs there that could be scaled live: start the cluster first (startKubernetesCluster)"
	case Passing(state):
		return "CloudStack is at work on it: try again when `trueup clusters` shows Running. If it stays so after a restart of the management server, an administrator must set its state"
	}
	return "Only a Running cluster can be scaled live: try again when `trueup clusters` shows Running"
}

func members(c Cluster, role rollout.Role, goal capacity.Offering) Check {
	n := c.Nodes[role]
	out := Check{ID: "role-has-nodes", Name: string(role) + " nodes", Verdict: verdict(n > 0), Evidence: fmt.Sprintf("%d for the goal %s", n, goal)}
	if n == 0 {
		out.Remedy = fmt.Sprintf("Cluster %s has no dedicated %s nodes: leave out --%s", c.Name, role, role)
	}
	return out
}

func fixed(role rollout.Role, goal capacity.Offering) Check {
	out := Check{ID: "cluster-offering-kind", Name: "offering for " + string(role), Verdict: verdict(!goal.Custom), Evidence: goal.String()}
	if goal.Custom {
		out.Evidence += ", a custom offering"
		out.Remedy = "CKS refuses custom offerings: choose one with fixed CPU and memory"
	}
	return out
}

func dynamicScaling(c Cluster) Check {
	out := Check{ID: "zone-dynamic-scaling", Name: "dynamic scaling in the zone", Verdict: Unknown, Evidence: "enable.dynamic.scale.vm can't be read with this account"}
	if c.DynamicScaling != nil {
		out.Verdict, out.Evidence = verdict(*c.DynamicScaling), fmt.Sprintf("enable.dynamic.scale.vm is %t", *c.DynamicScaling)
	}
	if out.Verdict == Fail {
		out.Remedy = "An administrator must set enable.dynamic.scale.vm to true for the zone; machines started before need a stop and start"
	}
	return out
}

// commands tells whether the account may use the commands without which nothing of it can work.
func commands(c Cluster) Check {
	out := Check{ID: "cloudstack-permissions", Name: "permissions in CloudStack", Verdict: Unknown, Evidence: "listApis is not allowed for this account"}
	if c.Commands == nil {
		return out
	}
	var missing []string
	for _, name := range c.Needed {
		if !slices.ContainsFunc(c.Commands, func(have string) bool { return strings.EqualFold(have, name) }) {
			missing = append(missing, name)
		}
	}
	out.Verdict, out.Evidence = verdict(missing == nil), "all needed commands are allowed"
	if missing != nil {
		out.Evidence = "not allowed: " + strings.Join(missing, ", ")
		out.Remedy = "Ask an administrator to allow them for the account's role: `trueup rights cloudstack-role` prints all that is needed"
	}
	return out
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
