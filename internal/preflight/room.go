package preflight

import "github.com/cks-trueup/trueup/internal/capacity"

// Room is the check whether all pods have room after the cold method has changed the nodes.
func Room(c capacity.Check) Check {
	out := Check{ID: "requests-fit", Name: "room for pods", Verdict: verdict(c.OK), Evidence: c.Observed + "; needed: " + c.Expected}
	if !c.OK {
		out.Remedy = "Some pods would never be scheduled again: choose a bigger offering, fewer nodes (--node), or lower the pods' requests"
	}
	return out
}

// RoomWithout is the check whether a node's pods have room elsewhere while it is away. It only warns: pods may wait for a few minutes.
func RoomWithout(node string, c capacity.Check) Check {
	out := Check{ID: "drain-room", Name: "room without " + node, Verdict: Pass, Evidence: c.Observed + "; needed: " + c.Expected}
	if !c.OK {
		out.Verdict, out.Remedy = Warn, "Some of its pods stay Pending while it is away, as far as their disruption budgets let them go: add a worker first if they must run"
	}
	return out
}
