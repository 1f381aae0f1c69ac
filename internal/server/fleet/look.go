package fleet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/preflight"
	"github.com/cks-trueup/trueup/internal/server/logs"
	"github.com/cks-trueup/trueup/internal/server/metrics"
	"github.com/cks-trueup/trueup/internal/server/notice"
	"github.com/cks-trueup/trueup/internal/survey"
)

// jittered is about d: up to a tenth more or less, so that servers and endpoints don't march in step.
func jittered(d time.Duration) time.Duration {
	return d - d/10 + time.Duration(rand.Int64N(int64(d)/5+1)) //nolint:gosec // spreads load, guards nothing
}

// look reads one cluster, decides, and acts.
func (f *Fleet) look(ctx context.Context, w *watched, e Endpoint, c Listed, s Settings) {
	if ctx.Err() != nil {
		return
	}
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, s.Timeout)
	err := w.read(bounded, e, c, s)
	cancel()
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		w.mem.failed(err, time.Now())
	}
	f.conclude(ctx, w, e, time.Since(began))
}

// read asks the API server and, where that is due, guests. The listing is kept in any case.
func (w *watched) read(ctx context.Context, e Endpoint, c Listed, s Settings) error {
	w.mem.listed = c
	if c.Foreign || preflight.NothingRuns(c.State) {
		w.mem.take(c, Sight{}, time.Now())
		return nil
	}
	if w.way == nil {
		way, err := e.Open(ctx, c)
		if err != nil {
			return err
		}
		w.way = way
	}
	sight, err := w.way.Look(ctx)
	if err != nil {
		w.way.Close()
		w.way = nil // its kubeconfig may have changed
		return err
	}
	now := time.Now()
	w.mem.take(c, sight, now)
	w.mem.takeLease(sight.Lease, now)
	if err := w.readGuests(ctx, sight, w.mem.toRead(s.Every, s.Sample, now)); err != nil {
		return err
	}
	w.mem.age(now)
	return nil
}

// readGuests reads these machines in full.
func (w *watched) readGuests(ctx context.Context, sight Sight, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	some := survey.Cluster{ID: w.mem.listed.ID, Name: w.mem.listed.Name}
	for _, m := range w.mem.listed.Members {
		if slices.Contains(ids, m.Instance.ID) {
			some.Members = append(some.Members, m)
		}
	}
	guests, err := w.way.Guests(ctx)
	if err != nil {
		return fmt.Errorf("no way into the guests: %w", err)
	}
	nodes, err := survey.Read(ctx, some, guests, seen{sight})
	_ = guests.Close() // what was read is read
	if err != nil {
		return err
	}
	w.mem.takeFull(nodes, time.Now())
	return nil
}

// seen answers from what was seen already.
type seen struct{ sight Sight }

// Nodes implements survey.Kubernetes.
func (s seen) Nodes(context.Context) ([]capacity.Node, error) { return s.sight.Nodes, nil }

// Claims implements survey.Kubernetes.
func (s seen) Claims(context.Context) (map[string]string, error) { return s.sight.Claims, nil }

// failed notes that the cluster could not be read, and since when.
func (m *memory) failed(err error, now time.Time) {
	m.unread = err.Error()
	if m.unreadSince.IsZero() {
		m.unreadSince = now
	}
}

// conclude decides about a cluster, shows the decision everywhere, and acts on it. Without an endpoint nothing is begun.
func (f *Fleet) conclude(ctx context.Context, w *watched, e Endpoint, took time.Duration) {
	now := time.Now()
	f.mu.Lock()
	f.judgeFailure(w)
	situation := w.mem.situation(w.failed, now)
	d := Decide(situation, now)
	was := w.state.Decision
	w.state = State{Listed: w.mem.listed, Endpoint: w.endpoint, Decision: d, Lease: w.mem.lease, Unread: w.mem.unread, Since: w.mem.unreadSince, Read: w.mem.read}
	for _, n := range w.mem.ordered() {
		w.state.Members = append(w.state.Members, n.seen)
	}
	healing := w.heal != nil
	if healing && !w.state.Policy.open(now) && !w.heal.ended {
		w.heal.ended = true
		close(w.heal.endNode) // the window has closed: the present node is finished
	}
	f.mu.Unlock()
	f.measure(w, situation, d, took)
	if healing {
		return // it tells of itself
	}
	f.tell(ctx, w, situation, d, was)
	if e != nil && (d.Verdict == Heal || d.Verdict == Finish) {
		f.begin(ctx, w, e, d)
	}
}

// judgeFailure forgets a failure for which a person was needed once the cluster looks otherwise. The mutex is held.
func (f *Fleet) judgeFailure(w *watched) {
	if w.failed == nil || !w.failed.Again.IsZero() || w.heal != nil || w.mem.unread != "" {
		return
	}
	switch picture := w.mem.picture(); {
	case !w.failed.seen:
		w.failed.seen, w.failed.picture = true, picture
	case w.failed.picture != picture:
		w.failed, w.failing = nil, 0
	}
}

// picture is what lags and what is unfinished, in a text: as long as it stays, the same healing would fail again.
func (m *memory) picture() string {
	var b strings.Builder
	b.WriteString(m.lease.Open.Run)
	for _, n := range m.ordered() {
		for _, d := range n.lag() {
			fmt.Fprintf(&b, "\n%s %s %s", n.seen.Target.InstanceID, n.seen.Views.Instance.OfferingID, d.View)
		}
	}
	return b.String()
}

func (f *Fleet) measure(w *watched, s Situation, d Decision, took time.Duration) {
	scan := metrics.Scan{Took: took, Readable: s.Unread == "", Nodes: len(s.Members), Drift: map[capacity.View]int{}, Claimed: s.Claimed, Waiting: d.Verdict == Person}
	for _, n := range w.mem.ordered() {
		for _, lag := range n.seen.Drifts {
			scan.Drift[lag.View]++
		}
		if c := n.seen.Claim; c != nil && c.Cordoned && s.Holder == "" {
			scan.Abandoned++
		}
	}
	f.Metrics.Cluster(s.ID, s.Name).Scanned(scan)
}

// tell logs a decision that has changed, and sends the notices that it calls for.
func (f *Fleet) tell(ctx context.Context, w *watched, s Situation, d, was Decision) {
	if d.Verdict != was.Verdict || d.Why != was.Why {
		level := logLevel(d.Verdict)
		f.Log.Log(ctx, level, "cluster", logs.KeyCluster, s.Name, logs.KeyClusterID, s.ID, logs.KeyEndpoint, w.endpoint, "verdict", string(d.Verdict), logs.KeyWhat, d.Why, logs.KeyNext, d.Next)
	}
	n := notice.Notice{Text: d.Why + ".", Next: d.Next}
	switch d.Verdict {
	case Drifting, Closed, Heal:
		if s.Open.Run != "" {
			return
		}
		n.Kind, n.About = notice.Drift, about(s)
		if !d.Until.IsZero() {
			n.Text = d.Why + "; the maintenance window opens " + d.Until.UTC().Format(time.RFC3339) + "."
		}
	case Person:
		n.Kind, n.Run, n.About = notice.Waiting, s.Open.Run, d.Why
	case Fine:
		f.warn(ctx, s.Listed, f.Notices.Over(ctx, s.ID))
		return
	default:
		return
	}
	f.post(ctx, w.endpoint, s.Listed, n)
}

// about names what lags, without how long.
func about(s Situation) string {
	var out []string
	for _, d := range s.due() {
		out = append(out, d.InstanceID+" "+string(d.View))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

func (f *Fleet) warn(ctx context.Context, c Listed, err error) {
	if err != nil {
		f.Log.WarnContext(ctx, "notice kept in memory only", logs.KeyCluster, c.Name, logs.KeyClusterID, c.ID, logs.KeyError, err)
	}
}
