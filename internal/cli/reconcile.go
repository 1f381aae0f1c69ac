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
		Short: "Bring guests and Nodes up to what their instances have now",
		Long: `Make guest and Node agree with the present offering of each instance, after
somebody resized it without trueup. Changes no offering: what is missing is
brought up in the guest, kubelet is restarted once, the Node is verified; one
node at a time, as scale does it.`,
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
	doc, err := s.reconciliation(ctx, names)
	if err != nil {
		return err
	}
	return a.carryOut(ctx, s, doc, run, "reconcile")
}

// reconciliation plans to bring the named nodes, or all that CKS made, up to what their instances have.
func (s *session) reconciliation(ctx context.Context, names []string) (planDocument, error) {
	doc, err := s.checked(ctx, scope{})
	if err != nil || doc.refused() {
		return doc, err
	}
	nodes, err := s.survey(ctx)
	if err != nil {
		return doc, err
	}
	chosen, err := s.choose(nodes, names, madeByCKS)
	if err != nil {
		return doc, err
	}
	goals := map[string]rollout.Goal{}
	for _, n := range chosen {
		goals[n.Target.InstanceID] = rollout.Goal{Offering: n.Views.Instance.Present(), Keep: true, Settle: rollout.DefaultSettle}
	}
	err = s.planFor(ctx, &doc, nodes, goals)
	return doc, err
}

// madeByCKS chooses the machines that CKS made.
func madeByCKS(n survey.Node) bool { return !n.External }

// choose returns the nodes with these names or ids, in the order of the cluster; if there are none, those that byDefault chooses.
func (s *session) choose(nodes []survey.Node, names []string, byDefault func(survey.Node) bool) ([]survey.Node, error) {
	targets := make([]rollout.Target, len(nodes))
	for i, n := range nodes {
		targets[i] = n.Target
	}
	if err := s.known(targets, names); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(nodes), func(n survey.Node) bool {
		return !isOf(n.Target, names) && (len(names) > 0 || !byDefault(n))
	}), nil
}

// known refuses a name or id that is none of the machines'.
func (s *session) known(targets []rollout.Target, names []string) error {
	for _, name := range names {
		if !slices.ContainsFunc(targets, func(t rollout.Target) bool { return isOf(t, []string{name}) }) {
			all := make([]string, len(targets))
			for i, t := range targets {
				all[i] = t.Name
			}
			return usageErrorf("%q is no node of %s; there are: %s", name, s.cluster.Name, strings.Join(all, ", "))
		}
	}
	return nil
}

// isOf tells whether the machine is one of those with these names or ids.
func isOf(t rollout.Target, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, t.Name) || name == t.InstanceID })
}
