// Package guest runs the lab's virtual machines: QEMU guests with a real kernel, systemd, OpenSSH, containerd and kubelet.
//
// Invariant: no two guests share an identity. VM UUID, machine-id and SSH host key are made for each, boot ids come from
// its own cold boot; and what is plugged stays plugged and offline until somebody inside the guest brings it up.
package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/cks-trueup/trueup/lab/process"
)

// Accelerator is what guests run under: software emulation, always. A /dev/kvm that opens need not be able to run a
// guest (nested virtualisation: guests hung before their first line of output), and the lab is to behave alike everywhere.
const Accelerator = "tcg,thread=multi"

// Spec says what a guest shall be.
type Spec struct {
	Name     string // host name and Node name
	VMID     string // the id in CloudStack, and the DMI UUID
	Index    int    // place in the guest network: address 10.0.2.(16+Index), pods in 10.244.Index.0/24
	ImageDir string // root.qcow2, vmlinuz, initrd
	Etcd     bool   // a dedicated etcd machine: neither containerd nor kubelet

	Size
}

// Size is what a guest is booted with. Without room to grow the maxima are the size itself, and there are no slots.
type Size struct {
	VCPUs        int // at boot
	MaxVCPUs     int
	MemoryMiB    int // at boot
	MaxMemoryMiB int
	DIMMSlots    int
}

// Address is the guest's address in its own network, where the lab's host is 10.0.2.2.
func (s Spec) Address() string { return fmt.Sprintf("10.0.2.%d", 16+s.Index) }

// Guest is a running virtual machine.
type Guest struct {
	QMP     *QMP
	Process *process.Process

	dir      string
	spec     Spec
	identity *Identity
	admin    ssh.Signer
	sshPort  int
	kubelet  atomic.Int64 // the port here that leads to kubelet's
	console  string
	plug     sync.Mutex // plugging reads what is there and then adds to it
	ssh      sshClient
}

// Boot is what a guest is started with.
type Boot struct {
	Spec     Spec
	Identity *Identity
	Admin    ssh.Signer // key of root; see Keys
	Seed     []byte     // see Seed
}

// Start boots a guest; its files go to dir. It returns as soon as QEMU runs.
func Start(ctx context.Context, starter *process.Starter, dir string, boot Boot) (*Guest, error) {
	if err := prepare(ctx, dir, boot.Spec, boot.Seed); err != nil {
		return nil, err
	}
	g := &Guest{dir: dir, spec: boot.Spec, identity: boot.Identity, admin: boot.Admin, console: filepath.Join(dir, "console.log")}
	if err := g.launch(starter, anyPort); err != nil {
		return nil, err
	}
	return g, nil
}

// Restart boots a guest that was stopped, with another size: the same disk, the same SSH port unless another program has taken it, and
// all DIMM slots free. Nobody may use the guest meanwhile.
func (g *Guest) Restart(starter *process.Starter, size Size) error {
	g.spec.Size = size
	if err := g.launch(starter, g.sshPort); err == nil {
		return nil
	}
	return g.launch(starter, anyPort) // somebody else has got the port meanwhile
}

// anyPort lets the kernel choose a free port while it binds, so nobody can take it first.
const anyPort = 0

// launch starts QEMU and connects to it. The guest's SSH server is to be reached by the port.
func (g *Guest) launch(starter *process.Starter, port int) error {
	ours, theirs, err := qmpPair()
	if err != nil {
		return err
	}
	defer func() { _ = theirs.Close() }()
	qemu, err := starter.Start("guest-"+g.spec.Name, arguments(g.dir, g.spec, port), theirs)
	if err != nil {
		_ = ours.Close()
		return err
	}
	g.Process = qemu
	if g.QMP, err = newQMP(ours); err == nil {
		err = g.readPorts()
	}
	if err != nil {
		_ = ours.Close()
		qemu.Kill()
		return fmt.Errorf("guest %s: %w", g.spec.Name, errors.Join(err, qemu.Err()))
	}
	return nil
}

// prepare writes the seed and an overlay over the image, which stays untouched.
func prepare(ctx context.Context, dir string, spec Spec, seed []byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "seed.tar"), seed, 0o600); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2",
		"-b", filepath.Join(spec.ImageDir, "root.qcow2"), filepath.Join(dir, "disk.qcow2")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("qemu-img create: %w: %s", err, out)
	}
	return nil
}

// arguments is the command line of QEMU. The kernel's options save time under emulation; tsc=reliable keeps the guest from
// falling back to a slow clock. norandmaps loads every program at the same address: QEMU (7.2) finds code that it has
// translated before by its virtual address too, and translates anew what moved. Measured in a guest on an otherwise idle
// machine: date 111 ms without and 22 ms with it, an SSH log-in 1.1 s and 0.6 s.
func arguments(dir string, s Spec, port int) []string {
	kernel := "console=ttyS0 net.ifnames=0 quiet mitigations=off tsc=reliable no_timer_check nowatchdog norandmaps"
	if s.Etcd {
		kernel += " systemd.mask=kubelet.service systemd.mask=lab-images.service systemd.mask=containerd.service systemd.wants=etcd.service"
	}
	forward := fmt.Sprintf(",hostfwd=tcp:127.0.0.1:%d-%s:%d", port, s.Address(), sshPort)
	if !s.Etcd {
		forward += fmt.Sprintf(",hostfwd=tcp:127.0.0.1:%d-%s:%d", anyPort, s.Address(), KubeletPort)
	}
	return []string{
		"qemu-system-x86_64", "-name", s.Name, "-uuid", s.VMID,
		"-machine", "q35", "-accel", Accelerator, "-cpu", "qemu64,-svm",
		"-smp", fmt.Sprintf("%d,maxcpus=%d", s.VCPUs, s.MaxVCPUs),
		"-m", s.memory(),
		"-kernel", filepath.Join(s.ImageDir, "vmlinuz"), "-initrd", filepath.Join(s.ImageDir, "initrd"),
		"-append", kernel,
		"-drive", "if=none,id=root,format=qcow2,cache=unsafe,file=" + filepath.Join(dir, "disk.qcow2"),
		"-device", "virtio-blk-pci,drive=root",
		"-drive", "if=none,id=seed,format=raw,readonly=on,file=" + filepath.Join(dir, "seed.tar"),
		"-device", "virtio-blk-pci,drive=seed",
		"-netdev", "user,id=net" + forward,
		"-device", "virtio-net-pci,netdev=net,romfile=", "-device", "virtio-rng-pci",
		"-nodefaults", "-display", "none", "-serial", "file:" + filepath.Join(dir, "console.log"),
		"-chardev", "socket,id=qmp,fd=3", "-mon", "chardev=qmp,mode=control",
	}
}

// memory is QEMU's option for memory. It takes neither zero slots nor a maximum that is no more than what there is.
func (s Size) memory() string {
	if s.DIMMSlots == 0 {
		return strconv.Itoa(s.MemoryMiB)
	}
	return fmt.Sprintf("%d,slots=%d,maxmem=%dM", s.MemoryMiB, s.DIMMSlots, s.MaxMemoryMiB)
}

// The ports in a guest that are forwarded from ports of this machine.
const (
	sshPort = 22
	// KubeletPort is where kubelet listens: the API server reaches it there to run programs in pods.
	KubeletPort = 10250
)

// forwarding matches QEMU's table of forwarded ports: protocol, descriptor, host address, host port, guest address, guest port.
var forwarding = regexp.MustCompile(`TCP\[HOST_FORWARD\]\s+\d+\s+127\.0\.0\.1\s+(\d+)\s+\S+\s+(\d+)\s`)

// readPorts asks QEMU which ports the kernel chose. QMP has no command for it, only the human monitor has.
func (g *Guest) readPorts() error {
	var table string
	if err := g.QMP.Execute("human-monitor-command", map[string]any{"command-line": "info usernet"}, &table); err != nil {
		return err
	}
	ports := map[string]int{}
	for _, match := range forwarding.FindAllStringSubmatch(table, -1) {
		ports[match[2]], _ = strconv.Atoi(match[1]) // digits
	}
	g.sshPort = ports[strconv.Itoa(sshPort)]
	g.kubelet.Store(int64(ports[strconv.Itoa(KubeletPort)]))
	if g.sshPort == 0 || g.kubelet.Load() == 0 && !g.spec.Etcd {
		return fmt.Errorf("qemu does not list all forwarded ports:\n%s", table)
	}
	return nil
}

// KubeletPort is the port of 127.0.0.1 that leads to the guest's kubelet; another one after a restart of the guest.
func (g *Guest) KubeletPort() int { return int(g.kubelet.Load()) }

// Name is the guest's host name and Node name.
func (g *Guest) Name() string { return g.spec.Name }

// VMID is the guest's id in CloudStack.
func (g *Guest) VMID() string { return g.spec.VMID }

// Spec is what the guest was started as.
func (g *Guest) Spec() Spec { return g.spec }

// Identity is what makes the guest differ from others.
func (g *Guest) Identity() *Identity { return g.identity }

// SSHPort is the port of 127.0.0.1 that leads to the guest's SSH server.
func (g *Guest) SSHPort() int { return g.sshPort }

// Console is the path of what the guest wrote to its serial console.
func (g *Guest) Console() string { return g.console }

// consoleTail is how much of a console is shown after a failure, in bytes: enough for the last words of a kernel.
const consoleTail = 4 << 10

// LastWords are the end of the console: what the guest said last. The console itself goes with the lab.
func (g *Guest) LastWords() string {
	text, err := os.ReadFile(g.console)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-consoleTail):])
}

// shutdownGrace bounds an orderly shutdown: 1.6 s on a quiet machine. What is cut off in the middle may leave a disk that does not boot.
const shutdownGrace = 90 * time.Second

// Stop presses the guest's power button and waits until QEMU has ended; a guest that does not react is killed.
func (g *Guest) Stop(ctx context.Context) {
	g.ssh.close()
	if g.QMP.Execute("system_powerdown", nil, nil) == nil {
		select {
		case <-g.Process.Done():
		case <-time.After(shutdownGrace):
		case <-ctx.Done():
		}
	}
	g.Kill()
}

// Kill ends the guest as a power cut does.
func (g *Guest) Kill() {
	g.ssh.close()
	g.Process.Kill()
	_ = g.QMP.Close()
}
