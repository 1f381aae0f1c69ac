package web

import (
	"context"
	"slices"

	"github.com/cks-trueup/trueup/internal/history"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// told is a rollout with all that is known of it: from the history, from the snapshot, and from the events of this server.
type told struct {
	Rollout

	nodes  []rollout.NodeReport
	events []Event
	notes  []string
}

// runs are the rollouts of a cluster, the newest first: the one at work, then those of the history.
func (s *server) runs(ctx context.Context, id string) ([]Rollout, error) {
	c, err := s.Fleet.Cluster(ctx, id)
	if err != nil {
		return nil, err
	}
	entries, _, err := s.History.History(ctx, Query{Cluster: id, Limit: mostHistory})
	if err != nil {
		return nil, err
	}
	var out []Rollout
	for _, one := range group(entries) {
		out = append(out, one.Rollout)
	}
	slices.Reverse(out)
	for _, r := range []*Rollout{c.Last, c.Now} {
		if r != nil {
			out = append([]Rollout{*r}, slices.DeleteFunc(out, func(o Rollout) bool { return o.Run == r.Run })...)
		}
	}
	return out, nil
}

// run is one rollout of a cluster.
func (s *server) run(ctx context.Context, id, run string) (told, error) {
	c, err := s.Fleet.Cluster(ctx, id)
	if err != nil {
		return told{}, err
	}
	entries, _, err := s.History.History(ctx, Query{Cluster: id, Run: run, Limit: mostHistory})
	if err != nil {
		return told{}, err
	}
	var out told
	for _, one := range group(entries) {
		out = one
	}
	for _, r := range []*Rollout{c.Last, c.Now} {
		if r != nil && r.Run == run {
			out.Rollout = *r
		}
	}
	out.events = s.Hub.eventsOf(id, run)
	if out.Run == "" {
		return told{}, errNoRun
	}
	return out, nil
}

// group makes rollouts of entries, in the order of their first one. One without an end is unfinished, as far as the history knows.
func group(entries []history.Entry) (out []told) {
	at := map[string]int{}
	for _, e := range entries {
		i, known := at[e.Run]
		if !known {
			i = len(out)
			at[e.Run] = i
			out = append(out, told{Rollout: Rollout{Run: e.Run, Command: e.Command, Actor: e.Actor, Why: e.Why, Began: e.Time, Phase: PhaseUnfinished, Total: len(e.Goals)}})
		}
		one := &out[i]
		one.notes = append(one.notes, e.Notes...)
		switch {
		case e.Node != nil:
			one.nodes = append(one.nodes, e.Node.NodeReport)
			if o := e.Node.Outcome; o == rollout.OutcomeDone || o == rollout.OutcomeUnchanged {
				one.Done++
			}
			one.Total = max(one.Total, len(one.nodes))
		case e.Kind == history.KindEnd:
			one.Phase, one.Ended, one.Result, one.Error = PhaseEnded, e.Time, e.Result, e.Error
		}
	}
	return out
}
