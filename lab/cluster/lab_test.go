package cluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/lab/guest"
	"github.com/cks-trueup/trueup/lab/process"
)

// TestLab brings one lab up, asks everything of it that other tests rely on, and takes it down.
func TestLab(t *testing.T) {
	ctx := t.Context()
	dir := filepath.Join(t.TempDir(), "lab")
	l, err := Up(ctx, Options{Dir: dir, Workers: 1, Pods: 2, Progress: testWriter{t}})
	if err != nil {
		t.Fatal(err)
	}
	down := false
	t.Cleanup(func() {
		if !down {
			_ = l.Down(context.Background()) // the test has failed already; only the guests matter
		}
	})

	t.Run("guests differ", func(t *testing.T) { testGuestsDiffer(t, l) })
	t.Run("one id everywhere", func(t *testing.T) { testOneID(t, l) })
	t.Run("known hosts by VM id", func(t *testing.T) { testKnownHosts(t, l) })
	t.Run("kubelet was started once", func(t *testing.T) { testKubeletStarts(t, l) })
	t.Run("folder is in use", func(t *testing.T) {
		if _, err := Up(ctx, l.Options); !isInUse(err) {
			t.Errorf("a second lab in the same folder: got %v, want an InUseError", err)
		}
	})
	t.Run("plugged hardware arrives offline", func(t *testing.T) { testArrivesOffline(t, l.Nodes[1]) })
	t.Run("odd DIMM is accepted outside and refused inside", func(t *testing.T) { testOddDIMM(t, l.Nodes[1]) })
	t.Run("vCPUs are never lowered", func(t *testing.T) { testNeverLower(t, l.Nodes[1]) })
	t.Run("CloudStack scales the guest", func(t *testing.T) { testCloudScales(t, l) })

	down = true
	port := l.Plane.Port()
	if err := l.Down(ctx); err != nil {
		t.Fatalf("down: %v", err)
	}
	testNothingLeft(t, dir, port)
}

func testGuestsDiffer(t *testing.T, l *Lab) {
	for what, command := range map[string]string{
		"DMI UUID":     "sudo cat /sys/class/dmi/id/product_uuid",
		"machine-id":   "cat /etc/machine-id",
		"boot id":      "cat /proc/sys/kernel/random/boot_id",
		"SSH host key": "cat /etc/ssh/ssh_host_*_key.pub",
	} {
		seen := map[string]string{}
		for _, node := range l.Nodes {
			value := run(t, node, command)
			if other, taken := seen[value]; taken || value == "" {
				t.Errorf("%s of %s and %s: both %q, want them to differ", what, node.Name(), other, value)
			}
			seen[value] = node.Name()
		}
	}
}

func testOneID(t *testing.T, l *Lab) {
	for _, node := range l.Nodes {
		object, err := l.Kube.CoreV1().Nodes().Get(t.Context(), node.Name(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		vm, _ := l.Cloud.Model.VM(node.VMID())
		got := []string{run(t, node, "sudo cat /sys/class/dmi/id/product_uuid"), object.Status.NodeInfo.SystemUUID, vm.ID}
		if diff := cmp.Diff([]string{node.VMID(), node.VMID(), node.VMID()}, got); diff != "" {
			t.Errorf("%s: DMI, Node and CloudStack against the VM id (-want +got):\n%s", node.Name(), diff)
		}
		if got := object.Status.NodeInfo.MachineID; got != node.Identity().MachineID {
			t.Errorf("%s: Node's machine-id %s, want %s", node.Name(), got, node.Identity().MachineID)
		}
	}
}

func testKnownHosts(t *testing.T, l *Lab) {
	rest, err := os.ReadFile(l.KnownHostsPath())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for len(rest) > 0 {
		var hosts []string
		var key ssh.PublicKey
		if _, hosts, key, _, rest, err = ssh.ParseKnownHosts(rest); err != nil {
			t.Fatal(err)
		}
		got[strings.Join(hosts, ",")] = strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
	}
	want := map[string]string{}
	for _, node := range l.Nodes {
		want[node.VMID()] = run(t, node, "cut -d' ' -f1,2 /etc/ssh/ssh_host_ed25519_key.pub")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("known_hosts against the guests' keys (-want +got):\n%s", diff)
	}
}

func testKubeletStarts(t *testing.T, l *Lab) {
	for _, node := range l.Nodes {
		starts, err := node.UnitStarts(t.Context(), "kubelet.service")
		if err != nil {
			t.Fatal(err)
		}
		want := []string{run(t, node, "systemctl show --property=InvocationID --value kubelet")}
		if diff := cmp.Diff(want, starts); diff != "" {
			t.Errorf("%s: starts of kubelet in the journal (-want +got):\n%s", node.Name(), diff)
		}
	}
}

// waitInGuest waits inside the guest until a shell condition holds, then until udev has no more events to handle.
func waitInGuest(t *testing.T, node *Node, condition string) {
	t.Helper()
	run(t, node, fmt.Sprintf("timeout 60 sh -c 'until %s; do sleep 0.1; done' && sudo udevadm settle", condition))
}

const countOffline = "grep -lx offline /sys/devices/system/memory/memory*/state | wc -l"

func testArrivesOffline(t *testing.T, node *Node) {
	ctx := t.Context()
	before := run(t, node, "grep MemTotal /proc/meminfo")
	if err := node.SetVCPUs(ctx, 4); err != nil {
		t.Fatal(err)
	}
	if err := node.PlugMemory(ctx, 1024); err != nil {
		t.Fatal(err)
	}
	waitInGuest(t, node, "grep -qx 0-3 /sys/devices/system/cpu/present")
	waitInGuest(t, node, "[ $("+countOffline+") -ge 8 ]")
	for _, check := range []struct{ what, command, want string }{
		{"CPUs online", "cat /sys/devices/system/cpu/online", "0-1"},
		{"memory blocks offline (1024 MiB in blocks of 128 MiB)", countOffline, "8"},
		{"MemTotal", "grep MemTotal /proc/meminfo", before},
	} {
		if got := run(t, node, check.command); got != check.want {
			t.Errorf("%s: %q, want %q", check.what, got, check.want)
		}
	}
	want := guest.Hardware{MemoryMiB: 3072, MaxMemoryMiB: maxMemoryMiB, VCPUs: 4, MaxVCPUs: maxVCPUs, DIMMs: 1, MaxDIMMs: dimmSlots}
	expectHardware(t, node, want)
}

func testOddDIMM(t *testing.T, node *Node) {
	before := run(t, node, "ls -d /sys/devices/system/memory/memory* | wc -l")
	if err := node.PlugMemory(t.Context(), 1000); err != nil {
		t.Fatalf("QEMU takes a DIMM of any size: %v", err)
	}
	waitInGuest(t, node, `sudo dmesg | grep -q "acpi_memory_enable_device() error"`)
	if after := run(t, node, "ls -d /sys/devices/system/memory/memory* | wc -l"); after != before {
		t.Errorf("memory blocks: %s before and %s after a DIMM that is not a multiple of the block size, want no new ones", before, after)
	}
	expectHardware(t, node, guest.Hardware{MemoryMiB: 4072, MaxMemoryMiB: maxMemoryMiB, VCPUs: 4, MaxVCPUs: maxVCPUs, DIMMs: 2, MaxDIMMs: dimmSlots})
}

func testNeverLower(t *testing.T, node *Node) {
	for _, count := range []int{3, maxVCPUs + 1} {
		if err := node.SetVCPUs(t.Context(), count); err == nil {
			t.Errorf("%d vCPUs on a guest with 4 of %d: got no error", count, maxVCPUs)
		}
	}
}

func testCloudScales(t *testing.T, l *Lab) {
	ctx, node := t.Context(), l.Nodes[0]
	job, err := l.Cloud.Model.ScaleVirtualMachine(ctx, l.Cloud.Account.Name, node.VMID(), l.Cloud.Offerings["large"].ID)
	if err != nil {
		t.Fatal(err)
	}
	waitJob(t, l.Cloud.Model, job)
	expectHardware(t, node, guest.Hardware{MemoryMiB: 4096, MaxMemoryMiB: maxMemoryMiB, VCPUs: 4, MaxVCPUs: maxVCPUs, DIMMs: 1, MaxDIMMs: dimmSlots})
	waitInGuest(t, node, "grep -qx 0-3 /sys/devices/system/cpu/present")
}

func waitJob(t *testing.T, model *standin.Model, id string) {
	t.Helper()
	if job := waitEnd(t, model, id); job.Status != standin.JobSucceeded {
		t.Fatalf("job %s ended with %+v", id, job)
	}
}

// jobTimeout is for a job of CloudStack: the longest is a stop, which gives the guest a minute and a half to end.
const jobTimeout = 2 * time.Minute

func waitEnd(t *testing.T, model *standin.Model, id string) standin.Job {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(jobTimeout)
	for {
		job, ok := model.Job(id)
		switch {
		case !ok:
			t.Fatalf("CloudStack has no job %s", id)
		case job.Status != standin.JobPending:
			return job
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("job %s is pending after %s", id, jobTimeout)
		}
	}
}

func testNothingLeft(t *testing.T, dir string, port int) {
	if pids, err := process.Marked(dir); err != nil || len(pids) > 0 {
		t.Errorf("programs of the lab after down: %v (%v), want none", pids, err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the lab's folder after down: %v, want it gone", err)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil || strings.Contains(string(mounts), dir) {
		t.Errorf("mounts of the lab after down (%v):\n%s", err, mounts)
	}
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err == nil {
		conn.Close()
		t.Errorf("something still listens on the API server's port %d", port)
	}
}

func expectHardware(t *testing.T, node *Node, want guest.Hardware) {
	t.Helper()
	got, err := node.Hardware(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: hardware as QEMU has it (-want +got):\n%s", node.Name(), diff)
	}
}

func run(t *testing.T, node *Node, command string) string {
	t.Helper()
	out, err := node.Run(t.Context(), command)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// testWriter sends a lab's progress to the test's log.
type testWriter struct{ t *testing.T }

func (w testWriter) Write(line []byte) (int, error) {
	w.t.Log(strings.TrimSuffix(string(line), "\n"))
	return len(line), nil
}
