package world

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// Call is one call of the engine to the outside.
type Call struct {
	Port, Method string
	Node         string // of which Node, where that can be told
	// Write is true if the call may change something.
	Write bool

	late func() // what the request does when it arrives late; nil: a late one is a lost one
}

// String names the call, for example "Nodes.Patch w1".
func (c Call) String() string {
	if c.Node == "" {
		return c.Port + "." + c.Method
	}
	return c.Port + "." + c.Method + " " + c.Node
}

// Point is a place in a call at which the program can be killed.
type Point string

// The points of a call, in their order.
const (
	Before    Point = "before"   // nothing was sent
	Unreplied Point = "no reply" // the effect is there, the reply is not
	After     Point = "after"    // the reply was read
)

// Boundary is one point of one call, as a run came by it.
type Boundary struct {
	Call  Call
	Point Point
}

// String names the boundary.
func (b Boundary) String() string { return b.Call.String() + ", " + string(b.Point) }

// Upset makes calls go wrong.
type Upset struct {
	// Call is the beginning of the call's name, for example "CloudStack.Resize" or "Nodes.Patch w1". Empty: every call.
	Call string
	// Skip lets this many matching calls pass first; Times is how many are struck, 0 is one, negative all.
	Skip, Times int
	// Late strikes after the effect: the reply is lost. Else the request is.
	Late bool
	// Err is what the engine sees. Nil with Hang false: the call is only slow.
	Err error
	// Hang lets the call end by its deadline alone.
	Hang bool
	// Slow makes the call take longer.
	Slow time.Duration
	// Adrift lets the request arrive that much later, when its sender has long been told that the connection is gone.
	Adrift time.Duration
}

func (u *Upset) takes(c Call) bool {
	if u.Times == 0 {
		u.Times = 1
	}
	name := c.String()
	if len(name) < len(u.Call) || name[:len(u.Call)] != u.Call || u.Times == doneUpset {
		return false
	}
	if u.Skip > 0 {
		u.Skip--
		return false
	}
	if u.Times > 0 {
		if u.Times--; u.Times == 0 {
			u.Times = doneUpset
		}
	}
	return true
}

// doneUpset is the Times of an upset that has struck as often as it should.
const doneUpset = -1 << 31

// call takes one call of the engine through the interceptor: boundaries, upsets and the time that it takes.
func (r *Run) call(ctx context.Context, c Call, effect func(context.Context) error) error {
	u, out, back := r.begin(c)
	if err := r.pass(ctx, c, Before); err != nil {
		return err
	}
	if err := r.travel(ctx, out); err != nil {
		return err
	}
	if u != nil && u.Adrift > 0 && c.late != nil {
		r.w.clock.AfterFunc(u.Adrift, c.late)
	}
	if u != nil && !u.Late {
		if err := r.suffer(ctx, c, u); err != nil {
			return err
		}
	}
	err := effect(ctx)
	if e := r.pass(ctx, c, Unreplied); e != nil {
		return e
	}
	if u != nil && u.Late {
		if e := r.suffer(ctx, c, u); e != nil {
			return e
		}
	}
	if e := r.travel(ctx, back); e != nil {
		return e
	}
	if e := r.pass(ctx, c, After); e != nil {
		return e
	}
	return err
}

// begin finds what shall go wrong with the call, and how long both of its ways take. Times depend on the seed, the run and the call's
// number of its kind alone, so that goroutines that race at one instant can't change them.
func (r *Run) begin(c Call) (u *Upset, out, back time.Duration) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.calls[c.String()]++
	n := r.calls[c.String()]
	out = r.w.jitter(r.w.pace.Call, r.ID, c.String(), "out", n)
	back = r.w.jitter(r.w.pace.Call, r.ID, c.String(), "back", n)
	for _, u := range r.w.upsets {
		if u.takes(c) {
			struck := *u
			return &struck, out, back
		}
	}
	if r.w.chance != nil {
		u = r.w.chance(r.ID, c, n)
	}
	return u, out, back
}

// errKilled is what a call sees whose program is dead.
var errKilled = fmt.Errorf("the program was killed: %w", context.Canceled)

// pass notes a boundary, and kills the program there if that was asked for.
func (r *Run) pass(ctx context.Context, c Call, p Point) error {
	r.w.mu.Lock()
	if !r.dead {
		r.Boundaries = append(r.Boundaries, Boundary{Call: c, Point: p})
		if r.KillAt == len(r.Boundaries) {
			r.die()
		}
	}
	dead := r.dead
	r.w.mu.Unlock()
	if dead {
		return errKilled
	}
	return ctx.Err()
}

// die ends the program at once. The lock is held.
func (r *Run) die() {
	r.dead = true
	r.w.tell(r.ID, "is killed")
	r.kill()
}

// travel lets d pass. A program that is stopped goes on only after that, whatever has become of its deadlines.
func (r *Run) travel(ctx context.Context, d time.Duration) error {
	select {
	case <-r.w.clock.After(d):
	case <-ctx.Done():
	}
	for {
		r.w.mu.Lock()
		dead, left := r.dead, r.stopped.Sub(r.w.clock.Now())
		r.w.mu.Unlock()
		switch {
		case dead:
			return errKilled
		case left <= 0:
			return ctx.Err()
		}
		<-r.w.clock.After(left)
	}
}

// suffer lets the call go wrong as the upset says.
func (r *Run) suffer(ctx context.Context, c Call, u *Upset) error {
	if u.Slow > 0 {
		if err := r.travel(ctx, u.Slow); err != nil {
			return err
		}
	}
	err := u.Err
	if u.Hang {
		<-ctx.Done()
		err = ctx.Err()
	}
	if err != nil {
		r.w.mu.Lock()
		r.w.tell(r.ID, "%s %s: %v", map[bool]string{true: "gets no reply from", false: "does not get through to"}[u.Late], c, err)
		r.w.mu.Unlock()
	}
	return err
}

// Errors that upsets may give, as the ports give them.
var (
	// ErrReset is a connection that was cut.
	ErrReset = fmt.Errorf("connection reset: %w", rollout.ErrUnreachable)
	// ErrRace is a conditional write that lost against another one.
	ErrRace = fmt.Errorf("patch: %w", rollout.ErrConflict)
)

// hash is a number that depends on the seed and the parts alone.
func (w *World) hash(parts ...any) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, w.cfg.Seed)
	for _, p := range parts {
		fmt.Fprintf(h, "|%v", p)
	}
	x := h.Sum64() // the last bytes of FNV mix badly
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return x
}

// jitter is between a half and one and a half of d, to the nanosecond, so that no two things happen at the very same instant.
func (w *World) jitter(d time.Duration, parts ...any) time.Duration {
	if d <= 0 {
		return 0
	}
	return d/2 + time.Duration(w.hash(parts...)%uint64(d)) //nolint:gosec // below d, which is a duration
}
