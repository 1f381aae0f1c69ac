package e2e

import (
	"context"
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/watch"

	"github.com/cks-trueup/trueup/lab/cluster"
)

// claimDocument is a claim, as far as people and scripts rely on it.
type claimDocument struct {
	Run    string `json:"run"`
	Actor  string `json:"actor"`
	Phase  string `json:"phase"`
	Resize *struct {
		JobID     string `json:"jobID"`
		Unchanged *struct {
			BootID string `json:"bootID"`
		} `json:"unchanged"`
	} `json:"resize"`
	Restart *struct {
		BootID       string `json:"bootID"`
		InvocationID string `json:"invocationID"`
	} `json:"restart"`
	Cold *struct {
		Power *struct {
			State string `json:"state"`
		} `json:"power"`
	} `json:"cold"`
	Fault *struct {
		Layer   string `json:"layer"`
		Move    string `json:"move"`
		Recover string `json:"recover"`
	} `json:"fault"`
}

// claimOf reads the claim on a Node, nil if there is none.
func claimOf(t testing.TB, node *corev1.Node) *claimDocument {
	text := node.Annotations[claimAnnotation]
	if text == "" {
		return nil
	}
	var claim claimDocument
	if err := json.Unmarshal([]byte(text), &claim); err != nil {
		t.Errorf("the claim on %s is no JSON: %v\n%s", node.Name, err, text)
	}
	return &claim
}

// claim reads the Node's claim now.
func (f *fixture) claim(t testing.TB, node *cluster.Node) *claimDocument {
	t.Helper()
	object, err := f.Kube.CoreV1().Nodes().Get(t.Context(), node.Name(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return claimOf(t, object)
}

// untilClaim watches the Node until its claim (nil: none) meets a condition, and returns that claim. It returns within milliseconds of the
// write, which a poll would not.
func (f *fixture) untilClaim(t testing.TB, node *cluster.Node, what string, met func(*claimDocument) bool) (claim *claimDocument) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), eventuallyTimeout)
	defer cancel()
	only := fields.OneTermEqualSelector(metav1.ObjectNameField, node.Name())
	source := cache.NewListWatchFromClient(f.Kube.CoreV1().RESTClient(), "nodes", "", only)
	_, err := watch.UntilWithSync(ctx, source, &corev1.Node{}, nil, func(event apiwatch.Event) (bool, error) {
		seen, ok := event.Object.(*corev1.Node)
		if !ok {
			return false, nil
		}
		claim = claimOf(t, seen)
		return met(claim), nil
	})
	if err != nil {
		t.Fatalf("%s: %s: %v", node.Name(), what, err)
	}
	return claim
}
