package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// byEachWay runs the test over SSH and through a pod: the same commands go by each way.
func byEachWay(t *testing.T, test func(t *testing.T, enter func(*machine) *guest)) {
	t.Helper()
	for name, enter := range map[string]func(*machine) *guest{"ssh": overSSH, "pod": inPod} {
		t.Run(name, func(t *testing.T) { test(t, enter) })
	}
}

func overSSH(m *machine) *guest {
	m.t.Helper()
	return m.guest(m.config())
}

func inPod(m *machine) *guest {
	m.t.Helper()
	g, err := NewPods(m.host(), Timeouts{}).Guest(m.t.Context(), target())
	must(m.t, err)
	return g.(*guest)
}

// testHost stands in for the pods: what they would run is run here, by the nsenter of busybox, and enters the machine's namespaces as those of a node.
type testHost struct {
	pid string // of a process in the machine

	enter error // of Enter
	fail  error // of Exec, in place of its own outcome

	mu      sync.Mutex
	ran     [][]string
	removed bool
}

// host starts a process in the machine that stands for its first one.
func (m *machine) host() *testHost {
	m.t.Helper()
	first := exec.Command("unshare", "-m", "sh", "testdata/enter.sh", m.tree, "sh", "-c", "echo; read -r never")
	wait, err := first.StdinPipe()
	must(m.t, err)
	ready, err := first.StdoutPipe()
	must(m.t, err)
	must(m.t, first.Start())
	_, err = ready.Read(make([]byte, 1))
	must(m.t, err)
	m.t.Cleanup(func() {
		_ = wait.Close()
		_ = first.Wait()
	})
	return &testHost{pid: strconv.Itoa(first.Process.Pid)}
}

func (h *testHost) Enter(context.Context, string) (string, error) {
	return "kube-system/trueup-guest-1", h.enter
}

func (h *testHost) Exec(ctx context.Context, node string, program []string, stdin io.Reader, stdout, stderr io.Writer) error {
	h.mu.Lock()
	h.ran = append(h.ran, append([]string{node}, program...))
	h.mu.Unlock()
	program = append([]string{}, program...)
	for i, word := range program {
		if word == "-t" {
			program[i+1] = h.pid
			break
		}
	}
	cmd := exec.CommandContext(ctx, "busybox", program...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = stdout, stderr, time.Second
	to, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	go func() { // like a stream: the end of the program does not wait for who sends
		_, _ = io.Copy(to, stdin)
		_ = to.Close()
	}()
	err = cmd.Run()
	exit := (*exec.ExitError)(nil)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case h.fail != nil:
		return h.fail
	case errors.As(err, &exit) && exit.ExitCode() < 0:
		return statusError(exitKilled)
	case errors.As(err, &exit):
		return statusError(exit.ExitCode())
	}
	return err
}

func (h *testHost) Close() error {
	h.removed = true
	return nil
}

// statusError is how a pod tells an exit status.
type statusError int

func (e statusError) Error() string   { return fmt.Sprintf("exit status %d", int(e)) }
func (e statusError) ExitStatus() int { return int(e) }

// What is run in a pod is the command that is run over SSH, in the namespaces of the node's first process.
func TestPodRunsTheSameCommands(t *testing.T) {
	m := newMachine(t)
	h := m.host()
	g, err := NewPods(h, Timeouts{}).Guest(t.Context(), target())
	must(t, err)
	_, err = g.Probe(t.Context())
	must(t, err)
	want := "demo-node-1 nsenter -t 1 -m -u -i -n -p -- " + strings.Join(probeCommand().arguments(), " ")
	if len(h.ran) != 1 || strings.Join(h.ran[0], " ") != want {
		t.Errorf("ran %q, want %q", h.ran, want)
	}
	if over := probeCommand().remote("root"); !strings.HasSuffix(over, "exec '"+strings.Join(probeCommand().arguments(), "' '")+"'") {
		t.Errorf("over SSH: %q", over)
	}
}

func TestPodErrors(t *testing.T) {
	lost := errors.New("the stream ended")
	for name, test := range map[string]struct {
		change func(*testHost)
		want   error
		says   []string
	}{
		"no pod is to be had":            {func(h *testHost) { h.enter = fmt.Errorf("%w: PodSecurity", rollout.ErrDenied) }, rollout.ErrDenied, []string{"PodSecurity"}},
		"it does not run yet":            {func(h *testHost) { h.enter = rollout.ErrUnreachable }, rollout.ErrUnreachable, nil},
		"no right to run anything in it": {func(h *testHost) { h.fail = fmt.Errorf("%w: create pods/exec", rollout.ErrDenied) }, rollout.ErrDenied, []string{"create pods/exec"}},
		"the stream breaks":              {func(h *testHost) { h.fail = lost }, rollout.ErrUnreachable, []string{"no answer", lost.Error()}},
		"the pod is killed":              {func(h *testHost) { h.fail = statusError(137) }, rollout.ErrUnreachable, []string{"was killed there"}},
		"the image has no nsenter":       {func(h *testHost) { h.pid = "no-such-process" }, rollout.ErrDenied, []string{"--guest-image", "sh and nsenter"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			h := m.host()
			p := NewPods(h, Timeouts{})
			g, err := p.Guest(t.Context(), target())
			must(t, err)
			test.change(h)
			_, err = g.Probe(t.Context())
			if !errors.Is(err, test.want) || errors.Is(err, rollout.ErrDenied) && errors.Is(err, rollout.ErrUnreachable) {
				t.Fatalf("err = %v, want %v alone", err, test.want)
			}
			for _, part := range append(test.says, "node demo-node-1", vmID) {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q lacks %q", err, part)
				}
			}
		})
	}
}

// A restart whose answer is lost is not known, and the command ends without us, as over SSH.
func TestPodStreamBreaksUnderARestart(t *testing.T) {
	m := newMachine(t)
	m.fifo("state/hold")
	h := m.host()
	g, err := NewPods(h, Timeouts{}).Guest(t.Context(), target())
	must(t, err)
	ctx, breakOff := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		_, err := g.RestartKubelet(ctx, firstInvocation)
		failed <- err
	}()
	eventually(t, "the restart is under way", func() bool { return m.read("state/restarts") != "" })
	breakOff()
	if err := <-failed; !errors.Is(err, rollout.ErrUnreachable) {
		t.Errorf("err = %v, want ErrUnreachable: the outcome is unknown", err)
	}
	releaseHold(t, m)
	eventually(t, "the restart ends without us", func() bool { return m.read("state/restarted") == "restart kubelet.service" })
	if got := m.read("state/restarts"); got != "restart kubelet.service" {
		t.Errorf("restarts = %q, want exactly one", got)
	}
}

func TestPodBounds(t *testing.T) {
	m := newMachine(t)
	m.fifo("state/hold")
	c := hang(m.tree + "/state/hold")
	_, err := inPod(m).run(t.Context(), c, 100*time.Millisecond, "")
	if !errors.Is(err, rollout.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("our bound: %v, want ErrUnreachable for the deadline", err)
	}
	c.bound = 1
	_, err = inPod(m).run(t.Context(), c, time.Minute, "")
	if !errors.Is(err, rollout.ErrUnreachable) || !strings.Contains(err.Error(), "was killed there") {
		t.Errorf("the guest's bound: %v, want that it was killed", err)
	}
}

// A dedicated etcd machine is no Node: it is refused before anything is asked of the cluster.
func TestPodNeedsANode(t *testing.T) {
	p := NewPods(nil, Timeouts{})
	etcd := rollout.Target{Name: "demo-etcd-1", InstanceID: vmID, Role: rollout.RoleEtcd}
	_, err := p.Guest(t.Context(), etcd)
	_, inspectErr := p.Inspect(t.Context(), etcd)
	for _, err := range []error{err, inspectErr} {
		if !errors.Is(err, rollout.ErrDenied) || !strings.Contains(err.Error(), "no Kubernetes Node") || !strings.Contains(err.Error(), "--guest-via ssh") {
			t.Errorf("err = %v", err)
		}
	}
	p.Prepare(t.Context(), []rollout.Target{etcd}) // asks nothing
}

func TestPodsClose(t *testing.T) {
	h := &testHost{}
	p := NewPods(h, Timeouts{})
	p.Prepare(t.Context(), []rollout.Target{target()})
	must(t, p.Close())
	if !h.removed {
		t.Error("the pods were not removed")
	}
}
