package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/internal/kube"
	"github.com/cks-trueup/trueup/internal/rollout"
)

func (fleetKube) Close() {}

func (f fleetKube) Missing(context.Context, ...kube.Right) ([]kube.Right, error) {
	return f.denied, nil
}

func (f fleetKube) Lock() rollout.Lock { return fleetLock(f) }

func (f fleetKube) ControlPlane(context.Context) (string, error) { return "", nil }

func (f fleetKube) Pods(_ context.Context, node string) ([]capacity.Pod, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.find(node).pods), f.podsErr
}

func (f fleetKube) AllPods(context.Context) (map[string][]capacity.Pod, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string][]capacity.Pod{}
	for _, m := range f.nodes {
		out[m.node.Name] = slices.Clone(m.pods)
	}
	return out, nil
}

func (f fleetKube) Misplaced(_ context.Context, node string) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.find(node).misplaced, f.podsErr
}

// Evict ends the pod at once, and its controller makes another one elsewhere, which nobody here looks for.
func (f fleetKube) Evict(_ context.Context, pod capacity.Pod) error {
	f.call("evict " + pod.Name)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held[pod.Name] {
		return &rollout.BlockedError{Pod: pod.String(), Reason: "the budget " + pod.Name + " needs it"}
	}
	return f.end(pod)
}

func (f fleetKube) Delete(_ context.Context, pod capacity.Pod) error {
	f.call("delete " + pod.Name)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.end(pod)
}

func (f fleetKube) end(pod capacity.Pod) error {
	for _, m := range f.nodes {
		m.pods = slices.DeleteFunc(slices.Clone(m.pods), func(p capacity.Pod) bool { return p.UID == pod.UID })
	}
	return nil
}

func (f fleetKube) Holder(context.Context) (kube.Holding, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leaseReads++
	h := f.lease
	h.Claims = maps.Clone(f.shelf)
	return h, f.leaseErr
}

func (f fleetKube) Claims(context.Context) (map[string]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leaseReads++
	return maps.Clone(f.shelf), nil
}

func (f fleetKube) Shelved(_ context.Context, id string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.shelf[id], nil
}

func (f fleetKube) Shelve(_ context.Context, t rollout.Tenure, id, text string) error {
	f.call("shelve " + f.find(id).name)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lease.Tenure != t {
		return rollout.ErrLost
	}
	f.shelf[id] = text
	return nil
}

func (f fleetKube) Nodes(context.Context) ([]capacity.Node, error) {
	f.call("list nodes")
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []capacity.Node
	for _, m := range f.nodes {
		if m.node.Name != "" {
			out = append(out, m.node)
		}
	}
	return out, nil
}

func (f fleetKube) Node(_ context.Context, name string) (capacity.Node, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.find(name); m != nil {
		return m.node, nil
	}
	return capacity.Node{}, fmt.Errorf("node %s: %w", name, rollout.ErrNotFound)
}

// Watch never speaks: the runner's own timers look.
func (fleetKube) Watch(ctx context.Context, _ string) (<-chan struct{}, error) {
	c := make(chan struct{})
	context.AfterFunc(ctx, func() { close(c) })
	return c, nil
}

func (f fleetKube) Patch(_ context.Context, p rollout.NodePatch) (capacity.Node, error) {
	f.call("patch " + p.Name)
	vm, _ := f.VM(f.find(p.Name).id)
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.find(p.Name)
	m.off = m.off || vm.State == standin.VMStopped
	if p.ResourceVersion != m.node.ResourceVersion {
		return capacity.Node{}, rollout.ErrConflict
	}
	if p.Claim != nil {
		m.node.Claim = *p.Claim
	}
	if p.Unschedulable != nil {
		m.node.Unschedulable, m.node.UnschedulableBy = *p.Unschedulable, rollout.FieldManager
	}
	f.touch(m)
	return m.node, nil
}

func (f fleetKube) Record(_ context.Context, e rollout.NodeEvent) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, e.Message)
	return nil
}

func (l fleetLock) Acquire(_ context.Context, s rollout.LeaseState) (rollout.Tenure, error) {
	l.call("acquire")
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lease.Held() {
		return rollout.Tenure{}, &rollout.HeldError{Holder: l.lease.Run, State: l.lease.State, Since: l.lease.Since}
	}
	if open := l.lease.State; open.Run != "" && open.Run != s.Continues {
		return rollout.Tenure{}, &rollout.OpenError{State: open}
	}
	l.lease = kube.Holding{Tenure: rollout.Tenure{Run: s.Run, Transitions: l.lease.Transitions + 1}, State: s, Since: time.Now()}
	return l.lease.Tenure, nil
}

func (l fleetLock) Check(_ context.Context, t rollout.Tenure) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lease.Tenure != t {
		return rollout.ErrLost
	}
	return nil
}

func (l fleetLock) Release(_ context.Context, _ rollout.Tenure, finished bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lease.Run = ""
	if finished {
		l.lease.State = rollout.LeaseState{}
	}
	return nil
}

// mend lets a mute kubelet post.
func (f *fleet) mend(i int) {
	m := f.node(i)
	m.mute = false
	m.post()
	f.touch(m)
}

// boot starts the machine with this hardware, all of it online, and with it another kubelet.
func (m *node) boot(cpus, mib int) {
	m.booted, m.starts = time.Now(), m.starts+1
	g := &m.guest
	g.BootID, g.CPUsOnline, g.CPUsPresent, g.BlocksOnline, g.BlocksOffline = g.BootID+"'", cpus, cpus, mib/blockMiB, 0
	g.Kubelet = capacity.Unit{ActiveState: "active", SubState: "running", InvocationID: fmt.Sprintf("inv-%d", m.starts), MainPID: 100 + m.starts}
	m.node.BootID = g.BootID
	m.post()
}
