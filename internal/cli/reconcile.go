package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cks-trueup/trueup/internal/rollout"
	"github.com/cks-trueup/trueup/internal/survey"
)

func (a *app) reconcileCommand() *cobra.Command {
	var run runFlags
	c := &cobra.Command{
		Use:   "reconcile CLUSTER [NODE...]",
		Short: "Make guests and Nodes agree with the offering that their instances have now",
		Long: `Make guest and Node agree with the present offering of each instance, after somebody resized
it without trueup. Changes no offering: what is missing is brought up in the guest, kubelet
is restarted once, the Node is verified; one node at a time, as scale does it.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.reconcile(c.Context(), args[0], args[1:], run)
		},
	}
	run.add(c)
	return c
}

func (a *app) reconcile(ctx context.Context, cluster string, names []string, run runFlags) error {
	if err := run.check(); err != nil {
		return err
	}
	s, err := a.open(ctx, cluster)
	if err != nil {
		return err
	}
	defer s.close()
	nodes, err := s.survey(ctx)
	if err != nil {
		return err
	}
	chosen, err := s.choose(nodes, names)
	if err != nil {
		return err
	}
	goals := map[string]rollout.Goal{}
	for _, n := range chosen {
		goals[n.Target.InstanceID] = rollout.Goal{Offering: n.Views.Instance.Present(), Settle: rollout.DefaultSettle}
	}
	doc, err := s.planFor(ctx, nodes, goals)
	if err != nil {
		return err
	}
	return a.carryOut(ctx, s, doc, run, "reconcile")
}

// choose returns the nodes with these names, or all Kubernetes nodes that CKS made if there are no names.
func (s *session) choose(nodes []survey.Node, names []string) ([]survey.Node, error) {
	var out []survey.Node
	var known []string
	for _, n := range nodes {
		known = append(known, n.Target.Name)
		named := slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, n.Target.Name) || name == n.Target.InstanceID })
		if named || (len(names) == 0 && !n.External && n.Target.Role != rollout.RoleEtcd) {
			out = append(out, n)
		}
	}
	if len(out) < len(names) {
		return nil, usageErrorf("not all of these are nodes of %s: %s; there are: %s", s.cluster.Name, strings.Join(names, ", "), strings.Join(known, ", "))
	}
	return out, nil
}
