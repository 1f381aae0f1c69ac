package world

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// The accounts of the world's CloudStack.
const (
	ownerAccount    = "owner"    // trueup's
	strangerAccount = "stranger" // an administrator who scales by hand
)

// ClusterName is the name of the world's cluster.
const ClusterName = "prod"

// Config says how a world begins.
type Config struct {
	// Clock defaults to PlainClock.
	Clock Clock
	// Seed decides every duration. The same seed and script give the same story.
	Seed uint64
	// Nodes are the cluster's machines; control-plane nodes have names that begin with "c", dedicated etcd machines such with "e".
	Nodes []NodeConfig
	Pace  Pace
}

// NodeConfig says how one node begins and behaves.
type NodeConfig struct {
	Name string
	// AutoCPU and AutoMemory: the guest brings up by itself what is plugged, as udev rules and kernel defaults of some distributions do.
	AutoCPU, AutoMemory bool
	// PageStructsOnDIMM takes the page structs out of the plugged DIMM itself (memmap_on_memory): MemTotal grows by 1/64 less.
	PageStructsOnDIMM bool
	// StaticPolicy is kubelet's static CPU manager: kubelet does not come back after a growth.
	StaticPolicy bool
	// PostEvery is the period of kubelet's posts; 10 s if zero. kubelet's own default, where nothing changes, is 5 min.
	PostEvery time.Duration
	// Blip lets a started kubelet post Ready=False ("PLEG is not healthy") first, as versions up to 1.30 do.
	Blip bool
	// Devices are extended resources, back only some time after each start of kubelet.
	Devices int64
	// CordonedBy is the field manager of somebody who has cordoned the node before, empty if nobody has.
	CordonedBy string
	// ClockOff is how far the guest's wall clock is off.
	ClockOff time.Duration
}

// Pace is how long things take. Zero values are replaced by what was measured on a quiet lab, rounded.
type Pace struct {
	Call   time.Duration // one way of a call; 10 ms
	Agent  time.Duration // each step of a resize in CloudStack; 1 s
	Plug   time.Duration // from the hypervisor's success until the guest shows the hardware; 400 ms
	Boot   time.Duration // from power on until kubelet starts; 12 s
	Post   time.Duration // from kubelet's start to its first post; 2.6 s
	Blip   time.Duration // from there until Ready=True; 2 s
	Online time.Duration // bringing hardware up; 300 ms
}

func (p *Pace) fillIn() {
	p.Call = cmp.Or(p.Call, 10*time.Millisecond)
	p.Agent = cmp.Or(p.Agent, time.Second)
	p.Plug = cmp.Or(p.Plug, 400*time.Millisecond)
	p.Boot = cmp.Or(p.Boot, 12*time.Second)
	p.Post = cmp.Or(p.Post, 2600*time.Millisecond)
	p.Blip = cmp.Or(p.Blip, 2*time.Second)
	p.Online = cmp.Or(p.Online, 300*time.Millisecond)
}

// World is one simulated cluster with everything around it.
type World struct {
	cfg   Config
	clock Clock
	pace  Pace
	began time.Time

	// CloudStack is the stand-in. Small is the offering of every instance at the start; Big is twice as big, Tiny half as big.
	CloudStack       *standin.Model
	Small, Big, Tiny capacity.Offering
	ClusterID        string

	owner standin.Account

	mu       sync.Mutex
	machines []*machine
	lease    lease
	version  int // of the last write to the API server
	apiDown  time.Time
	unwell   string // what the API server says of its own health; empty if it is well
	upsets   []*Upset
	chance   func(run string, c Call, n int) *Upset
	runs     []*Run
	budgets  map[string]bool // pods, by name, that a disruption budget holds
	broken   []string
	story    []Line
	closed   bool
}

// New returns a world in which every instance has the small offering and every view agrees.
func New(cfg Config) *World {
	if cfg.Clock == nil {
		cfg.Clock = PlainClock{}
	}
	cfg.Pace.fillIn()
	w := &World{cfg: cfg, clock: cfg.Clock, pace: cfg.Pace, began: cfg.Clock.Now()}
	w.CloudStack = standin.New(standin.Config{Clock: cfg.Clock, Hypervisor: hypervisor{w}, Seed: cfg.Seed, AgentStep: cfg.Pace.Agent})
	w.owner = w.CloudStack.AddAccount(standin.Account{Name: ownerAccount})
	w.CloudStack.AddAccount(standin.Account{Name: strangerAccount, Admin: true})
	w.Small = w.offering("small", 2, 4096)
	w.Big = w.offering("big", 4, 8192)
	w.Tiny = w.offering("tiny", 1, 2048)
	w.lease.claims, w.budgets = map[string]string{}, map[string]bool{}
	w.addCluster()
	return w
}

func (w *World) offering(name string, cpus, mib int) capacity.Offering {
	o := w.CloudStack.AddOffering(standin.FixedOffering(name, cpus, mib))
	return capacity.Offering{ID: o.ID, Name: o.Name, CPUs: o.CPUs, SpeedMHz: o.MHz, MemoryMiB: int64(o.MemoryMiB), DynamicScaling: o.DynamicScaling}
}

func (w *World) addCluster() {
	spec := standin.ClusterSpec{Name: ClusterName, Owner: standin.Owner{Account: ownerAccount}, OfferingID: w.Small.ID, KeyPair: "ops"}
	for _, n := range w.cfg.Nodes {
		switch machine := (standin.NodeSpec{Name: n.Name}); roleOf(n.Name) {
		case rollout.RoleControl:
			spec.Control = append(spec.Control, machine)
		case rollout.RoleEtcd:
			spec.Etcd = append(spec.Etcd, machine)
		default:
			spec.Workers = append(spec.Workers, machine)
		}
	}
	cluster := w.CloudStack.AddCluster(spec)
	w.ClusterID = cluster.ID
	ids := map[string]string{}
	for _, n := range cluster.Nodes {
		vm, _ := w.CloudStack.VM(n.VMID)
		ids[vm.Name] = vm.ID
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.cfg.Nodes {
		w.machines = append(w.machines, newMachine(w, n, ids[n.Name]))
	}
}

func roleOf(name string) rollout.Role {
	switch {
	case name != "" && name[0] == 'c':
		return rollout.RoleControl
	case name != "" && name[0] == 'e':
		return rollout.RoleEtcd
	}
	return rollout.RoleWorker
}

// Close stops everything: no timer of the world starts another one, and no call has an effect any more.
func (w *World) Close() {
	w.CloudStack.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, r := range w.runs {
		r.dead = true
	}
}

// after runs do, later, under the lock, unless the world is closed by then.
func (w *World) after(d time.Duration, do func()) {
	w.clock.AfterFunc(d, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.closed {
			do()
			w.check()
		}
	})
}

// At lets something happen d from now.
func (w *World) At(d time.Duration, do func(*World)) {
	w.clock.AfterFunc(d, func() {
		w.mu.Lock()
		closed := w.closed
		w.mu.Unlock()
		if !closed {
			do(w)
		}
	})
}

// Sleep lets d pass.
func (w *World) Sleep(d time.Duration) { <-w.clock.After(d) }

// Script makes calls of the engine go wrong.
func (w *World) Script(upsets ...Upset) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, u := range upsets {
		w.upsets = append(w.upsets, &u)
	}
}

// Chance makes calls go wrong by a rule: it is asked about each call, and about its number of that kind in that run.
func (w *World) Chance(rule func(run string, c Call, n int) *Upset) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.chance = rule
}

// Calm ends all scripted and seeded trouble of calls.
func (w *World) Calm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.upsets, w.chance = nil, nil
}

// machine finds a machine by its name or its instance's id. The lock is held.
func (w *World) machine(name string) *machine {
	for _, m := range w.machines {
		if m.name == name || m.id == name {
			return m
		}
	}
	return nil
}

// apiUp tells whether the API server answers. The lock is held.
func (w *World) apiUp() error {
	if w.clock.Now().Before(w.apiDown) || w.controlPlaneDown() {
		return fmt.Errorf("kube-apiserver: connection refused: %w", rollout.ErrUnreachable)
	}
	return nil
}

// controlPlaneDown tells whether no control-plane node serves: an API server is back as soon as the kubelet of its machine runs. Without any such
// node in the world the API server is elsewhere.
func (w *World) controlPlaneDown() bool {
	there := false
	for _, m := range w.machines {
		if roleOf(m.name) == rollout.RoleControl {
			if m.on && m.serves {
				return false
			}
			there = true
		}
	}
	return there
}

// Members is the cluster as the planner gets it, read behind everybody's back.
func (w *World) Members() []rollout.Member {
	var out []rollout.Member
	w.mu.Lock()
	machines := w.machines
	w.mu.Unlock()
	for _, m := range machines {
		instance := w.instance(m.id)
		w.mu.Lock()
		member := rollout.Member{Seen: rollout.Observation{Target: m.target(), Instance: instance, ServerTime: w.clock.Now().Truncate(time.Second), Guest: m.reading()}}
		member.Claim = m.claim()
		if member.Claim != nil && member.Claim.Cold != nil && m.ssh() != nil {
			member.Seen.Guest = capacity.Guest{}
		}
		if m.node != nil {
			member.Seen.Node = m.node.Node
			member.Seen.Pods = &rollout.PodReading{Pods: m.pods}
		}
		if roleOf(m.name) == rollout.RoleControl {
			member.Seen.Peers = w.peers(m)
		}
		if roleOf(m.name) != rollout.RoleWorker {
			member.Seen.ControlPlane = w.unwell
		}
		w.mu.Unlock()
		out = append(out, member)
	}
	return out
}

// peers are the other control-plane nodes.
func (w *World) peers(m *machine) (out []rollout.Peer) {
	for _, o := range w.machines {
		if o == m || roleOf(o.name) != rollout.RoleControl {
			continue
		}
		p := rollout.Peer{Name: o.name}
		if o.node != nil {
			p.Ready = o.node.Ready
		}
		out = append(out, p)
	}
	return out
}

// instance is the VM as CloudStack lists it.
func (w *World) instance(id string) capacity.Instance {
	vm, _ := w.CloudStack.VM(id)
	i := capacity.Instance{ID: vm.ID, Name: vm.Name, State: string(vm.State), OfferingID: vm.OfferingID, DynamicallyScalable: vm.DynamicallyScalable}
	for _, o := range []capacity.Offering{w.Small, w.Big, w.Tiny} {
		if o.ID == vm.OfferingID {
			i.OfferingName, i.CPUs, i.SpeedMHz, i.MemoryMiB = o.Name, o.CPUs, o.SpeedMHz, o.MemoryMiB
		}
	}
	return i
}

// present is the offering that the instance has.
func (w *World) present(instance string) capacity.Offering {
	i := w.instance(instance)
	return i.Present()
}

// Open is the rollout that hangs on the Lease, nil if none does.
func (w *World) Open() *rollout.LeaseState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lease.state
}

// pendingJob is a job of the account that CloudStack has not finished on the instance, "" if there is none.
func (w *World) pendingJob(instance, account string) string {
	for _, j := range w.CloudStack.Jobs() {
		if j.InstanceID == instance && (account == "" || j.Account == account) && j.Status == standin.JobPending && !j.Unreported {
			return j.ID
		}
	}
	return ""
}

// resizes is how many resize jobs of the engine CloudStack has accepted for the instance.
func (w *World) resizes(instance string) (n int) {
	for _, j := range w.CloudStack.Jobs() {
		if j.InstanceID == instance && j.Account == ownerAccount {
			n++
		}
	}
	return n
}
