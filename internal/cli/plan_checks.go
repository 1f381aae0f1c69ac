package cli

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/cloudstack"
	"github.com/cks-trueup/trueup/internal/kube"
	"github.com/cks-trueup/trueup/internal/preflight"
	"github.com/cks-trueup/trueup/internal/rollout"
	"github.com/cks-trueup/trueup/internal/survey"
)

// look surveys the nodes and, at the same time, asks the API server about the rights that a rollout needs.
func (s *session) look(ctx context.Context, further ...kube.Right) (nodes []survey.Node, rights preflight.Kubernetes, err error) {
	var both sync.WaitGroup
	if s.kube != nil {
		both.Go(func() { rights = s.rights(ctx, further...) })
	}
	nodes, err = s.survey(ctx)
	both.Wait()
	return nodes, rights, err
}

// rights asks the API server. Who can't be asked is told of by the survey.
func (s *session) rights(ctx context.Context, further ...kube.Right) (out preflight.Kubernetes) {
	missing, err := s.kube.Missing(ctx, further...)
	if err != nil {
		out.Problem = oneLine(err.Error())
		return out
	}
	out.Asked = true
	for _, r := range missing {
		if r.Optional {
			out.Lacking = append(out.Lacking, r.String())
			continue
		}
		out.Denied = append(out.Denied, r.String())
	}
	return out
}

// changes asks CloudStack about each kind of change that the goals bring: one machine stands for all that have the same offering and the same goal. A
// smaller offering, and one without dynamic scaling, is told by the node's own checks, more exactly.
func (s *session) changes(ctx context.Context, nodes []survey.Node, goals map[string]rollout.Goal) []preflight.Check {
	type kind struct{ from, to string }
	asked := map[kind]bool{}
	var ask []survey.Node
	for _, n := range nodes {
		i, goal := n.Views.Instance, goals[n.Target.InstanceID]
		this := kind{i.OfferingID, goal.Offering.ID}
		switch {
		case goal.Method == rollout.MethodCold: // a stopped machine takes any offering, and the list is about running ones
		case goal.Offering.ID == "", i.AtOffering(goal.Offering), goal.Offering.Smaller(i), !goal.Offering.DynamicScaling, asked[this]:
		default:
			asked[this] = true
			ask = append(ask, n)
		}
	}
	out := make([]preflight.Check, len(ask))
	var g errgroup.Group
	g.SetLimit(mostInstances)
	for k, n := range ask {
		g.Go(func() error {
			out[k] = preflight.ChangeCheck(s.change(ctx, n, goals[n.Target.InstanceID].Offering))
			return nil
		})
	}
	_ = g.Wait() // what could not be asked is said in its check
	return out
}

// limits are those of the cluster's owner, or why they are not known.
type limits struct {
	cloudstack.Limits

	unread string
}

// readLimits reads them; the channel gets them once.
func (s *session) readLimits(ctx context.Context) <-chan limits {
	out := make(chan limits, 1)
	go func() {
		l, err := s.cloudStack.Limits(ctx, s.cluster)
		read := limits{Limits: l}
		if err != nil {
			read.unread = oneLine(err.Error())
		}
		out <- read
	}()
	return out
}

// withinLimits holds what the goals add against the limits of the cluster's owner. What shrinks is not counted: it comes later, maybe.
func (s *session) withinLimits(l limits, goalOf func(cloudstack.VM) capacity.Offering) preflight.Check {
	var cpus, mib int64
	for _, vm := range s.cluster.VMs {
		if o := goalOf(vm); o.ID != "" && !vm.Instance.AtOffering(o) {
			cpus += int64(max(0, o.CPUs-vm.Instance.CPUs))
			mib += max(0, o.MemoryMiB-vm.Instance.MemoryMiB)
		}
	}
	return preflight.Limits(l.Of, preflight.Allowance{Used: l.CPUs.Used, Most: l.CPUs.Most, Added: cpus}, preflight.Allowance{Used: l.MemoryMiB.Used, Most: l.MemoryMiB.Most, Added: mib}, l.unread)
}

// change asks CloudStack whether it offers the change to the machine.
func (s *session) change(ctx context.Context, n survey.Node, goal capacity.Offering) preflight.Change {
	change := preflight.Change{Machine: n.Target.Name, Goal: goal.String()}
	offered, err := s.cloudStack.Suits(ctx, n.Views.Instance.ID, goal.ID)
	if err != nil {
		change.Problem = oneLine(err.Error())
		return change
	}
	change.Offered = &offered
	if present, err := s.presentIf(ctx, !offered, n); err == nil && present.DynamicScaling != goal.DynamicScaling {
		change.Differs = fmt.Sprintf("dynamicscalingenabled is %t for %s, which it has, and %t for %s", present.DynamicScaling, present.Name, goal.DynamicScaling, goal.Name)
	}
	return change
}

// presentIf reads the offering that the node has, where that is needed to say why it can't change.
func (s *session) presentIf(ctx context.Context, needed bool, n survey.Node) (capacity.Offering, error) {
	if !needed {
		return capacity.Offering{}, rollout.ErrNotFound
	}
	return s.cloudStack.Present(ctx, n.Views.Instance.OfferingID)
}

// misplaced checks the pods of each node that would have its kubelet restarted: one whose node affinity does not match any more is rejected then. The cold
// method evicts them anyway.
func (s *session) misplaced(ctx context.Context, nodes []survey.Node, goals map[string]rollout.Goal) []preflight.Check {
	checks := make([]preflight.Check, len(nodes))
	var g errgroup.Group
	g.SetLimit(mostPodLists)
	for i, n := range nodes {
		goal, has := goals[n.Target.InstanceID]
		if !has || goal.Method == rollout.MethodCold || n.Views.Node == nil || s.kube == nil || n.Views.Instance.Present().SameSize(goal.Offering) {
			continue
		}
		g.Go(func() error {
			names, err := s.kube.Misplaced(ctx, n.Views.Node.Name)
			checks[i] = preflight.Misplaced(n.Target.Name, names, err)
			return nil
		})
	}
	_ = g.Wait() // what can't be read is said in its check
	return slices.DeleteFunc(checks, func(c preflight.Check) bool { return c.ID == "" })
}

// notReady names the Nodes that are not Ready and have no goal. One with a goal is checked as such.
func notReady(nodes []survey.Node, goals map[string]rollout.Goal) (names []string) {
	for _, n := range nodes {
		if _, has := goals[n.Target.InstanceID]; !has && n.Views.Node != nil && !n.Views.Node.Ready.True() {
			names = append(names, n.Target.Name)
		}
	}
	return names
}

// facts puts what CloudStack says about the cluster into preflight's terms.
func (s *session) facts(f cloudstack.Facts) preflight.Cluster {
	c := preflight.Cluster{Name: s.cluster.Name, State: s.cluster.State, Type: s.cluster.Type, Nodes: map[rollout.Role]int{}, DynamicScaling: truth(f.DynamicScaling.Truth)}
	c.Version = f.Version
	for _, vm := range s.cluster.VMs {
		c.Nodes[vm.Role]++
		if vm.Hypervisor != "" && !slices.Contains(c.Hypervisors, vm.Hypervisor) {
			c.Hypervisors = append(c.Hypervisors, vm.Hypervisor)
		}
	}
	if s.cluster.State == "Created" { // the machines that it will have
		c.Nodes = map[rollout.Role]int{rollout.RoleWorker: s.cluster.WorkerNodes, rollout.RoleControl: s.cluster.ControlNodes, rollout.RoleEtcd: s.cluster.EtcdNodes}
	}
	known := false
	for command, fact := range f.Permitted {
		known = known || fact.Truth != cloudstack.Unknown
		if fact.Truth == cloudstack.Yes {
			c.Commands = append(c.Commands, command)
		}
	}
	if !known {
		c.Commands = nil
	}
	return c
}

func truth(t cloudstack.Truth) *bool {
	yes := t == cloudstack.Yes
	if t == cloudstack.Unknown {
		return nil
	}
	return &yes
}
