package guest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cks-trueup/trueup/internal/rollout"
)

func TestRestartKubelet(t *testing.T) {
	byEachWay(t, func(t *testing.T, enter func(*machine) *guest) {
		tests := []struct {
			name     string
			prepare  func(t *testing.T, m *machine)
			want     rollout.RestartResult
			restarts string
			failed   string // systemd's words
			expired  bool
		}{
			{name: "same id", want: rollout.RestartIssued, restarts: "restart kubelet.service"},
			{name: "changed id", want: rollout.RestartNotOurs, prepare: func(_ *testing.T, m *machine) {
				m.write("state/unit", "InvocationID="+secondInvocation)
			}},
			{name: "the unit never ran", want: rollout.RestartNotOurs, prepare: func(_ *testing.T, m *machine) {
				m.write("state/unit", "InvocationID=")
			}},
			{name: "lock is held", want: rollout.RestartLockBusy, prepare: holdLock},
			{name: "lock was left behind", want: rollout.RestartIssued, restarts: "restart kubelet.service", prepare: func(_ *testing.T, m *machine) {
				m.write("run/trueup.lock", "")
			}},
			{name: "told to end while restarting", want: rollout.RestartIssued, restarts: "restart kubelet.service", prepare: func(_ *testing.T, m *machine) {
				m.write("state/signals", "")
			}},
			{name: "no lock to be had", failed: "trueup.lock", prepare: func(t *testing.T, m *machine) {
				must(t, os.Mkdir(filepath.Join(m.tree, "run/trueup.lock"), 0o755))
			}},
			{name: "systemd answers too late", expired: true, prepare: func(_ *testing.T, m *machine) {
				m.write("state/slow", "")
			}},
			{name: "systemd does not answer", failed: "Failed to connect to bus", prepare: func(_ *testing.T, m *machine) {
				m.write("state/show-fails", "")
			}},
			{name: "systemd fails to restart", failed: "Job for kubelet.service failed", restarts: "restart kubelet.service", prepare: func(_ *testing.T, m *machine) {
				m.write("state/restart-fails", "")
			}},
		}
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				m := newMachine(t)
				if test.prepare != nil {
					test.prepare(t, m)
				}
				got, err := enter(m).RestartKubelet(t.Context(), firstInvocation)
				failed := (*CommandError)(nil)
				switch {
				case test.expired:
					if !errors.Is(err, errExpired) || !errors.Is(err, rollout.ErrUnreachable) {
						t.Errorf("err = %v, want that it came too late", err)
					}
				case test.failed == "" && err != nil:
					t.Fatal(err)
				case test.failed != "" && (!errors.As(err, &failed) || !strings.Contains(failed.Said, test.failed)):
					t.Errorf("err = %v, want a CommandError with %q", err, test.failed)
				}
				if got != test.want {
					t.Errorf("result = %v, want %v", got, test.want)
				}
				if got := m.read("state/restarts"); got != test.restarts {
					t.Errorf("restarts = %q, want %q", got, test.restarts)
				}
			})
		}
	})
}

// holdLock holds the guest-wide lock until the test ends.
func holdLock(t *testing.T, m *machine) {
	t.Helper()
	m.write("run/trueup.lock", "")
	lock, err := os.Open(filepath.Join(m.tree, "run/trueup.lock"))
	must(t, err)
	t.Cleanup(func() { _ = lock.Close() })
	must(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
}

func TestRestartKubeletTwiceRestartsOnce(t *testing.T) {
	byEachWay(t, func(t *testing.T, enter func(*machine) *guest) {
		m := newMachine(t)
		g := enter(m)
		for _, want := range []rollout.RestartResult{rollout.RestartIssued, rollout.RestartNotOurs, rollout.RestartNotOurs} {
			got, err := g.RestartKubelet(t.Context(), firstInvocation)
			must(t, err)
			if got != want {
				t.Errorf("result = %v, want %v", got, want)
			}
		}
		if got := m.read("state/restarts"); got != "restart kubelet.service" {
			t.Errorf("restarts = %q, want exactly one", got)
		}
	})
}

func TestRestartKubeletWhileAnotherIsUnderWay(t *testing.T) {
	byEachWay(t, func(t *testing.T, enter func(*machine) *guest) {
		m := newMachine(t)
		m.fifo("state/hold")
		g := enter(m)
		first := make(chan rollout.RestartResult)
		go func() {
			result, err := g.RestartKubelet(t.Context(), firstInvocation)
			if err != nil {
				t.Error(err)
			}
			first <- result
		}()
		eventually(t, "the restart is under way", func() bool { return m.read("state/restarts") != "" })
		second, err := g.RestartKubelet(t.Context(), firstInvocation)
		must(t, err)
		if second != rollout.RestartLockBusy {
			t.Errorf("second = %v, want RestartLockBusy", second)
		}
		releaseHold(t, m)
		if got := <-first; got != rollout.RestartIssued {
			t.Errorf("first = %v, want RestartIssued", got)
		}
	})
}

func TestRestartKubeletRefusesAnythingButAnInvocationID(t *testing.T) {
	m := newMachine(t)
	g := m.guest(m.config())
	for _, id := range []string{"", "1111", firstInvocation + "1", strings.Repeat("G", 32), strings.ToUpper(strings.Repeat("a", 32)), "$(reboot)", firstInvocation[:31] + "\n"} {
		if _, err := g.RestartKubelet(t.Context(), id); err == nil || errors.Is(err, rollout.ErrUnreachable) {
			t.Errorf("id %q: err = %v, want a refusal", id, err)
		}
	}
	if got := m.read("state/restarts"); got != "" {
		t.Errorf("restarts = %q, want none", got)
	}
}

// The script checks what it gets on its own, and acts only for a short time after it has begun, by the guest's clock.
func TestRestartScriptGuards(t *testing.T) {
	tests := []struct {
		name, input, uptime, want string
	}{
		{name: "whole and in time", input: firstInvocation + "\n", uptime: "1310.99 1.0", want: "result=issued"},
		{name: "held up for too long", input: firstInvocation + "\n", uptime: "1311.00 1.0", want: "result=expired"},
		{name: "cut short", input: firstInvocation[:20], uptime: "1300.25 1.0", want: "result=garbled"},
		{name: "too long", input: firstInvocation + "1\n", uptime: "1300.25 1.0", want: "result=garbled"},
		{name: "not hexadecimal", input: strings.Repeat("z", 32) + "\n", uptime: "1300.25 1.0", want: "result=garbled"},
		{name: "nothing", input: "\n", uptime: "1300.25 1.0", want: "result=garbled"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := newMachine(t)
			g := m.guest(m.config())
			session, _, release, err := g.way.(*link).session(t.Context())
			must(t, err)
			defer release()
			stdin, err := session.StdinPipe()
			must(t, err)
			out := &output{limit: 1 << 10, begin: beginMark + "restart"}
			out.onBegin = func() {
				if err := os.WriteFile(filepath.Join(m.tree, "proc/uptime"), []byte(test.uptime+"\n"), 0o600); err != nil {
					t.Error(err)
				}
				_, _ = stdin.Write([]byte(test.input))
				_ = stdin.Close()
			}
			session.Stdout = out
			must(t, restartCommand().start(session, stdin, "root"))
			must(t, session.Wait())
			lines, err := out.answer()
			must(t, err)
			if diff := cmp.Diff([]string{test.want}, lines); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if restarted := m.read("state/restarts") != ""; restarted != (test.want == "result=issued") {
				t.Errorf("restarted = %v after %s", restarted, test.want)
			}
		})
	}
}

// releaseHold lets the fake systemctl go on that waits in state/hold.
func releaseHold(t *testing.T, m *machine) {
	t.Helper()
	hold, err := os.OpenFile(filepath.Join(m.tree, "state/hold"), os.O_WRONLY, 0)
	must(t, err)
	_, err = hold.WriteString("go\n")
	must(t, err)
	must(t, hold.Close())
}
