package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cks-trueup/trueup/internal/preflight"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// preflightDocument is what `preflight -o json` prints.
type preflightDocument struct {
	header

	Cluster string           `json:"cluster"`
	Pass    bool             `json:"pass"` // nothing failed that is not ignored
	Checks  []namedPreflight `json:"checks"`
}

// namedPreflight is one check of the cluster, or of one node.
type namedPreflight struct {
	Node     string            `json:"node,omitempty"` // empty: of the cluster
	Name     string            `json:"name"`
	Verdict  preflight.Verdict `json:"verdict"`
	Evidence string            `json:"evidence"`
	Remedy   string            `json:"remedy,omitempty"` // of a check that failed, or warns
}

func (a *app) preflightCommand() *cobra.Command {
	var goals goalFlags
	var output string
	c := &cobra.Command{
		Use:   "preflight CLUSTER [--worker|--control|--etcd OFFERING]",
		Short: "Run every check that scale makes before its first change",
		Long: `Run every check that scale makes before its first change, and print each with
its name, its evidence and, where it failed or warns, its remedy. Changes
nothing. Exit code 4 if one failed; a warning refuses nothing. A node on which
nothing is to be done is not checked.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.showPlan(c.Context(), args[0], goals, func(plan planDocument) error {
				doc := preflightOf(plan)
				if machine(output) {
					return printDocument(a.Out, output, doc)
				}
				a.printPreflight(doc)
				return nil
			})
		},
	}
	goals.add(c)
	addOutput(c, &output, "text", "json", "yaml")
	return c
}

// preflightOf lists the checks of the cluster, and those of each node that would be changed.
func preflightOf(plan planDocument) preflightDocument {
	doc := preflightDocument{header: kind("Preflight"), Cluster: plan.ClusterName, Pass: !plan.refused()}
	for _, c := range plan.Preflight {
		doc.Checks = append(doc.Checks, namedPreflight{Name: c.ID, Verdict: c.Verdict, Evidence: c.Name + ": " + c.Evidence, Remedy: c.Remedy})
	}
	for _, n := range plan.Nodes {
		if len(n.Moves) == 0 && len(n.Refusals) == 0 {
			continue
		}
		if n.Resumes != "" { // an earlier run has made them, and what it began must be finished
			for _, r := range n.Refusals {
				doc.Checks = append(doc.Checks, namedPreflight{Node: n.Target.Name, Name: first(r.Name, "unfinished"), Verdict: preflight.Fail, Evidence: r.Check.String(), Remedy: r.Remedy})
			}
			continue
		}
		for _, r := range rollout.NodeChecks(n.Goal, plan.seen[n.Target.InstanceID]) {
			doc.Checks = append(doc.Checks, nodePreflight(n, r))
		}
	}
	return doc
}

func nodePreflight(n rollout.NodePlan, r rollout.NodeCheck) namedPreflight {
	out := namedPreflight{Node: n.Target.Name, Name: r.Name, Verdict: preflight.Pass, Evidence: r.Check.What + ": " + r.Check.Observed}
	if r.Check.OK {
		return out
	}
	out.Verdict, out.Evidence, out.Remedy = preflight.Fail, r.Check.String(), r.Remedy
	switch {
	case r.Warning:
		out.Verdict = preflight.Warn
	case n.Goal.Ignores(r.Name):
		out.Verdict = preflight.Ignored
	}
	return out
}

func (a *app) printPreflight(doc preflightDocument) {
	topic := "cluster " + doc.Cluster
	fmt.Fprintln(a.Out, topic)
	for _, c := range doc.Checks {
		if c.Node != "" && c.Node != topic {
			topic = c.Node
			fmt.Fprintf(a.Out, "\n%s\n", topic)
		}
		text := c.Evidence
		if c.Remedy != "" && c.Verdict != preflight.Pass {
			text += ". " + c.Remedy
		}
		verdict := string(c.Verdict)
		switch c.Verdict {
		case preflight.Fail:
			verdict = "FAIL"
		case preflight.Warn:
			verdict = "WARN"
		}
		fmt.Fprintln(a.Out, a.screen(a.Out).fold(fmt.Sprintf("  %-7s  %-24s  ", verdict, c.Name), oneLine(text)))
	}
}

// checkIgnored refuses names that are no checks, or checks that the promises rest on.
func checkIgnored(names []string) error {
	for _, name := range names {
		if !rollout.Ignorable(name) && !preflight.Ignorable(name) {
			return usageErrorf("--ignore %q: no check of that name can be ignored; `trueup preflight` prints the names, docs/preflight.md says which can be", name)
		}
	}
	return nil
}
