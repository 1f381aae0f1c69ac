package cli

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/internal/rollout"
)

func TestNothingToResumeOrAbort(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.trueup(t, "resume prod").want(t, ExitOK).says(t, "Nothing to resume: no rollout of prod is open, and no node carries a claim.\n")
		s.trueup(t, "abort prod").want(t, ExitOK).says(t, "Nothing to give back")
		for _, command := range []string{"resume", "abort"} {
			var report reportDocument
			if err := json.Unmarshal([]byte(s.trueup(t, command+" prod -o json").want(t, ExitOK).out.String()), &report); err != nil || report.Kind != "RolloutReport" || report.Nodes == nil {
				t.Errorf("%s: %v: %+v", command, err, report)
			}
		}
		if got := s.changes(); got != nil {
			t.Errorf("changed: %v", got)
		}
	})
}

func TestResume(t *testing.T) {
	t.Run("an open rollout", func(t *testing.T) {
		play(t, func(t *testing.T, s *stage) {
			s.open("big", 1, 2)
			s.trueup(t, "resume prod --yes").want(t, ExitOK)
			if s.node(1).starts != 2 || s.node(2).starts != 2 || s.node(0).starts != 1 || s.lease.State.Run != "" {
				t.Errorf("not finished: %+v", s.lease)
			}
		})
	})
	t.Run("a claim alone", func(t *testing.T) {
		play(t, func(t *testing.T, s *stage) {
			s.claim(t, 1, nil)
			s.trueup(t, "resume prod --yes").want(t, ExitOK).says(t, "goes on where run run-0 ended")
			if n := s.node(1).node; n.Claim != "" || n.Unschedulable || s.node(2).starts != 1 {
				t.Errorf("%+v", n)
			}
		})
	})
	t.Run("a machine of the goal is gone", func(t *testing.T) {
		play(t, func(t *testing.T, s *stage) {
			s.open("big", 1, 2)
			s.lease.State.Goals["00000000-0000-4000-8000-000000000099"] = s.goal("big")
			s.trueup(t, "resume prod --yes").want(t, ExitOK)
			if s.lease.State.Run != "" {
				t.Error("still open")
			}
		})
	})
	t.Run("everything was done already", func(t *testing.T) {
		play(t, func(t *testing.T, s *stage) {
			s.trueup(t, "scale prod --worker big --yes").want(t, ExitOK)
			s.open("big", 1, 2)
			s.trueup(t, "resume prod").want(t, ExitOK) // nothing is changed: nothing is asked
			if s.lease.State.Run != "" {
				t.Error("still open")
			}
		})
	})
	t.Run("the cluster does not run", func(t *testing.T) {
		play(t, func(t *testing.T, s *stage) {
			s.open("big", 1)
			s.UpdateCluster(s.cluster.ID, func(c *standin.Cluster) { c.State = standin.ClusterStopped })
			s.trueup(t, "resume prod --yes").want(t, ExitRefused).says(t, "cluster prod is Stopped").oneError(t)
			s.trueup(t, "reconcile prod --yes").want(t, ExitRefused).says(t, "cluster prod is Stopped").oneError(t)
		})
	})
}

func TestAbort(t *testing.T) {
	t.Run("healthy", func(t *testing.T) {
		play(t, func(t *testing.T, s *stage) {
			s.open("big", 1, 2)
			s.claim(t, 1, nil)
			p := s.trueup(t, "abort prod", answering("yes\n")).want(t, ExitOK).says(t, "On prod: give back 1 node, and end the open rollout (run run-0 of night@shift). Now?")
			if n := s.node(1).node; n.Claim != "" || n.Unschedulable || s.lease.State.Run != "" {
				t.Errorf("%+v, Lease %+v", n, s.lease)
			}
			p.prints(t, "prod-node-18f3c0d7b2", "done")
			var entry struct {
				Goals map[string]any `json:"goals"`
			}
			for line := range strings.Lines(read(t, s.history())) {
				if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Goals != nil {
					t.Errorf("an abort has no goal: %v %s", err, line)
				}
			}
		})
	})
	t.Run("open rollout without claims", func(t *testing.T) {
		play(t, func(t *testing.T, s *stage) {
			s.open("big", 1, 2)
			p := s.trueup(t, "abort prod --yes").want(t, ExitOK)
			if s.lease.State.Run != "" || p.out.String() != "" {
				t.Errorf("Lease %+v, %q", s.lease, p.out.String())
			}
		})
	})
	t.Run("not healthy", func(t *testing.T) {
		play(t, func(t *testing.T, s *stage) {
			s.open("big", 1, 2)
			s.claim(t, 1, nil)
			s.claim(t, 2, nil)
			s.node(1).node.Ready.Status, s.node(2).node.Ready.Status = "False", "False"
			p := s.trueup(t, "abort prod --yes").want(t, ExitRefused)
			if text := p.err.String(); strings.Count(text, "trueup: prod-node-") != 2 || strings.Count(text, "next: trueup resume prod, or trueup abort --force") != 2 {
				t.Errorf("each node's fault is not told on its own:\n%s", text)
			}
			if s.node(1).node.Claim == "" || !s.node(1).node.Unschedulable || s.lease.State.Run == "" {
				t.Error("was given back")
			}
			s.trueup(t, "abort prod --yes --force").want(t, ExitUsage).says(t, "--force needs a reason").oneError(t)
			s.trueup(t, "abort prod --yes --force --why disk-broken").want(t, ExitOK)
			if s.node(1).node.Claim != "" || s.node(2).node.Unschedulable || s.lease.State.Run != "" {
				t.Error("was not given back")
			}
			s.trueup(t, "history -o json").want(t, ExitOK).prints(t, `"why": "disk-broken"`, "forced: nodes were given back without being verified healthy")
		})
	})
}

// One node is given back and taken out of the rollout; resume finishes the others, and leaves that one alone.
func TestAbortOfOneNode(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.open("big", 1, 2)
		s.claim(t, 1, nil)
		s.claim(t, 2, nil)
		s.trueup(t, "abort prod prod-node-18f3c0d7b2", answering("yes\n")).want(t, ExitOK).
			says(t, "On prod: give back 1 node, and leave 1 node of the rollout to be resumed. Now?", "1 node of the rollout left: `trueup resume prod` goes on with it")
		if one, two := s.node(1).node, s.node(2).node; one.Claim != "" || one.Unschedulable || two.Claim == "" || !two.Unschedulable {
			t.Errorf("%+v\n%+v", one, two)
		}
		if left := s.lease.State; s.lease.Held() || left.Command != "scale" || len(left.Goals) != 1 || left.Goals[idOf(3)].Offering.Name != "big" {
			t.Errorf("%+v", s.lease)
		}
		s.trueup(t, "abort prod prod-node-18f3c0d7b2 --yes").want(t, ExitOK).says(t, "Nothing to give back")
		s.trueup(t, "resume prod --yes").want(t, ExitOK)
		if one, two := s.node(1), s.node(2); one.guest.CPUsOnline != 2 || two.guest.CPUsOnline != 4 || two.node.Claim != "" || s.lease.State.Run != "" {
			t.Errorf("%+v\n%+v\n%+v", one.guest, two.guest, s.lease)
		}
	})
}

// A node that waits for its turn is taken out of the rollout before it comes.
func TestAbortOfAWaitingNode(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.open("big", 1, 2)
		s.trueup(t, "abort prod prod-node-18f3c0dbc3 --yes").want(t, ExitOK).says(t, "1 node of the rollout left")
		s.trueup(t, "resume prod --yes").want(t, ExitOK)
		if s.node(1).guest.CPUsOnline != 4 || s.node(2).guest.CPUsOnline != 2 {
			t.Errorf("%+v\n%+v", s.node(1).guest, s.node(2).guest)
		}
	})
}

func TestReconcile(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.resizeBehind(t, 1, "big")
		s.resizeBehind(t, 2, "big")
		s.trueup(t, "reconcile prod PROD-node-18f3c0dbc3 "+idOf(3)+" --yes").want(t, ExitOK)
		if s.node(1).starts != 1 || s.node(2).starts != 2 {
			t.Errorf("kubelets started %d and %d times", s.node(1).starts, s.node(2).starts)
		}
		s.trueup(t, "reconcile prod --yes").want(t, ExitOK)
		s.trueup(t, "reconcile prod").want(t, ExitOK).says(t, "Nothing to do")
		s.trueup(t, "verify prod").want(t, ExitOK)
		for _, r := range s.Requests() {
			if r.Mutating {
				t.Errorf("reconcile asked for %s", r.Command)
			}
		}
	})
}

func TestVerify(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		p := s.trueup(t, "verify prod").want(t, ExitOK)
		if p.out.String() != "prod-control-18f3c0d2a1: all views agree\nprod-node-18f3c0d7b2: all views agree\nprod-node-18f3c0dbc3: all views agree\n" || p.err.String() != "" {
			t.Errorf("%s%s", p.out.String(), p.err.String())
		}
		s.resizeBehind(t, 1, "big")
		s.claim(t, 2, nil)
		lagging := s.trueup(t, "verify prod").want(t, ExitDrift).says(t, "trueup reconcile prod").oneError(t)
		golden(t, "verify.txt", lagging.out.String())
		golden(t, "verify.json", s.trueup(t, "verify prod prod-node-18f3c0d7b2 -o json").want(t, ExitDrift).out.String())
		s.trueup(t, "verify prod prod-control-18f3c0d2a1").want(t, ExitOK)
		s.node(0).lost = rollout.ErrUnreachable
		s.trueup(t, "verify prod prod-control-18f3c0d2a1").want(t, ExitUnreachable).says(t, "not all views of prod could be read, so nobody knows whether they agree").oneError(t)
		s.trueup(t, "verify prod").want(t, ExitDrift) // that something lags is known all the same
		if got := s.changes(); got != nil {
			t.Errorf("verify changed: %v", got)
		}
	})
}

func TestHistory(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.trueup(t, "history").want(t, ExitOK).says(t, "No rollout is recorded in "+s.history())
		s.trueup(t, "history -o json").want(t, ExitOK).prints(t, `"items": []`)
		s.trueup(t, "scale prod --worker big --yes --why weekly").want(t, ExitOK)
		file, err := os.OpenFile(s.history(), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = file.WriteString(`{"v":1,"cut":`)
		_ = file.Close()
		p := s.trueup(t, "history prod").want(t, ExitOK).says(t, "1 line of "+s.history()+" can't be read")
		golden(t, "history.txt", p.out.String())
		golden(t, "history-80.txt", s.trueup(t, "history", on(80, 24)).want(t, ExitOK).out.String())
		s.trueup(t, "history lab").want(t, ExitOK).says(t, "No rollout of lab is recorded")
		s.trueup(t, "history --history "+s.home).want(t, ExitFailed).oneError(t)
	})
}

// TestHistoryThatCannotBeWritten is said once, and stops nothing: it is for people.
func TestHistoryThatCannotBeWritten(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		p := s.trueup(t, "scale prod --worker big --yes", with("TRUEUP_HISTORY", s.home)).want(t, ExitOK)
		if strings.Count(p.err.String(), "the history is not kept") != 1 {
			t.Error(p.err.String())
		}
	})
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
