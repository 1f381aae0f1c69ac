package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cks-trueup/trueup/internal/rollout"
	"github.com/cks-trueup/trueup/internal/survey"
)

func (a *app) abortCommand() *cobra.Command {
	var run runFlags
	var force bool
	c := &cobra.Command{
		Use:   "abort CLUSTER [NODE...]",
		Short: "Give back what trueup holds, and end the open rollout",
		Long: `Give back what trueup holds: drop its claims, and uncordon the nodes that it
cordoned, if they are verified healthy with the size that they have now. No
offering is changed back and nothing is restarted: CloudStack can't shrink a
running instance. A node that is not healthy keeps its cordon, unless --force
is given with a reason.`,
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
	members, plan, err := s.claimed(nodes, names)
	if err != nil {
		return err
	}
	if len(members) == 0 && open.Run == "" {
		return a.nothing(run.output, s, "Nothing to give back: no rollout of %s is open, and no node carries a claim.")
	}
	if err := a.confirm(ctx, run.yes, abortQuestion(s.cluster.Name, members, open)); err != nil {
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

// claimed are the named nodes that carry a claim, or all that do. To give back only some would end the rollout that the others are part of.
func (s *session) claimed(nodes []survey.Node, names []string) ([]rollout.Member, rollout.Plan, error) {
	chosen, err := s.choose(nodes, names, func(survey.Node) bool { return true })
	plan := rollout.Plan{ClusterID: s.cluster.ID, ClusterName: s.cluster.Name}
	if err != nil {
		return nil, plan, err
	}
	var members []rollout.Member
	for _, n := range nodes {
		switch named := slices.ContainsFunc(chosen, func(c survey.Node) bool { return c.Target == n.Target }); {
		case n.Claim == nil:
		case !named:
			return nil, plan, usageErrorf("%s carries a claim too, and an abort ends the whole rollout: name it as well, or no node at all", n.Target.Name)
		default:
			members = append(members, rollout.Member{Seen: n.Observation(), Claim: n.Claim})
			plan.Nodes = append(plan.Nodes, rollout.NodePlan{Target: n.Target})
		}
	}
	return members, plan, nil
}

func abortQuestion(cluster string, members []rollout.Member, open rollout.LeaseState) string {
	var parts []string
	if len(members) > 0 {
		parts = append(parts, fmt.Sprintf("give back %s", plural(len(members), "node")))
	}
	if open.Run != "" {
		parts = append(parts, fmt.Sprintf("end the open rollout (run %s of %s)", open.Run, orDash(open.Actor)))
	}
	return fmt.Sprintf("On %s: %s. Now?", cluster, strings.Join(parts, ", and "))
}
