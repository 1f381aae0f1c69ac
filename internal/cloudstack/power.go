package cloudstack

import (
	"context"
	"fmt"
	"time"

	"github.com/cks-trueup/trueup/internal/rollout"
)

var _ rollout.Power = (*Client)(nil)

// Stop starts stopVirtualMachine and returns the job's id without waiting for the job. The hypervisor asks the guest to end, and the parameter
// `forced` is never sent: it would let CloudStack call a machine stopped that it can't reach. A machine that is off already is a success of the
// job. Errors as of Resize.
func (c *Client) Stop(ctx context.Context, instanceID string, expires time.Time) (string, error) {
	return c.start(ctx, "stopVirtualMachine", expires, map[string]string{"id": instanceID})
}

// Start starts startVirtualMachine and returns the job's id without waiting for the job. The job fails with code 533 where no host has room,
// and leaves the machine Stopped; it fails too for a machine that runs already. Errors as of Resize.
func (c *Client) Start(ctx context.Context, instanceID string, expires time.Time) (string, error) {
	return c.start(ctx, "startVirtualMachine", expires, map[string]string{"id": instanceID})
}

// SetDynamicallyScalable sets the machine's flag for live scaling. It acts at the machine's next start, when the hypervisor's domain is made
// anew. Once set it may be set again. A *rollout.RefusedError if template, offering or zone does not allow it: see
// Facts.Obstacles.
func (c *Client) SetDynamicallyScalable(ctx context.Context, instanceID string) error {
	params := map[string]string{"id": instanceID, "isdynamicallyscalable": "true"}
	var answer struct {
		machine // the SDK expects it here

		Instance machine `json:"virtualmachine"` // and CloudStack has it here, as in its other answers
	}
	// The signature is good for as long as the SDK makes it: the request may arrive late, it only sets what was wanted.
	if err := c.post(ctx, "updateVirtualMachine", time.Time{}, params, &answer); err != nil {
		return refusal(err)
	}
	if !answer.DynamicallyScalable && !answer.Instance.DynamicallyScalable {
		return fmt.Errorf("%w: CloudStack accepted updateVirtualMachine, but does not show instance %s as dynamically scalable", rollout.ErrUnreachable, instanceID)
	}
	return nil
}
