package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/cks-trueup/trueup/internal/history"
	"github.com/cks-trueup/trueup/internal/kube"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// runFlags are the flags of every command that changes a cluster.
type runFlags struct {
	yes    bool
	why    string
	output string
	limits rollout.Limits
	power  time.Duration
}

func (f *runFlags) add(c *cobra.Command) {
	f.limits = rollout.DefaultLimits()
	flags := c.Flags()
	flags.BoolVarP(&f.yes, "yes", "y", false, "do not ask before the start")
	flags.StringVar(&f.why, "why", "", "`reason`, kept in the claims and the history, and shown to whoever asks")
	flags.DurationVar(&f.limits.Access, "access-timeout", f.limits.Access, "how long reads may fail in a row")
	flags.DurationVar(&f.limits.Resize, "resize-timeout", f.limits.Resize, "bound of one offering change in CloudStack")
	flags.DurationVar(&f.limits.Online, "online-timeout", f.limits.Online, "bound until the guest shows its new hardware")
	flags.DurationVar(&f.limits.Drain, "drain-timeout", f.limits.Drain, "cold method: bound until every pod that can run elsewhere has left the node")
	flags.DurationVar(&f.power, "power-timeout", f.limits.Stop, "cold method: bound of each stop and of each start of an instance")
	flags.DurationVar(&f.limits.Verify, "verify-timeout", f.limits.Verify, "bound until the Node is verified after the restart")
	addOutput(c, &f.output, "text", "json", "yaml")
}

// check refuses bounds that nothing could meet.
func (f *runFlags) check() error {
	for _, l := range []struct {
		flag string
		d    time.Duration
	}{{"--access-timeout", f.limits.Access}, {"--resize-timeout", f.limits.Resize}, {"--online-timeout", f.limits.Online}, {"--verify-timeout", f.limits.Verify},
		{"--drain-timeout", f.limits.Drain}, {"--power-timeout", f.power}} {
		if l.d <= 0 {
			return usageErrorf("%s %s: it must be longer than nothing", l.flag, l.d)
		}
	}
	return nil
}

// job is one change of a cluster, whoever asked for it.
type job struct {
	command   string
	run       string // its id
	actor     string // who asked for it, and why
	why       string
	continues string // the run of the unfinished rollout that it goes on with
	plan      rollout.Plan
	byNode    bool
	notes     []string
	limits    rollout.Limits
	do        func(context.Context, *rollout.Runner) (rollout.Report, error)

	// watch is told what happens. The rest asks for an end: before the next effect, with the present move, with the present node.
	watch                  func(rollout.Event)
	stop, endMove, endNode <-chan struct{}
}

// perform walks the plan, shows it, keeps the history, and prints the report. The error carries the exit code.
func (a *app) perform(ctx context.Context, s *session, f runFlags, j job) error {
	f.limits.Stop, f.limits.Start = f.power, f.power
	stop := make(chan struct{})
	shown := a.progress(j.plan)
	ended := a.underWay(shown, func() {
		a.say("Stopping at the next safe point; interrupt again to end at once. Either can be resumed.")
		close(stop)
	})
	j.run, j.actor, j.why, j.limits, j.watch, j.stop = a.newRun(), a.actor(), f.why, f.limits, shown.Event, stop
	report, err := a.conduct(ctx, s, j, ended)
	return a.conclude(f.output, s, report, err)
}

// conclude prints the report, and gives the error its exit code.
func (a *app) conclude(output string, s *session, report rollout.Report, err error) error {
	if e := a.printReport(output, s.cluster.Name, report, err); e != nil && err == nil {
		return e
	}
	return withCode(rolloutCode(report, err), err)
}

// conduct carries a job out and keeps its history. ended, which may be nil, is called when nothing is under way any more.
func (a *app) conduct(ctx context.Context, s *session, j job, ended func()) (rollout.Report, error) {
	j.limits.Effect = kube.EffectDeadline
	r := &rollout.Runner{CloudStack: s.cloudStack, Guests: s.guests, Nodes: s.kube, Lock: s.kube.Lock(), Shelf: s.kube, Health: s.kube, Pods: s.kube, Power: s.cloudStack, Evictions: s.kube, Clock: a.clock,
		Limits: j.limits, Run: j.run, Command: j.command, Continues: j.continues, ByNode: j.byNode, Stop: j.stop, EndMove: j.endMove, EndNode: j.endNode,
		Watcher: func(e rollout.Event) { s.control.workOn(e.Target); j.watch(e) },
		Author:  rollout.Author{Actor: j.actor, Why: j.why, Since: a.clock.Now().UTC()}}
	keep := a.keeper(s, j)
	keep.begin(j.plan)
	report, err := j.do(ctx, r)
	if ended != nil {
		ended()
	}
	s.inherit(err)
	if errors.Is(err, context.Canceled) {
		err = fmt.Errorf("%s: ended at once because of an interrupt; the next run sees what was under way; to go on: trueup resume %s: %w",
			s.cluster.Name, s.cluster.Name, err)
	}
	keep.end(report, err)
	return report, err
}

// keeper writes the history of one run. A history that can't be written is said once, and does not stop the rollout: it is for people.
type keeper struct {
	app   *app
	proto history.Entry
	said  bool
}

func (a *app) keeper(s *session, j job) *keeper {
	return &keeper{app: a, proto: history.Entry{Command: j.command, Run: j.run, Actor: j.actor, Why: j.why,
		ClusterID: s.cluster.ID, Cluster: s.cluster.Name, Notes: j.notes}}
}

func (a *app) history() history.File {
	return history.Open(first(a.access.history, a.env("TRUEUP_HISTORY"), history.DefaultPath(a.env)))
}

// appendHistory keeps an entry in the history's file.
func (a *app) appendHistory(e history.Entry) error { return a.history().Append(e) }

func (k *keeper) append(e history.Entry) {
	e.Time = k.app.clock.Now().UTC()
	if err := k.app.record(e); err != nil && !k.said {
		k.said = true
		k.app.say("trueup: the history is not kept: %v", err)
	}
}

func (k *keeper) begin(p rollout.Plan) {
	e := k.proto
	e.Kind, e.Goals = history.KindBegin, map[string]rollout.Goal{}
	for _, n := range p.Nodes {
		if n.Goal.Offering.ID != "" { // abort has no goal
			e.Goals[n.Target.InstanceID] = n.Goal
		}
	}
	k.append(e)
}

func (k *keeper) end(r rollout.Report, err error) {
	for _, n := range r.Nodes {
		if n.Outcome == rollout.OutcomeWaiting {
			continue
		}
		e := k.proto
		e.Kind, e.Node = history.KindNode, &history.Node{NodeReport: n}
		k.append(e)
	}
	e := k.proto
	e.Kind, e.Result = history.KindEnd, "done"
	if err != nil {
		e.Result, e.Error = "failed", err.Error()
		if codeOf(err) == ExitInterrupted {
			e.Result = "interrupted"
		}
	}
	k.append(e)
}
