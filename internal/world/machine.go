package world

import (
	"context"
	"fmt"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// Sizes and limits of a guest, as on CloudStack's KVM guests with default settings.
const (
	blockSize = 128 * capacity.MiB // of x86 guests with less than 64 GiB at boot
	mostCPUs  = 32
	mostMiB   = 64 << 10
)

// machine is one VM below CloudStack: its hardware, its kernel, its kubelet and its Node.
type machine struct {
	w    *World
	cfg  NodeConfig
	name string
	id   string

	on       bool
	booted   time.Time
	boots    int
	domain   standin.Domain
	guest    capacity.Guest
	bootMiB  int64 // present at boot; the rest of the memory was plugged
	poisoned bool  // the kernel has refused a DIMM, and refuses every later one until a power cycle
	sshDown  time.Time
	scripts  int // restart scripts that hold the guest-wide lock

	kubelet kubelet
	pods    []capacity.Pod
	serves  bool  // its API server runs, on a control-plane node: from the first start of kubelet in a boot
	hadPods bool  // a kubelet of this boot has admitted them: a boot starts every container anew
	node    *node // nil once it was deleted, and on etcd machines
	etcd    etcd  // on etcd machines
	ledger  ledger
}

func newMachine(w *World, cfg NodeConfig, id string) *machine {
	m := &machine{w: w, cfg: cfg, name: cfg.Name, id: id}
	m.guest = capacity.Guest{ProductUUID: id, MachineID: fmt.Sprintf("%032x", w.hash("machine", cfg.Name)), BlockSize: blockSize, CPUsPossible: mostCPUs}
	m.ledger.restarts = map[string]int{}
	m.powerOn(standin.Boot{MemoryMiB: int(w.Small.MemoryMiB), VCPUs: w.Small.CPUs, Scalable: true})
	// The cluster has been up for a while.
	m.booted = w.clock.Now().Add(-1000 * time.Second)
	if !m.hasNode() {
		m.guest.Kubelet = capacity.Unit{ActiveState: "inactive", SubState: "dead"}
		m.startEtcd()
		m.ledger.disturbed = time.Time{}
		return m
	}
	m.startProcess(0)
	m.guest.Kubelet.Start = 900 * time.Second
	m.kubelet.checkpoint = m.hardware()
	m.register()
	m.guest.KubepodsCPUs, m.guest.KubepodsMemory, m.guest.CgroupVersion = m.guest.CPUsOnline, m.memTotal(), 2
	m.addPods()
	m.status("True", "")
	if m.cfg.Devices > 0 {
		m.setDevices(m.cfg.Devices)
	}
	if cfg.CordonedBy != "" {
		m.node.Unschedulable, m.node.UnschedulableBy = true, cfg.CordonedBy
		m.ledger.cordon = cfg.CordonedBy
	}
	m.ledger.disturbed = time.Time{}
	m.postLater(m.kubelet.life)
	return m
}

func (m *machine) target() rollout.Target {
	return rollout.Target{ClusterID: m.w.ClusterID, ClusterName: ClusterName, Role: roleOf(m.name), Name: m.name, InstanceID: m.id}
}

func (m *machine) uptime() time.Duration { return m.w.clock.Now().Sub(m.booted) }

// now is the guest's own wall clock.
func (m *machine) now() time.Time { return m.w.clock.Now().Add(m.cfg.ClockOff) }

// reading is what a probe of the guest shows.
func (m *machine) reading() capacity.Guest {
	g := m.guest
	g.Clock, g.Monotonic = m.now(), m.uptime()
	g.MemTotal = m.memTotal()
	if !m.hasNode() {
		g.Etcd = m.etcdReading()
	}
	if m.cfg.StaticPolicy {
		g.CPUManagerPolicy = "static"
	}
	return g
}

// hardware says what the guest has online.
func (m *machine) hardware() string {
	return fmt.Sprintf("%d CPUs, %d MiB", m.guest.CPUsOnline, m.guest.MemoryOnline()/capacity.MiB)
}

// memTotal is MemTotal: what was there at boot less page structs, kernel and swiotlb (measured on Debian 12, 4 GiB: 173284 kB of
// 4194304), and what was plugged since in full.
func (m *machine) memTotal() int64 {
	boot := m.bootMiB * capacity.MiB
	plugged := m.guest.MemoryOnline() - boot
	if m.cfg.PageStructsOnDIMM {
		plugged -= plugged / 64
	}
	return boot - boot/64 - 107748<<10 + plugged
}

// powerOn boots the machine with a new domain.
func (m *machine) powerOn(boot standin.Boot) {
	m.domain = boot.Domain(mostMiB, mostCPUs)
	m.poisoned = false
	m.boot()
}

// boot starts the kernel: all hardware that is there is online from the start.
func (m *machine) boot() {
	m.boots++
	m.on, m.booted = true, m.w.clock.Now()
	g := &m.guest
	g.BootID = fmt.Sprintf("%032x", m.w.hash("boot", m.name, m.boots))
	g.CPUsOnline, g.CPUsPresent = m.domain.VCPUs, m.domain.VCPUs
	g.BlocksOnline, g.BlocksOffline = m.domain.MemoryMiB/int(blockSize/capacity.MiB), 0
	m.bootMiB = int64(m.domain.MemoryMiB)
	m.scripts, m.hadPods, m.serves = 0, m.boots == 1, m.boots == 1
	m.disturb()
	if m.boots > 1 {
		m.stopServices()
		g.Kubelet.Start, g.Kubelet.InvocationID = 0, "" // nothing has run yet in this boot
		boot := m.boots
		m.sshDown = m.w.clock.Now().Add(m.w.jitter(m.w.pace.Boot/2, "sshd", m.name, boot))
		m.w.after(m.w.jitter(m.w.pace.Boot, "boot", m.name, boot), func() {
			switch {
			case !m.on || m.boots != boot:
			case m.hasNode():
				m.startKubelet(false)
			default:
				m.startEtcd()
				m.disturb()
			}
		})
	}
}

// powerOff ends everything that runs on the machine.
func (m *machine) powerOff() {
	m.on = false
	m.boots++
	m.eachPod(func(p *capacity.Pod) { p.Ready = false }) // the node lifecycle controller says so, some time later
	m.stopServices()
	m.disturb()
}

func (m *machine) stopServices() {
	if m.hasNode() {
		m.stopProcess()
		return
	}
	m.stopEtcd()
}

// disturb notes that the machine changed for a reason that is not the engine's.
func (m *machine) disturb() { m.ledger.disturbed = m.w.clock.Now() }

// plugged makes hardware appear in the guest, some time after the hypervisor said that it is there.
func (m *machine) plugged() {
	boot := m.boots
	m.w.after(m.w.jitter(m.w.pace.Plug, "plug", m.name, m.boots, m.domain), func() {
		if m.on && m.boots == boot {
			m.appear()
		}
	})
}

func (m *machine) appear() {
	g := &m.guest
	before := fmt.Sprint(g.CPUsPresent, g.BlocksOnline, g.BlocksOffline)
	g.CPUsPresent = max(g.CPUsPresent, min(m.domain.VCPUs, g.CPUsPossible))
	if !m.poisoned {
		g.BlocksOffline = m.domain.MemoryMiB/int(blockSize/capacity.MiB) - g.BlocksOnline
	}
	if m.cfg.AutoCPU {
		g.CPUsOnline = g.CPUsPresent
	}
	if m.cfg.AutoMemory {
		g.BlocksOnline, g.BlocksOffline = g.BlocksOnline+g.BlocksOffline, 0
	}
	if before != fmt.Sprint(g.CPUsPresent, g.BlocksOnline, g.BlocksOffline) {
		m.w.tell(m.name, "the kernel sees %d CPUs, %d of them online, and %d memory blocks, %d of them online",
			g.CPUsPresent, g.CPUsOnline, g.BlocksOnline+g.BlocksOffline, g.BlocksOnline)
	}
}

// bringUp is what a udev rule or the engine's script does.
func (m *machine) bringUp() {
	g := &m.guest
	g.CPUsOnline = g.CPUsPresent
	g.BlocksOnline, g.BlocksOffline = g.BlocksOnline+g.BlocksOffline, 0
}

// complete tells whether the guest has everything that the offering gives online.
func (m *machine) complete(o capacity.Offering) bool {
	return m.guest.CPUsOnline == o.CPUs && m.guest.MemoryOnline() == o.MemoryMiB*capacity.MiB
}

// hypervisor lets the stand-in's agent work on the machines.
type hypervisor struct{ w *World }

var (
	_ standin.Hypervisor  = hypervisor{}
	_ standin.PowerSwitch = hypervisor{}
)

// with runs do on a machine that runs, under the lock.
func (h hypervisor) with(vmID string, do func(*machine) error) error {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	m := h.w.machine(vmID)
	if m == nil || !m.on {
		return fmt.Errorf("domain %s: not running on this hypervisor", vmID)
	}
	return do(m)
}

// Domain implements standin.Hypervisor.
func (h hypervisor) Domain(_ context.Context, vmID string) (d standin.Domain, err error) {
	err = h.with(vmID, func(m *machine) error { d = m.domain; return nil })
	return d, err
}

// PlugMemory implements standin.Hypervisor. A DIMM that is no multiple of the guest's memory block is plugged here, and refused there.
func (h hypervisor) PlugMemory(_ context.Context, vmID string, mib int) error {
	return h.with(vmID, func(m *machine) error {
		d := &m.domain
		if d.DIMMs >= d.MaxDIMMs || d.MemoryMiB+mib > d.MaxMemoryMiB {
			return fmt.Errorf("domain %s: no room for %d MiB more", vmID, mib)
		}
		d.MemoryMiB, d.DIMMs = d.MemoryMiB+mib, d.DIMMs+1
		m.poisoned = m.poisoned || int64(mib)*capacity.MiB%blockSize != 0
		h.w.tell(m.name, "the hypervisor plugs %d MiB", mib)
		m.plugged()
		return nil
	})
}

// SetVCPUs implements standin.Hypervisor.
func (h hypervisor) SetVCPUs(_ context.Context, vmID string, count int) error {
	return h.with(vmID, func(m *machine) error {
		if count > m.domain.MaxVCPUs {
			return fmt.Errorf("domain %s: %d vCPUs exceed the maximum of %d", vmID, count, m.domain.MaxVCPUs)
		}
		m.domain.VCPUs = max(m.domain.VCPUs, count)
		h.w.tell(m.name, "the hypervisor raises the CPUs to %d", count)
		m.plugged()
		return nil
	})
}

// Start implements standin.PowerSwitch.
func (h hypervisor) Start(_ context.Context, vmID string, boot standin.Boot) error {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	if m := h.w.machine(vmID); m != nil {
		m.powerOn(boot)
	}
	return nil
}

// Stop implements standin.PowerSwitch.
func (h hypervisor) Stop(_ context.Context, vmID string) error {
	return h.with(vmID, func(m *machine) error { m.powerOff(); return nil })
}
