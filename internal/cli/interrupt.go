package cli

import (
	"context"
)

// watchInterrupts ends what the person interrupts. While a rollout is under way, the first interrupt asks it to stop at its next safe
// point; any other one, and every one before a rollout, ends the command at once.
func (a *app) watchInterrupts(ctx context.Context, cancel context.CancelFunc) {
	for {
		select {
		case <-a.Interrupts:
			if !a.stopGently() {
				cancel()
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// stopGently asks the rollout that is under way to stop, and reports whether there was one that had not been asked yet.
func (a *app) stopGently() bool {
	a.mu.Lock()
	stop := a.stop
	a.stop = nil
	a.mu.Unlock()
	if stop == nil {
		return false
	}
	stop()
	return true
}

// begun notes that something may have been changed from now on. An interrupt ends the command at once all the same.
func (a *app) begun() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.performed = true
}

// underWay notes that a rollout is under way, shown by p, and that stop asks it to end. The function that it returns ends that.
func (a *app) underWay(p progress, stop func()) (ended func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shown, a.stop, a.performed = p, stop, true
	return func() {
		p.Close()
		a.mu.Lock()
		defer a.mu.Unlock()
		a.shown, a.stop = nil, nil
	}
}
