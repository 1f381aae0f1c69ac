package cluster

import (
	"context"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/lab/guest"
)

// TestPower stops and starts single machines through CloudStack, as the cold method does: a guest ends in good order, keeps its disk and who it is, and
// boots with what the record says by then.
func TestPower(t *testing.T) {
	l, err := Up(t.Context(), Options{Dir: t.TempDir() + "/lab", Workers: 1, Progress: testWriter{t}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Down(context.Background()); err != nil {
			t.Error(err)
		}
	})
	node := l.Nodes[1]
	t.Run("an unprepared machine is prepared by a stop and a start", func(t *testing.T) { testPrepared(t, l, node) })
	t.Run("a stopped machine starts smaller", func(t *testing.T) { testShrunk(t, l, node) })
}

func testPrepared(t *testing.T, l *Lab, node *Node) {
	if err := l.Unprepare(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	expectHardware(t, node, guest.Hardware{MemoryMiB: 2048, MaxMemoryMiB: 2048, VCPUs: 2, MaxVCPUs: 2})
	if slots := run(t, node, "ls -d /sys/bus/acpi/devices/PNP0C80:* 2>/dev/null | wc -l"); slots != "0" {
		t.Errorf("memory slots that the guest sees: %s, want none", slots)
	}
	if job := endOf(t, l, "scaleVirtualMachine", node, "medium"); job.Status != standin.JobFailed {
		t.Errorf("live scale of an unprepared machine: %+v, want a failure", job)
	}
	l.turn(t, node, "stopVirtualMachine")
	l.turn(t, node, "startVirtualMachine")
	expectHardware(t, node, guest.Hardware{MemoryMiB: 2048, MaxMemoryMiB: maxMemoryMiB, VCPUs: 2, MaxVCPUs: maxVCPUs, MaxDIMMs: dimmSlots})
	if job := endOf(t, l, "scaleVirtualMachine", node, "large"); job.Status != standin.JobSucceeded {
		t.Errorf("live scale of a prepared machine: %+v", job)
	}
	expectHardware(t, node, guest.Hardware{MemoryMiB: 4096, MaxMemoryMiB: maxMemoryMiB, VCPUs: 4, MaxVCPUs: maxVCPUs, DIMMs: 1, MaxDIMMs: dimmSlots})
}

// self is what a machine is to others. The host key is compared at each connection.
type self struct{ UUID, MachineID, Address, NodeUID, SystemUUID, NodeMachineID, Marker, Boot string }

func (l *Lab) self(t *testing.T, node *Node) self {
	t.Helper()
	object, err := l.Kube.CoreV1().Nodes().Get(t.Context(), node.Name(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	info := object.Status.NodeInfo
	return self{
		UUID: run(t, node, "cat /sys/class/dmi/id/product_uuid"), MachineID: run(t, node, "cat /etc/machine-id"),
		Address: object.Status.Addresses[0].Address, NodeUID: string(object.UID), SystemUUID: info.SystemUUID, NodeMachineID: info.MachineID,
		Marker: run(t, node, "cat /var/lib/marker"), Boot: info.BootID,
	}
}

// ended is what the kernel says last when a guest was shut down and not cut off.
var ended = regexp.MustCompile(`reboot: Power down|System Power Off|Powering Off`)

func testShrunk(t *testing.T, l *Lab, node *Node) {
	run(t, node, "echo on its own disk > /var/lib/marker")
	was, port := l.self(t, node), node.SSHPort()
	l.turn(t, node, "stopVirtualMachine")
	select {
	case <-node.Process.Done():
	default:
		t.Error("the guest still runs after the stop")
	}
	if end := node.LastWords(); !ended.MatchString(end) {
		t.Errorf("the guest did not end in good order; the end of its console:\n%s", end)
	}
	if job := endOf(t, l, "scaleVirtualMachine", node, "small"); job.Status != standin.JobSucceeded {
		t.Fatalf("shrink of a stopped machine: %+v", job)
	}
	l.turn(t, node, "startVirtualMachine")
	expectHardware(t, node, guest.Hardware{MemoryMiB: 2048, MaxMemoryMiB: maxMemoryMiB, VCPUs: 2, MaxVCPUs: maxVCPUs, MaxDIMMs: dimmSlots})
	is := l.self(t, node)
	if is.Boot == was.Boot {
		t.Errorf("still boot %s", is.Boot)
	}
	if is.Boot = was.Boot; node.SSHPort() != port || l.Cloud.Model.Rules(node.VMID())[0].PublicPort != port {
		t.Errorf("SSH port %d, in CloudStack %+v, want %d as before", node.SSHPort(), l.Cloud.Model.Rules(node.VMID()), port)
	}
	if diff := cmp.Diff(was, is); diff != "" {
		t.Errorf("who it is (-before +after):\n%s", diff)
	}
	object, err := l.Kube.CoreV1().Nodes().Get(t.Context(), node.Name(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cpus, memory := object.Status.Capacity.Cpu().Value(), object.Status.Capacity.Memory().Value()>>20
	if cpus != 2 || memory < 1800 || memory > 2048 {
		t.Errorf("the Node has %d CPUs and %d MiB, want 2 and a little less than 2048", cpus, memory)
	}
}

// turn stops or starts the machine by an asynchronous job of CloudStack, and after a start waits for its Node.
func (l *Lab) turn(t *testing.T, node *Node, command string) {
	t.Helper()
	if job := endOf(t, l, command, node, ""); job.Status != standin.JobSucceeded {
		t.Fatalf("%s: %+v", command, job)
	}
	if command == "startVirtualMachine" {
		if err := l.WaitBooted(t.Context(), node); err != nil {
			t.Fatal(err)
		}
	}
}

// endOf asks CloudStack for a change of the machine, of its size if an offering is given, and returns the job once it has ended.
func endOf(t *testing.T, l *Lab, command string, node *Node, offering string) standin.Job {
	t.Helper()
	params := map[string]string{"id": node.VMID()}
	if offering != "" {
		params["serviceofferingid"] = l.Cloud.Offerings[offering].ID
	}
	var started struct {
		JobID string `json:"jobid"`
	}
	if err := l.Cloud.Model.Call(t.Context(), l.Cloud.Account.Name, command, params, &started); err != nil {
		t.Fatal(err)
	}
	return waitEnd(t, l.Cloud.Model, started.JobID)
}
