package compare

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// sight is what the API server told of a Node, and when.
type sight struct {
	at            time.Time
	node          string
	version       string
	cpus          int64
	unschedulable bool
	ready         bool
}

// sights keeps every version of every Node, from a watch.
type sights struct {
	kube   kubernetes.Interface
	cancel context.CancelFunc
	ended  chan struct{}

	mu  sync.Mutex
	all []sight
}

// watchNodes begins after the Nodes as they are now.
func watchNodes(ctx context.Context, kube kubernetes.Interface) (*sights, error) {
	ctx, cancel := context.WithCancel(ctx)
	list, err := kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err == nil {
		var events apiwatch.Interface
		if events, err = kube.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion}); err == nil {
			s := &sights{kube: kube, cancel: cancel, ended: make(chan struct{})}
			go s.follow(events)
			return s, nil
		}
	}
	cancel()
	return nil, err
}

func (s *sights) follow(events apiwatch.Interface) {
	defer close(s.ended)
	for event := range events.ResultChan() {
		node, ok := event.Object.(*corev1.Node)
		if !ok {
			return
		}
		s.mu.Lock()
		s.all = append(s.all, sight{time.Now(), node.Name, node.ResourceVersion, node.Status.Capacity.Cpu().Value(), node.Spec.Unschedulable, ready(node)})
		s.mu.Unlock()
	}
}

func ready(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// mark is written on a Node to know that the watch has told everything before it.
const mark = "compare.cks-trueup.github.io/end"

// stop returns all sights up to now.
func (s *sights) stop(ctx context.Context, node string) ([]sight, error) {
	defer s.cancel()
	object, err := s.kube.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if object.Annotations == nil {
		object.Annotations = map[string]string{}
	}
	object.Annotations[mark] = "true"
	written, err := s.kube.CoreV1().Nodes().Update(ctx, object, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("mark the end of the record: %w", err)
	}
	return s.until(ctx, written.ResourceVersion)
}

func (s *sights) until(ctx context.Context, version string) ([]sight, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		s.mu.Lock()
		for i, seen := range s.all {
			if seen.version == version {
				defer s.mu.Unlock()
				return s.all[:i], nil
			}
		}
		s.mu.Unlock()
		select {
		case <-tick.C:
		case <-s.ended:
			return nil, errors.New("the watch on Nodes ended by itself")
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
