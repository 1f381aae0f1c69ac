package web

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// turn is one node's part of a rollout.
type turn struct {
	Node     string
	Role     rollout.Role
	Status   status
	Took     time.Duration
	Moves    []span
	Lines    []line
	Fault    *rollout.Fault
	Evidence []fact
	Warnings []string
}

// span is one move of a turn.
type span struct {
	Move   rollout.Move
	Took   time.Duration
	X      string // where its bar begins and how wide it is, in percent of the turn
	Width  string
	Status status
}

// line is one event.
type line struct {
	At   time.Time
	Move rollout.Move
	Text string
	Kind string // did, waits, done or failed
}

// fact is one piece of evidence.
type fact struct{ Name, Value string }

func lineOf(e Event) line {
	l := line{At: e.At, Move: e.Move, Text: e.Text, Kind: "did"}
	switch {
	case e.Fault != nil:
		l.Kind, l.Text = "failed", e.Fault.Error()
	case e.Done:
		l.Kind, l.Text = "done", "finished"
	case e.Check.What != "":
		l.Kind, l.Text = "waits", fmt.Sprintf("waiting for %s: %s → %s", e.Check.What, e.Check.Observed, e.Check.Expected)
	}
	return l
}

// turns are those of the events, in their order, and those that only the history knows; what the history knows of a turn is more.
func turns(one told, now time.Time) (out []turn) {
	at := func(name string, role rollout.Role) *turn {
		i := slices.IndexFunc(out, func(t turn) bool { return t.Node == name })
		if i < 0 {
			i = len(out)
			out = append(out, turn{Node: name, Role: role, Status: status{"idle", "waiting"}})
		}
		return &out[i]
	}
	for _, r := range one.nodes {
		at(r.Target.Name, r.Target.Role).take(r)
	}
	for _, e := range one.events {
		if e.Target.Name == "" {
			continue
		}
		t := at(e.Target.Name, e.Target.Role)
		t.Lines = append(t.Lines, lineOf(e))
		switch {
		case e.Fault != nil:
			t.Status, t.Fault = status{"bad", "failed"}, e.Fault
		case e.Done:
			t.Status = status{"ok", "done"}
		case t.Status.Kind == "idle" && (one.Phase == PhaseUnfinished || one.Phase == PhaseEnded):
			t.Status = status{"warn", "not finished"}
		case t.Status.Kind == "idle":
			t.Status = status{"busy", "at work"}
		}
	}
	for i := range out {
		if len(out[i].Moves) == 0 {
			out[i].Moves, out[i].Took = spans(out[i], now, one.Phase == PhaseRunning || one.Phase == PhasePausing)
		}
	}
	return out
}

// take keeps what the report of the node says.
func (t *turn) take(r rollout.NodeReport) {
	kinds := map[rollout.Outcome]string{rollout.OutcomeDone: "ok", rollout.OutcomeUnchanged: "ok", rollout.OutcomeFailed: "bad", rollout.OutcomeInterrupted: "warn"}
	t.Status, t.Took, t.Fault = status{cmp.Or(kinds[r.Outcome], "idle"), string(r.Outcome)}, r.Took, r.Fault
	t.Warnings = slices.Concat(r.Warnings, r.Unplanned, r.Unneeded)
	t.Evidence = evidence(r)
	var begun time.Duration
	total := max(r.Took, time.Millisecond)
	for _, m := range order() {
		if d, has := r.Moves[m]; has {
			s := span{Move: m, Took: d, X: percent(float64(begun), float64(total)), Width: percent(float64(d), float64(total)), Status: status{"ok", "done"}}
			if r.Fault != nil && r.Fault.Move == m {
				s.Status = status{"bad", "failed"}
			}
			t.Moves = append(t.Moves, s)
			begun += d
		}
	}
}

// order is that of the moves, those of both methods.
func order() []rollout.Move {
	return []rollout.Move{rollout.MoveClaim, rollout.MoveDrain, rollout.MoveStop, rollout.MoveResize, rollout.MoveStart, rollout.MoveOnline, rollout.MoveRestart, rollout.MoveVerify, rollout.MoveRelease}
}

// spans are the moves by the times of their events. The last one of a turn at work goes on until now.
func spans(t turn, now time.Time, working bool) (out []span, took time.Duration) {
	if len(t.Lines) == 0 {
		return nil, 0
	}
	began, end := t.Lines[0].At, t.Lines[len(t.Lines)-1].At
	open := working && t.Status.Kind == "busy"
	if open && now.After(end) {
		end = now
	}
	total := float64(max(end.Sub(began), time.Millisecond))
	for i, l := range t.Lines {
		if l.Move == "" || i > 0 && t.Lines[i-1].Move == l.Move {
			continue
		}
		until := end
		for _, later := range t.Lines[i+1:] {
			if later.Move != l.Move && later.Move != "" {
				until = later.At
				break
			}
		}
		out = append(out, span{Move: l.Move, Took: until.Sub(l.At), X: percent(float64(l.At.Sub(began)), total), Width: percent(float64(until.Sub(l.At)), total), Status: status{"ok", "done"}})
	}
	if n := len(out); n > 0 && t.Status.Kind != "ok" {
		out[n-1].Status = t.Status
	}
	return out, end.Sub(began)
}

// evidence is what proves the turn: readings before and after, the job, the restart.
func evidence(r rollout.NodeReport) (out []fact) {
	add := func(name, value string) {
		if value != "" {
			out = append(out, fact{name, value})
		}
	}
	if c := r.Claim; c != nil {
		add("instance before", c.Before.Instance.Size())
		if c.Resize != nil {
			add("resize job", c.Resize.JobID)
		}
		if s := c.Restart; s != nil {
			add("boot id", s.BootID)
			add("kubelet before", fmt.Sprintf("invocation %s, pid %d", s.InvocationID, s.MainPID))
			add("heartbeat before", s.Heartbeat.UTC().Format(time.RFC3339))
		}
	}
	if f := r.Final; f != nil && f.Instance.ID != "" {
		add("instance after", f.Instance.Size())
		if f.Guest.BootID != "" {
			add("guest after", fmt.Sprintf("%d CPU online, %s online", f.Guest.CPUsOnline, gib(f.Guest.MemoryOnline())))
		}
		if f.Guest.Kubelet.InvocationID != "" {
			add("kubelet after", fmt.Sprintf("invocation %s, pid %d", f.Guest.Kubelet.InvocationID, f.Guest.Kubelet.MainPID))
		}
		if f.Node.Name != "" {
			add("Node after", f.Node.Size()+", allocatable "+f.Node.AllocatableSize())
			add("heartbeat after", f.Node.Ready.Heartbeat.UTC().Format(time.RFC3339))
		}
	}
	return out
}
