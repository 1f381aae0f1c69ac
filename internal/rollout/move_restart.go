package rollout

import (
	"context"
	"fmt"
)

// restartKubelet announces the restart in the claim, with the evidence of the process before it, and runs the guarded script. The
// script restarts only the process that was announced. Whatever it answers, the next look decides by the InvocationID.
func (w *walk) restartKubelet(ctx context.Context) error {
	if err := w.writeClaim(ctx, restarting(*w.claim, w.seen), NodePatch{}); err != nil {
		return notDone{err}
	}
	w.current.pods = false // from here on they may have changed; a lost race for the claim costs no other list of them
	result, err := w.guest.RestartKubelet(ctx, w.claim.Restart.InvocationID)
	if err != nil {
		return err
	}
	switch result {
	case RestartIssued:
		return nil
	case RestartNotOurs:
		return errMoot
	case RestartLockBusy:
		return notDone{fmt.Errorf("another restart is running in the guest: %w", ErrUnreachable)}
	}
	return fmt.Errorf("the restart script gave an unknown answer %d", result)
}
