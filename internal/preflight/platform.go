package preflight

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The first CloudStack that scales a running machine with a fixed offering on KVM (pull request 12975), and so nodes of CKS (13226).
const (
	liveMajor = 4
	liveMinor = 23
)

// cloudStackVersion: an older CloudStack refuses every live resize of a node. What was brought into an older version by hand can't be seen, so a person may
// know better.
func cloudStackVersion(c Cluster) Check {
	out := Check{ID: "cloudstack-version", Name: "CloudStack's version", Verdict: Unknown, Evidence: orUnknown(c.Version)}
	major, minor, ok := version(c.Version)
	if !ok {
		return out
	}
	out.Verdict = verdict(major > liveMajor || major == liveMajor && minor >= liveMinor)
	if out.Verdict == Fail {
		out.Remedy = fmt.Sprintf("Live scaling of a fixed offering on KVM came with %d.%d: upgrade, or change the offering of stopped machines", liveMajor, liveMinor)
	}
	return out
}

// version takes the first two numbers of "4.23.0.0" or "4.23.1.0-SNAPSHOT".
func version(text string) (major, minor int, ok bool) {
	parts := strings.SplitN(text, ".", 3)
	if len(parts) < 2 {
		return 0, 0, false
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	return major, minor, err1 == nil && err2 == nil
}

// hypervisor: what is known about live scaling, here and in CloudStack's own code, is about KVM.
func hypervisor(c Cluster) Check {
	out := Check{ID: "hypervisor", Name: "hypervisor of the machines", Verdict: Unknown, Evidence: "listVirtualMachines names none"}
	if len(c.Hypervisors) == 0 {
		return out
	}
	others := slices.DeleteFunc(slices.Clone(c.Hypervisors), func(h string) bool { return strings.EqualFold(h, "KVM") })
	out.Verdict, out.Evidence = verdict(len(others) == 0), strings.Join(c.Hypervisors, ", ")
	if out.Verdict == Fail {
		out.Remedy = "trueup knows live scaling on KVM alone: on others a CPU or DIMM arrives in other ways, or not at all"
	}
	return out
}

// Change is a change of offering that CloudStack was asked about.
type Change struct {
	// Machine is one of those that have this change before them, for example; Goal is where it is to go.
	Machine, Goal string
	// Offered is whether CloudStack offers it; nil if it could not be asked, and then Problem says why.
	Offered *bool
	Problem string
	// Differs is what is known to differ between the present offering and the goal although CloudStack wants it equal; empty if nothing is.
	Differs string
}

// ChangeCheck tells whether CloudStack offers a change. What it refuses because the offering is smaller is a check of the node, with the figures.
func ChangeCheck(c Change) Check {
	out := Check{ID: "offering-compatible", Name: fmt.Sprintf("change of %s to %s", c.Machine, c.Goal), Verdict: Unknown, Evidence: c.Problem}
	if c.Offered == nil {
		return out
	}
	out.Verdict, out.Evidence = verdict(*c.Offered), "offered by listServiceOfferings for this machine"
	if out.Verdict == Fail {
		out.Evidence = "not offered by listServiceOfferings for this machine"
		if c.Differs != "" {
			out.Evidence += ": " + c.Differs
			out.Remedy = "CloudStack can't switch between the two on a running instance: choose an offering that is like the present one in that, or --method cold"
			return out
		}
		out.Remedy = "The offering is inactive, or its storage type, storage tags or host tags differ from what the machine has: choose one that differs in CPU and memory alone"
	}
	return out
}

// Kubernetes is what the checks of a live rollout look at in the cluster itself.
type Kubernetes struct {
	// Denied are rights that are missing, and without which a rollout fails; Lacking are those without which it only tells less. Asked is false
	// where the API server was not asked, and then Problem says why.
	Denied, Lacking []string
	Asked           bool
	Problem         string
	// NotReady are Nodes that are not Ready and that the rollout has no goal for.
	NotReady []string
}

// KubernetesChecks runs the checks of a live rollout that concern the cluster's API server and its other Nodes.
func KubernetesChecks(k Kubernetes) []Check { return []Check{kubernetesRights(k), otherNodes(k)} }

func kubernetesRights(k Kubernetes) Check {
	out := Check{ID: "kubernetes-permissions", Name: "permissions in Kubernetes", Verdict: Pass, Evidence: "all needed rights are given, by SelfSubjectAccessReview"}
	switch {
	case !k.Asked:
		out.Verdict, out.Evidence = Unknown, "the API server was not asked: "+k.Problem
	case len(k.Denied) > 0:
		out.Verdict, out.Evidence = Fail, "not allowed: "+strings.Join(slices.Concat(k.Denied, k.Lacking), ", ")
		out.Remedy = "Grant what `trueup rights rbac` prints"
	case len(k.Lacking) > 0:
		out.Verdict, out.Evidence = Warn, "not allowed: "+strings.Join(k.Lacking, ", ")
		out.Remedy = "Nothing fails without, but less is told (docs/rbac.md): `trueup rights rbac` prints what to grant"
	}
	return out
}

// ForLooking turns a lack of rights into a warning: who only looks at a plan need not be who carries it out.
func ForLooking(checks []Check) []Check {
	out := slices.Clone(checks)
	for i, c := range out {
		if c.ID == "kubernetes-permissions" && c.Verdict == Fail {
			out[i].Verdict = Warn
			out[i].Remedy = "Enough for this plan; who carries it out needs what `trueup rights rbac` prints"
		}
	}
	return out
}

// otherNodes warns: a cluster that is short of Nodes already has less room while one more is cordoned.
func otherNodes(k Kubernetes) Check {
	out := Check{ID: "other-nodes", Name: "the cluster's other Nodes", Verdict: Pass, Evidence: "all Ready"}
	if len(k.NotReady) > 0 {
		out.Verdict, out.Evidence = Warn, "not Ready: "+strings.Join(k.NotReady, ", ")
		out.Remedy = "Nothing is drained, but while a node is cordoned new pods have even fewer nodes to go to: see `kubectl describe node` first"
	}
	return out
}
