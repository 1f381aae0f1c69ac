package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// inspection is what an inspection of the healthy worker shows: it was booted with 4 GiB, and nothing was plugged since.
func inspection() *capacity.Inspection {
	at := noon.Add(-24 * time.Hour)
	return &capacity.Inspection{DIMMSlots: 16, ACPI: true, MemAvailable: 2048 * capacity.MiB, AutoOnline: "offline",
		Kernel: capacity.KernelLog{Whole: true, BootMemory: 4193784 * kB},
		Kubelet: capacity.KubeletConfig{Path: "/var/lib/kubelet/config.yaml", CPUManagerPolicy: "none",
			Files: []capacity.ConfigFile{{Path: "/var/lib/kubelet/config.yaml", Modified: at}, {Path: "/etc/systemd/system/kubelet.service", Modified: at}}}}
}

func inspecting(changes ...func(*capacity.Inspection)) func(*scene) {
	return func(s *scene) {
		s.seen.Inspection = inspection()
		for _, change := range changes {
			change(s.seen.Inspection)
		}
	}
}

// Every check that rests on the inspection, or that warns, is shown met and not met.
func TestInspectionChecks(t *testing.T) {
	const refusedDIMM = "acpi PNP0C80:00: add_memory failed"
	found := func(change func(*capacity.Inspection)) func(*scene) { return inspecting(change) }
	guest := func(change func(*capacity.Guest)) func(*scene) { return func(s *scene) { change(&s.seen.Guest) } }
	goal := func(mib int64) func(*scene) { return func(s *scene) { s.goal.Offering.MemoryMiB = mib } }
	started := untouched().seen.Guest.KubeletStart()
	changedAt := func(at time.Time) func(*scene) {
		return found(func(i *capacity.Inspection) { i.Kubelet.Files[0].Modified = at })
	}
	rows := []struct {
		name     string
		scene    scene
		refused  []string // names of the checks that refuse
		warned   []string // and of those that warn
		evidence string   // in the first of them
	}{
		{"all is well", untouched().with(inspecting()), nil, nil, ""},
		{"the engine does not inspect", untouched(), nil, nil, ""},
		{"the inspection was not answered", untouched().with(func(s *scene) { s.seen.Inspection = &capacity.Inspection{Unread: "exit status 1"} }), nil, []string{"inspection"}, "exit status 1"},

		{"CPUs are offline", untouched().with(inspecting(), guest(func(g *capacity.Guest) { g.CPUsPresent = 3 })), nil, []string{"offline-hardware"}, "1 CPUs and 0 memory blocks"},
		{"blocks are offline", untouched().with(guest(func(g *capacity.Guest) { g.BlocksOffline = 8 })), nil, []string{"offline-hardware"}, "0 CPUs and 8 memory blocks"},
		{"offline is what the instance has more: bringing it up is the plan", resized().with(func(s *scene) { s.claim = nil }), nil, nil, ""},
		{"cgroup v1", untouched().with(guest(func(g *capacity.Guest) { g.CgroupVersion = 1 })), nil, []string{"cgroup-version"}, "version 1"},
		{"cgroup v1, memory alone grows", untouched().with(guest(func(g *capacity.Guest) { g.CgroupVersion = 1 }), func(s *scene) { s.goal.Offering.CPUs = 2 }), nil, nil, ""},

		{"a page in the balloon", untouched().with(found(func(i *capacity.Inspection) { i.Balloon = 4096 })), nil, []string{"balloon"}, "1 MiB"},
		{"more came out of the balloon than went in: counters of another size", untouched().with(found(func(i *capacity.Inspection) { i.Balloon = -4096 })), nil, nil, ""},
		{"one slot is left", untouched().with(found(func(i *capacity.Inspection) { i.DIMMsPlugged = 15 })), nil, nil, ""},
		{"no slot is left", untouched().with(found(func(i *capacity.Inspection) { i.DIMMsPlugged = 16 })), []string{"dimm-slots"}, nil, "16 of 16 taken"},
		{"no slot is left, CPUs alone grow", untouched().with(found(func(i *capacity.Inspection) { i.DIMMsPlugged = 16 }), goal(4096)), nil, nil, ""},
		{"no slot is left, the DIMM is plugged already", untouched().with(found(func(i *capacity.Inspection) { i.DIMMsPlugged = 16 }), guest(func(g *capacity.Guest) { g.BlocksOnline = 64; g.MemTotal = memBig })), nil, nil, ""},
		{"started without slots", untouched().with(found(func(i *capacity.Inspection) { i.DIMMSlots = 0 })), []string{"dimm-slots"}, nil, "started without any"},
		{"no ACPI", untouched().with(found(func(i *capacity.Inspection) { i.DIMMSlots, i.ACPI = 0, false })), nil, []string{"dimm-slots"}, "shows no ACPI"},
		{"ignored by its name", untouched().with(found(func(i *capacity.Inspection) { i.DIMMsPlugged = 16 }), ignoring("dimm-slots")), nil, nil, ""},

		{"a DIMM was refused", untouched().with(found(func(i *capacity.Inspection) { i.Kernel.MemoryRefused = []string{"a", "b", refusedDIMM} })), []string{"refused-memory"}, nil, "a; b; and 1 more lines"},
		{"a DIMM was refused, CPUs alone grow", untouched().with(found(func(i *capacity.Inspection) { i.Kernel.MemoryRefused = []string{refusedDIMM} }), goal(4096)), nil, []string{"refused-memory"}, refusedDIMM},
		{"a DIMM was refused, and the instance has it", untouched().with(found(func(i *capacity.Inspection) { i.Kernel.MemoryRefused = []string{refusedDIMM} }), func(s *scene) { s.seen.Instance.MemoryMiB = 8192 }),
			[]string{"refused-memory"}, nil, refusedDIMM},
		{"the log was overwritten", untouched().with(found(func(i *capacity.Inspection) { i.Kernel, i.DIMMsPlugged = capacity.KernelLog{}, 2 })), nil, []string{"refused-memory"}, "does not reach back to the boot"},
		{"the log was overwritten, no DIMM is plugged", untouched().with(found(func(i *capacity.Inspection) { i.Kernel = capacity.KernelLog{} })), nil, nil, ""},
		{"what is left of the log tells of a refused DIMM", untouched().with(found(func(i *capacity.Inspection) {
			i.Kernel, i.DIMMsPlugged = capacity.KernelLog{MemoryRefused: []string{refusedDIMM}}, 2
		})), []string{"refused-memory"}, nil, refusedDIMM},
		{"a CPU was refused", untouched().with(found(func(i *capacity.Inspection) { i.Kernel.CPUsRefused = []string{"CPU2 failed to come online"} })), nil, []string{"refused-cpus"}, "CPU2"},
		{"the log was overwritten, and a CPU of the instance is missing", untouched().with(found(func(i *capacity.Inspection) { i.Kernel.Whole = false }), func(s *scene) { s.seen.Instance.CPUs = 3 }), nil, []string{"refused-cpus"}, "does not reach back"},

		{"sixteen times the boot memory", untouched().with(found(func(i *capacity.Inspection) { i.Kernel.BootMemory = 512 * capacity.MiB }), goal(17*512)), nil, nil, ""},
		{"more than that", untouched().with(found(func(i *capacity.Inspection) { i.Kernel.BootMemory = 512 * capacity.MiB }), goal(17*512+128)), nil, []string{"boot-memory"}, "booted with 512 MiB, 8320 MiB plugged then"},
		{"thirty times the boot memory", untouched().with(found(func(i *capacity.Inspection) { i.Kernel.BootMemory = 512 * capacity.MiB }), goal(31*512)), nil, []string{"boot-memory"}, "booted with"},
		{"more than thirty times", untouched().with(found(func(i *capacity.Inspection) { i.Kernel.BootMemory = 512 * capacity.MiB }), goal(31*512+128)), []string{"boot-memory"}, nil, "booted with"},
		{"boot memory unknown", untouched().with(found(func(i *capacity.Inspection) { i.Kernel.BootMemory = 0 }), goal(4096+17*4096)), nil, []string{"boot-memory"}, "boot memory unknown, at most 4096 MiB"},
		{"page structs take half of what is available", untouched().with(found(func(i *capacity.Inspection) { i.MemAvailable = 128 * capacity.MiB })), nil, nil, ""},
		{"page structs take more", untouched().with(found(func(i *capacity.Inspection) { i.MemAvailable = 127 * capacity.MiB })), nil, []string{"boot-memory"}, "127 MiB available"},
		{"page structs take all", untouched().with(found(func(i *capacity.Inspection) { i.MemAvailable = 64 * capacity.MiB })), nil, []string{"boot-memory"}, "64 MiB available"},
		{"page structs take more than all", untouched().with(found(func(i *capacity.Inspection) { i.MemAvailable = 63 * capacity.MiB })), []string{"boot-memory"}, nil, "63 MiB available"},
		{"page structs come with the DIMM", untouched().with(found(func(i *capacity.Inspection) { i.MemAvailable, i.MemmapOnMemory = 63*capacity.MiB, true })), nil, nil, ""},
		{"little available, nothing is plugged", untouched().with(found(func(i *capacity.Inspection) { i.MemAvailable = 1 }), goal(4096)), nil, nil, ""},
		{"movable, three times the boot memory", untouched().with(found(func(i *capacity.Inspection) { i.AutoOnline, i.Kernel.BootMemory = "online_movable", 2048*capacity.MiB })), nil, nil, ""},
		{"movable, more than that", untouched().with(found(func(i *capacity.Inspection) { i.AutoOnline, i.Kernel.BootMemory = "online_movable", 2040*capacity.MiB })), nil, []string{"boot-memory"}, "booted with 2040 MiB"},

		{"kubelet inside k3s", untouched().with(found(func(i *capacity.Inspection) { i.OtherKubelets = []string{"k3s-agent.service is active"} })), []string{"kubelet-service"}, nil, "k3s-agent.service is active"},
		{"kubelet inside k3s can't be ignored", untouched().with(found(func(i *capacity.Inspection) { i.OtherKubelets = []string{"k3s.service is active"} }), ignoring("kubelet-service")), []string{"kubelet-service"}, nil, "k3s"},
		{"static CPU manager configured", untouched().with(found(func(i *capacity.Inspection) { i.Kubelet.CPUManagerPolicy = "static" })), []string{"cpu-manager"}, nil, "no state file; static configured (/var/lib/kubelet/config.yaml"},
		{"static memory manager configured", untouched().with(found(func(i *capacity.Inspection) { i.Kubelet.MemoryManagerPolicy = "Static" })), []string{"memory-manager"}, nil, "Static configured"},
		{"static configured, speed alone changes: kubelet is not restarted", untouched().with(found(func(i *capacity.Inspection) { i.Kubelet.CPUManagerPolicy = "static" }), func(s *scene) { s.goal.Offering = faster }), nil, nil, ""},
		{"configuration not read", untouched().with(found(func(i *capacity.Inspection) { i.Kubelet.Unread = "there is no such file" })), nil, []string{"kubelet-config"}, "/var/lib/kubelet/config.yaml: there is no such file"},
		{"configuration changed in the second of the start", untouched().with(changedAt(started)), nil, nil, ""},
		{"configuration changed a second later", untouched().with(changedAt(started.Add(time.Second))), nil, []string{"kubelet-config-changed"}, "/var/lib/kubelet/config.yaml"},
		{"unit changed, systemd was not told", untouched().with(found(func(i *capacity.Inspection) { i.Kubelet.NeedsReload = true })), nil, []string{"kubelet-config-changed"}, "NeedDaemonReload"},
		{"reservations in percent", untouched().with(found(func(i *capacity.Inspection) { i.Kubelet.Percentages = []string{"evictionHard memory.available 5%"} })), nil, []string{"reservations"}, "evictionHard memory.available 5%"},
		{"an etcd machine has no kubelet", untouched().with(asEtcd, found(func(i *capacity.Inspection) {
			i.OtherKubelets, i.Kubelet = []string{"k3s.service is active"}, capacity.KubeletConfig{Unread: "there is no such file", CPUManagerPolicy: "static", NeedsReload: true}
		})), nil, nil, ""},
		{"an etcd machine without a slot", untouched().with(asEtcd, found(func(i *capacity.Inspection) { i.DIMMsPlugged = 16 })), []string{"dimm-slots"}, nil, "16 of 16"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			refused, warned := Refusals(r.scene.goal, r.scene.seen), Warnings(r.scene.goal, r.scene.seen)
			if diff := cmp.Diff(r.refused, names(refused)) + cmp.Diff(r.warned, names(warned)); diff != "" {
				t.Fatalf("refused, then warned:\n%s", diff)
			}
			for _, c := range append(refused, warned...) {
				if c.Remedy == "" || c.Check.Expected == "" || c.Check.Layer != capacity.LayerPreflight || !strings.Contains(c.Check.Observed, r.evidence) {
					t.Errorf("%+v", c)
				}
			}
		})
	}
}

func names(all []Refusal) (out []string) {
	for _, r := range all {
		out = append(out, r.Name)
	}
	return out
}

// A warning stands in the plan and refuses nothing; the moves are the same as without it.
func TestWarningsAreInThePlan(t *testing.T) {
	s := untouched().with(inspecting(func(i *capacity.Inspection) { i.Kubelet.NeedsReload = true }))
	np, plain := planNode(s.goal, Member{Seen: s.seen}), planNode(s.goal, Member{Seen: untouched().seen})
	if !slices.Equal(names(np.Warnings), []string{"kubelet-config-changed"}) || np.Refusals != nil {
		t.Errorf("%+v", np)
	}
	if diff := cmp.Diff(plain.Moves, np.Moves); diff != "" || len(np.Moves) == 0 {
		t.Error(diff)
	}
	if done := planNode(s.goal, Member{Seen: released().with(inspecting(func(i *capacity.Inspection) { i.Kubelet.NeedsReload = true })).seen}); done.Warnings != nil {
		t.Errorf("warned of a node on which nothing is to be done: %+v", done)
	}
}
