package kube

import (
	"context"
	"errors"
	"net/http"
	"slices"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

var _ rollout.Evictions = (*Client)(nil)

// ColdRights are the rights that the cold method needs beside Rights.
func ColdRights() []Right {
	const stops = "`scale --method cold` and `prepare` fail before the first change"
	return []Right{
		{Verb: "create", Resource: "pods/eviction", For: "drain a node as `kubectl drain` does, by evictions that disruption budgets may refuse", Without: stops},
		{Verb: "delete", Resource: "pods", Optional: true, For: "--delete-pod: a named pod that its disruption budget holds", Without: "nothing fails, unless --delete-pod names a pod"},
	}
}

// Evict asks for the eviction of the pod of that very UID. *rollout.BlockedError where a disruption budget does not allow it now, rollout.ErrNotFound
// where that pod is gone.
func (c *Client) Evict(ctx context.Context, pod capacity.Pod) error {
	what := call{verb: "create", resource: "pods/eviction", namespace: pod.Namespace, name: pod.Name}
	blocked := (*rollout.BlockedError)(nil)
	err := c.once(ctx, what, func(ctx context.Context) error {
		err := c.evict(ctx, pod)
		if reason, held := heldBy(err); held {
			blocked = &rollout.BlockedError{Pod: pod.String(), Reason: reason}
			return nil
		}
		return err
	})
	if blocked != nil {
		return blocked
	}
	return gone(what, err)
}

// evict is EvictV1 of client-go, but for its waiting: a budget that is new, or has just been changed, is answered with "again in 10 s", and client-go
// would do so by itself until the request's time is up.
func (c *Client) evict(ctx context.Context, pod capacity.Pod) error {
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, DeleteOptions: of(pod)}
	return c.core.RESTClient().Post().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("eviction").
		MaxRetries(0).Body(eviction).Do(ctx).Error()
}

// Delete deletes the pod of that very UID, with its own grace period. rollout.ErrNotFound where that pod is gone.
func (c *Client) Delete(ctx context.Context, pod capacity.Pod) error {
	what := call{verb: "delete", resource: "pods", namespace: pod.Namespace, name: pod.Name}
	return gone(what, c.once(ctx, what, func(ctx context.Context) error {
		return c.core.Pods(pod.Namespace).Delete(ctx, pod.Name, *of(pod))
	}))
}

// of makes a request be about that very pod.
func of(pod capacity.Pod) *metav1.DeleteOptions {
	uid := types.UID(pod.UID)
	return &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
}

// gone says of a conflict that it is another pod of that name: the UID is the only condition of these requests.
func gone(what call, err error) error {
	if errors.Is(err, rollout.ErrConflict) {
		return &goneError{what, err}
	}
	return err
}

// goneError is a request about a pod in whose place there is another one.
type goneError struct {
	what call
	err  error
}

func (e *goneError) Error() string {
	return e.what.String() + ": another pod has that name now: " + e.err.Error()
}
func (e *goneError) Unwrap() error { return rollout.ErrNotFound }

// heldBy tells whether disruption budgets refuse the eviction, and says which in the API server's words. The eviction API answers with 429 when the
// server is overloaded, too; a budget is named by a cause of its own. A pod of two budgets can't be evicted at all: that has the code 500 and, other
// than any fault of the server, no reason. One that waits for too many evicted pods to end forbids more (k8s.io/kubernetes/pkg/registry/core/pod/storage/eviction.go).
func heldBy(err error) (reason string, held bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return "", false
	}
	s := status.Status()
	if s.Code == http.StatusInternalServerError && s.Reason == metav1.StatusReasonUnknown {
		return s.Message, true
	}
	if s.Details == nil {
		return "", false
	}
	if s.Code == http.StatusForbidden && s.Details.Kind == "poddisruptionbudget" { // the budget forbids it, and no rule about the account's rights
		return s.Message, true
	}
	if s.Code != http.StatusTooManyRequests {
		return "", false
	}
	i := slices.IndexFunc(s.Details.Causes, func(c metav1.StatusCause) bool { return c.Type == policyv1.DisruptionBudgetCause })
	if i < 0 {
		return "", false
	}
	return s.Details.Causes[i].Message, true
}
