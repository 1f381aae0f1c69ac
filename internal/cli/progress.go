package cli

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// progress shows a rollout to a person while it happens. Its Event method is the runner's watcher; it never blocks on the terminal for
// longer than one write.
type progress interface {
	Event(e rollout.Event)
	// Note shows a line that belongs to no node.
	Note(text string)
	// Close ends the showing; nothing is written after it.
	Close()
}

// plainProgress writes one line for each thing that begins, for logs and pipes. A wait is written once, not at every
// look, and so is an action that is tried again at once.
type plainProgress struct {
	out   io.Writer
	began time.Time

	mu   sync.Mutex
	last map[string]string // by node: what was written last
}

func newPlainProgress(out io.Writer, began time.Time) *plainProgress {
	return &plainProgress{out: out, began: began, last: map[string]string{}}
}

func (p *plainProgress) Event(e rollout.Event) {
	text, key := oneLine(describe(e)), string(e.Move)+"/"+string(e.Action)+"/"+e.Check.What
	p.mu.Lock()
	defer p.mu.Unlock()
	if text == "" || p.last[e.Target.Name] == key {
		return // the same wait, or an action that lost a race for the Node before it did anything and is tried again
	}
	p.last[e.Target.Name] = key
	fmt.Fprintf(p.out, "%7.1fs  %s  %-7s  %s\n", e.At.Sub(p.began).Seconds(), e.Target.Name, e.Move, text)
}

// Note writes the line.
func (p *plainProgress) Note(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintln(p.out, text)
}

func (p *plainProgress) Close() {}

// describe says an event in words.
func describe(e rollout.Event) string {
	switch {
	case e.Fault != nil:
		return "FAILED: " + e.Fault.Error()
	case e.Done:
		return "done"
	case e.Text != "":
		return e.Text
	case e.Check.What != "":
		return fmt.Sprintf("waiting for %s: %s -> %s", e.Check.What, e.Check.Observed, e.Check.Expected)
	}
	return ""
}
