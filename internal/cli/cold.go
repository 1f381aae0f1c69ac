package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/kube"
	"github.com/cks-trueup/trueup/internal/preflight"
	"github.com/cks-trueup/trueup/internal/rollout"
	"github.com/cks-trueup/trueup/internal/survey"
)

// The names of the methods on the command line.
const (
	methodLive = "live"
	methodCold = "cold"
)

// stateAlert is CloudStack's word for a cluster of which a machine does not run.
const stateAlert = "Alert"

// coldFlags are the flags of the cold method.
type coldFlags struct {
	method       string
	deletePods   []string
	acceptOutage bool
}

func (f *coldFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.method, "method", methodLive, "the `method`: live grows running instances; cold drains each node, stops its instance, changes and starts it: for what can't be scaled live, and to shrink")
	f.addCold(c)
}

// addCold adds what only the cold method understands.
func (f *coldFlags) addCold(c *cobra.Command) {
	c.Flags().StringSliceVar(&f.deletePods, "delete-pod", nil, "cold method: delete this `pod` (namespace/name) where its disruption budget allows no eviction; may be repeated")
	c.Flags().BoolVar(&f.acceptOutage, "accept-api-outage", false, "cold method: stop the only control-plane node, or the only etcd machine, too: there is no Kubernetes API meanwhile")
}

func (f *coldFlags) check() error {
	switch {
	case f.method != methodLive && f.method != methodCold:
		return usageErrorf("--method %s: it is live or cold", f.method)
	case f.method == methodLive && (len(f.deletePods) > 0 || f.acceptOutage):
		return usageErrorf("--delete-pod and --accept-api-outage belong to --method cold: the live method drains and stops nothing")
	}
	return nil
}

// goal is what these flags say of a goal.
func (f *coldFlags) goal() rollout.Goal {
	if f.method != methodCold {
		return rollout.Goal{}
	}
	return rollout.Goal{Method: rollout.MethodCold, DeletePods: f.deletePods, AcceptOutage: f.acceptOutage}
}

// goal is the goal that the flags ask for with an offering.
func (g *goalFlags) goal(o capacity.Offering) rollout.Goal {
	goal := g.cold.goal()
	goal.Offering, goal.NoOnline, goal.Settle, goal.Ignore = o, g.noOnline, g.settle, g.ignore
	return goal
}

// coldOpen tells whether an unfinished rollout of the cold method hangs on the Lease. What can't be read is none.
func (s *session) coldOpen(ctx context.Context) bool { return s.openMethod(ctx) == rollout.MethodCold }

// openMethod is the method of the unfinished rollout, by the Lease or by a claim alone; live if there is none.
func (s *session) openMethod(ctx context.Context) rollout.Method {
	open, err := s.openRollout(ctx)
	if err != nil {
		return rollout.MethodLive
	}
	for _, g := range open.Goals {
		if g.Method != rollout.MethodLive {
			return g.Method
		}
	}
	claims, _ := s.kube.Claims(ctx) // of etcd machines; what can't be read is none
	nodes, _ := s.kube.Nodes(ctx)
	texts := slices.Collect(maps.Values(claims))
	for _, n := range nodes {
		texts = append(texts, n.Claim)
	}
	for _, text := range texts {
		if c, err := rollout.DecodeClaim(text); err == nil && c != nil && c.Cold != nil {
			return rollout.MethodCold
		}
	}
	return rollout.MethodLive
}

// mostPodLists is how many nodes' pods are listed at once.
const mostPodLists = 8

// readPods reads the pods of the nodes that the cold method shall be begun on.
func (s *session) readPods(ctx context.Context, members []rollout.Member) {
	var g errgroup.Group
	g.SetLimit(mostPodLists)
	for i, m := range members {
		if m.Goal == nil || m.Goal.Method != rollout.MethodCold || !m.Seen.Target.Role.HasNode() || m.Seen.Node.Name == "" {
			continue
		}
		g.Go(func() error {
			pods, err := s.kube.Pods(ctx, m.Seen.Node.Name)
			members[i].Seen.Pods = &rollout.PodReading{Pods: pods}
			if err != nil {
				members[i].Seen.Pods.Unknown = oneLine(err.Error())
			}
			return nil
		})
	}
	_ = g.Wait() // what can't be read is said of its node
}

// alertBound is how long CloudStack's scanner may take to find all machines running again: it looks every 30 s, and asks the API server.
const alertBound = 3 * time.Minute

// awaitRunning waits until CloudStack calls the cluster Running again, after machines of it were stopped and started. That it does not is told, and
// undoes nothing.
func (a *app) awaitRunning(ctx context.Context, s *session) error {
	if err := a.readAgain(ctx, s); err != nil {
		return nil //nolint:nilerr // every node is verified; CloudStack's word for the cluster is for people
	}
	if err := a.awaitSettled(ctx, s, alertBound); err != nil && !errors.Is(err, context.Canceled) {
		return nil
	}
	if s.cluster.State != "Running" {
		a.say("CloudStack calls cluster %s %s although every node is verified: see `trueup clusters`; CloudStack refuses its own scaling until its scanner finds all well", s.cluster.Name, s.cluster.State)
	}
	return ctx.Err()
}

// isCold tells whether a plan stops machines.
func isCold(p rollout.Plan) bool {
	for _, n := range p.Nodes {
		if n.Goal.Method == rollout.MethodCold && len(n.Moves) > 0 {
			return true
		}
	}
	return false
}

// coldQuestion says what is about to be stopped.
func coldQuestion(p rollout.Plan) string {
	return fmt.Sprintf("Drain, stop and start %s of %s now, one at a time?", plural(changing(p), "node"), p.ClusterName)
}

// furtherRights are what a method needs in Kubernetes beside what all do.
func furtherRights(m rollout.Method) []kube.Right {
	if m == rollout.MethodCold {
		return kube.ColdRights()
	}
	return nil
}

// room checks, before the cold method is begun, whether the pods have room: after the change, which can refuse it, and while each node is away.
func (s *session) room(ctx context.Context, nodes []survey.Node, goals map[string]rollout.Goal) (checks []preflight.Check) {
	if !slices.ContainsFunc(slices.Collect(maps.Values(goals)), func(g rollout.Goal) bool { return g.Method == rollout.MethodCold }) || s.kube == nil {
		return nil
	}
	pods, err := s.kube.AllPods(ctx)
	if err != nil {
		return []preflight.Check{{ID: "requests-fit", Name: "room for pods", Verdict: preflight.Unknown, Evidence: oneLine(err.Error())}}
	}
	var rooms []capacity.RoomNode
	var away []string
	for _, n := range nodes {
		if n.Views.Node == nil || n.Target.Role != rollout.RoleWorker {
			continue
		}
		goal, has := goals[n.Target.InstanceID]
		r := capacity.RoomNode{Name: n.Target.Name, Schedulable: !n.Views.Node.Unschedulable || n.Claim != nil, Capacity: n.Views.Node.Capacity, Allocatable: n.Views.Node.Allocatable, Pods: pods[n.Views.Node.Name]}
		if has && !n.Views.Instance.AtOffering(goal.Offering) {
			r.Before, r.After = n.Views.Instance.Present(), goal.Offering
		}
		rooms = append(rooms, r)
		if has && n.Claim == nil {
			away = append(away, n.Target.Name)
		}
	}
	checks = append(checks, preflight.Room(capacity.CheckRequestsFit(rooms)))
	for _, name := range away {
		if c := capacity.CheckRoomWithout(rooms, name); !c.OK {
			checks = append(checks, preflight.RoomWithout(name, c))
		}
	}
	return checks
}
