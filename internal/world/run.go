package world

import (
	"context"
	"fmt"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/cloudstack"
	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// Run is one start of the program, with its own way to everything outside. Set the exported fields before Perform.
type Run struct {
	w *World
	// ID is the run's id and the holder's identity on the Lease.
	ID     string
	Limits rollout.Limits
	// Watcher is told what happens; may be nil.
	Watcher func(rollout.Event)
	// Stop asks for an end at the next safe point, when it is closed; may be nil.
	Stop <-chan struct{}
	// EndMove and EndNode ask for an end with the present move, and with the present node; may be nil.
	EndMove, EndNode <-chan struct{}
	// KillAt is the number of the boundary at which the program is killed; 0 is never. The first boundary is 1.
	KillAt int
	// Boundaries are those that the run has come by.
	Boundaries []Boundary

	client         *cloudstack.Client
	calls          map[string]int
	dead           bool
	kill           context.CancelFunc
	aborts, forced bool      // it gives up what is held, whatever its state if forced
	stopped        time.Time // until when the program is stopped

	tenure  rollout.Tenure
	renewed time.Time            // when the Lease was last renewed by this run
	checked time.Time            // when it was last seen to be this run's
	overAt  time.Time            // when another run took it over
	looked  map[string]time.Time // when an instance was last read, by system and id
	unready map[string]bool      // whether the last reading of a Node's pods showed some that were not ready; by the Node's name
	read    map[string]time.Time // when a Node was last read, by its name
}

// Run returns another start of the program.
func (w *World) Run() *Run {
	w.mu.Lock()
	r := &Run{w: w, ID: fmt.Sprintf("run-%d", len(w.runs)+1), Limits: rollout.DefaultLimits(), calls: map[string]int{}, kill: func() {}, looked: map[string]time.Time{}, read: map[string]time.Time{}, unready: map[string]bool{}}
	w.runs = append(w.runs, r)
	w.mu.Unlock()
	client, err := cloudstack.New(
		cloudstack.Credentials{URL: "https://cloudstack.example" + standin.Path, APIKey: cloudstack.NewSecret(w.owner.APIKey), SecretKey: cloudstack.NewSecret(w.owner.SecretKey)},
		cloudstack.Options{Transport: w.CloudStack.Transport(), Jitter: func(most time.Duration) time.Duration { return most / 2 }})
	if err != nil {
		panic(err) // the URL is a constant
	}
	r.client = client
	return r
}

// Goal is the goal that rollouts of the world have.
func Goal(o capacity.Offering) rollout.Goal {
	return rollout.Goal{Offering: o, Settle: rollout.DefaultSettle}
}

// RefusedError says that a plan was refused: nothing was changed.
type RefusedError struct{ Plan rollout.Plan }

// Error names the first refusal.
func (e *RefusedError) Error() string {
	n := e.Plan.Refused()[0]
	return fmt.Sprintf("%s: refused: %s", n.Target.Name, n.Refusals[0])
}

// Scale plans for the roles and walks, as `trueup scale` does. A rollout with the same goals that is open is gone on with.
func (r *Run) Scale(ctx context.Context, goals map[rollout.Role]rollout.Goal) (rollout.Report, error) {
	return r.Perform(ctx, r.w.PlanScale(goals), "scale")
}

// Resume plans for what hangs on the Lease and walks, as `trueup resume` does.
func (r *Run) Resume(ctx context.Context) (rollout.Report, error) {
	return r.Perform(ctx, r.w.PlanResume(), "resume")
}

// PlanScale is the plan that takes the roles to their goals.
func (w *World) PlanScale(goals map[rollout.Role]rollout.Goal) rollout.Plan {
	return rollout.NewPlan(w.ClusterID, ClusterName, goals, w.Members())
}

// PlanResume is the plan that finishes what hangs on the Lease. Without an open rollout a claim alone is enough to go on.
func (w *World) PlanResume() rollout.Plan {
	goals, open := map[string]rollout.Goal{}, w.Open()
	if open != nil {
		goals = open.Goals
	}
	var members []rollout.Member
	for _, m := range w.Members() {
		if g, ok := goals[m.Seen.Target.InstanceID]; ok {
			m.Goal = &g
		} else if m.Claim != nil {
			g := m.Claim.Asked()
			m.Goal = &g
		}
		members = append(members, m)
	}
	return rollout.NewPlan(w.ClusterID, ClusterName, nil, members)
}

// continues is the run of the open rollout, if all of its goals are the plan's, else "": then the Lease refuses.
func (r *Run) continues(p rollout.Plan) string {
	open := r.w.Open()
	if open == nil {
		return ""
	}
	planned := map[string]string{}
	for _, n := range p.Nodes {
		planned[n.Target.InstanceID] = n.Goal.Offering.ID
	}
	for id, g := range open.Goals {
		if planned[id] != g.Offering.ID {
			return ""
		}
	}
	return open.Run
}

// mostTime bounds a walk: every wait has a bound of its own, and a node has few of them.
const mostTime = 90 * time.Minute

// Perform walks the plan through the world's ports, unless it is refused. A walk that does not end is a broken promise.
func (r *Run) Perform(ctx context.Context, plan rollout.Plan, command string) (rollout.Report, error) {
	if len(plan.Refused()) > 0 {
		err := &RefusedError{plan}
		r.w.ended(r, err)
		return rollout.Report{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.kill = cancel
	endless := r.w.clock.AfterFunc(mostTime, func() {
		r.w.mu.Lock()
		defer r.w.mu.Unlock()
		r.w.promise(false, "%s has not ended after %s", r.ID, mostTime)
		r.die()
	})
	defer endless.Stop()
	report, err := r.runner(command, r.continues(plan)).Walk(ctx, plan)
	r.w.ended(r, err)
	return report, err
}

func (r *Run) runner(command, continues string) *rollout.Runner {
	return &rollout.Runner{CloudStack: cloudStackPort{r, r.client}, Guests: guestsPort{r, guests{r}}, Nodes: nodesPort{r, nodes{r}}, Lock: lockPort{r, lock{r}}, Shelf: shelfPort{r, shelf{r}}, Health: healthPort{r, health{r}}, Pods: podsPort{r, pods{r}}, Power: powerPort{r, r.client}, Evictions: evictionsPort{r, evictions{r}},
		Clock: runClock{r}, Limits: r.Limits, Author: rollout.Author{Actor: "you@here", Since: r.w.clock.Now().UTC()}, Run: r.ID,
		Command: command, Continues: continues, Watcher: r.Watcher, Stop: r.Stop, EndMove: r.EndMove, EndNode: r.EndNode}
}

// Abort gives back what is held, as `trueup abort` does.
func (r *Run) Abort(ctx context.Context, force bool) (rollout.Report, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.kill, r.aborts, r.forced = cancel, true, force
	continues := ""
	if open := r.w.Open(); open != nil {
		continues = open.Run
	}
	report, err := r.runner("abort", continues).Abort(ctx, rollout.Surrender{ClusterID: r.w.ClusterID, ClusterName: ClusterName, Members: r.w.Members(), Force: force})
	r.w.ended(r, err)
	return report, err
}

// StopFor stops the program for a while, as SIGSTOP or a paused machine does: nothing of it happens meanwhile, and all of its timers
// are overdue then.
func (r *Run) StopFor(d time.Duration) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.w.tell(r.ID, "is stopped for %s", d)
	r.stopped = r.w.clock.Now().Add(d)
}

// runClock is the clock of one program: its timers don't fire while it is stopped.
type runClock struct{ run *Run }

// Now implements rollout.Clock.
func (c runClock) Now() time.Time { return c.run.w.clock.Now() }

// After implements rollout.Clock.
func (c runClock) After(d time.Duration) <-chan time.Time {
	fired := make(chan time.Time, 1)
	c.fire(d, fired)
	return fired
}

func (c runClock) fire(d time.Duration, fired chan<- time.Time) {
	w := c.run.w
	w.clock.AfterFunc(d, func() {
		w.mu.Lock()
		left := c.run.stopped.Sub(w.clock.Now())
		w.mu.Unlock()
		if left > 0 {
			c.fire(left, fired)
			return
		}
		fired <- w.clock.Now()
	})
}

// ended notes how a run ended.
func (w *World) ended(r *Run, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case r.dead:
	case err != nil:
		w.tell(r.ID, "ends: %v", err)
	default:
		w.tell(r.ID, "ends well")
	}
	r.tenure = rollout.Tenure{} // a process that has ended renews nothing
}
