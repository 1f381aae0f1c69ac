package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
)

// Sight is one version of a Node, and when the lab learnt of it.
type Sight struct {
	At   time.Time
	Node *corev1.Node
}

// Record keeps every version of every Node, from a watch on the API server.
type Record struct {
	lab    *Lab
	cancel context.CancelFunc

	mu     sync.Mutex
	sights []Sight
	broken error // why the watch ended before it was to
}

// Record begins with the Nodes as they are now, so that no change after this call is missed. It ends with Stop, or with ctx.
func (l *Lab) Record(ctx context.Context) (*Record, error) {
	ctx, cancel := context.WithCancel(ctx)
	r := &Record{lab: l, cancel: cancel}
	list, err := l.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		cancel()
		return nil, err
	}
	for i := range list.Items {
		r.take(&list.Items[i])
	}
	events, err := l.Kube.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		cancel()
		return nil, err
	}
	go r.follow(ctx, events)
	return r, nil
}

func (r *Record) follow(ctx context.Context, events apiwatch.Interface) {
	for event := range events.ResultChan() {
		if node, ok := event.Object.(*corev1.Node); ok && event.Type != apiwatch.Deleted {
			r.take(node)
			continue
		}
		r.fail(fmt.Errorf("the watch on Nodes brought %s", event.Type))
	}
	if ctx.Err() == nil {
		r.fail(errors.New("the watch on Nodes ended by itself"))
	}
}

func (r *Record) take(node *corev1.Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sights = append(r.sights, Sight{At: time.Now(), Node: node})
}

func (r *Record) fail(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = why
}

// Stop waits until the record has reached the present, and returns it.
func (r *Record) Stop(ctx context.Context) ([]Sight, error) {
	defer r.cancel()
	list, err := r.lab.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	retry := time.NewTicker(100 * time.Millisecond)
	defer retry.Stop()
	for {
		if sights, err := r.upTo(list.Items); sights != nil || err != nil {
			return sights, err
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("the record of Nodes does not reach the present: %w", ctx.Err())
		}
	}
}

// upTo returns the record once it has these versions of the Nodes, else nil.
func (r *Record) upTo(nodes []corev1.Node) ([]Sight, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken != nil {
		return nil, r.broken
	}
	newest := map[string]uint64{}
	for _, s := range r.sights {
		v, err := version(s.Node)
		if err != nil {
			return nil, err
		}
		newest[s.Node.Name] = v
	}
	for i := range nodes {
		switch v, err := version(&nodes[i]); {
		case err != nil:
			return nil, err
		case newest[nodes[i].Name] < v:
			return nil, nil
		}
	}
	return slices.Clone(r.sights), nil
}

// version is the Node's resourceVersion; since Kubernetes 1.35 clients may compare it.
func version(node *corev1.Node) (uint64, error) {
	return strconv.ParseUint(node.ResourceVersion, 10, 64)
}
