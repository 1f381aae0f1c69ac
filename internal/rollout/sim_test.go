package rollout

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// How long things take in the simulated cluster: what was measured on a quiet lab, rounded.
const (
	simCall   = 10 * time.Millisecond // one way of a call to anything
	simJob    = 3 * time.Second       // CloudStack's resize job
	simPlug   = 400 * time.Millisecond
	simPost   = 2600 * time.Millisecond // kubelet's start to its first status
	simStatus = 2 * time.Second         // kubelet's status period
	simProbe  = 6 * time.Second         // kubelet's start to the first success of a readiness probe
	simExpiry = 15 * time.Second        // a dead holder's Lease
)

// cluster is a small cluster that behaves: jobs take time, hardware arrives offline, a restarted kubelet posts late and first not
// ready, and every write to a Node must name its present resourceVersion. It runs on the time of a synctest bubble. At every write it
// checks the promises, and keeps what was broken.
type cluster struct {
	mu       sync.Mutex
	machines []*machine
	lease    simLease
	calls    []string // every call to a port, in order
	effects  []string // what really changed, in order
	broken   []string // promises that were broken
	events   []string // Kubernetes Events
	upset    upset
	jobs     int
	jobFails bool // every job ends in failure
	noLists  bool // the account may not list jobs
	closed   bool // no timer starts another one
}

type simLease struct {
	holder      *client // nil if nobody holds it
	transitions int32
	stolen      bool
}

// upset makes one call go wrong: the n-th, or every call whose name starts so.
type upset struct {
	n     int    // 1 is the first call; 0: by name
	name  string // prefix of the calls to upset
	times int    // how many of them; 0: all
	after bool   // after the effect, in place of the reply
	err   error  // errCrash and errHang do what they say
}

var (
	errCrash = fmt.Errorf("the program is killed")
	errHang  = fmt.Errorf("no answer comes")
)

type machine struct {
	*cluster

	instance capacity.Instance
	jobs     []*Job
	guest    capacity.Guest
	booted   time.Time
	node     capacity.Node
	version  int
	watchers []chan struct{}
	autoCPU  bool // a udev rule onlines CPUs

	starts     int    // kubelet's
	found      string // hardware that the present kubelet found at its start
	silent     bool   // kubelet does not post
	slowReady  time.Duration
	refuseDIMM bool // the kernel refuses what is plugged
	slowJob    time.Duration
	disturbed  time.Time // when somebody else did something
	flaps      bool      // a balloon moves all the time
	lockBusy   bool      // another restart runs in the guest, for ever
	forgetJobs bool      // jobs end without effect, and CloudStack forgets them

	pods     []capacity.Pod
	unprobed bool // no probe succeeds any more

	muteAfterRestart, crashes bool // what the next kubelet does
}

// newCluster has one control-plane node and two workers at the small offering.
func newCluster(names ...string) *cluster {
	c := &cluster{}
	for i, name := range names {
		s := untouched().seen
		id := fmt.Sprintf("%08d-0000-0000-0000-000000000000", i+1)
		m := &machine{cluster: c, instance: s.Instance, guest: s.Guest, node: s.Node, booted: time.Now().Add(-1000 * time.Second)}
		m.instance.ID, m.instance.Name, m.guest.ProductUUID, m.guest.MachineID = id, name, id, "machine-"+name
		m.node.Name, m.node.UID, m.node.SystemUUID, m.node.MachineID = name, "uid-"+name, id, "machine-"+name
		m.node.ControlPlane = strings.HasPrefix(name, "c")
		m.node.Ready.Heartbeat = time.Now().Truncate(time.Second)
		m.pods = []capacity.Pod{{UID: "p-" + name, Namespace: "default", Name: "web-" + name, Phase: "Running", Ready: true, Probed: true}}
		m.found = m.hardware()
		m.starts = 1
		c.machines = append(c.machines, m)
		m.heartbeat(m.guest.Kubelet.InvocationID)
	}
	return c
}

func (c *cluster) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}

func (c *cluster) machine(name string) *machine {
	for _, m := range c.machines {
		if m.node.Name == name || m.instance.ID == name {
			return m
		}
	}
	return nil
}

// after runs do, later, under the lock, unless the cluster is closed by then.
func (c *cluster) after(d time.Duration, do func()) {
	time.AfterFunc(d, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.closed {
			do()
		}
	})
}

func (c *cluster) did(format string, args ...any) {
	c.effects = append(c.effects, fmt.Sprintf(format, args...))
}

func (c *cluster) promise(kept bool, format string, args ...any) {
	if !kept {
		c.broken = append(c.broken, fmt.Sprintf(format, args...))
	}
}

func (m *machine) hardware() string {
	return fmt.Sprintf("%d CPUs, %d blocks", m.guest.CPUsOnline, m.guest.BlocksOnline)
}

// changed bumps the Node's version and wakes the watchers.
func (m *machine) changed() {
	m.version++
	m.node.ResourceVersion = fmt.Sprint(m.version)
	for _, w := range m.watchers {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}

// heartbeat posts the status again and again, as long as this kubelet process lives.
func (m *machine) heartbeat(invocation string) {
	m.after(simStatus, func() {
		if m.guest.Kubelet.InvocationID != invocation {
			return
		}
		if !m.silent {
			m.node.Ready.Heartbeat = time.Now().Truncate(time.Second)
			m.changed()
		}
		m.heartbeat(invocation)
	})
}

// startKubelet starts another kubelet process: it reads the hardware now, and posts it later.
func (m *machine) startKubelet() {
	m.starts++
	id := fmt.Sprintf("inv-%d", m.starts)
	m.guest.Kubelet = capacity.Unit{ActiveState: "active", SubState: "running", InvocationID: id, MainPID: 100 + m.starts, Start: time.Since(m.booted)}
	m.found = m.hardware()
	m.guest.KubepodsCPUs, m.guest.KubepodsMemory = m.guest.CPUsOnline, m.guest.MemTotal
	m.silent = m.muteAfterRestart || m.crashes
	if m.crashes {
		m.guest.Kubelet.ActiveState, m.guest.Kubelet.SubState = "activating", "auto-restart"
	}
	m.forgetProbes(id)
	cpus, memory := m.guest.CPUsOnline, m.guest.MemTotal
	m.after(simPost, func() {
		if m.guest.Kubelet.InvocationID != id || m.silent {
			return
		}
		n := &m.node
		n.Capacity = with(n.Capacity, int64(cpus)*1000, memory)
		n.Allocatable = with(n.Allocatable, int64(cpus)*1000-100, memory-100*capacity.MiB)
		n.BootID = m.guest.BootID
		n.Ready = capacity.Condition{Status: "False", Heartbeat: time.Now().Truncate(time.Second), Message: "PLEG is not healthy"}
		m.changed()
		m.heartbeat(id)
		m.after(simStatus+m.slowReady, func() { m.node.Ready.Status, m.node.Ready.Message = "True", ""; m.changed() })
	})
}

// forgetProbes is what a kubelet up to 1.34 does at its start: pods with a readiness probe are not ready until it has succeeded once.
func (m *machine) forgetProbes(invocation string) {
	m.setReady(false)
	m.after(simProbe, func() {
		if m.guest.Kubelet.InvocationID == invocation && !m.unprobed {
			m.setReady(true)
		}
	})
}

func (m *machine) setReady(ready bool) {
	m.pods = slices.Clone(m.pods) // earlier readings keep theirs
	for i := range m.pods {
		if m.pods[i].Probed && !m.pods[i].Finished() {
			m.pods[i].Ready = ready
		}
	}
}

// resize starts the job that gives the instance its offering, and plugs the hardware.
func (m *machine) resize(o capacity.Offering) *Job {
	m.cluster.jobs++
	job := &Job{ID: fmt.Sprintf("job-%d", m.cluster.jobs), Status: JobPending, Created: time.Now().Truncate(time.Second)}
	m.jobs = append(m.jobs, job)
	m.after(simJob+m.slowJob, func() {
		if m.forgetJobs {
			m.jobs = nil
			return
		}
		if m.jobFails {
			job.Status, job.Code, job.Text = JobFailed, 530, "insufficient capacity"
			return
		}
		job.Status = JobSucceeded
		i := &m.instance
		i.OfferingID, i.OfferingName, i.CPUs, i.SpeedMHz, i.MemoryMiB = o.ID, o.Name, o.CPUs, o.SpeedMHz, o.MemoryMiB
		m.after(simPlug, func() { m.plug(o) })
	})
	return job
}

// powerCycle boots the machine anew with all that its instance has; kubelet starts after a while.
func (m *machine) powerCycle() {
	g := &m.guest
	m.refuseDIMM = false
	m.booted, g.BootID = time.Now(), g.BootID+"+"
	g.CPUsOnline, g.CPUsPresent = m.instance.CPUs, m.instance.CPUs
	g.BlocksOnline, g.BlocksOffline = int(m.instance.MemoryMiB*capacity.MiB/g.BlockSize), 0
	g.MemTotal = memSmall + int64(g.BlocksOnline-32)*(g.BlockSize-g.BlockSize/64)
	g.Kubelet = capacity.Unit{ActiveState: "inactive", SubState: "dead"}
	m.after(5*time.Second, m.startKubelet)
}

func (m *machine) plug(o capacity.Offering) {
	g := &m.guest
	g.CPUsPresent = o.CPUs
	if !m.refuseDIMM {
		g.BlocksOffline = int(o.MemoryMiB*capacity.MiB/g.BlockSize) - g.BlocksOnline
	}
	if m.autoCPU {
		g.CPUsOnline = g.CPUsPresent
	}
}

func (m *machine) pending() string {
	for _, j := range m.jobs {
		if j.Status == JobPending {
			return j.ID
		}
	}
	return ""
}

func (m *machine) claim() *Claim {
	claim, err := DecodeClaim(m.node.Claim)
	m.promise(err == nil, "%s: unreadable claim: %v", m.node.Name, err)
	return claim
}

// finished tells whether the three views agree on the offering, looked at from the outside.
func (m *machine) finished(o capacity.Offering) bool {
	g, n := m.guest, m.node
	return m.instance.OfferingID == o.ID && g.CPUsOnline == o.CPUs && g.MemoryOnline() == o.MemoryMiB*capacity.MiB &&
		n.CPUs() == int64(o.CPUs)*1000 && n.Memory() == g.MemTotal && n.Ready.Status == "True" && m.found == m.hardware()
}

// asBefore tells whether nothing of a resize can be seen anywhere.
func (m *machine) asBefore(b Before) bool {
	g := m.guest
	return m.instance.OfferingID == b.Instance.OfferingID && g.CPUsPresent == b.Guest.CPUsPresent && g.MemoryPresent() == b.Guest.MemoryPresent() &&
		m.node.CPUs() == int64(b.Guest.CPUsOnline)*1000 && m.node.Memory() == b.Guest.MemTotal
}

// state is what must be the same at the end, whatever happened on the way.
func (c *cluster) state() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, m := range c.machines {
		n := m.node
		fmt.Fprintf(&b, "%s: %s, %s, Node %s, kubelet started %d times, %d jobs, unschedulable %t by %q, scale-down disabled %t, claimed %t\n",
			n.Name, m.instance.OfferingName, m.hardware(), n.Size(), m.starts, len(m.jobs), n.Unschedulable, n.UnschedulableBy, n.ScaleDownDisabled, n.Claim != "")
	}
	fmt.Fprintf(&b, "lease held %t\n", c.lease.holder != nil)
	return b.String()
}

// members is the cluster as the planner gets it.
func (c *cluster) members() []Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Member
	for _, m := range c.machines {
		seen := Observation{Target: m.target(), Instance: m.instance, ServerTime: time.Now().Truncate(time.Second), Guest: m.reading(), Node: m.node}
		out = append(out, Member{Seen: seen, Claim: m.claim()})
	}
	return out
}

func (m *machine) target() Target {
	role := RoleWorker
	if strings.HasPrefix(m.node.Name, "c") {
		role = RoleControl
	}
	return Target{ClusterID: "c1", ClusterName: "prod", Role: role, Name: m.node.Name, InstanceID: m.instance.ID}
}

func (m *machine) reading() capacity.Guest {
	g := m.guest
	g.Clock, g.Monotonic = time.Now(), time.Since(m.booted)
	if m.flaps && time.Now().UnixMilli()/150%2 == 0 {
		g.MemTotal -= 100 * capacity.MiB
	}
	return g
}

// checkKept fails the test if a promise was broken.
func (c *cluster) checkKept(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.broken {
		t.Errorf("broken: %s", b)
	}
}

// count is how many effects start so.
func (c *cluster) count(prefix string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.effects {
		if strings.HasPrefix(e, prefix) {
			n++
		}
	}
	return n
}

func (c *cluster) effectsDone() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.effects)
}

// now lets somebody else do something at once.
func (c *cluster) now(name string, do func(*machine)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do(c.machine(name))
}

// later lets somebody else do something at a given time from now.
func (c *cluster) later(d time.Duration, name string, do func(*machine)) {
	c.after(d, func() {
		m := c.machine(name)
		m.disturbed = time.Now()
		do(m)
	})
}
