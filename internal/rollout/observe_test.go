package rollout

import (
	"fmt"
	"testing"
	"time"
)

// A job of another account can't be read: that it is pending is known from the instance, and what came of it shows there as well.
func TestJobOfAnotherAccount(t *testing.T) {
	denied := fmt.Errorf("531: %w", ErrDenied)
	t.Run("an administrator's", func(t *testing.T) {
		simulate(t, []string{"w1"}, func(t *testing.T, tr *trial) {
			tr.upset = upset{name: "Job", err: denied}
			tr.machine("w1").resize(big)
			tr.must(t)
			if m := tr.machine("w1"); !m.finished(big) || tr.count("resize") > 0 || len(m.jobs) != 1 {
				t.Error(tr.state())
			}
		})
	})
	t.Run("of the account that began the rollout", func(t *testing.T) {
		simulate(t, []string{"w1"}, func(t *testing.T, tr *trial) {
			tr.machine("w1").slowJob = 20 * time.Second
			tr.upset = upset{name: "Job", err: denied}
			tr.must(t)
			if m := tr.machine("w1"); !m.finished(big) || tr.count("resize") != 1 {
				t.Error(tr.state())
			}
		})
	})
}
