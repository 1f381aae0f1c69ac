package standin

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestManualClockOrder(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := NewManualClock(start)
	var got []string
	note := func(name string) func() { return func() { got = append(got, name+" "+c.Now().Sub(start).String()) } }
	c.AfterFunc(2*time.Second, note("second"))
	c.AfterFunc(time.Second, func() {
		note("first")()
		c.AfterFunc(0, note("planned on the way"))
	})
	c.AfterFunc(2*time.Second, note("third"))
	stopped := c.AfterFunc(time.Second, note("stopped"))
	c.AfterFunc(3*time.Second, note("too late"))
	if !stopped.Stop() || stopped.Stop() {
		t.Errorf("Stop must report true once")
	}
	c.Advance(2500 * time.Millisecond)
	want := []string{"first 1s", "planned on the way 1s", "second 2s", "third 2s"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if now := c.Now().Sub(start); now != 2500*time.Millisecond {
		t.Errorf("clock shows %s", now)
	}
}
