package cli

import (
	"io"
	"time"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// Progress shows a rollout to a person while it happens. Event is made for a Runner's Watcher.
type Progress interface {
	Event(e rollout.Event)
	// Close ends the showing; nothing is written after it.
	Close()
}

// NewProgress is the display of the commands, for cmd/tour: live lines on a terminal, else one line for each thing that begins.
func NewProgress(out io.Writer, plan rollout.Plan, now func() time.Time) Progress {
	if screenOf(out).is {
		return newLiveProgress(out, plan, func() screen { return screenOf(out) }, now)
	}
	return newPlainProgress(out, now())
}
