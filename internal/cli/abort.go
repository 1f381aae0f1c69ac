package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cks-trueup/trueup/internal/rollout"
)

func (a *app) abortCommand() *cobra.Command {
	var run runFlags
	var force bool
	c := &cobra.Command{
		Use:   "abort CLUSTER [NODE...]",
		Short: "Give back what trueup holds on the cluster, and end its open rollout",
		Long: `Give back what trueup holds: drop its claims, and uncordon the nodes that it cordoned, if
they are verified healthy with the size that they have now. No offering is changed back and
nothing is restarted: CloudStack can't shrink a running instance. A node that is not healthy
keeps its cordon, unless --force is given with a reason.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.abort(c.Context(), args[0], args[1:], run, force)
		},
	}
	run.add(c)
	c.Flags().BoolVar(&force, "force", false, "give back nodes that are not verified healthy as well; needs --why")
	return c
}

func (a *app) abort(ctx context.Context, cluster string, names []string, run runFlags, force bool) error {
	if err := run.check(); err != nil {
		return err
	}
	if force && run.why == "" {
		return usageErrorf("--force needs a reason, which is kept in the history: --why REASON")
	}
	s, err := a.open(ctx, cluster)
	if err != nil {
		return err
	}
	defer s.close()
	open, err := s.openRollout(ctx)
	if err != nil {
		return err
	}
	nodes, err := s.survey(ctx)
	if err != nil {
		return err
	}
	chosen, err := s.choose(nodes, names)
	if err != nil {
		return err
	}
	var members []rollout.Member
	plan := rollout.Plan{ClusterID: s.cluster.ID, ClusterName: s.cluster.Name}
	for _, n := range chosen {
		if n.Claim != nil {
			members = append(members, rollout.Member{Seen: n.Observation(), Claim: n.Claim})
			plan.Nodes = append(plan.Nodes, rollout.NodePlan{Target: n.Target})
		}
	}
	if len(members) == 0 && open.Run == "" {
		fmt.Fprintf(a.Err, "Nothing to give back: no rollout of %s is open, and no node carries a claim.\n", s.cluster.Name)
		return nil
	}
	if err := a.confirm(run.yes, fmt.Sprintf("Give back %s of %s and end the open rollout now?", plural(len(members), "node"), s.cluster.Name)); err != nil {
		return err
	}
	var notes []string
	if force {
		notes = append(notes, "forced: nodes were given back without being verified healthy")
	}
	return a.perform(ctx, s, run, job{command: "abort", continues: open.Run, plan: plan, notes: notes,
		do: func(ctx context.Context, r *rollout.Runner) (rollout.Report, error) {
			return r.Abort(ctx, s.cluster.ID, s.cluster.Name, members, force)
		}})
}
