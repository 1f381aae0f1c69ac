package compare

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/lab/cluster"
)

// nodes puts each node's way together, in the order in which they were worked on.
func (b *bench) nodes(ctx context.Context, began, ended time.Time, seen []cluster.Sight) (all []NodeTrial, err error) {
	begin := began
	for i, target := range b.task.nodes {
		node := b.node(target.name)
		t, err := b.timeline(ctx, node, seen)
		if err != nil {
			return nil, err
		}
		t.begin, t.end = begin, t.given
		if i == len(b.task.nodes)-1 {
			t.end = ended
		}
		begin = t.given
		if err := t.check(); err != nil {
			return nil, err
		}
		starts, err := node.UnitStarts(ctx, "kubelet.service")
		if err != nil {
			return nil, err
		}
		all = append(all, NodeTrial{Node: t.node, Phases: t.phases(), Wall: t.wall(), Added: t.added(), Cordoned: t.given.Sub(t.cordoned), NotReady: t.notReady,
			KubeletRestarts: len(starts) - 1})
	}
	return all, nil
}

func (b *bench) node(name string) *cluster.Node {
	return b.lab.Nodes[slices.IndexFunc(b.lab.Nodes, func(n *cluster.Node) bool { return n.Name() == name })]
}

// timeline is the node's way but for its begin and end.
func (b *bench) timeline(ctx context.Context, node *cluster.Node, seen []cluster.Sight) (t timeline, err error) {
	t.node = node.Name()
	for _, job := range b.lab.Cloud.Model.Jobs() {
		if job.InstanceID == node.VMID() && job.Status == standin.JobSucceeded {
			t.jobBegan, t.jobEnded = job.Created, job.Completed
		}
	}
	if t.plugged, t.started, err = guestTimes(ctx, node); err != nil {
		return t, err
	}
	own := slices.DeleteFunc(slices.Clone(seen), func(s cluster.Sight) bool { return s.Node.Name != t.node })
	if len(own) == 0 {
		return t, fmt.Errorf("%s: the watch told nothing of it", t.node)
	}
	t.read(own, int64(b.task.cpus))
	return t, nil
}

// read takes what a watch told of the node.
func (t *timeline) read(own []cluster.Sight, cpus int64) {
	for i, s := range own {
		cordoned, ready := s.Node.Spec.Unschedulable, cluster.NodeReady(s.Node)
		switch {
		case cordoned && t.cordoned.IsZero():
			t.cordoned = s.At
		case !cordoned && !t.cordoned.IsZero() && t.given.IsZero():
			t.given = s.At
		}
		if ready && s.Node.Status.Capacity.Cpu().Value() == cpus && t.fresh.IsZero() {
			t.fresh = s.At
		}
		if !ready && i+1 < len(own) {
			t.notReady += own[i+1].At.Sub(s.At)
		}
	}
}
