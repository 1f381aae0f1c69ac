package rollout

import (
	"context"
	"fmt"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// Power is what the cold method needs of CloudStack beside CloudStack itself.
type Power interface {
	// Stop asks for the VM to be stopped in good order and returns the id of the started job without waiting for it. The request is signed to
	// expire at expires (CloudStack's clock). ErrUnreachable means that the request may have arrived or may not. A refusal is a *RefusedError.
	Stop(ctx context.Context, instanceID string, expires time.Time) (jobID string, err error)
	// Start asks for the VM to be started, likewise.
	Start(ctx context.Context, instanceID string, expires time.Time) (jobID string, err error)
}

// Evictions is what the cold method needs of Kubernetes beside Pods.
type Evictions interface {
	// Evict asks the API server to evict the pod of that very UID, with the pod's own grace period. *BlockedError where a disruption budget does not
	// allow it now; ErrNotFound where that pod is gone.
	Evict(ctx context.Context, pod capacity.Pod) error
	// Delete deletes the pod of that very UID, with its own grace period: no disruption budget is asked. ErrNotFound where that pod is gone.
	Delete(ctx context.Context, pod capacity.Pod) error
}

// BlockedError means that a disruption budget does not allow an eviction now. The same request may succeed later.
type BlockedError struct {
	Pod string // namespace/name
	// Reason is the API server's own word, which names the budget.
	Reason string
}

// Error says which pod is held, and by what.
func (e *BlockedError) Error() string {
	return fmt.Sprintf("pod %s can't be evicted now: %s", e.Pod, e.Reason)
}
