package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/internal/rollout"
)

func TestScaleTakesTheClusterToItsGoal(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		p := s.trueup(t, "scale prod --worker big --control big --yes").want(t, ExitOK)
		golden(t, "scale.stderr.txt", p.err.String())
		golden(t, "scale.txt", p.out.String())
		s.trueup(t, "verify prod").want(t, ExitOK)
		if s.lease.Held() || s.lease.State.Run != "" {
			t.Errorf("the Lease is left: %+v", s.lease)
		}
	})
}

// TestPlanChangesNothing, and shows what scale then does.
func TestPlanChangesNothing(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		golden(t, "plan-80.txt", s.trueup(t, "plan prod --worker big", on(80, 24)).want(t, ExitOK).out.String())
		text := s.trueup(t, "plan prod --worker big -o json").want(t, ExitOK).out.String()
		if got := s.changes(); got != nil {
			t.Errorf("plan changed: %v", got)
		}
		var plan planDocument
		if err := json.Unmarshal([]byte(text), &plan); err != nil || plan.Kind != "Plan" || len(plan.Nodes) != 2 {
			t.Errorf("%v: %s", err, text)
		}
		var report reportDocument
		if err := json.Unmarshal([]byte(s.trueup(t, "scale prod --worker big --yes -o json").want(t, ExitOK).out.String()), &report); err != nil {
			t.Fatal(err)
		}
		var planned, done []string
		for _, n := range plan.Nodes {
			for _, m := range n.Moves {
				if m.Action != "" {
					planned = append(planned, n.Target.Name+" "+m.Sentence)
				}
			}
		}
		for _, e := range report.Effects {
			done = append(done, e.Node+" "+e.Text)
		}
		if !slices.Equal(planned, done) {
			t.Errorf("planned %q\ndone %q", planned, done)
		}
	})
}

func TestScaleAsks(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		const question = `Change 2 nodes of prod now? Only "yes" goes on: `
		s.trueup(t, "scale prod --worker big", answering("no\n")).want(t, ExitUsage).says(t, question, `the answer was not "yes"`)
		s.trueup(t, "scale prod --worker big", answering("y\n")).want(t, ExitUsage)
		s.trueup(t, "scale prod --worker big", answering("")).want(t, ExitUsage).says(t, question+"\n", "there was no answer to read; use --yes").oneError(t)
		if got := s.changes(); got != nil {
			t.Errorf("changed: %v", got)
		}
		s.trueup(t, "scale prod --worker big", answering("yes\n")).want(t, ExitOK)
	})
}

// TestInterruptAtTheQuestion: before anything is under way, one interrupt ends the command.
func TestInterruptAtTheQuestion(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		in, out := io.Pipe()
		defer out.Close()
		p := s.trueup(t, "scale prod --worker big", func(p *program) {
			p.in = in
			time.AfterFunc(time.Minute, func() { p.interrupts <- os.Interrupt })
		})
		p.want(t, ExitInterrupted).says(t, "interrupted, nothing was changed").oneError(t)
		if got := s.changes(); got != nil {
			t.Errorf("changed: %v", got)
		}
	})
}

// TestInterrupts: the first one stops at the next safe point, the second at once; resume finishes either.
func TestInterrupts(t *testing.T) {
	const name = "prod-node-18f3c0d7b2"
	interrupt := func(s *stage, call string, times int) func(*program) {
		return func(p *program) {
			s.upon[call] = func() {
				for range times {
					p.interrupts <- os.Interrupt
				}
				time.Sleep(time.Millisecond) // virtual: until the interrupts were seen
			}
		}
	}
	t.Run("first", func(t *testing.T) {
		play(t, func(t *testing.T, s *stage) {
			s.trueup(t, "scale prod --worker big --yes", interrupt(s, "online "+name, 1)).want(t, ExitInterrupted).
				says(t, "Stopping at the next safe point", "stopped at a safe point, before the restart; to go on: trueup scale prod --worker big")
			if s.node(1).starts != 1 || s.node(1).node.Claim == "" || !s.node(1).node.Unschedulable || s.lease.Held() || s.lease.State.Run != "run-1" {
				t.Errorf("after the stop: %+v, Lease %+v", s.node(1).node, s.lease)
			}
			s.trueup(t, "resume prod --yes").want(t, ExitOK).says(t, "goes on where run run-1 ended")
			if s.node(1).starts != 2 || s.node(2).starts != 2 {
				t.Error("not resumed")
			}
		})
	})
	t.Run("second", func(t *testing.T) {
		play(t, func(t *testing.T, s *stage) {
			p := s.trueup(t, "scale prod --worker big --yes -o json", interrupt(s, "online "+name, 2)).want(t, ExitInterrupted).
				says(t, "ended at once because of an interrupt", "to go on: trueup resume prod")
			var report reportDocument
			if err := json.Unmarshal([]byte(p.out.String()), &report); err != nil || report.Nodes[0].Outcome != rollout.OutcomeInterrupted {
				t.Errorf("%v: %s", err, p.out.String())
			}
			s.trueup(t, "scale prod --worker big --yes").want(t, ExitOK)
		})
	})
	t.Run("while reading", func(t *testing.T) {
		play(t, func(t *testing.T, s *stage) {
			s.trueup(t, "status prod", func(p *program) {
				s.upon["list nodes"] = func() { p.interrupts <- os.Interrupt; time.Sleep(time.Millisecond) }
			}).want(t, ExitInterrupted).says(t, "interrupted, nothing was changed").oneError(t)
		})
	})
}

func TestScaleWhereNothingIsToDo(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		p := s.trueup(t, "scale prod --worker small").want(t, ExitOK).says(t, "Nothing to do: all views of these nodes agree with the goal.")
		golden(t, "unchanged.txt", p.out.String())
		var report reportDocument
		if err := json.Unmarshal([]byte(s.trueup(t, "scale prod --worker small -o json").want(t, ExitOK).out.String()), &report); err != nil || len(report.Nodes) != 2 || report.Nodes[0].Outcome != rollout.OutcomeUnchanged {
			t.Errorf("%v: %+v", err, report)
		}
		if got := s.changes(); got != nil {
			t.Errorf("changed: %v", got)
		}
	})
}

// TestScaleFinishesWhatSomebodyElseBegan: an instance that has the offering already is not blindly a success.
func TestScaleFinishesWhatSomebodyElseBegan(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.resizeBehind(t, 1, "big")
		s.trueup(t, "scale prod --worker big --yes -o yaml").want(t, ExitOK).prints(t, "kind: RolloutReport", "outcome: done")
		var resizes int
		for _, r := range s.Requests() {
			if r.Mutating {
				resizes++
			}
		}
		if resizes != 1 || s.node(1).starts != 2 {
			t.Errorf("%d resizes, kubelet started %d times", resizes, s.node(1).starts)
		}
	})
}

// TestFaultIsToldTheSameEverywhere: in text, as a document, in the claim, as an Event, in the history.
func TestFaultIsToldTheSameEverywhere(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.node(1).mute = true
		p := s.trueup(t, "scale prod --worker big --yes").want(t, ExitPartly)
		golden(t, "fault.stderr.txt", p.err.String())
		golden(t, "fault.txt", p.out.String())
		const told = "status posted by the running kubelet: not within 5m0s"
		claim, err := rollout.DecodeClaim(s.node(1).node.Claim)
		if err != nil || !strings.Contains(claim.Fault.Error(), told) || claim.Phase != "verify-readiness" {
			t.Errorf("claim: %v %+v", err, claim)
		}
		if !strings.Contains(strings.Join(s.events, "\n"), told) {
			t.Errorf("events: %q", s.events)
		}
		s.trueup(t, "history prod -o json").want(t, ExitOK).prints(t, told, `"result": "failed"`, `"invocationID": "inv-1"`)
		s.trueup(t, "status prod").want(t, ExitOK).prints(t, "prod-node-18f3c0d7b2: claimed by run run-1 of ops@bastion", told, "A rollout is not finished")
	})
	play(t, func(t *testing.T, s *stage) {
		s.Script(standin.Fault{Command: "scaleVirtualMachine", Effect: standin.NoCapacity{}})
		p := s.trueup(t, "scale prod --worker big --yes -o json").want(t, ExitFailed) // everything is as before
		var report reportDocument
		if err := json.Unmarshal([]byte(p.out.String()), &report); err != nil {
			t.Fatal(err)
		}
		if report.Fault == nil || report.Fault.Layer != "cloudstack" || !report.Fault.GivenBack || report.Error == "" {
			t.Errorf("%+v", report.Fault)
		}
		if n := s.node(1).node; n.Claim != "" || n.Unschedulable {
			t.Errorf("not given back: %+v", n)
		}
	})
}

// TestHeldCluster: the Lease of another run, and one that is unfinished with another goal.
func TestHeldCluster(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.open("huge", 1, 2)
		s.trueup(t, "scale prod --worker big --yes").want(t, ExitHeld).
			says(t, "run run-0 of night@shift is not finished", "prod-node-18f3c0d7b2 to huge", "asked for now: prod-node-18f3c0d7b2 to big", "trueup resume prod", "trueup abort prod").oneError(t)
		s.trueup(t, "reconcile prod --yes").want(t, ExitHeld).oneError(t)
		s.lease.State = rollout.LeaseState{}
		s.upon["acquire"] = func() { s.lease.Run, s.lease.State.Actor = "run-0", "night@shift" }
		var report reportDocument
		p := s.trueup(t, "scale prod --worker big --yes -o json").want(t, ExitHeld).says(t, "held by run run-0 of night@shift")
		if err := json.Unmarshal([]byte(p.out.String()), &report); err != nil || report.Fault == nil || report.Fault.Layer != "lock" {
			t.Errorf("%v: %+v", err, report)
		}
		if got := slices.DeleteFunc(s.changes(), func(c string) bool { return c == "acquire" }); len(got) > 0 {
			t.Errorf("changed: %v", got)
		}
	})
}

func TestGuestOutOfReach(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.node(1).lost = fmt.Errorf("%w: connection refused", rollout.ErrUnreachable)
		s.trueup(t, "plan prod --worker big").want(t, ExitUnreachable).says(t, "nothing was changed: prod-node-18f3c0d7b2: the guest could not be read: unreachable: connection refused").oneError(t)
		s.node(2).lost = fmt.Errorf("%w: its host key is unknown", rollout.ErrDenied)
		s.trueup(t, "plan prod --worker big").want(t, ExitUnreachable).says(t, "2 views could not be read (`trueup status` lists them)").oneError(t)
		s.trueup(t, "plan prod --control big").want(t, ExitOK) // the others are not needed
	})
}
