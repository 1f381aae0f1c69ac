package guest

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// vmID is the virtual machine that the tests talk to.
const vmID = "6f0c1d5e-8a43-4a6b-9d27-3c1e5b7a9f10"

// machine is a guest for tests: OpenSSH's own server, one process per connection, in a mount namespace in which /sys, /etc, /var,
// /run, /usr/local/bin and a few files of /proc are the test's. The scripts run in it unchanged, for all users but root through the machine's own sudo.
// It needs root, sudo and /usr/sbin/sshd.
type machine struct {
	t        *testing.T
	tree     string // what the guest sees as /sys, /etc, …
	listener *net.TCPListener
	hostKey  ssh.Signer
	userKey  string // private key file that the guest accepts

	mu    sync.Mutex
	conns []*net.TCPConn
	procs []*exec.Cmd
	logs  []*bytes.Buffer
	done  sync.WaitGroup
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	m := &machine{t: t, tree: t.TempDir(), listener: listener}
	must(t, os.Chmod(filepath.Dir(m.tree), 0o755)) // the guest's users must get there
	m.layOut()
	go m.serve()
	t.Cleanup(m.stop)
	return m
}

// layOut writes the tree of a guest with 2 CPUs and 2 GiB online.
func (m *machine) layOut() {
	for path, content := range map[string]string{
		"sys/class/dmi/id/product_uuid":                      strings.ToUpper(vmID),
		"sys/devices/system/cpu/online":                      "0-1",
		"sys/devices/system/cpu/present":                     "0-1",
		"sys/devices/system/cpu/possible":                    "0-7",
		"sys/devices/system/cpu/cpu0/topology":               "", // cpu0 has no file online
		"sys/devices/system/cpu/cpu1/online":                 "1",
		"sys/devices/system/memory/block_size_bytes":         "8000000",
		"sys/fs/cgroup/kubepods.slice/cpuset.cpus.effective": "0-1",
		"sys/fs/cgroup/kubepods.slice/memory.max":            "2007252992",
		"sys/fs/cgroup/cgroup.controllers":                   "cpuset cpu io memory hugetlb pids rdma misc",
		"proc/meminfo":                                       "MemTotal:        1960208 kB\nMemFree:          123456 kB",
		"proc/vmstat":                                        "nr_free_pages 20000\nballoon_inflate 0\nballoon_deflate 0\nballoon_migrate 7",
		"proc/uptime":                                        "1300.25 2500.00",
		"proc/timer_list":                                    "Timer List Version: v0.10\nHRTIMER_MAX_CLOCK_BASES: 8\nnow at 1234567890123 nsecs\n\ncpu: 0",
		"proc/sys/kernel/random/boot_id":                     "0b6e1c2d-3f4a-4b5c-8d7e-9f0a1b2c3d4e",
		"etc/machine-id":                                     "0123456789abcdef0123456789abcdef",
		"etc/passwd": "root:*:0:0::/root:/bin/sh\nsshd:*:990:65534::/run/sshd:/bin/false\n" +
			"cloud:*:12345:12345::/:/bin/bash\nother:*:12347:12345::/:/bin/bash\nlocked:*:12346:12346::/:/usr/sbin/nologin\nnoisy:*:12348:12345::/:/usr/local/bin/noisy",
		"etc/group":                            "root:x:0:\nnogroup:x:65534:\ncloud:x:12345:",
		"var/lib/kubelet/cpu_manager_state":    `{"policyName":"none","defaultCpuSet":"","checksum":1353318690}`,
		"var/lib/kubelet/memory_manager_state": `{"policyName":"None","machineState":{},"checksum":4236770233}`,
		"run/sshd/empty":                       "",
		"state/unit":                           "ActiveState=active\nSubState=running\nInvocationID=" + firstInvocation + "\nMainPID=812\nExecMainStartTimestampMonotonic=34567890\nNRestarts=0",
	} {
		m.write(path, content)
	}
	for i := range 16 {
		m.write(fmt.Sprintf("sys/devices/system/memory/memory%d/state", i), "online")
	}
	must(m.t, os.Chmod(filepath.Join(m.tree, "run"), 0o777|os.ModeSticky))
	must(m.t, os.Chmod(filepath.Join(m.tree, "run/sshd"), 0o755))
	must(m.t, os.Chmod(filepath.Join(m.tree, "state"), 0o777))
	m.layOutKeys()
	m.layOutSudo()
	m.fakeCommands()
}

// layOutSudo gives the guest the sudoers file of Debian and, for user cloud, the one that is made from the commands. What sudo logs is kept in state/sudo.
func (m *machine) layOutSudo() {
	host, err := os.Hostname()
	must(m.t, err)
	m.write("etc/hosts", "127.0.0.1 localhost "+host)
	m.write("etc/pam.d/sudo", "auth required pam_deny.so\naccount required pam_permit.so\nsession required pam_permit.so")
	m.write("etc/sudoers", "Defaults env_reset\nDefaults secure_path=\"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\"\nDefaults use_pty\n"+
		"Defaults logfile="+filepath.Join(m.tree, "state/sudo")+", loglinelen=0, !syslog\n@includedir /etc/sudoers.d")
	must(m.t, os.Chmod(filepath.Join(m.tree, "etc/sudoers"), 0o440))
	file, err := Sudoers("cloud", "1.2.3")
	must(m.t, err)
	m.allow(file)
}

// allow replaces the sudoers file that was made for trueup.
func (m *machine) allow(sudoers string) {
	m.t.Helper()
	m.write("etc/sudoers.d/trueup", sudoers)
	must(m.t, os.Chmod(filepath.Join(m.tree, "etc/sudoers.d/trueup"), 0o440))
}

func (m *machine) layOutKeys() {
	var hostPEM, userPEM []byte
	m.hostKey, hostPEM = newKey(m.t)
	userKey, userPEM := newKey(m.t)
	m.write("ssh/host", string(hostPEM))
	m.write("ssh/authorized", string(ssh.MarshalAuthorizedKey(userKey.PublicKey())))
	m.write("ssh/config", strings.Join([]string{
		"HostKey " + filepath.Join(m.tree, "ssh/host"),
		"AuthorizedKeysFile " + filepath.Join(m.tree, "ssh/authorized"),
		"AuthenticationMethods publickey", "StrictModes no", "UsePAM no", "PermitRootLogin yes", "PidFile none",
		"SetEnv PATH=/usr/bin:/bin",
	}, "\n"))
	m.userKey = filepath.Join(m.t.TempDir(), "id")
	must(m.t, os.WriteFile(m.userKey, userPEM, 0o600))
	must(m.t, os.Chmod(filepath.Join(m.tree, "ssh/host"), 0o600))
}

const (
	firstInvocation  = "11111111111111111111111111111111"
	secondInvocation = "22222222222222222222222222222222"
)

// fakeCommands puts stand-ins for what needs a running systemd into /usr/local/bin of the guest.
func (m *machine) fakeCommands() {
	m.program("systemctl", `case $1 in
show)
	[ ! -e "$STATE/show-fails" ] || { echo "Failed to connect to bus: Connection refused" >&2; exit 1; }
	case $* in
	*etcd.service*) cat "$STATE/etcd-unit" ;;
	*k3s.service*) cat "$STATE/units" ;;
	*--value*)
		[ ! -e "$STATE/slow" ] || echo "1311.00 1.0" >"$STATE/../proc/uptime"
		sed -n "s/^InvocationID=//p" "$STATE/unit" ;;
	*) cat "$STATE/unit" ;;
	esac ;;
restart)
	echo "$*" >>"$STATE/restarts"
	[ ! -e "$STATE/signals" ] || kill -HUP $PPID
	[ ! -e "$STATE/signals" ] || kill -TERM $PPID
	[ ! -e "$STATE/hold" ] || read -r go <"$STATE/hold"
	[ ! -e "$STATE/restart-fails" ] || { echo "Job for kubelet.service failed." >&2; exit 5; }
	sed -i "s/^InvocationID=.*/InvocationID=`+secondInvocation+`/" "$STATE/unit"
	echo "$*" >>"$STATE/restarted" ;;
esac`)
	m.program("noisy", `echo Welcome; echo product_uuid=nonsense; exec /bin/sh "$@"`)
	m.program("journalctl", `cat "$STATE/journal"`)
	m.program("dmesg", `cat "$STATE/dmesg"`)
}

func (m *machine) program(name, script string) {
	m.write("bin/"+name, "#!/bin/sh\nSTATE="+filepath.Join(m.tree, "state")+"\n"+script)
	must(m.t, os.Chmod(filepath.Join(m.tree, "bin", name), 0o755))
}

// write writes a file of the guest in place, with a newline at its end.
func (m *machine) write(path, content string) {
	m.t.Helper()
	path = filepath.Join(m.tree, path)
	must(m.t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(m.t, os.WriteFile(path, []byte(content+"\n"), 0o666))
	must(m.t, os.Chmod(path, 0o666))
}

func (m *machine) remove(path string) {
	m.t.Helper()
	must(m.t, os.RemoveAll(filepath.Join(m.tree, path)))
}

// read returns a file of the guest without the last newline, or "" if there is none.
func (m *machine) read(path string) string {
	m.t.Helper()
	content, err := os.ReadFile(filepath.Join(m.tree, path))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		m.t.Fatal(err)
	}
	return strings.TrimSuffix(string(content), "\n")
}

// fifo makes a named pipe in the guest: whoever opens it waits for the other side, at most until the test ends.
func (m *machine) fifo(path string) {
	m.t.Helper()
	path = filepath.Join(m.tree, path)
	must(m.t, syscall.Mkfifo(path, 0o666))
	must(m.t, os.Chmod(path, 0o666))
	m.t.Cleanup(func() {
		pipe, err := os.OpenFile(path, os.O_RDWR, 0)
		must(m.t, err)
		must(m.t, pipe.Close())
	})
}

func (m *machine) serve() {
	for {
		conn, err := m.listener.AcceptTCP()
		if err != nil {
			return
		}
		m.accept(conn)
	}
}

// accept starts sshd on the connection. The test keeps its own handle on it, to break it.
func (m *machine) accept(conn *net.TCPConn) {
	file, err := conn.File()
	if err != nil {
		m.t.Errorf("accept: %v", err)
		return
	}
	defer file.Close()
	log := new(bytes.Buffer)
	cmd := exec.Command("unshare", "-m", "sh", "testdata/enter.sh", m.tree, "/usr/sbin/sshd", "-i", "-e", "-f", filepath.Join(m.tree, "ssh/config"))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = file, file, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		m.t.Errorf("start sshd (it needs root and openssh-server): %v", err)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conns, m.procs, m.logs = append(m.conns, conn), append(m.procs, cmd), append(m.logs, log)
	m.done.Go(func() { _ = cmd.Wait() })
}

// accepted is how many connections there have been.
func (m *machine) accepted() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.conns)
}

// breakConnections ends all connections as a network does: without a word from sshd.
func (m *machine) breakConnections() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, conn := range m.conns {
		raw, err := conn.SyscallConn()
		must(m.t, err)
		_ = raw.Control(func(fd uintptr) { _ = syscall.Shutdown(int(fd), syscall.SHUT_RDWR) })
	}
}

// freeze stops the newest sshd: the connection stays, and nobody answers.
func (m *machine) freeze() {
	m.mu.Lock()
	defer m.mu.Unlock()
	must(m.t, syscall.Kill(-m.procs[len(m.procs)-1].Process.Pid, syscall.SIGSTOP))
}

func (m *machine) stop() {
	_ = m.listener.Close()
	m.breakConnections()
	for _, cmd := range m.procs {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	m.done.Wait()
	for i, log := range m.logs {
		if m.t.Failed() {
			m.t.Logf("sshd of connection %d:\n%s", i+1, log)
		}
	}
}

// trust writes a known_hosts file with the given lines and returns its name.
func trust(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "known_hosts")
	must(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	return path
}

// line is a known_hosts line.
func line(host string, key ssh.Signer) string {
	return host + " " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key.PublicKey())))
}

// target is the machine as trueup knows it.
func target() rollout.Target { return rollout.Target{Name: "demo-node-1", InstanceID: vmID} }

// config reaches the machine as root, with the right keys at both ends.
func (m *machine) config() Config {
	return Config{
		Resolve:    Endpoints{vmID: {Address: m.listener.Addr().String(), User: "root"}}.Resolve,
		KnownHosts: trust(m.t, line(vmID, m.hostKey)),
		KeyFile:    m.userKey,
	}
}

// open returns an SSH port that the test closes.
func open(t *testing.T, cfg Config) *SSH {
	t.Helper()
	s, err := New(cfg)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// guest logs in.
func (m *machine) guest(cfg Config) *guest {
	m.t.Helper()
	g, err := open(m.t, cfg).Guest(m.t.Context(), target())
	must(m.t, err)
	return g.(*guest)
}

func newKey(t *testing.T) (ssh.Signer, []byte) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	block, err := ssh.MarshalPrivateKey(private, "")
	must(t, err)
	signer, err := ssh.NewSignerFromKey(private)
	must(t, err)
	return signer, pem.EncodeToMemory(block)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until the condition holds. The bound is only for a test that would fail anyway.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("never came true: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
