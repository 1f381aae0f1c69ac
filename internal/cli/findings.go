package cli

import (
	"fmt"
	"slices"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// printFindings says in words, below the table of status, whether the views agree, what lags, what could not be read, and what is claimed.
func (a *app) printFindings(doc statusDocument) {
	fmt.Fprintln(a.Out)
	lags := recordLags(doc)
	switch {
	case doc.Agree:
		a.paragraph("All views of every node agree.")
	case agreeButForRecord(doc):
		a.paragraph("Instances, guests and Nodes agree.")
	}
	for _, n := range doc.Nodes {
		a.printNodeFindings(n)
	}
	if doc.Rollout == nil && lagging(doc) {
		a.paragraph("`trueup reconcile %s` brings guests and Nodes up to their instances.", doc.Name)
	}
	for _, l := range lags {
		a.paragraph("%s", l)
	}
}

func (a *app) printNodeFindings(n nodeDocument) {
	for _, d := range n.Drifts {
		if d.View != capacity.ViewRecord {
			a.paragraph("%s: the %s lags: %s.", n.Target.Name, d.View, d.Why)
		}
	}
	if g := n.Views.Guest; g != nil && !n.Target.Role.HasNode() {
		if c := capacity.CheckEtcd(*g); !c.OK {
			a.paragraph("%s: etcd is not healthy: %s.", n.Target.Name, c.Observed)
		}
	}
	for _, p := range n.Problems {
		// Neither folded nor ended with a full stop: it may end with a line to copy, such as a host key.
		fmt.Fprintf(a.Out, "%s: %s\n", n.Target.Name, oneLine(p.Error()))
	}
	if c := n.Claim; c != nil {
		a.paragraph("%s: claimed by run %s of %s since %s for %s%s.", n.Target.Name, c.Run, orDash(c.Actor),
			c.Since.UTC().Format(time.RFC3339), c.Goal, faultText(c))
	}
}

func faultText(c *rollout.Claim) string {
	if c.Fault == nil {
		return ""
	}
	return ", stopped: " + c.Fault.Error()
}

// agreeButForRecord reports whether everything was read and nothing but cluster records lags.
func agreeButForRecord(doc statusDocument) bool {
	unread := slices.ContainsFunc(doc.Nodes, func(n nodeDocument) bool { return len(n.Problems) > 0 })
	return !unread && !lagging(doc)
}

// lagging reports whether a guest or a Node lags.
func lagging(doc statusDocument) bool {
	other := func(d capacity.Drift) bool { return d.View != capacity.ViewRecord }
	return slices.ContainsFunc(doc.Nodes, func(n nodeDocument) bool { return slices.ContainsFunc(n.Drifts, other) })
}

// recordLags says, once per role, that the cluster record lags and what that means. It is no failure: CloudStack changes the record only
// with the cluster's size.
func recordLags(doc statusDocument) []string {
	var out []string
	for _, role := range []rollout.Role{rollout.RoleControl, rollout.RoleWorker, rollout.RoleEtcd} {
		lagging, record := 0, capacity.Offering{}
		for _, n := range doc.Nodes {
			for _, d := range n.Drifts {
				if d.View == capacity.ViewRecord && n.Target.Role == role {
					lagging, record = lagging+1, n.Views.Record.Offering
				}
			}
		}
		if lagging > 0 {
			out = append(out, recordLag(role, lagging, record))
		}
	}
	return out
}

func recordLag(role rollout.Role, nodes int, record capacity.Offering) string {
	text := fmt.Sprintf("Note: the cluster record still gives %s nodes %s, and %s of that role %s another offering.",
		role, record, plural(nodes, "node"), has(nodes))
	if role == rollout.RoleWorker {
		return text + " Nothing is wrong with the nodes, but a new worker would come up with the record's offering: when you add workers, " +
			"name theirs with nodeofferings in the same scaleKubernetesCluster that sets the size."
	}
	return text + " Nothing is wrong with the nodes."
}

func has(n int) string {
	if n == 1 {
		return "has"
	}
	return "have"
}
