package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
is given with a reason.

With NODE, only that node is given back and taken out of the rollout; resume
goes on with the others.`,
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
	give, j, err := s.releasing(ctx, names, force)
	if errors.Is(err, errNothingOpen) {
		return a.nothing(run.output, s, "Nothing to give back: no rollout of %s is open for that, and no such node carries a claim.", s.cluster.Name)
	}
	if err != nil {
		return err
	}
	if err := a.confirm(ctx, run.yes, give.question); err != nil {
		return err
	}
	if err = a.perform(ctx, s, run, j); err == nil && len(give.Rest) > 0 {
		a.say("%s of the rollout left: `trueup resume %s` goes on with it, `trueup abort %s` gives it up.", plural(len(give.Rest), "node"), s.cluster.Name, s.cluster.Name)
	}
	return err
}

// handover is what is given back, and the question before it.
type handover struct {
	rollout.Surrender

	question string
}

// releasing is the job that gives back everything that trueup holds in the cluster, or the named nodes. errNothingOpen if that is nothing.
func (s *session) releasing(ctx context.Context, names []string, force bool) (handover, job, error) {
	open, err := s.openRollout(ctx)
	if err != nil {
		return handover{}, job{}, err
	}
	nodes, err := s.survey(ctx)
	if err != nil {
		return handover{}, job{}, err
	}
	goals := unfinishedGoals(open, nodes)
	give, plan, err := s.surrender(nodes, names, goals)
	if err != nil {
		return handover{}, job{}, err
	}
	if len(give.Members) == 0 && len(give.Rest) == len(goals) && (open.Run == "" || len(names) > 0) {
		return handover{}, job{}, errNothingOpen
	}
	give.Command, give.Force = first(open.Command, "scale"), force
	j := job{command: "abort", continues: open.Run, plan: plan,
		do: func(ctx context.Context, r *rollout.Runner) (rollout.Report, error) { return r.Abort(ctx, give) }}
	if force {
		j.notes = append(j.notes, "forced: nodes were given back without being verified healthy")
	}
	return handover{give, abortQuestion(give, open)}, j, nil
}

// surrender is what an abort gives up: everything, or the named nodes alone. Then the goals of the others stay, and resume goes on with them.
func (s *session) surrender(nodes []survey.Node, names []string, goals map[string]rollout.Goal) (rollout.Surrender, rollout.Plan, error) {
	plan := rollout.Plan{ClusterID: s.cluster.ID, ClusterName: s.cluster.Name}
	give := rollout.Surrender{ClusterID: s.cluster.ID, ClusterName: s.cluster.Name, Rest: maps.Clone(goals)}
	chosen, err := s.choose(nodes, names, func(survey.Node) bool { return true })
	if err != nil {
		return give, plan, err
	}
	for _, n := range chosen {
		delete(give.Rest, n.Target.InstanceID)
		if n.Claim != nil {
			give.Members = append(give.Members, rollout.Member{Seen: n.Observation(), Claim: n.Claim})
			plan.Nodes = append(plan.Nodes, rollout.NodePlan{Target: n.Target})
		}
	}
	return give, plan, nil
}

func abortQuestion(give rollout.Surrender, open rollout.LeaseState) string {
	var parts []string
	if len(give.Members) > 0 {
		parts = append(parts, fmt.Sprintf("give back %s", plural(len(give.Members), "node")))
	}
	switch {
	case len(give.Rest) > 0:
		parts = append(parts, fmt.Sprintf("leave %s of the rollout to be resumed", plural(len(give.Rest), "node")))
	case open.Run != "":
		parts = append(parts, fmt.Sprintf("end the open rollout (run %s of %s)", open.Run, orDash(open.Actor)))
	}
	return fmt.Sprintf("On %s: %s. Now?", give.ClusterName, strings.Join(parts, ", and "))
}
