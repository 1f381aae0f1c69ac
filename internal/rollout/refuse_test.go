package rollout

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cks-trueup/trueup/internal/capacity"
)

func ignoring(names ...string) func(*scene) { return func(s *scene) { s.goal.Ignore = names } }

func TestRefusals(t *testing.T) {
	goal := func(change func(*capacity.Offering)) func(*scene) { return func(s *scene) { change(&s.goal.Offering) } }
	guest := func(change func(*capacity.Guest)) func(*scene) { return func(s *scene) { change(&s.seen.Guest) } }
	instance := func(change func(*capacity.Instance)) func(*scene) { return func(s *scene) { change(&s.seen.Instance) } }
	lagging := released().with(shows("2", "4021020Ki")) // the instance is where it shall be
	rows := []struct {
		name  string
		scene scene
		want  []string // what is refused
	}{
		{"nothing", untouched(), nil},
		{"cordoned by somebody is no reason", untouched().with(someoneCordoned), nil},
		{"SSH leads elsewhere", untouched().with(otherGuest), []string{"DMI UUID of the guest reached by SSH"}},
		{"Node of another machine", untouched().with(otherNode), []string{"systemUUID of the Node"}},
		{"a cloned machine-id", untouched().with(func(s *scene) { s.seen.Node.MachineID = "m2" }), []string{"machine-id of Node and guest"}},
		{"rebooted, not posted", untouched().with(guest(func(g *capacity.Guest) { g.BootID = "boot-2" })), []string{"boot id of Node and guest"}},
		{"stopped", untouched().with(instance(func(i *capacity.Instance) { i.State = "Stopped" })), []string{"state of the instance"}},
		{"migrating", untouched().with(migrating), []string{"state of the instance"}},
		{"kubelet down", untouched().with(kubeletDown), []string{"kubelet unit"}},
		{"not Ready", untouched().with(notReady), []string{"Ready condition of the Node"}},
		{"allocatable above capacity", untouched().with(func(s *scene) { s.seen.Node.Allocatable = quantities("3", "1Gi") }), []string{"allocatable of the Node"}},
		{"labelled as control plane, listed as a worker", untouched().with(func(s *scene) { s.seen.Node.ControlPlane = true }), []string{"role of the node"}},
		{"listed as control plane, without the label", untouched().with(func(s *scene) { s.seen.Target.Role = RoleControl }), []string{"role of the node"}},
		{"control plane", untouched().with(func(s *scene) { s.seen.Target.Role, s.seen.Node.ControlPlane = RoleControl, true }), nil},
		{"marked", untouched().with(marked), []string{"marks of other tools on the Node"}},
		{"being deleted", untouched().with(deleting), []string{"marks of other tools on the Node"}},
		{"custom offering", untouched().with(goal(func(o *capacity.Offering) { o.Custom = true })), []string{"kind of the offering"}},
		{"fewer CPUs", untouched().with(goal(func(o *capacity.Offering) { o.CPUs = 1 })), []string{"size of the offering"}},
		{"a MiB less memory", untouched().with(goal(func(o *capacity.Offering) { o.MemoryMiB = 4095 })), []string{"size of the offering"}},
		{"a MHz slower", untouched().with(goal(func(o *capacity.Offering) { o.SpeedMHz = 999 })), []string{"size of the offering"}},
		{"speed unknown is no reason", untouched().with(goal(func(o *capacity.Offering) { o.SpeedMHz = 0 })), nil},
		{"offering without dynamic scaling", untouched().with(goal(func(o *capacity.Offering) { o.DynamicScaling = false })), []string{"dynamic scaling of the offering"}},
		{"instance without dynamic scaling", untouched().with(instance(func(i *capacity.Instance) { i.DynamicallyScalable = false })), []string{"dynamic scaling of the instance"}},
		{"growth of 1000 MiB", untouched().with(goal(func(o *capacity.Offering) { o.MemoryMiB = 5096 })), []string{"memory growth"}},
		{"growth of 128 MiB", untouched().with(goal(func(o *capacity.Offering) { o.MemoryMiB = 4224 })), nil},
		{"CPUs alone grow", untouched().with(goal(func(o *capacity.Offering) { o.MemoryMiB = 4096 })), nil},
		{"2000 to 4000 MiB", untouched().with(instance(func(i *capacity.Instance) { i.MemoryMiB = 2000 }), goal(func(o *capacity.Offering) { o.MemoryMiB = 4000 }),
			guest(func(g *capacity.Guest) { g.BlocksOnline, g.MemTotal = 16, 1900*capacity.MiB })), []string{"memory growth"}},
		{"1 GiB on a guest with blocks of 2 GiB", untouched().with(goal(func(o *capacity.Offering) { o.MemoryMiB = 5120 }),
			guest(func(g *capacity.Guest) { g.BlockSize, g.BlocksOnline = 2048*capacity.MiB, 2 })), []string{"memory growth"}},
		{"possible CPUs just enough", untouched().with(guest(func(g *capacity.Guest) { g.CPUsPossible = 4 })), nil},
		{"one possible CPU too few", untouched().with(guest(func(g *capacity.Guest) { g.CPUsPossible = 3 })), []string{"CPUs that the guest can ever have in this boot"}},
		{"the guest has more than the goal", untouched().with(guest(func(g *capacity.Guest) { g.CPUsOnline, g.CPUsPresent = 5, 5 })), []string{"hardware of the guest"}},
		{"half attached by an earlier try is no reason", untouched().with(guest(func(g *capacity.Guest) { g.BlocksOffline = 32 })), nil},
		{"an inflated balloon", untouched().with(guest(func(g *capacity.Guest) { g.MemTotal /= 2 })), []string{"MemTotal in the guest"}},
		{"static CPU manager", untouched().with(guest(func(g *capacity.Guest) { g.CPUManagerPolicy = "static" })), []string{"CPU manager policy of kubelet"}},
		{"static memory manager", untouched().with(guest(func(g *capacity.Guest) { g.MemoryManagerPolicy = "Static" })), []string{"memory manager policy of kubelet"}},
		{"managers that do nothing", untouched().with(guest(func(g *capacity.Guest) { g.CPUManagerPolicy, g.MemoryManagerPolicy = "none", "None" })), nil},
		{"static manager, speed alone: kubelet is not restarted", untouched().with(func(s *scene) { s.goal.Offering = faster }, guest(func(g *capacity.Guest) { g.CPUManagerPolicy = "static" })), nil},
		{"the instance is there: CloudStack's rules don't matter", lagging.with(goal(func(o *capacity.Offering) { o.DynamicScaling = false })), nil},
		{"the instance is there: kubelet's rules do", lagging.with(guest(func(g *capacity.Guest) { g.CPUManagerPolicy = "static" })), []string{"CPU manager policy of kubelet"}},
		{"ignored by its name", untouched().with(guest(func(g *capacity.Guest) { g.CPUManagerPolicy = "static" }), ignoring("cpu-manager")), nil},
		{"another one ignored", untouched().with(guest(func(g *capacity.Guest) { g.CPUManagerPolicy = "static" }), ignoring("memory-manager")), []string{"CPU manager policy of kubelet"}},
		{"what can't be ignored", untouched().with(otherGuest, ignoring("ssh-identity")), []string{"DMI UUID of the guest reached by SSH"}},
		{"the most fundamental first", untouched().with(marked, notReady, otherGuest, goal(func(o *capacity.Offering) { o.CPUs = 1 })),
			[]string{"DMI UUID of the guest reached by SSH", "Ready condition of the Node", "marks of other tools on the Node", "size of the offering"}},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			var got []string
			for _, refusal := range Refusals(r.scene.goal, r.scene.seen) {
				got = append(got, refusal.Check.What)
				if refusal.Check.Layer != capacity.LayerPreflight || refusal.Check.Expected == "" || refusal.Remedy == "" || refusal.Check.OK {
					t.Errorf("%+v", refusal)
				}
			}
			if diff := cmp.Diff(r.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
