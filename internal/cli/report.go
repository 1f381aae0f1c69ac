package cli

import (
	"errors"
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
		if fault, is := errors.AsType[*rollout.Fault](err); is {
			doc.Fault = fault
		}
		return printDocument(a.Out, format, doc)
	}
	if len(r.Nodes) == 0 {
		return nil
	}
	fmt.Fprintln(a.Out)
	rows := make([][]string, 0, len(r.Nodes))
	for _, n := range r.Nodes {
		rows = append(rows, reportRow(n))
	}
	columns := []column{{"NAME", 0}, {"ROLE", 2}, {"OUTCOME", 0}, {"TOOK", 0}, {"INSTANCE", 1}, {"GUEST", 3}, {"NODE", 0}, {"SCHED", 0}}
	if e := a.printTable(columns, rows, "; -o json has all"); e != nil {
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
	f := n.Final
	if f == nil || f.Instance.ID == "" || n.Target.Role.HasNode() && f.Node.Name == "" {
		return row
	}
	row[4] = short(f.Instance.CPUs, f.Instance.MemoryMiB)
	if f.Guest.BootID != "" {
		row[5] = short(f.Guest.CPUsOnline, f.Guest.MemoryOnline()/capacity.MiB)
	}
	if f.Node.Name != "" {
		row[6], row[7] = quantities(f.Node.Capacity), yesNo(!f.Node.Unschedulable)
	}
	return row
}

// printNotes says what a person should know about a node besides its outcome.
func (a *app) printNotes(n rollout.NodeReport) {
	line := func(format string, args ...any) {
		fmt.Fprintln(a.Out, a.screen(a.Out).fold("", oneLine(n.Target.Name+": "+fmt.Sprintf(format, args...))))
	}
	for _, s := range n.Unneeded {
		line("not needed: %s.", s)
	}
	for _, s := range n.Unplanned {
		line("not planned: %s.", s)
	}
	for _, s := range n.Warnings {
		line("note: %s.", s)
	}
	if n.Fault != nil && n.Fault.GivenBack {
		line("nothing had been changed, and the node was given back.")
	}
}
