package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
	"github.com/cks-trueup/trueup/internal/survey"
)

// verifyDocument is what `verify -o json` prints.
type verifyDocument struct {
	header

	Cluster string         `json:"cluster"`
	Agree   bool           `json:"agree"`
	Nodes   []nodeVerified `json:"nodes"`
}

// nodeVerified is the verdict on one node, with every check that led to it.
type nodeVerified struct {
	Target rollout.Target   `json:"target"`
	OK     bool             `json:"ok"`
	Checks []capacity.Check `json:"checks"`
}

func (a *app) verifyCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "verify CLUSTER [NODE...]",
		Short: "Check whether instance, guest and Node agree; the exit code tells",
		Long: `Run the checks that a rollout ends with, against the offering that each
instance has now. Changes nothing. Exit code 0: all agree and no claim is
left; 3: they do not; 8: a view can't be read, and none is known to disagree.

The cluster record is not part of the verdict: after a change node by node it
lags until the next change of the cluster's size, which status says.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.verify(c.Context(), args[0], args[1:], output)
		},
	}
	addOutput(c, &output, "text", "json", "yaml")
	return c
}

func (a *app) verify(ctx context.Context, cluster string, names []string, output string) error {
	s, err := a.open(ctx, cluster)
	if err != nil {
		return err
	}
	defer s.close()
	nodes, err := s.survey(ctx)
	if err != nil {
		return err
	}
	chosen, err := s.choose(nodes, names, madeByCKS)
	if err != nil {
		return err
	}
	doc := s.verification(chosen)
	if machine(output) {
		err = printDocument(a.Out, output, doc)
	} else {
		a.printVerified(doc)
	}
	if err != nil {
		return err
	}
	return doc.verdict()
}

// verification checks the nodes.
func (s *session) verification(nodes []survey.Node) verifyDocument {
	doc := verifyDocument{header: kind("Verification"), Cluster: s.cluster.Name, Agree: true}
	for _, n := range nodes {
		v := verified(n)
		doc.Nodes = append(doc.Nodes, v)
		doc.Agree = doc.Agree && v.OK
	}
	return doc
}

// verdict is nil if all views agree. That a view can't be read is another matter than that it lags.
func (d verifyDocument) verdict() error {
	lagging, unreadable := false, false
	for _, n := range d.Nodes {
		for _, c := range n.Checks {
			unreadable = unreadable || (!c.OK && c.Layer == capacity.LayerAccess)
			lagging = lagging || (!c.OK && c.Layer != capacity.LayerAccess)
		}
	}
	switch {
	case lagging:
		return withCode(ExitDrift, fmt.Errorf("not all views of %s agree: `trueup status %s` shows them, `trueup reconcile %s` brings guests and Nodes up to their instances",
			d.Cluster, d.Cluster, d.Cluster))
	case unreadable:
		return withCode(ExitUnreachable, fmt.Errorf("not all views of %s could be read, so nobody knows whether they agree", d.Cluster))
	}
	return nil
}

// verified checks one node. What could not be read is a failed check.
func verified(n survey.Node) nodeVerified {
	out := nodeVerified{Target: n.Target}
	for _, p := range n.Problems {
		out.Checks = append(out.Checks, capacity.Check{Layer: capacity.LayerAccess, What: "reading the " + string(p.View), Expected: "a reading", Observed: p.Text})
	}
	if len(n.Problems) == 0 {
		out.Checks = rollout.Healthy(nil, n.Observation())
	}
	claim := capacity.Check{Layer: capacity.LayerSchedulability, What: "claim", OK: n.Claim == nil, Expected: "none", Observed: "none"}
	if n.Claim != nil {
		claim.Observed = "run " + n.Claim.Run + " of " + n.Claim.Actor
	}
	out.Checks = append(out.Checks, claim)
	return out.judged()
}

func (n nodeVerified) judged() nodeVerified {
	_, failed := capacity.Failed(n.Checks...)
	n.OK = !failed
	return n
}

func (a *app) printVerified(doc verifyDocument) {
	for _, n := range doc.Nodes {
		if n.OK {
			fmt.Fprintf(a.Out, "%s: all views agree\n", n.Target.Name)
			continue
		}
		for _, c := range n.Checks {
			if !c.OK {
				a.paragraph("%s: %s: %s", n.Target.Name, c.Layer, c)
			}
		}
	}
}
