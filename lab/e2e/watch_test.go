package e2e

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
)

// sight is one version of a Node, and when the test learnt of it.
type sight struct {
	at   time.Time
	node *corev1.Node
}

// recorder keeps every version of every Node, from a watch on the API server.
type recorder struct {
	fixture *fixture
	cancel  context.CancelFunc
	mu      sync.Mutex
	sights  []sight
	broken  string // why the watch ended before it was to
}

// record begins with the Nodes as they are now, so that no change after this call is missed.
func (f *fixture) record(t testing.TB) *recorder {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	r := &recorder{fixture: f, cancel: cancel}
	list, err := f.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		r.take(&list.Items[i])
	}
	events, err := f.Kube.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	go r.follow(ctx, events)
	return r
}

func (r *recorder) follow(ctx context.Context, events apiwatch.Interface) {
	for event := range events.ResultChan() {
		if node, ok := event.Object.(*corev1.Node); ok && event.Type != apiwatch.Deleted {
			r.take(node)
			continue
		}
		r.fail("the watch brought " + string(event.Type))
	}
	if ctx.Err() == nil {
		r.fail("the watch ended by itself")
	}
}

func (r *recorder) take(node *corev1.Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sights = append(r.sights, sight{at: time.Now(), node: node})
}

func (r *recorder) fail(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = why
}

// stop waits until the record has reached the present, and returns it.
func (r *recorder) stop(t testing.TB) []sight {
	t.Helper()
	list, err := r.fixture.Kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the record of Nodes reaches the present", func() bool { return r.reached(t, list.Items) })
	defer r.cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken != "" {
		t.Fatal(r.broken)
	}
	return slices.Clone(r.sights)
}

func (r *recorder) reached(t testing.TB, nodes []corev1.Node) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	newest := map[string]uint64{}
	for _, s := range r.sights {
		newest[s.node.Name] = version(t, s.node)
	}
	behind := func(n corev1.Node) bool { return newest[n.Name] < version(t, &n) }
	return r.broken != "" || !slices.ContainsFunc(nodes, behind)
}

// version is the Node's resourceVersion; since Kubernetes 1.35 clients may compare it.
func version(t testing.TB, node *corev1.Node) uint64 {
	v, err := strconv.ParseUint(node.ResourceVersion, 10, 64)
	if err != nil {
		t.Error(err)
	}
	return v
}

// expectOneAtATime replays the record: never two nodes claimed, and none cordoned without a claim but those that people cordoned.
// It returns the nodes in the order in which they were claimed.
func expectOneAtATime(t testing.TB, sights []sight, byPeople ...string) (order []string) {
	t.Helper()
	claimed := map[string]bool{}
	for _, s := range sights {
		name, claim := s.node.Name, s.node.Annotations[claimAnnotation] != ""
		if claim && !claimed[name] {
			order = append(order, name)
		}
		if claimed[name] = claim; !claim {
			delete(claimed, name)
		}
		if len(claimed) > 1 {
			t.Errorf("claimed at the same time: %v", claimed)
		}
		people := slices.Contains(byPeople, name)
		if s.node.Spec.Unschedulable != (claim || people) {
			t.Errorf("%s: unschedulable=%t with claim=%t and cordoned by people=%t (resourceVersion %s)",
				name, s.node.Spec.Unschedulable, claim, people, s.node.ResourceVersion)
		}
	}
	return order
}
