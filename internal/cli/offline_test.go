package cli

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// stop turns the cluster off, as stopKubernetesCluster does: trueup's own account may not.
func (s *stage) stop(t *testing.T) {
	t.Helper()
	admin := s.AddAccount(standin.Account{Name: "admin", Admin: true})
	if err := s.Call(t.Context(), admin.Name, "stopKubernetesCluster", map[string]string{"id": s.cluster.ID}, new(struct{})); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute)
	s.ForgetRequests()
}

// asked are the changes that CloudStack was asked for.
func (s *stage) asked() (out []string) {
	for _, r := range s.Requests() {
		if r.Mutating {
			out = append(out, r.Command)
		}
	}
	return out
}

// offering is the name of the offering that the i-th machine has in CloudStack.
func (s *stage) offering(i int) string {
	vm, _ := s.VM(s.node(i).id)
	for _, name := range []string{"small", "big", "huge"} {
		if s.offeringID(name) == vm.OfferingID {
			return name
		}
	}
	return vm.OfferingID
}

// A check can be ignored where nothing runs, too, and that is kept in the history.
func TestIgnoreOffline(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.AddCluster(standin.ClusterSpec{Name: "new", State: standin.ClusterCreated, Owner: standin.Owner{Account: "owner"}, OfferingID: s.offeringID("small"), Control: standin.Nodes(1), Workers: standin.Nodes(2)})
		a := s.AddAccount(standin.Account{Name: "least", Admin: true, Commands: slices.DeleteFunc(leastRole(t), func(c string) bool { return c == "scaleKubernetesCluster" })})
		as := func(p *program) { p.env["CLOUDSTACK_API_KEY"], p.env["CLOUDSTACK_SECRET_KEY"] = a.APIKey, a.SecretKey }
		s.trueup(t, "scale new --worker big --yes", as).want(t, ExitRefused).says(t, "not allowed: scaleKubernetesCluster").oneError(t)
		p := s.trueup(t, "scale new --worker big --yes --ignore cloudstack-permissions", as).says(t, "Ignored: permissions in CloudStack", "CloudStack did not begin")
		if p.code == ExitRefused || p.code == ExitOK {
			t.Errorf("exit code %d", p.code)
		}
		s.trueup(t, "history -o json").want(t, ExitOK).prints(t, "checks ignored: cloudstack-permissions")
	})
}

// Of a Created cluster there is nothing but the record.
func TestScaleOfACreatedCluster(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.AddCluster(standin.ClusterSpec{Name: "new", State: standin.ClusterCreated, Owner: standin.Owner{Account: "owner"}, OfferingID: s.offeringID("small"), Control: standin.Nodes(1), Workers: standin.Nodes(2)})
		golden(t, "plan-created.txt", s.trueup(t, "plan new --worker big", on(80, 24)).want(t, ExitOK).out.String())
		if got := s.asked(); got != nil {
			t.Errorf("plan changed: %v", got)
		}
		s.trueup(t, "scale new --worker big --yes").want(t, ExitOK).says(t, "Changed.")
		if got := s.changes(); !slices.Equal(got, []string{"scaleKubernetesCluster"}) {
			t.Errorf("asked for %v", got)
		}
		s.trueup(t, "scale new --worker big --yes").want(t, ExitOK).says(t, "Nothing to do")
		s.trueup(t, "scale new --etcd big --yes").want(t, ExitRefused).says(t, "no dedicated etcd nodes").oneError(t)
		s.trueup(t, "scale new --worker big --node x --yes").want(t, ExitUsage).says(t, "leave out --node").oneError(t)
		s.trueup(t, "history").want(t, ExitOK).prints(t, "new")
	})
}

// Of a Stopped cluster the machines change, and the record with them: down as well as up. Nothing is cordoned, and nothing restarted.
func TestScaleOfAStoppedCluster(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.stop(t)
		s.trueup(t, "scale prod --worker big --yes").want(t, ExitOK).says(t, "Nothing of prod runs, so nothing could be verified: `trueup verify prod` after its start")
		if got := s.changes(); !slices.Equal(got, []string{"scaleKubernetesCluster"}) {
			t.Errorf("asked for %v", got)
		}
		if s.offering(0) != "small" || s.offering(1) != "big" || s.offering(2) != "big" {
			t.Errorf("%s %s %s", s.offering(0), s.offering(1), s.offering(2))
		}
		s.trueup(t, "scale prod --worker big --yes").want(t, ExitOK).says(t, "Nothing to do")
		s.trueup(t, "scale prod --worker small --yes -o json").want(t, ExitOK).prints(t, "scaleKubernetesCluster")
		if s.offering(1) != "small" {
			t.Errorf("not smaller: %s", s.offering(1))
		}
	})
}

// The first machine of a role decides in CloudStack; what it leaves out is changed all the same.
func TestStoppedClusterWhoseFirstMachineIsThere(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.resizeBehind(t, 1, "big")
		s.stop(t)
		s.trueup(t, "scale prod --worker big --yes").want(t, ExitOK).says(t, "which CloudStack left out (scaleVirtualMachine)")
		if s.offering(1) != "big" || s.offering(2) != "big" {
			t.Errorf("%s %s", s.offering(1), s.offering(2))
		}
	})
}

// While CloudStack works on one of the machines, nothing is begun.
func TestStoppedClusterWithAPendingJob(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.stop(t)
		s.Script(standin.Fault{Command: "scaleVirtualMachine", VM: s.node(1).id, Effect: standin.JobDelay{By: time.Hour}})
		if _, err := s.ScaleVirtualMachine(t.Context(), "owner", s.node(1).id, s.offeringID("huge")); err != nil {
			t.Fatal(err)
		}
		s.ForgetRequests()
		s.trueup(t, "scale prod --worker big --yes").want(t, ExitRefused).says(t, "is pending on prod-node-18f3c0d7b2").oneError(t)
		if got := s.asked(); got != nil {
			t.Errorf("asked for %v", got)
		}
	})
}

// --start starts it, and verifies every node; kubelet is started by the boot alone.
func TestScaleAndStart(t *testing.T) {
	boot := func(s *stage) {
		for _, m := range s.nodes {
			m.boot(4, 4096)
		}
	}
	play(t, func(t *testing.T, s *stage) {
		s.stop(t)
		time.AfterFunc(40*time.Second, func() { boot(s) })
		p := s.trueup(t, "scale prod --offering big --start --yes").want(t, ExitOK)
		p.prints(t, "prod-control-18f3c0d2a1: all views agree", "prod-node-18f3c0dbc3: all views agree")
		if got := s.changes(); !slices.Equal(got, []string{"scaleKubernetesCluster", "startKubernetesCluster"}) {
			t.Errorf("asked for %v", got)
		}
		for _, m := range s.nodes {
			if m.starts != 2 || m.guest.CPUsOnline != 4 || m.node.Unschedulable {
				t.Errorf("%s: %d starts of kubelet, %+v", m.name, m.starts, m.guest)
			}
		}
	})
	t.Run("a node does not come back", func(t *testing.T) {
		play(t, func(t *testing.T, s *stage) {
			s.stop(t)
			time.AfterFunc(40*time.Second, func() { boot(s); s.node(2).lost = rollout.ErrUnreachable })
			s.trueup(t, "scale prod --offering big --start --yes --verify-timeout 2m").says(t, "prod was started, and is not verified within 2m0s; look again with `trueup verify prod`").oneError(t)
		})
	})
}

func TestOfflineFaults(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.stop(t)
		s.Script(standin.Fault{Command: "scaleKubernetesCluster", Effect: standin.Refuse{Code: 431, Text: "scripted"}})
		s.trueup(t, "scale prod --worker big --yes").says(t, "CloudStack did not begin", "scripted", "trueup clusters")
	})
}

// An interrupt in the middle of CloudStack's job ends the command at once, and does not claim that nothing was changed. A lost reply does not either.
func TestOfflineChangeWithoutAnEnd(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.stop(t)
		p := s.trueup(t, "scale prod --worker big --yes", func(p *program) {
			time.AfterFunc(1500*time.Millisecond, func() { p.interrupts <- os.Interrupt })
		}).want(t, ExitInterrupted).says(t, "interrupted; job ", "goes on in CloudStack").oneError(t)
		if strings.Contains(p.err.String(), "nothing was changed") {
			t.Error(p.err.String())
		}
		time.Sleep(time.Minute)
		s.trueup(t, "scale prod --worker big --yes").want(t, ExitOK).says(t, "Nothing to do")
	})
	play(t, func(t *testing.T, s *stage) {
		s.stop(t)
		s.Script(standin.Fault{Command: "scaleKubernetesCluster", Effect: standin.LoseReply{}})
		s.trueup(t, "scale prod --worker big --yes").want(t, ExitPartly).says(t, "CloudStack gave no answer, so it may have begun or not")
		time.Sleep(time.Minute)
		s.trueup(t, "scale prod --worker big --yes").want(t, ExitOK).says(t, "Nothing to do")
	})
}
