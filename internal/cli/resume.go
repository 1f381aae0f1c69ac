package cli

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cks-trueup/trueup/internal/rollout"
	"github.com/cks-trueup/trueup/internal/survey"
)

func (a *app) resumeCommand() *cobra.Command {
	var run runFlags
	c := &cobra.Command{
		Use:   "resume CLUSTER",
		Short: "Finish what an interrupted rollout of the cluster has begun",
		Long: `Finish what an interrupted rollout of the cluster has begun, on any machine,
by anyone with access: its goals are kept on the cluster's Lease, and what was
done is seen on the nodes.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.resume(c.Context(), args[0], run) },
	}
	run.add(c)
	return c
}

func (a *app) resume(ctx context.Context, cluster string, run runFlags) error {
	if err := run.check(); err != nil {
		return err
	}
	s, err := a.open(ctx, cluster)
	if err != nil {
		return err
	}
	defer s.close()
	doc, err := s.continuation(ctx)
	if errors.Is(err, errNothingOpen) {
		return a.nothing(run.output, s, "Nothing to resume: no rollout of %s is open, and no node carries a claim.", s.cluster.Name)
	}
	if err != nil {
		return err
	}
	return a.carryOut(ctx, s, doc, run, "resume")
}

// errNothingOpen means that nothing is unfinished in the cluster.
var errNothingOpen = errors.New("no rollout is open, and no node carries a claim")

// continuation plans to finish what is unfinished. errNothingOpen if nothing is.
func (s *session) continuation(ctx context.Context) (planDocument, error) {
	doc, err := s.checked(ctx, scope{method: s.openMethod(ctx)})
	if err != nil || doc.refused() {
		return doc, err
	}
	open, err := s.openRollout(ctx)
	if err != nil {
		return doc, err
	}
	nodes, err := s.survey(ctx)
	if err != nil {
		return doc, err
	}
	goals := unfinishedGoals(open, nodes)
	if len(goals) == 0 {
		return doc, errNothingOpen
	}
	err = s.planFor(ctx, &doc, nodes, goals)
	return doc, err
}

// unfinishedGoals are the goals of the open rollout, and of claims that have none there: a claim alone is enough to go on.
func unfinishedGoals(open rollout.LeaseState, nodes []survey.Node) map[string]rollout.Goal {
	goals := map[string]rollout.Goal{}
	for _, n := range nodes {
		if g, ok := open.Goals[n.Target.InstanceID]; ok {
			goals[n.Target.InstanceID] = g
		} else if n.Claim != nil {
			goals[n.Target.InstanceID] = n.Claim.Asked()
		}
	}
	return goals
}

// nothing says that there was nothing to do; a machine gets a report without nodes.
func (a *app) nothing(output string, s *session, format string, args ...any) error {
	a.say(format, args...)
	return a.printReport(output, s.cluster.Name, rollout.Report{Effects: []rollout.Effect{}, Nodes: []rollout.NodeReport{}}, nil)
}

// openRollout reads the unfinished rollout that is kept on the cluster's Lease. Its zero value means that there is none.
func (s *session) openRollout(ctx context.Context) (rollout.LeaseState, error) {
	if err := s.reachable(); err != nil {
		return rollout.LeaseState{}, err
	}
	h, err := s.kube.Holder(ctx)
	return h.State, err
}

// continues returns the run id of the open rollout that the plan goes on with, "" if none is open. A plan with another goal than the open
// rollout is refused, with both goals named. A machine that is no longer in the cluster has no goal to keep.
func (s *session) continues(ctx context.Context, p rollout.Plan) (string, error) {
	open, err := s.openRollout(ctx)
	if err != nil || open.Run == "" {
		return "", err
	}
	planned := map[string]rollout.Goal{}
	for _, n := range p.Nodes {
		planned[n.Target.InstanceID] = n.Goal
	}
	for _, vm := range s.cluster.VMs {
		was, ok := open.Goals[vm.Instance.ID]
		if now, same := planned[vm.Instance.ID]; ok && (!same || now.Offering.ID != was.Offering.ID || now.Method != was.Method) {
			return "", withCode(ExitHeld, fmt.Errorf("nothing was changed: run %s of %s is not finished, and its goal is another one (%s; asked for now: %s): finish it with `trueup resume %s`, or give it up with `trueup abort %s`",
				open.Run, open.Actor, s.goals(open.Goals), s.goals(planned), s.cluster.Name, s.cluster.Name))
		}
	}
	return open.Run, nil
}

// goals prints goals by node for people.
func (s *session) goals(goals map[string]rollout.Goal) string {
	var out []string
	for _, vm := range s.cluster.VMs {
		if g, ok := goals[vm.Instance.ID]; ok {
			out = append(out, strings.ToLower(vm.Instance.Name)+" to "+g.Offering.Name)
		}
	}
	sort.Strings(out)
	return strings.Join(out, ", ")
}

// planFor plans for the nodes that have a goal of their own.
func (s *session) planFor(ctx context.Context, doc *planDocument, nodes []survey.Node, goals map[string]rollout.Goal) error {
	members, err := s.members(nodes, func(n survey.Node) *rollout.Goal {
		if g, ok := goals[n.Target.InstanceID]; ok {
			return &g
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.inspect(ctx, members)
	s.readPods(ctx, members)
	doc.take(rollout.NewPlan(s.cluster.ID, s.cluster.Name, nil, members), members)
	return nil
}
