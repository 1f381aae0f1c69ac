package fleet

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/cks-trueup/trueup/internal/rollout"
	"github.com/cks-trueup/trueup/internal/server/logs"
	"github.com/cks-trueup/trueup/internal/server/notice"
)

// The pauses after a healing that failed for a reason that may pass.
const (
	firstRetry   = 5 * time.Minute
	longestRetry = time.Hour
)

func logLevel(v Verdict) slog.Level {
	switch v {
	case Blind, Person, Drifting:
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// Slots sets how many healings may be at work at once, over all clusters.
func (f *Fleet) Slots(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slots = n
}

// begin starts a healing, if there is a free place for it and the server does not end; else the next scan tries again.
func (f *Fleet) begin(ctx context.Context, w *watched, e Endpoint, d Decision) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ending || w.heal != nil || f.healing >= f.slots {
		return
	}
	h := &healing{run: f.NewRun(), endNode: make(chan struct{})}
	c, endpoint := w.state.Listed, w.endpoint
	w.heal = h
	f.healing++
	work := Work{Run: h.run, Finish: d.Verdict == Finish, Nodes: d.Nodes, EndMove: f.endMove, EndNode: h.endNode, Stop: f.stop}
	work.Watch = func(ev rollout.Event) { f.watchHealing(ctx, endpoint, c, h, d, ev) }
	// A scan may end, for a new configuration, while what it began goes on.
	f.work.Go(func() { f.heal(context.WithoutCancel(ctx), w, endpoint, e, c, work) })
}

// watchHealing follows a healing. Its first event shows that it holds the Lease: only then is it told, since another server may have been first.
func (f *Fleet) watchHealing(ctx context.Context, endpoint string, c Listed, h *healing, d Decision, ev rollout.Event) {
	f.mu.Lock()
	first := !h.begun
	h.begun, h.node, h.move = true, ev.Target.Name, ev.Move
	f.mu.Unlock()
	f.Metrics.Cluster(c.ID, c.Name).Watch(ev)
	if first {
		f.Audit(ctx, string(d.Verdict), c.ID, c.Name, h.run, d.Why)
		f.post(ctx, endpoint, c, notice.Notice{Kind: notice.Started, Run: h.run, Text: "healing: " + d.Why + "."})
	}
}

// heal works until the healing has ended, and judges its end.
func (f *Fleet) heal(ctx context.Context, w *watched, endpoint string, e Endpoint, c Listed, work Work) {
	log := f.Log.With(logs.KeyCluster, c.Name, logs.KeyClusterID, c.ID, logs.KeyRun, work.Run)
	report, err := e.Heal(ctx, c, work)
	held := errors.As(err, new(*rollout.HeldError)) || errors.As(err, new(*rollout.OpenError))
	if !held {
		f.Metrics.Cluster(c.ID, c.Name).Ended(report, err)
	}
	f.mu.Lock()
	began := w.heal.begun
	w.heal = nil
	f.healing--
	w.take(err, held)
	failed := w.failed
	f.drop(c.ID, w)
	f.mu.Unlock()
	switch {
	case held:
		log.InfoContext(ctx, "somebody else was first", logs.KeyError, err)
		return
	case err == nil && !began:
		log.InfoContext(ctx, "nothing was left to heal")
	case err == nil:
		log.InfoContext(ctx, "healed", logs.KeyResult, "done")
		f.post(ctx, endpoint, c, notice.Notice{Kind: notice.Healed, Run: work.Run, Text: "guests and Nodes agree with their instances again."})
	case errors.Is(err, rollout.ErrInterrupted):
		log.InfoContext(ctx, "healing stopped at a safe point", logs.KeyResult, "interrupted", logs.KeyError, err)
	default:
		log.ErrorContext(ctx, "healing failed", logs.KeyResult, "failed", logs.KeyError, err, logs.KeyNext, failed.Next)
		f.post(ctx, endpoint, c, notice.Notice{Kind: notice.Failed, Run: work.Run, About: failed.Text, Text: failed.Text, Next: failed.Next})
	}
	f.Audit(ctx, "healing ended", c.ID, c.Name, work.Run, text(err))
}

func text(err error) string {
	if err == nil {
		return "done"
	}
	return err.Error()
}

// take keeps what the end of a healing means for the next one: what may pass is tried again after a pause, everything else waits for a person or
// for a change. The fleet's mutex is held.
func (w *watched) take(err error, held bool) {
	switch {
	case err == nil:
		w.failed, w.failing = nil, 0
		return
	case held, errors.Is(err, rollout.ErrInterrupted), errors.Is(err, context.Canceled):
		return
	}
	w.failing++
	w.failed = &Failure{Text: "healing failed: " + err.Error(), Next: "trueup status " + rollout.Word(w.state.Name)}
	fault, is := errors.AsType[*rollout.Fault](err)
	if is && fault.Recover != "" {
		w.failed.Next = fault.Recover
	}
	if is && passes(fault.Layer) || errors.Is(err, rollout.ErrUnreachable) {
		w.failed.Again = time.Now().Add(min(firstRetry<<min(w.failing-1, 6), longestRetry))
	}
}

func (f *Fleet) post(ctx context.Context, endpoint string, c Listed, n notice.Notice) {
	n.Time, n.Endpoint, n.ClusterID, n.Cluster = time.Now().UTC(), endpoint, c.ID, c.Name
	f.warn(ctx, c, f.Notices.Post(ctx, n))
}

// End asks healings at work to end with their present move and begins no more; hurry ends them before their next effect. It returns when they have
// ended, or when ctx ends: their claims and the Lease keep what is to be finished.
func (f *Fleet) End(ctx context.Context, hurry <-chan struct{}) {
	f.mu.Lock()
	f.ending = true
	close(f.endMove)
	f.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		f.work.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return
	case <-hurry:
	case <-ctx.Done():
	}
	close(f.stop)
	select {
	case <-ended:
	case <-ctx.Done():
	}
}
