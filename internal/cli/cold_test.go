package cli

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/internal/kube"
	"github.com/cks-trueup/trueup/internal/rollout"
)

const gib = 1 << 30

// run puts pods on the i-th machine.
func (f *fleet) run(i int, pods ...capacity.Pod) {
	for j, p := range pods {
		p.UID, p.Namespace, p.Phase, p.Ready = "uid-"+p.Name, "default", "Running", true
		pods[j] = p
	}
	f.node(i).pods = pods
}

var (
	web   = capacity.Pod{Name: "web", Controller: "ReplicaSet", MilliCPU: 100, Memory: gib / 8}
	agent = capacity.Pod{Name: "agent", Controller: "DaemonSet", MilliCPU: 50, Memory: gib / 16}
)

// A shrink, which no running instance allows: drained, stopped, changed, started, and the node given back.
func TestCold(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.run(1, web, agent)
		s.trueup(t, "scale prod --worker tiny --yes").want(t, ExitRefused).says(t, "CloudStack lets a running instance only grow")
		s.trueup(t, "plan prod --worker tiny --method cold").want(t, ExitOK).
			prints(t, "evict every pod from Node prod-node-18f3c0d7b2 that can run elsewhere, 1 now, through the eviction API").
			prints(t, "stopVirtualMachine prod-node-18f3c0d7b2").prints(t, "startVirtualMachine prod-node-18f3c0d7b2")
		s.trueup(t, "scale prod --worker tiny --method cold --why night --yes").want(t, ExitOK)
		calls := s.changes()
		for _, want := range []string{"evict web", "stopVirtualMachine", "scaleVirtualMachine", "startVirtualMachine"} {
			if !slices.Contains(calls, want) {
				t.Errorf("no %s in %q", want, calls)
			}
		}
		for _, i := range []int{1, 2} {
			if m := s.node(i); m.guest.CPUsOnline != 1 || m.node.Claim != "" || m.node.Unschedulable || slices.Contains(calls, "restart "+m.name) {
				t.Errorf("%+v", m.node)
			}
		}
		if len(s.node(1).pods) != 1 {
			t.Errorf("%+v", s.node(1).pods)
		}
		s.trueup(t, "scale prod --worker tiny --method cold --yes").want(t, ExitOK)
	})
}

// What the cold method would harm is refused before anything is changed, by name.
func TestColdRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		args  string
		given func(*stage)
		says  string
	}{
		"a bare pod":             {"--worker tiny", func(s *stage) { s.run(1, capacity.Pod{Name: "bare"}) }, "pods that nothing would replace: expected none, observed default/bare"},
		"local data":             {"--worker tiny", func(s *stage) { s.run(1, capacity.Pod{Name: "db", Controller: "StatefulSet", LocalData: true}) }, "--ignore local-data"},
		"requests don't fit":     {"--worker tiny", func(s *stage) { s.run(1, capacity.Pod{Name: "big", Controller: "ReplicaSet", MilliCPU: 1900}) }, "room for pods: 1800m CPU and"},
		"the only control plane": {"--control tiny", func(*stage) {}, "--accept-api-outage"},
		"rights":                 {"--worker tiny", func(s *stage) { s.denied = []kube.Right{kube.ColdRights()[0]} }, "create pods/eviction"},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				c.given(s)
				s.trueup(t, "scale prod --method cold --yes "+c.args).want(t, ExitRefused).says(t, c.says)
				if got := s.changes(); got != nil {
					t.Errorf("%q", got)
				}
			})
		})
	}
}

// A drain that does not end is told with what holds the pods; the node is given back, and a pod that is named is deleted.
func TestColdHeldPod(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.run(1, web)
		s.held = map[string]bool{"web": true}
		s.trueup(t, "scale prod --worker tiny --method cold --drain-timeout 1m --yes").want(t, ExitFailed).
			says(t, "held: default/web (the budget web needs it)").says(t, "next: trueup scale prod --worker tiny --method cold")
		if slices.Contains(s.changes(), "stopVirtualMachine") || s.node(1).node.Unschedulable {
			t.Errorf("%q", s.changes())
		}
		s.trueup(t, "scale prod --worker tiny --method cold --delete-pod default/web --yes").want(t, ExitOK)
	})
}

// An instance that CloudStack can't start is told with the next step, which finishes it although CloudStack calls the cluster Alert meanwhile.
func TestColdResumesInAlert(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.Script(standin.Fault{Command: "startVirtualMachine", Effect: standin.Refuse{Code: 533, Text: "no host has room"}})
		s.trueup(t, "scale prod --worker tiny --method cold --yes").want(t, ExitPartly).says(t, "no host has room").says(t, "next: trueup scale prod --worker tiny --method cold")
		time.Sleep(6 * time.Minute)
		s.trueup(t, "clusters").want(t, ExitOK).prints(t, "Alert")
		s.trueup(t, "scale prod --worker big --yes").want(t, ExitRefused)
		s.trueup(t, "abort prod --yes").want(t, ExitRefused).says(t, "cmk start virtualmachine id="+s.node(1).id)
		s.trueup(t, "resume prod --yes").want(t, ExitOK)
		if s.node(1).guest.CPUsOnline != 1 { // the goals of the others went with the abort that was tried
			t.Errorf("%+v", s.node(1).guest)
		}
		if c, _ := s.Cluster(s.cluster.ID); c.State != standin.ClusterRunning {
			t.Errorf("ended while the cluster is %s", c.State)
		}
	})
}

// explain tells of a node that the cold method has claimed what that method would do next.
func TestExplainCold(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.claim(t, 1, func(c *rollout.Claim) { c.Cold = &rollout.Cold{} })
		s.trueup(t, "explain prod "+s.node(1).name).want(t, ExitOK).prints(t, "stopVirtualMachine", "startVirtualMachine")
	})
}

func TestColdUsage(t *testing.T) {
	for args, says := range map[string]string{
		"scale prod --worker big --method warm":       "--method warm: it is live or cold",
		"scale prod --worker big --accept-api-outage": "belong to --method cold",
		"scale prod --worker big --delete-pod a/b":    "belong to --method cold",
		"scale prod --worker big --drain-timeout 0s":  "--drain-timeout 0s",
		"prepare prod --role master":                  "--role master",
		"rights rbac --method warm":                   "--method warm",
		"rights rbac --method cold --look-only":       "choose one",
		"prepare prod --ignore node-ready":            "no check of that name can be ignored",
		"scale prod --worker big --power-timeout -1s": "--power-timeout -1s",
		"prepare prod --node nosuch":                  "nosuch",
	} {
		t.Run(args, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				s.trueup(t, args).want(t, ExitUsage).says(t, says).oneError(t)
				if got := s.changes(); got != nil {
					t.Errorf("%q", got)
				}
			})
		})
	}
}

// prepare stops and starts what can't be scaled live, marks it first, and leaves the rest alone.
func TestPrepare(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.trueup(t, "prepare prod --role worker --yes").want(t, ExitOK).says(t, "Nothing to prepare")
		s.UpdateVM(s.node(1).id, func(vm *standin.VM) { vm.DynamicallyScalable = false })
		s.node(2).inside.DIMMSlots = 0
		boots := []string{s.node(1).guest.BootID, s.node(2).guest.BootID}
		s.upon["startVirtualMachine"] = func() { s.node(2).inside.DIMMSlots = 16 }
		s.trueup(t, "prepare prod --yes --accept-api-outage").want(t, ExitOK)
		for i, before := range boots {
			if m := s.node(i + 1); m.guest.BootID == before || m.guest.CPUsOnline != 2 || m.node.Claim != "" {
				t.Errorf("%+v", m.guest)
			}
		}
		if vm, _ := s.VM(s.node(1).id); !vm.DynamicallyScalable {
			t.Error("not marked")
		}
		if strings.Contains(strings.Join(s.changes(), " "), "scaleVirtualMachine") {
			t.Errorf("%q", s.changes())
		}
	})
}

// What only an administrator can change is said before anything is stopped.
func TestPrepareNeedsAnAdministrator(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.UpdateVM(s.node(1).id, func(vm *standin.VM) { vm.DynamicallyScalable = false })
		s.Set(standin.SettingDynamicScaling, s.Defaults().ZoneID, "false")
		s.trueup(t, "prepare prod --yes").want(t, ExitRefused).says(t, "enable.dynamic.scale.vm")
		if got := s.changes(); got != nil {
			t.Errorf("%q", got)
		}
	})
}

var errUnread = errors.New("unread")

// A node that can't be read can't be judged.
func TestPrepareUnread(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.node(1).lost = errors.Join(rollout.ErrUnreachable, errUnread)
		s.trueup(t, "prepare prod --yes").want(t, ExitUnreachable).says(t, "unread")
	})
}
