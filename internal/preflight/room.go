package preflight

import (
	"fmt"
	"strings"

	"github.com/cks-trueup/trueup/internal/capacity"
)

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

// mostNamed is how many pods a check names.
const mostNamed = 10

// Misplaced is the check of a node's pods whose node affinity or nodeSelector does not match its labels any more. It only warns: what becomes of them is for
// a person to judge. Pods that can't be listed are not known.
func Misplaced(node string, pods []string, unread error) Check {
	c := Check{ID: "pods-node-affinity", Name: "pods' node affinity", Verdict: Pass, Evidence: node + ": every pod matches its labels"}
	switch {
	case unread != nil:
		c.Verdict, c.Evidence = Unknown, fmt.Sprintf("%s: its pods could not be looked at: %s", node, strings.Join(strings.Fields(unread.Error()), " "))
	case len(pods) > 0:
		named := strings.Join(pods[:min(len(pods), mostNamed)], ", ")
		if more := len(pods) - mostNamed; more > 0 {
			named += fmt.Sprintf(" and %d more", more)
		}
		c.Verdict, c.Evidence = Warn, fmt.Sprintf("%s does not match what they require any more: %s", node, named)
		c.Remedy = "The restarted kubelet rejects them for good (NodeAffinity), and controllers make new ones elsewhere: move them first, or give the Node its labels back"
	}
	return c
}
