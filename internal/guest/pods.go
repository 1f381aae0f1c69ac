package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// Host runs programs on the nodes of a cluster, each in a privileged pod that is pinned to its node and sees the node's processes.
type Host interface {
	// Enter makes sure that a pod runs on the node, and returns its namespace and name.
	Enter(ctx context.Context, node string) (pod string, err error)
	// Exec runs the program as root in the pod that was entered. An end with another exit status than 0 is an error with a method
	// ExitStatus() int; after another error nobody knows what became of the program, but for rollout.ErrDenied: it was not started.
	Exec(ctx context.Context, node string, program []string, stdin io.Reader, stdout, stderr io.Writer) error
	// Close removes the pods.
	Close() error
}

// Pods reaches guests by pods on their nodes, with the same commands as over SSH. It is a rollout.Guests, safe for concurrent use.
type Pods struct {
	host     Host
	timeouts Timeouts
}

var _ rollout.Guests = (*Pods)(nil)

// NewPods returns a way into guests by pods. The caller must Close what it returns.
func NewPods(host Host, timeouts Timeouts) *Pods {
	timeouts.setDefaults()
	return &Pods{host: host, timeouts: timeouts}
}

// Guest returns the target's guest once a pod runs on its node.
func (p *Pods) Guest(ctx context.Context, target rollout.Target) (rollout.Guest, error) {
	g, err := p.enter(ctx, target)
	if err != nil {
		return nil, err
	}
	return g, nil
}

// Inspect reads what is looked at only before the first change.
func (p *Pods) Inspect(ctx context.Context, target rollout.Target) (capacity.Inspection, error) {
	g, err := p.enter(ctx, target)
	if err != nil {
		return capacity.Inspection{}, err
	}
	return g.inspect(ctx)
}

func (p *Pods) enter(ctx context.Context, target rollout.Target) (*guest, error) {
	r := &room{host: p.host, target: target}
	if _, err := r.enter(ctx); err != nil {
		return nil, err
	}
	return &guest{target: target, way: r, timeouts: p.timeouts}, nil
}

// Prepare makes the pods of all targets at the same time, and returns when each runs or has failed. A start may take longer than a command: whoever
// bounds those calls it before. A failure is not reported: whoever needs that guest is told.
func (p *Pods) Prepare(ctx context.Context, targets []rollout.Target) {
	var all sync.WaitGroup
	for _, target := range targets {
		if target.Role.HasNode() {
			all.Go(func() { _, _ = p.host.Enter(ctx, target.Name) })
		}
	}
	all.Wait()
}

// Close removes the pods.
func (p *Pods) Close() error { return p.host.Close() }

// room is the way into one guest by a pod on its node.
type room struct {
	host   Host
	target rollout.Target
}

// enter makes sure that there is a pod.
func (r *room) enter(ctx context.Context) (place, error) {
	at := place{target: r.target}
	if !r.target.Role.HasNode() {
		return at, fmt.Errorf("%w: %v: a dedicated etcd machine is no Kubernetes Node, so no pod can run on it: use SSH (--guest-via ssh)", rollout.ErrDenied, at)
	}
	pod, err := r.host.Enter(ctx, r.target.Name)
	at.pod = pod
	if err != nil {
		return at, fmt.Errorf("%v: %w", at, err)
	}
	return at, nil
}

// errOver is why what was still to be sent to a program is not sent: it has ended.
var errOver = errors.New("the program has ended")

// run is a way. The script and its input go over standard input, as over SSH.
func (r *room) run(ctx context.Context, c command, input string) ([]string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	at, err := r.enter(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	stdin, send := io.Pipe()
	out := &output{limit: c.limit, begin: beginMark + c.name, overflow: func() { cancel(errTooMuch) }}
	complaints := &output{limit: stderrLimit}
	out.onBegin = func() {
		go func() { // a failure of either shows in the answer: the loader and the script judge what they got
			_, _ = io.WriteString(send, input)
			_ = send.Close()
		}()
	}
	go func() { _, _ = io.WriteString(send, c.text()) }()
	err = r.host.Exec(ctx, r.target.Name, c.inHost(), stdin, out, complaints)
	_ = stdin.CloseWithError(errOver)
	return outcome{c, at, out, complaints}.answer(ctx, err)
}

// inHost is the program that, started in a pod that sees the node's processes, runs the script in the namespaces of the node's first process.
func (c command) inHost() []string {
	return append([]string{"nsenter", "-t", "1", "-m", "-u", "-i", "-n", "-p", "--"}, c.arguments()...)
}
