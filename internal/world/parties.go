package world

import (
	"context"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
)

// What other people and programs do. Each may come at any time.

const somebody = "somebody"

// on runs what somebody does on a machine, under the lock.
func (w *World) on(name, what string, do func(*machine)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	m := w.machine(name)
	w.tell(somebody, "%s %s", what, name)
	do(m)
	m.disturb()
	w.check()
}

// onNode is on for what needs the Node.
func (w *World) onNode(name, what string, do func(*machine)) {
	w.on(name, what, func(m *machine) {
		if m.node != nil {
			do(m)
			if m.node != nil {
				m.node.changed(w)
			}
		}
	})
}

func (m *machine) cordon() {
	if !m.node.Unschedulable { // else nothing is written, and the cordon stays whose it is
		m.node.setUnschedulable(true, "kubectl-cordon")
		m.ledger.cordon = m.node.UnschedulableBy
	}
}

func (m *machine) uncordon() {
	m.node.setUnschedulable(false, "")
	m.ledger.cordon, m.ledger.lifted = "", true
}

// Cordon is `kubectl cordon`: nothing is written where the node is cordoned already.
func (w *World) Cordon(name string) { w.onNode(name, "cordons", (*machine).cordon) }

// Uncordon is `kubectl uncordon`.
func (w *World) Uncordon(name string) { w.onNode(name, "uncordons", (*machine).uncordon) }

// Recordon uncordons and cordons: the cordon is theirs then.
func (w *World) Recordon(name string) {
	w.onNode(name, "uncordons and cordons", func(m *machine) { m.uncordon(); m.cordon() })
}

// Mark writes the mark of another tool, Unmark removes all marks.
func (w *World) Mark(name string, mark capacity.Mark) {
	w.onNode(name, mark.Tool+" marks", func(m *machine) { m.node.Marks = []capacity.Mark{mark} })
}

// Unmark removes all marks of other tools.
func (w *World) Unmark(name string) {
	w.onNode(name, "takes the marks off", func(m *machine) { m.node.Marks = nil })
}

// Kured and Autoscaler are marks of tools that are about to work on a node.
func Kured() capacity.Mark {
	return capacity.Mark{Tool: "kured", Key: "weave.works/kured-reboot-in-progress"}
}

// Autoscaler is the taint by which the cluster autoscaler announces a deletion.
func Autoscaler() capacity.Mark {
	return capacity.Mark{Tool: "cluster autoscaler", Key: "ToBeDeletedByClusterAutoscaler"}
}

// DeleteNode is `kubectl delete node`. kubelet registers it anew at its next start.
func (w *World) DeleteNode(name string) {
	w.onNode(name, "deletes the Node", func(m *machine) { m.forget(); m.node, m.ledger.cordon = nil, "" })
}

// forget notes that a claim is about to be destroyed, if there is one.
func (m *machine) forget() { m.ledger.forgotten = m.ledger.forgotten || m.claim() != nil }

// DropClaim removes trueup's annotation, and leaves the cordon: it is nobody's then.
func (w *World) DropClaim(name string) {
	w.on(name, "removes the claim of", func(m *machine) {
		m.forget()
		delete(w.lease.claims, m.id)
		if m.node == nil {
			return
		}
		defer m.node.changed(w)
		m.node.Claim = ""
		if m.ledger.cordon != "" {
			m.ledger.cordon = "nobody"
		}
	})
}

// RestartKubelet is `systemctl restart kubelet` by hand.
func (w *World) RestartKubelet(name string) {
	w.on(name, "restarts kubelet on", func(m *machine) {
		if m.on && m.hasNode() {
			m.startKubelet(false)
		}
	})
}

// Reboot restarts the guest's kernel. Its hardware stays plugged.
func (w *World) Reboot(name string) {
	w.on(name, "reboots", func(m *machine) {
		if m.on {
			m.boot()
		}
	})
}

// StopVM turns the VM off in CloudStack, StartVM on again.
func (w *World) StopVM(name string) {
	id := w.idOf(name)
	_ = w.CloudStack.StopVM(context.Background(), id) // a stopped one stays so
	w.on(name, "stops the instance", func(*machine) {})
}

// StartVM turns the VM on in CloudStack, at the size of its offering.
func (w *World) StartVM(name string) {
	if vm, _ := w.CloudStack.VM(w.idOf(name)); vm.State == standin.VMRunning {
		return
	}
	_ = w.CloudStack.StartVM(context.Background(), w.idOf(name))
	w.on(name, "starts the instance", func(*machine) {})
}

// ScaleElsewhere is CloudStack's own scale of the VM, by an administrator.
func (w *World) ScaleElsewhere(name string) {
	w.on(name, "scales in CloudStack, by hand,", func(*machine) {})
	_, _ = w.CloudStack.ScaleVirtualMachine(context.Background(), strangerAccount, w.idOf(name), w.Big.ID)
}

// Alert puts the cluster's record into the state Alert.
func (w *World) Alert() {
	w.CloudStack.UpdateCluster(w.ClusterID, func(c *standin.Cluster) { c.State = standin.ClusterAlert })
	w.say("the cluster goes to Alert")
}

// RestartManagement restarts CloudStack's management server: its jobs are given up.
func (w *World) RestartManagement(downtime time.Duration) {
	w.say("CloudStack's management server is restarted")
	w.CloudStack.Restart(downtime)
}

// APIDown lets the API server be away for d.
func (w *World) APIDown(d time.Duration) {
	w.say("the API server goes away")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.apiDown = w.clock.Now().Add(d)
}

// SSHDown lets sshd of a guest be away for d.
func (w *World) SSHDown(name string, d time.Duration) {
	w.say("sshd of " + name + " goes away")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.machine(name).sshDown = w.clock.Now().Add(d)
}

// StealLease overwrites the Lease, as a program does that does not know its rules.
func (w *World) StealLease() {
	w.say("somebody takes the Lease away")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lease.holder, w.lease.transitions, w.lease.version = "", w.lease.transitions+1, w.lease.version+1
}

// BreakKubelet lets every later start of kubelet fail, until it is mended.
func (w *World) BreakKubelet(name string, broken bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.machine(name).kubelet.breaks = broken
}

// CapPods keeps kubelet from writing the memory limit of its pods, or lets it again.
func (w *World) CapPods(name string, capped bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.machine(name).kubelet.capped = capped
}

func (w *World) say(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tell(somebody, "%s", what)
}

func (w *World) idOf(name string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.machine(name).id
}
