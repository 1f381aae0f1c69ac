package world

import (
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// How a kubelet that can't start behaves (kubeadm's unit has RestartSec=10), and when the node lifecycle controller gives it up.
const (
	crashAfter   = 800 * time.Millisecond
	restartAfter = 10 * time.Second
	unknownAfter = 40 * time.Second
	devicesAfter = 3 * time.Second
)

// deviceName is the extended resource of nodes that have devices.
const deviceName = "vendor.example/gpu"

// kubelet is the process, and what it read at its start.
type kubelet struct {
	life       int // number of the process; each start is another one
	running    bool
	cpus       int    // found at the start
	memory     int64  // MemTotal found at the start
	found      string // the same for people
	checkpoint string // hardware of the static policies' state file
	posts      bool   // its status is in the Node
	breaks     bool   // it can't start, for a reason of its own
	slow       time.Duration
	silent     bool   // it runs and does not post
	capped     bool   // it can't write the memory limit of its pods
	rejects    string // why it rejects its pods at its next starts; empty if it takes them
	unprobed   bool   // no readiness probe succeeds any more
}

// startProcess starts another kubelet process: the hardware is read now, at its exec, and never again.
func (m *machine) startProcess(restarts int) {
	k := &m.kubelet
	k.life++
	k.running, k.posts = true, false
	k.cpus, k.memory, k.found = m.guest.CPUsOnline, m.memTotal(), m.hardware()
	m.guest.Kubelet = capacity.Unit{ActiveState: "active", SubState: "running", MainPID: 1000 + k.life, Start: m.uptime(), Restarts: restarts,
		InvocationID: fmt.Sprintf("%032x", m.w.hash("invocation", m.name, k.life))}
}

// stopProcess ends the kubelet process. After a while the node lifecycle controller gives the Node up.
func (m *machine) stopProcess() {
	k := &m.kubelet
	k.life++
	k.running, k.posts = false, false
	m.guest.Kubelet.ActiveState, m.guest.Kubelet.SubState, m.guest.Kubelet.MainPID = "inactive", "dead", 0
	m.giveUpLater()
}

// giveUpLater posts Ready=Unknown in kubelet's place, unless it posts itself by then.
func (m *machine) giveUpLater() {
	m.w.after(unknownAfter, func() {
		if m.node != nil && !m.kubelet.posts && m.node.Ready.Status != "Unknown" {
			m.node.Ready.Status, m.node.Ready.Reason, m.node.Ready.Message = "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status."
			m.node.changed(m.w)
		}
	})
}

// startKubelet starts the process, and all that follows from it.
func (m *machine) startKubelet(automatic bool) {
	restarts := 0
	if automatic {
		restarts = m.guest.Kubelet.Restarts + 1
	}
	m.startProcess(restarts)
	m.giveUpLater()
	life := m.kubelet.life
	if m.kubelet.breaks || m.cfg.StaticPolicy && m.kubelet.found != m.kubelet.checkpoint {
		if restarts == 0 {
			m.w.tell(m.name, "kubelet starts and exits again and again: it can't start its container manager")
		}
		m.w.after(crashAfter, func() { m.crash(life) })
		return
	}
	m.w.tell(m.name, "kubelet starts, and finds %s", m.kubelet.found)
	m.serves = true
	m.w.after(m.w.jitter(m.w.pace.Post, "post", m.name, life)+m.kubelet.slow, func() { m.firstPost(life) })
}

func (m *machine) crash(life int) {
	if m.kubelet.life != life {
		return
	}
	m.kubelet.running = false
	m.guest.Kubelet.ActiveState, m.guest.Kubelet.SubState, m.guest.Kubelet.MainPID = "activating", "auto-restart", 0
	m.w.after(restartAfter, func() {
		if m.kubelet.life == life && m.on {
			m.startKubelet(true)
		}
	})
}

// firstPost registers the Node if it is gone, and posts what kubelet found at its start.
func (m *machine) firstPost(life int) {
	switch {
	case m.kubelet.life != life, m.kubelet.silent:
		return
	case m.w.apiUp() != nil:
		m.w.after(time.Second, func() { m.firstPost(life) })
		return
	case m.node == nil:
		m.w.tell(m.name, "kubelet registers its Node anew")
	}
	m.guest.KubepodsCPUs = m.kubelet.cpus
	m.limitPods(life)
	m.admitPods(life)
	m.register()
	if m.cfg.Devices > 0 {
		m.setDevices(0)
		m.w.after(m.w.jitter(devicesAfter, "devices", m.name, life), func() {
			if m.kubelet.life == life && m.node != nil {
				m.setDevices(m.cfg.Devices)
			}
		})
	}
	if !m.cfg.Blip {
		m.status("True", "")
		m.postLater(life)
		return
	}
	m.status("False", "PLEG is not healthy")
	m.w.after(m.w.jitter(m.w.pace.Blip, "blip", m.name, life), func() {
		if m.kubelet.life == life && m.node != nil {
			m.status("True", "")
			m.postLater(life)
		}
	})
}

// limitPods writes the memory limit of all pods. kubelet tries again every minute.
func (m *machine) limitPods(life int) {
	switch {
	case m.kubelet.life != life:
	case m.kubelet.capped:
		m.w.after(time.Minute, func() { m.limitPods(life) })
	default:
		m.guest.KubepodsMemory = m.kubelet.memory
	}
}

// register writes capacity and allocatable into the Node, and makes the Node if there is none.
func (m *machine) register() {
	if m.node == nil {
		m.node = &node{Node: capacity.Node{Name: m.name, UID: m.w.uid(m.name), SystemUUID: m.id, MachineID: m.guest.MachineID, ControlPlane: m.name[0] == 'c'}}
		m.ledger.cordon = ""
	}
	n := m.node
	n.BootID = m.guest.BootID
	n.Capacity = capacity.Whole(m.kubelet.cpus, m.kubelet.memory)
	n.Allocatable = capacity.Whole(m.kubelet.cpus, m.kubelet.memory-100*capacity.MiB)
	n.Allocatable["cpu"] = *resource.NewMilliQuantity(int64(m.kubelet.cpus)*1000-100, resource.DecimalSI)
}

func (m *machine) setDevices(count int64) {
	q := *resource.NewQuantity(count, resource.DecimalSI)
	m.node.Capacity[deviceName], m.node.Allocatable[deviceName] = q, q
	m.node.Capacity, m.node.Allocatable = clone(m.node.Capacity), clone(m.node.Allocatable) // earlier readings keep theirs
	m.node.changed(m.w)
}

func clone(r capacity.Resources) capacity.Resources {
	return maps.Clone(r)
}

// status posts the Ready condition with a heartbeat, which is cut to the second.
func (m *machine) status(ready, message string) {
	if m.w.clock.Now().After(m.w.began) {
		m.w.tell(m.name, "kubelet posts Ready=%s with %s", ready, m.node.Size())
	}
	m.kubelet.posts = true
	m.node.Ready = capacity.Condition{Status: ready, Heartbeat: m.now().Truncate(time.Second), Reason: "KubeletReady", Message: message}
	if ready != "True" {
		m.node.Ready.Reason = "KubeletNotReady"
	}
	m.node.changed(m.w)
}

// postLater posts again and again, as long as this process lives.
func (m *machine) postLater(life int) {
	period := m.cfg.PostEvery
	if period == 0 {
		period = 10 * time.Second
	}
	m.w.after(m.w.jitter(period, "period", m.name, life, m.w.clock.Now().UnixNano()), func() {
		if m.kubelet.life != life {
			return
		}
		if m.node != nil && m.w.apiUp() == nil && !m.kubelet.silent {
			m.node.Ready.Heartbeat = m.now().Truncate(time.Second)
			m.kubelet.posts = true
			m.node.Ready.Status, m.node.Ready.Message = "True", ""
			m.node.changed(m.w)
		}
		m.postLater(life)
	})
}
