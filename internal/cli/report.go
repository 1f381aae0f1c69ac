package cli

import (
	"fmt"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// reportDocument is what every command that changes a cluster prints with -o json at its end.
type reportDocument struct {
	header
	rollout.Report

	Cluster string         `json:"cluster"`
	Error   string         `json:"error,omitempty"`
	Fault   *rollout.Fault `json:"fault,omitempty"`
}

func (a *app) printReport(format, cluster string, r rollout.Report, err error) error {
	if machine(format) {
		doc := reportDocument{header: kind("RolloutReport"), Cluster: cluster, Report: r}
		if err != nil {
			doc.Error = err.Error()
		}
		for _, n := range r.Nodes {
			if n.Fault != nil {
				doc.Fault = n.Fault
			}
		}
		return printDocument(a.Out, format, doc)
	}
	fmt.Fprintln(a.Out)
	var rows [][]string
	for _, n := range r.Nodes {
		rows = append(rows, reportRow(n))
	}
	if e := printTable(a.Out, []string{"NODE", "ROLE", "OUTCOME", "TOOK", "INSTANCE", "GUEST", "NODE", "SCHED"}, rows); e != nil {
		return e
	}
	for _, n := range r.Nodes {
		a.printNotes(n)
	}
	return nil
}

func reportRow(n rollout.NodeReport) []string {
	row := []string{n.Target.Name, string(n.Target.Role), string(n.Outcome), "-", "-", "-", "-", "-"}
	if n.Took > 0 {
		row[3] = fmt.Sprintf("%.1fs", n.Took.Seconds())
	}
	if f := n.Final; f != nil && f.Instance.ID != "" && f.Node.Name != "" {
		row[4] = short(f.Instance.CPUs, f.Instance.MemoryMiB)
		row[5], row[6] = short(f.Guest.CPUsOnline, f.Guest.MemoryOnline()/capacity.MiB), quantities(f.Node.Capacity)
		row[7] = yesNo(!f.Node.Unschedulable)
	}
	return row
}

// printNotes says what a person should know about a node besides its outcome.
func (a *app) printNotes(n rollout.NodeReport) {
	for _, s := range n.Unneeded {
		fmt.Fprintf(a.Out, "%s: not needed: %s.\n", n.Target.Name, s)
	}
	for _, s := range n.Unplanned {
		fmt.Fprintf(a.Out, "%s: not planned: %s.\n", n.Target.Name, s)
	}
	for _, s := range n.Warnings {
		fmt.Fprintf(a.Out, "%s: note: %s.\n", n.Target.Name, s)
	}
	if n.Fault != nil && n.Fault.GivenBack {
		fmt.Fprintf(a.Out, "%s: nothing had been changed, and the node was given back.\n", n.Target.Name)
	}
}
