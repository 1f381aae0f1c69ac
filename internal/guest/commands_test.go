package guest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

func (m *machine) as(user string) Config {
	cfg := m.config()
	cfg.Resolve = Endpoints{vmID: {Address: m.listener.Addr().String(), User: user}}.Resolve
	return cfg
}

func TestUserWithoutAShell(t *testing.T) {
	m := newMachine(t)
	_, err := m.guest(m.as("locked")).Probe(t.Context())
	if !errors.Is(err, rollout.ErrDenied) {
		t.Errorf("err = %v, want ErrDenied", err)
	}
}

func TestNoiseOfTheLoginShellIsIgnored(t *testing.T) {
	m := newMachine(t)
	file, err := Sudoers("noisy", "1.2.3")
	must(t, err)
	m.allow(file)
	_, err = m.guest(m.as("noisy")).Probe(t.Context())
	must(t, err)
}

// hang is a command that waits for ever, once it has said that it runs.
func hang(fifo string) command {
	return command{"hang", "echo \"trueup-begin hang\"\nread -r line <" + fifo + "\necho trueup-end\n", 60, 1 << 10}
}

func TestDeadlineOfAHangingCommand(t *testing.T) {
	m := newMachine(t)
	m.fifo("state/hold")
	g := m.guest(m.config())
	_, err := g.run(t.Context(), hang(filepath.Join(m.tree, "state/hold")), 100*time.Millisecond, "")
	if !errors.Is(err, rollout.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err = %v, want ErrUnreachable for the deadline", err)
	}
	_, err = g.Probe(t.Context())
	must(t, err)
	if n := m.accepted(); n != 1 {
		t.Errorf("%d connections, want the same one", n)
	}
}

// A script that hangs ends in the guest by itself, even if we are gone.
func TestBoundInTheGuest(t *testing.T) {
	m := newMachine(t)
	m.fifo("state/hold")
	c := hang(filepath.Join(m.tree, "state/hold"))
	c.bound = 1
	_, err := m.guest(m.config()).run(t.Context(), c, time.Minute, "")
	failed := (*CommandError)(nil)
	if !errors.As(err, &failed) || failed.Signal != "KILL" {
		t.Errorf("err = %v, want it killed", err)
	}
}

func TestConnectionBreaksUnderACommand(t *testing.T) {
	m := newMachine(t)
	m.fifo("state/hold")
	g := m.guest(m.config())
	failed := make(chan error)
	go func() {
		_, err := g.RestartKubelet(t.Context(), firstInvocation)
		failed <- err
	}()
	eventually(t, "the restart is under way", func() bool { return m.read("state/restarts") != "" })
	m.breakConnections()
	if err := <-failed; !errors.Is(err, rollout.ErrUnreachable) {
		t.Errorf("err = %v, want ErrUnreachable: the outcome is unknown", err)
	}
	_, err := g.Probe(t.Context())
	must(t, err)

	releaseHold(t, m)
	eventually(t, "the restart ends without us", func() bool { return m.read("state/restarted") == "restart kubelet.service" })
	if got := m.read("state/restarts"); got != "restart kubelet.service" {
		t.Errorf("restarts = %q, want exactly one", got)
	}
}

func TestOutputLimit(t *testing.T) {
	byEachWay(t, func(t *testing.T, enter func(*machine) *guest) {
		m := newMachine(t)
		g := enter(m)
		c := command{"flood", "echo \"trueup-begin flood\"\nwhile :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done\n", 60, 64 << 10}
		_, err := g.run(t.Context(), c, time.Minute, "")
		if err == nil || errors.Is(err, rollout.ErrUnreachable) || !strings.Contains(err.Error(), "longer than 65536 bytes") {
			t.Errorf("err = %v, want that the answer is too long", err)
		}
		_, err = g.Probe(t.Context())
		must(t, err)
	})
}

func TestAnswerCutShort(t *testing.T) {
	byEachWay(t, func(t *testing.T, enter func(*machine) *guest) {
		m := newMachine(t)
		_, err := enter(m).run(t.Context(), command{"cut", "echo \"trueup-begin cut\"\necho half\n", 60, 1 << 10}, time.Minute, "")
		if !errors.Is(err, rollout.ErrUnreachable) || !strings.Contains(err.Error(), "incomplete") {
			t.Errorf("err = %v, want ErrUnreachable for an incomplete answer", err)
		}
	})
}

func TestProbeWithoutSystemd(t *testing.T) {
	byEachWay(t, func(t *testing.T, enter func(*machine) *guest) {
		m := newMachine(t)
		m.write("state/show-fails", "")
		_, err := enter(m).Probe(t.Context())
		failed := (*CommandError)(nil)
		if !errors.As(err, &failed) || failed.Exit != 1 || !strings.Contains(failed.Said, "Failed to connect to bus") {
			t.Errorf("err = %v, want systemctl's failure", err)
		}
	})
}

func TestProbeOfOtherGuests(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(m *machine)
		want    string // part of the error; empty if the reading must equal that of the usual guest with change
		check   func(t *testing.T, g *guest)
	}{
		{name: "no memory hotplug", prepare: func(m *machine) { m.remove("sys/devices/system/memory") }, want: "built without memory hotplug"},
		{name: "no DMI", prepare: func(m *machine) { m.remove("sys/class/dmi") }, want: "product_uuid"},
		{name: "timer_list hidden", prepare: func(m *machine) { m.write("proc/timer_list", "") }, want: "/proc/timer_list"},
		{name: "empty state file", prepare: func(m *machine) { m.write("var/lib/kubelet/cpu_manager_state", "") }, want: "cpu_manager_state"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := newMachine(t)
			test.prepare(m)
			_, err := m.guest(m.config()).Probe(t.Context())
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "demo-node-1") {
				t.Errorf("err = %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestProbeDuringHotplug(t *testing.T) {
	byEachWay(t, func(t *testing.T, enter func(*machine) *guest) {
		m := newMachine(t)
		m.write("sys/devices/system/cpu/present", "0-3,6")
		m.write("sys/devices/system/memory/memory32/state", "offline")
		m.write("sys/devices/system/memory/memory33/state", "going-offline")
		m.remove("sys/fs/cgroup/kubepods.slice")
		m.remove("sys/fs/cgroup/cgroup.controllers")
		m.write("sys/fs/cgroup/kubepods/cpuset.cpus.effective", "1")
		m.write("sys/fs/cgroup/kubepods/memory.max", "max")
		m.remove("var/lib/kubelet/memory_manager_state")
		m.write("var/lib/kubelet/cpu_manager_state", `{"data":"{\"policyName\":\"static\",\"entries\":{}}","checksum":1}`)
		m.write("state/unit", "ActiveState=activating\nSubState=auto-restart\nInvocationID=\nMainPID=0\nExecMainStartTimestampMonotonic=0\nNRestarts=7")
		got, err := enter(m).Probe(t.Context())
		must(t, err)
		want := reading()
		want.CPUsPresent, want.BlocksOffline, want.KubepodsCPUs, want.KubepodsMemory, want.CgroupVersion = 5, 2, 1, capacity.Unlimited, 1
		want.CPUManagerPolicy, want.MemoryManagerPolicy = "static", ""
		want.Kubelet.ActiveState, want.Kubelet.SubState, want.Kubelet.InvocationID = "activating", "auto-restart", ""
		want.Kubelet.MainPID, want.Kubelet.Start, want.Kubelet.Restarts = 0, 0, 7
		want.Clock = got.Clock
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("reading (-want +got):\n%s", diff)
		}
	})
}

func TestOnline(t *testing.T) {
	for name, enter := range map[string]func(*machine) *guest{"root": overSSH, "cloud": func(m *machine) *guest { return m.guest(m.as("cloud")) }, "pod": inPod} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.write("sys/devices/system/cpu/cpu2/online", "0")
			m.write("sys/devices/system/cpu/cpu10/online", "0")
			m.write("sys/devices/system/memory/memory40/state", "offline")
			g := enter(m)
			for range 2 { // the second time there is nothing to do
				must(t, g.Online(t.Context()))
				for path, want := range map[string]string{"cpu/cpu1/online": "1", "cpu/cpu2/online": "1", "cpu/cpu10/online": "1", "memory/memory40/state": "online"} {
					if got := m.read("sys/devices/system/" + path); got != want {
						t.Errorf("%s = %q, want %q", path, got, want)
					}
				}
			}
			if _, err := os.Stat(filepath.Join(m.tree, "sys/devices/system/cpu/cpu0/online")); !os.IsNotExist(err) {
				t.Errorf("cpu0/online: %v, want that it was left alone", err)
			}
		})
	}
}

// The kernel's refusal is a read-only file here: the shell's write fails, and so does the second one, which tells the reason.
func TestOnlineRefused(t *testing.T) {
	byEachWay(t, func(t *testing.T, enter func(*machine) *guest) {
		m := newMachine(t)
		m.write("sys/devices/system/cpu/cpu2/online", "0")
		m.write("sys/devices/system/cpu/cpu3/online", "0")
		m.write("sys/devices/system/memory/memory40/state", "offline")
		m.write("readonly/1", "sys/devices/system/cpu/cpu2/online")
		m.write("readonly/2", "sys/devices/system/memory/memory40/state")
		err := enter(m).Online(t.Context())
		refused := (*OnlineError)(nil)
		if !errors.As(err, &refused) {
			t.Fatalf("err = %v, want an OnlineError", err)
		}
		reason := syscall.EROFS.Error() // Go has it in lower case
		want := []Refusal{{"memory40", "R" + reason[1:]}, {"cpu2", "R" + reason[1:]}}
		if diff := cmp.Diff(want, refused.Refused); diff != "" {
			t.Errorf("refused (-want +got):\n%s", diff)
		}
		if got := m.read("sys/devices/system/cpu/cpu3/online"); got != "1" {
			t.Errorf("cpu3/online = %q: one refusal must not stop the others", got)
		}
	})
}

func TestDiagnose(t *testing.T) {
	m := newMachine(t)
	m.write("state/unit", "ActiveState=activating\nSubState=auto-restart\nResult=exit-code")
	m.write("state/journal", "started\n"+`E1201 "current set of available CPUs \"0-3\" doesn't match with CPUs in state \"0-1\""`+"\nlast\x1b[31m words")
	m.write("state/dmesg", "[1.0] boring\n[9.9] acpi PNP0C80:00: add_memory failed")
	want := []string{
		"unit: ActiveState=activating", "unit: SubState=auto-restart", "unit: Result=exit-code",
		`kubelet: E1201 "current set of available CPUs \"0-3\" doesn't match with CPUs in state \"0-1\""`,
		"kubelet-last: started",
		`kubelet-last: E1201 "current set of available CPUs \"0-3\" doesn't match with CPUs in state \"0-1\""`,
		"kubelet-last: last [31m words",
		"kernel: [9.9] acpi PNP0C80:00: add_memory failed",
	}
	for way, g := range map[string]*guest{"over SSH": m.guest(m.as("cloud")), "in a pod": inPod(m)} {
		got, err := g.Diagnose(t.Context())
		must(t, err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("lines %s (-want +got):\n%s", way, diff)
		}
	}
}

func TestDiagnoseIsBounded(t *testing.T) {
	byEachWay(t, func(t *testing.T, enter func(*machine) *guest) {
		m := newMachine(t)
		m.write("state/journal", strings.Repeat(strings.Repeat("please drain node ", 100)+"\n", 1000))
		m.write("state/dmesg", strings.Repeat("add_memory failed\n", 1000))
		got, err := enter(m).Diagnose(t.Context())
		must(t, err)
		if len(got) > 80 {
			t.Errorf("%d lines, want at most 80", len(got))
		}
		for _, line := range got {
			if len(line) > 600 {
				t.Errorf("a line of %d bytes", len(line))
			}
		}
	})
}
