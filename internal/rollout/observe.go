package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// readings names systems: those that a look reads, or those whose reading is current.
type readings struct{ instance, guest, node, pods bool }

// everything must be current before every effect. Pods are more than that, see needsPods.
func everything() readings { return readings{instance: true, guest: true, node: true} }

// missing is what is not current.
func (r readings) missing() readings {
	return readings{instance: !r.instance, guest: !r.guest, node: !r.node}
}

// lacking is what is not current and must be, before the step is taken.
func (w *walk) lacking(s Step) readings {
	missing := w.current.missing()
	missing.pods = !w.current.pods && w.needsPods(s)
	return missing
}

// needsPods tells whether the step needs to know of the node's pods: those are read at the two moments that are compared, and while they are
// waited for, because a list of them is the biggest of all readings.
func (w *walk) needsPods(s Step) bool {
	switch s.Action {
	case ActionRestart, ActionDrain, ActionStop:
		return true
	case ActionRelease:
		return w.claim.Restart != nil || w.claim.Cold != nil
	}
	begins := w.claim == nil && w.goal.Method == MethodCold && s.Kind != KindDone // what is refused depends on them
	return s.Check.What == podsCheck || s.Move == MoveDrain || begins
}

// readPods never fails: what can't be read is not known, and said so. It may take half of the time that the look has, so that the rest of it
// is read whatever becomes of the list.
func (w *walk) readPods(ctx context.Context) {
	w.current.pods = true
	if w.Pods == nil || !w.target.Role.HasNode() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, w.Limits.Effect/2)
	defer cancel()
	pods, err := w.Pods.Pods(ctx, w.target.Name)
	w.seen.Pods = &PodReading{Pods: pods}
	if err != nil {
		w.seen.Pods = &PodReading{Unknown: err.Error()}
	}
}

// freshFor is how long a reading of the guest stays good for the next action, if the action before it can't have changed the guest.
// What may change without us meanwhile is guarded where it matters: the restart compares the InvocationID, onlining can be repeated, and every
// write to the Node is conditional on its resourceVersion.
const freshFor = 5 * time.Second

// outdate notes which readings an action has made old. CloudStack is always read again: its clock runs. The Node is current if the
// action wrote it, because the reply to a patch is the Node.
func (w *walk) outdate(a Action) {
	w.current.instance = false
	if w.conflicts > 0 {
		a = "" // it lost the race for its announcement, so nothing was done
	}
	switch a {
	case ActionResize, ActionOnline, ActionStop, ActionStart:
		w.current.guest = false
	case ActionRestart:
		w.current.guest, w.current.node = false, false
	}
	if w.Clock.Now().Sub(w.probed) > freshFor {
		w.current.guest = false
	}
}

// transient tells whether the same read may succeed later. After an effect it means that the outcome is unknown.
func transient(ctx context.Context, err error) bool {
	return ctx.Err() == nil && (errors.Is(err, ErrUnreachable) || errors.Is(err, context.DeadlineExceeded))
}

// partsOf is what can make a wait come true: polling the rest would only cost.
func partsOf(s Step) readings {
	switch {
	case s.Look:
		return everything()
	case s.Move == MoveResize, s.Move == MoveStop:
		return readings{instance: true}
	case s.Move == MoveStart:
		return readings{instance: true, guest: true}
	case s.Move == MoveDrain:
		return readings{node: true, pods: true}
	case s.Move == MoveOnline:
		return readings{guest: true}
	default:
		return readings{guest: true, node: true, pods: s.Check.What == podsCheck}
	}
}

// look reads the named parts, all at once, and repeats while something is unreachable, within the access bound.
func (w *walk) look(ctx context.Context, p readings) error {
	began := w.Clock.Now()
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		err := w.read(ctx, p)
		w.looked = w.Clock.Now()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !transient(ctx, err), w.looked.Sub(began) >= w.Limits.Access:
			return w.fail(ctx, accessFault(w.move, err, began))
		case w.stopped():
			return w.interrupted("while reading it")
		}
		w.tell(Event{Move: w.move, Check: capacity.Check{Layer: capacity.LayerAccess, What: "reading the node", Expected: "an answer", Observed: err.Error()}})
		if err := w.rest(ctx, pause, nil); err != nil {
			return err
		}
	}
}

// read reads the named parts once, within one effect's bound. The Node comes last: a guest takes a second under load, a kubelet
// bumps the Node's resourceVersion every few seconds, and a patch that is conditional on an old one is a lost race.
func (w *walk) read(ctx context.Context, p readings) error {
	ctx, cancel := context.WithTimeout(ctx, w.Limits.Effect)
	defer cancel()
	w.seen.Target = w.target
	if p.instance && !w.claimRead {
		// The first look: which job to read stands in the claim.
		if err := w.readNode(ctx); err != nil {
			return err
		}
	}
	machines := w.readMachine
	if w.cold() {
		machines = w.readCold
	}
	if err := machines(ctx, p); err != nil {
		return err
	}
	if p.pods {
		w.readPods(ctx)
	}
	if !p.node {
		return nil
	}
	if w.outage() {
		return w.readInOutage(ctx)
	}
	return w.readKubernetes(ctx)
}

// readKubernetes reads the node's peers, and then the Node.
func (w *walk) readKubernetes(ctx context.Context) error {
	if err := w.readPeers(ctx); err != nil {
		return at("Kubernetes", err)
	}
	return w.readNode(ctx)
}

// readMachine reads the instance and its guest, at once.
func (w *walk) readMachine(ctx context.Context, p readings) error {
	g, both := errgroup.WithContext(ctx)
	if p.guest {
		g.Go(func() error { return at("guest", w.readGuest(both)) })
	}
	if p.instance {
		g.Go(func() error { return at("CloudStack", w.readInstance(both)) })
	}
	return g.Wait()
}

// readPeers reads what the turn of a control-plane node depends on: the others of its kind, and the API server's own word. The members of
// a dedicated etcd are seen by the machine itself.
func (w *walk) readPeers(ctx context.Context) error {
	if w.target.Role == RoleWorker {
		return nil
	}
	peers := make([]Peer, len(w.plan.Peers))
	for i, name := range w.plan.Peers {
		n, err := w.Nodes.Node(ctx, name)
		if err != nil {
			return err
		}
		peers[i] = Peer{Name: name, Ready: n.Ready}
	}
	w.seen.Peers = peers
	if w.Health == nil {
		return nil
	}
	said, err := w.Health.ControlPlane(ctx)
	w.seen.ControlPlane = said
	return err
}

// readNode reads the Node with the claim on it; where there is no Node, the claim alone.
func (w *walk) readNode(ctx context.Context) error {
	if !w.target.Role.HasNode() {
		text, err := w.Shelf.Shelved(ctx, w.target.InstanceID)
		if err != nil {
			return at("Kubernetes", err)
		}
		return w.took(capacity.Node{Claim: text})
	}
	n, err := w.Nodes.Node(ctx, w.target.Name)
	if err != nil {
		return at("Kubernetes", err)
	}
	return w.took(n)
}

func (w *walk) readGuest(ctx context.Context) error {
	seen, err := w.probe(ctx)
	if err == nil {
		w.seen.Guest, w.current.guest, w.probed = seen, true, w.Clock.Now()
	}
	return err
}

func (w *walk) readInstance(ctx context.Context) error {
	r, err := w.CloudStack.Instance(ctx, w.target.InstanceID)
	if err != nil {
		return err
	}
	w.seen.Instance, w.seen.ServerTime = r.Instance, r.ServerTime
	if err := w.readJob(ctx, r.PendingJobID); err != nil {
		return err
	}
	w.current.instance = true
	return nil
}

// at says which system an error came from.
func at(system string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", system, err)
}

// probe reads the guest. A way into it that failed is not used again: the next look asks for a new one.
func (w *walk) probe(ctx context.Context) (capacity.Guest, error) {
	if w.guest == nil {
		g, err := w.Guests.Guest(ctx, w.target)
		if err != nil {
			return capacity.Guest{}, err
		}
		w.guest = g
	}
	seen, err := w.guest.Probe(ctx)
	if err != nil {
		w.guest = nil
	}
	return seen, err
}

// took keeps a Node that was read or patched, with the claim on it.
func (w *walk) took(n capacity.Node) error {
	claim, err := DecodeClaim(n.Claim)
	if err != nil {
		return fmt.Errorf("%s: %w", claimOn(w.target), err)
	}
	w.seen.Node, w.claim, w.current.node, w.claimRead = n, claim, true, true
	if claim != nil {
		w.node.Claim = claim
	}
	return nil
}

// readJob reads the resize job, where there is one to read: the one that the claim names, else the one pending on the instance,
// else one that the account's list of jobs shows. A claim without a resize intent has none of its own.
func (w *walk) readJob(ctx context.Context, pending string) error {
	w.seen.Job = nil
	goal := w.goal.Offering
	if w.claim != nil {
		goal = w.claim.Goal // abort has no goal of its own
	}
	if pending == "" && w.seen.Instance.AtOffering(goal) && !w.down() {
		return nil
	}
	var job Job
	var err error
	switch intent, power := w.intent(), w.powerJob(); {
	case power != "":
		job, err = w.CloudStack.Job(ctx, power)
	case intent != nil && intent.JobID != "":
		job, err = w.CloudStack.Job(ctx, intent.JobID)
	case pending != "":
		job, err = w.CloudStack.Job(ctx, pending)
	case intent != nil:
		job, err = w.CloudStack.FindJob(ctx, w.target.InstanceID)
	default:
		return nil
	}
	switch {
	case errors.Is(err, ErrDenied):
		// A job of another account, which an administrator may have started: that it is pending is all that can be known of it.
		if pending != "" {
			w.seen.Job = &Job{ID: pending, Status: JobPending}
		}
		return nil
	case errors.Is(err, ErrNotFound):
		return nil
	case err != nil:
		return at("CloudStack", err)
	}
	w.seen.Job = &job
	return nil
}

// powerJob is the job of the last announced stop or start, while that is what comes next; else empty.
func (w *walk) powerJob() string {
	if !w.down() {
		return ""
	}
	p, state := w.claim.Cold.Power, w.seen.Instance.State
	if state == p.State {
		return ""
	}
	return p.JobID
}

func (w *walk) intent() *ResizeIntent {
	if w.claim == nil {
		return nil
	}
	return w.claim.Resize
}

// Pauses between two looks where no event can tell: short at first, since most things take well under a second, then longer.
const (
	firstPause = 100 * time.Millisecond
	mostPause  = 2 * time.Second
)
