package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cks-trueup/trueup/internal/preflight"
	"github.com/cks-trueup/trueup/internal/rollout"
	"github.com/cks-trueup/trueup/internal/survey"
)

// prepareFlags are what prepare takes.
type prepareFlags struct {
	roles, nodes, ignore []string
	settle               time.Duration
	cold                 coldFlags
	run                  runFlags
}

func (a *app) prepareCommand() *cobra.Command {
	f := prepareFlags{cold: coldFlags{method: methodCold}}
	c := &cobra.Command{
		Use:   "prepare CLUSTER",
		Short: "Make the nodes ready for live scaling, by the cold method",
		Long: `Make the nodes of a cluster ready for live scaling. A machine has a maximum of
CPUs and memory, and slots for DIMMs, only from a start on a CloudStack that
scales fixed offerings live (4.23), and only if its instance is marked
dynamically scalable then. So what is not ready is marked, if CloudStack allows
that, and then drained, stopped and started, one node at a time, with the
offering that it has. What only an administrator can change is said with the
call that changes it. Nodes that are ready already are left alone.`,
		Example: `  trueup prepare prod
  trueup prepare prod --role worker --drain-timeout 20m`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.prepare(c.Context(), args[0], f) },
	}
	c.Flags().StringSliceVar(&f.roles, "role", nil, "only nodes of this `role`: worker, control or etcd; may be repeated")
	c.Flags().StringSliceVar(&f.nodes, "node", nil, "only this `node`, by name or instance id; may be repeated")
	c.Flags().StringSliceVar(&f.ignore, "ignore", nil, "go on against this failed `check`, by its name in trueup preflight; may be repeated; kept in the history")
	c.Flags().DurationVar(&f.settle, "settle", rollout.DefaultSettle, "how long the kubelet of the new boot must run before its node is given back")
	f.cold.addCold(c)
	f.run.add(c)
	return c
}

func (a *app) prepare(ctx context.Context, cluster string, f prepareFlags) error {
	if err := errors.Join(f.run.check(), checkRoles(f.roles), checkIgnored(f.ignore), checkSettle(f.settle)); err != nil {
		return err
	}
	s, err := a.open(ctx, cluster)
	if err != nil {
		return err
	}
	defer s.close()
	doc, err := s.checked(ctx, scope{method: rollout.MethodCold})
	if err != nil {
		return err
	}
	if doc.refused() {
		return a.carryOut(ctx, s, doc, f.run, "prepare")
	}
	nodes, err := s.survey(ctx)
	if err != nil {
		return err
	}
	chosen, err := s.choose(nodes, f.nodes, func(n survey.Node) bool { return madeByCKS(n) && f.covers(n.Target.Role) })
	if err != nil {
		return err
	}
	goals, unmarked, err := s.toPrepare(ctx, chosen, f)
	if err != nil {
		return err
	}
	if len(goals) == 0 {
		return a.nothing(f.run.output, s, "Nothing to prepare: these nodes of %s can be scaled live as they are.", s.cluster.Name)
	}
	doc.Preflight = append(doc.Preflight, preflight.Ignore(append(s.room(ctx, nodes, goals), preflight.KubernetesChecks(s.rights(ctx, furtherRights(rollout.MethodCold)...))...), f.ignore)...)
	if err := s.planFor(ctx, &doc, nodes, goals); err != nil {
		return err
	}
	doc.byNode, doc.ignored = true, f.ignore
	doc.before = func(ctx context.Context) error { return s.mark(ctx, unmarked) }
	return a.carryOut(ctx, s, doc, f.run, "prepare")
}

func (f *prepareFlags) covers(r rollout.Role) bool {
	return len(f.roles) == 0 || slices.Contains(f.roles, string(r))
}

func checkRoles(roles []string) error {
	for _, r := range roles {
		if !slices.Contains(rollout.Roles(), rollout.Role(r)) {
			return usageErrorf("--role %s: it is worker, control or etcd", r)
		}
	}
	return nil
}

// toPrepare are the goals of the nodes that are not ready, and those whose instances are not marked. A node that can't be read can't be judged. One
// that can't be made ready by a stop and start, because an administrator must change something first, refuses all.
func (s *session) toPrepare(ctx context.Context, nodes []survey.Node, f prepareFlags) (goals map[string]rollout.Goal, unmarked []rollout.Target, err error) {
	seen := make([]rollout.Observation, len(nodes))
	look := make([]*rollout.Observation, 0, len(nodes))
	var problems []error
	for i, n := range nodes {
		for _, p := range n.Problems {
			problems = append(problems, fmt.Errorf("%s: %w", n.Target.Name, p))
		}
		seen[i] = n.Observation()
		look = append(look, &seen[i])
	}
	if err := unreadable(problems); err != nil {
		return nil, nil, err
	}
	survey.Inspect(ctx, s.guests, look)
	goals = map[string]rollout.Goal{}
	for _, o := range seen {
		if len(rollout.Unprepared(o)) == 0 {
			continue
		}
		goal := f.cold.goal()
		goal.Offering, goal.PastBoot, goal.Settle, goal.Ignore = o.Instance.Present(), o.Guest.BootID, f.settle, f.ignore
		goals[o.Target.InstanceID] = goal
		if !o.Instance.DynamicallyScalable {
			unmarked = append(unmarked, o.Target)
		}
	}
	return goals, unmarked, s.markable(ctx, unmarked)
}

// markable tells whether CloudStack would mark these instances as dynamically scalable: template, offering and zone must allow it.
func (s *session) markable(ctx context.Context, targets []rollout.Target) error {
	var errs []error
	for _, t := range targets {
		obstacles, err := s.cloudStack.MarkObstacles(ctx, t.InstanceID)
		if err != nil {
			return err
		}
		if len(obstacles) > 0 {
			errs = append(errs, withCode(ExitRefused, fmt.Errorf("refused, nothing was changed: %s can't be made dynamically scalable: %s", t.Name, strings.Join(obstacles, "; "))))
		}
	}
	if len(errs) > 0 {
		return errs[0] // the others have the same template, offering and zone, as a rule
	}
	return nil
}

// mark marks the instances as dynamically scalable, which takes effect at their next start.
func (s *session) mark(ctx context.Context, targets []rollout.Target) error {
	for _, t := range targets {
		if err := s.cloudStack.SetDynamicallyScalable(ctx, t.InstanceID); err != nil {
			return fmt.Errorf("nothing was stopped: %s could not be marked dynamically scalable: %w", t.Name, err)
		}
	}
	return nil
}
