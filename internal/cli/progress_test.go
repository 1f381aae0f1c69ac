package cli

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// show runs a live progress on a terminal, in virtual time, whose ticker is as real as the rest.
func show(t *testing.T, nodes int, screenOf screen, play func(*terminal, *liveProgress, func(int, rollout.Event))) *terminal {
	t.Helper()
	term := newTerminal(screenOf.columns, screenOf.rows)
	synctest.Test(t, func(*testing.T) {
		var plan rollout.Plan
		for i := range nodes {
			plan.Nodes = append(plan.Nodes, rollout.NodePlan{Target: rollout.Target{Name: fmt.Sprintf("node-%d", i+1)}})
		}
		p := newLiveProgress(term, plan, func() screen { return screenOf }, time.Now)
		play(term, p, func(i int, e rollout.Event) {
			e.At, e.Target = time.Now(), plan.Nodes[i].Target
			p.Event(e)
		})
		p.Close()
	})
	if term.strange != nil || term.wrapped {
		t.Errorf("strange sequences %q, wrapped %t", term.strange, term.wrapped)
	}
	return term
}

func onScreen(t *testing.T, term *terminal, want ...string) {
	t.Helper()
	if diff := cmp.Diff(strings.Join(want, "\n"), term.String()); diff != "" {
		t.Errorf("on the screen (-want +got):\n%s", diff)
	}
}

func waitingFor(what, observed, expected string) rollout.Event {
	return rollout.Event{Move: rollout.MoveVerify, Check: capacity.Check{What: what, Observed: observed, Expected: expected}}
}

func TestLiveProgress(t *testing.T) {
	size := screen{is: true, columns: 60, rows: 24}
	term := show(t, 3, size, func(term *terminal, p *liveProgress, event func(int, rollout.Event)) {
		event(0, rollout.Event{Move: rollout.MoveClaim, Action: rollout.ActionClaim, Text: "cordon Node node-1"})
		onScreen(t, term,
			"node-1  claim     0.0s  cordon Node node-1",
			"node-2                  waiting for its turn",
			"node-3                  waiting for its turn")
		time.Sleep(1700 * time.Millisecond)
		synctest.Wait()
		onScreen(t, term, // the ticker alone keeps the time
			"node-1  claim     1.5s  cordon Node node-1",
			"node-2                  waiting for its turn",
			"node-3                  waiting for its turn")
		event(0, waitingFor("capacity of the Node", "2 CPU / 1928 MiB", "4 CPU / 3976 MiB"))
		event(0, rollout.Event{Move: rollout.MoveRelease, Done: true})
		event(1, rollout.Event{Move: rollout.MoveResize, Text: "scaleVirtualMachine node-2 from small to big (4 CPU / 4096 MiB)"})
		p.Note("Stopping at the next safe point")
		time.Sleep(10 * time.Second)
		event(1, rollout.Event{Move: rollout.MoveResize, Fault: &rollout.Fault{Layer: capacity.LayerCloudStack, Summary: "no\x1b[2Jcapacity\nat all"}})
	})
	onScreen(t, term,
		"Stopping at the next safe point",
		"node-1            1.7s  done",
		"node-2  resize   10.0s  FAILED: cloudstack: no [2Jcapacity…",
		"node-3                  waiting for its turn")
}

// TestLiveProgressOnAShortScreen: what has scrolled away can't be written anew, so no more lines are shown than the screen has.
func TestLiveProgressOnAShortScreen(t *testing.T) {
	term := show(t, 30, screen{is: true, columns: 60, rows: 8}, func(term *terminal, _ *liveProgress, event func(int, rollout.Event)) {
		for i := range 20 {
			event(i, rollout.Event{Move: rollout.MoveRelease, Done: true})
		}
		event(20, waitingFor("capacity of the Node", "2", "4"))
	})
	if term.scrolled != 0 {
		t.Errorf("scrolled by %d lines", term.scrolled)
	}
	onScreen(t, term,
		"node-18            0.0s  done",
		"node-19            0.0s  done",
		"node-20            0.0s  done",
		"node-21  verify    0.0s  waiting for capacity of the Node:…",
		"node-22                  waiting for its turn",
		"node-23                  waiting for its turn",
		"(20 of 30 nodes ended; lines 18 to 23)")
}

func TestLiveProgressWithoutNodes(t *testing.T) {
	term := show(t, 0, screen{is: true, columns: 60, rows: 8}, func(_ *terminal, p *liveProgress, _ func(int, rollout.Event)) { p.Note("held") })
	onScreen(t, term, "held")
}

// TestLiveRollout: a whole rollout on a terminal, whose last picture stays.
func TestLiveRollout(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		p := s.trueup(t, "scale prod --worker big --control big --yes", on(80, 24)).want(t, ExitOK)
		_, live, _ := strings.Cut(p.err.String(), "\n\n\r")
		term := newTerminal(80, 24)
		_, _ = term.Write([]byte(live))
		onScreen(t, term,
			"prod-node-18f3c0d7b2              18.4s  done",
			"prod-node-18f3c0dbc3              18.2s  done",
			"prod-control-18f3c0d2a1           18.2s  done")
		if term.scrolled != 0 || term.strange != nil || term.wrapped {
			t.Errorf("scrolled %d, strange %q, wrapped %t", term.scrolled, term.strange, term.wrapped)
		}
	})
}

// TestPlainProgress: a wait is written once, an effect each time, and nothing that breaks a log.
func TestPlainProgress(t *testing.T) {
	var out strings.Builder
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := newPlainProgress(&out, began)
	node := rollout.Target{Name: "w1"}
	tell := func(after time.Duration, e rollout.Event) {
		e.At, e.Target = began.Add(after), node
		p.Event(e)
	}
	tell(0, rollout.Event{Move: rollout.MoveRestart, Action: rollout.ActionRestart, Text: "restart kubelet"})
	for i := range 3 {
		e := waitingFor("Ready condition", fmt.Sprint("look ", i), "Ready=True")
		tell(time.Duration(i)*time.Second, e)
	}
	tell(4*time.Second, waitingFor("kubelet settled", "3s", "15s"))
	tell(5*time.Second, rollout.Event{Move: rollout.MoveVerify}) // says nothing
	tell(61*time.Second, rollout.Event{Move: rollout.MoveVerify, Fault: &rollout.Fault{Layer: capacity.LayerKubelet, Node: "w1", Summary: "two\nlines"}})
	p.Note("a note")
	p.Close()
	want := `    0.0s  w1  restart  restart kubelet
    0.0s  w1  verify   waiting for Ready condition: look 0 -> Ready=True
    4.0s  w1  verify   waiting for kubelet settled: 3s -> 15s
   61.0s  w1  verify   FAILED: w1: kubelet: two lines
a note
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFold(t *testing.T) {
	for _, r := range []struct {
		screen      screen
		first, text string
		want        string
	}{
		{screen{}, "  - ", "a b c d", "  - a b c d"},
		{screen{is: true, columns: 8}, "  - ", "aa bb cc", "  - aa\n    bb\n    cc"},
		{screen{is: true, columns: 9}, "  - ", "aa bb cc", "  - aa bb\n    cc"},
		{screen{is: true, columns: 8}, "", "a-word-that-is-too-long b", "a-word-that-is-too-long\nb"},
		{screen{is: true, columns: 3}, "  - ", "a b", "  - a b"},
		{screen{is: true, columns: 80}, "", "", ""},
	} {
		if got := r.screen.fold(r.first, r.text); got != r.want {
			t.Errorf("fold(%q, %q) at %d: %q, want %q", r.first, r.text, r.screen.columns, got, r.want)
		}
	}
}
