package rollout

import (
	"fmt"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// coldChecks lists every check of a node before the cold method is begun on it. What a running machine could not take does not matter: it boots
// with its new size. What matters is what the node leaves behind while it is away.
func coldChecks(goal Goal, seen Observation) []NodeCheck {
	all := append(identityRefusals(seen), healthRefusals(seen)...)
	all = append(all, peerRefusals(seen)...)
	all = append(all, outageRefusal(goal, seen))
	if !seen.Instance.AtOffering(goal.Offering) {
		all = append(all, offeringRefusals(goal.Offering, seen.Instance)[0]) // its kind
	}
	if !seen.Target.Role.HasNode() {
		return asChecks(all)
	}
	if changesSize(goal, seen) {
		all = append(all, managerRefusals(seen)...)
	}
	return asChecks(append(all, podRefusals(seen)...))
}

func asChecks(all []Refusal) []NodeCheck {
	out := make([]NodeCheck, 0, len(all))
	for _, r := range all {
		out = append(out, NodeCheck{Refusal: r})
	}
	return out
}

// outageRefusal: with the only control-plane node, or the only etcd machine, the Kubernetes API goes away, and with it everything that holds others off.
func outageRefusal(goal Goal, seen Observation) Refusal {
	c := preflight("what stands in for this machine while it is stopped", !alone(seen) || goal.AcceptOutage, "another one of its kind", "none")
	if !alone(seen) {
		c.Observed = "others of its kind"
	} else if goal.AcceptOutage {
		c.Observed = "none, which --accept-api-outage accepts"
	}
	return Refusal{c, "There is no Kubernetes API until it is back, some minutes later. If that is acceptable, say so with --accept-api-outage", "api-outage"}
}

// podRefusals: an eviction ends a pod for good if nothing makes another one, and takes its emptyDir volumes with it.
func podRefusals(seen Observation) []Refusal {
	if seen.Pods == nil || seen.Pods.Unknown != "" {
		why := "they were not read"
		if seen.Pods != nil {
			why = seen.Pods.Unknown
		}
		return []Refusal{{preflight("pods of the node", false, "a list", why), "Without it nothing can be drained: see `trueup rights rbac`", "pods-readable"}}
	}
	var bare, local []string
	for _, p := range leavingAtAll(seen) {
		if p.Controller == "" {
			bare = append(bare, p.String())
		}
		if p.LocalData {
			local = append(local, p.String())
		}
	}
	return []Refusal{
		{preflight("pods that nothing would replace", bare == nil, "none", noneOr(bare)),
			"An eviction ends them for good. Move them first, or accept that with --ignore bare-pods", "bare-pods"},
		{preflight("pods with data in emptyDir volumes", local == nil, "none", noneOr(local)),
			"An eviction deletes that data, as `kubectl drain --delete-emptydir-data` does. Accept that with --ignore local-data", "local-data"},
	}
}

// leavingAtAll are the pods that the cold method ends on this node.
func leavingAtAll(seen Observation) (out []capacity.Pod) {
	for _, p := range seen.Pods.Pods {
		if !p.Stays() && !p.Finished() {
			out = append(out, p)
		}
	}
	return out
}

func noneOr(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return some(names)
}

// drainSentence says what a drain does.
func drainSentence(seen Observation) string {
	count := ""
	if seen.Pods != nil && seen.Pods.Unknown == "" {
		count = fmt.Sprintf(", %d now", len(leavingAtAll(seen)))
	}
	return fmt.Sprintf("evict every pod from Node %s that can run elsewhere%s, through the eviction API", seen.Target.Name, count)
}
