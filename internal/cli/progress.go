package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// progress shows a rollout to a person while it happens. Its Event method is the runner's watcher; it never blocks on the terminal for
// longer than one write.
type progress interface {
	Event(e rollout.Event)
	// Close ends the showing; nothing is written after it.
	Close()
}

// plainProgress writes one line for each thing that begins, for logs and pipes. A wait is written once, not at every look.
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
	text, key := describe(e), string(e.Move)+"/"+string(e.Action)+"/"+e.Check.What
	p.mu.Lock()
	defer p.mu.Unlock()
	if text == "" || (e.Action == "" && p.last[e.Target.Name] == key) {
		return
	}
	p.last[e.Target.Name] = key
	fmt.Fprintf(p.out, "%7.1fs  %s  %-7s  %s\n", e.At.Sub(p.began).Seconds(), e.Target.Name, e.Move, text)
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

// redrawEvery is how often the elapsed times on a terminal are redrawn.
const redrawEvery = 250 * time.Millisecond

// liveProgress keeps one line per node on a terminal: node, move, elapsed, observed -> expected.
type liveProgress struct {
	out   io.Writer
	width func() int // columns of the terminal now
	now   func() time.Time

	mu    sync.Mutex
	lines []*liveLine
	drawn int // lines that stand on the terminal now
	done  chan struct{}
	wg    sync.WaitGroup
}

type liveLine struct {
	name  string
	move  rollout.Move
	since time.Time
	text  string
	ended bool
	took  time.Duration
}

func newLiveProgress(out io.Writer, plan rollout.Plan, width func() int, now func() time.Time) *liveProgress {
	p := &liveProgress{out: out, width: width, now: now, done: make(chan struct{})}
	for _, n := range plan.Nodes {
		p.lines = append(p.lines, &liveLine{name: n.Target.Name, text: "waiting for its turn"})
	}
	p.wg.Go(p.tick)
	return p
}

func (p *liveProgress) tick() {
	t := time.NewTicker(redrawEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			p.mu.Lock()
			p.draw()
			p.mu.Unlock()
		case <-p.done:
			return
		}
	}
}

func (p *liveProgress) Event(e rollout.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lines {
		if l.name == e.Target.Name {
			l.take(e)
		}
	}
	p.draw()
}

func (l *liveLine) take(e rollout.Event) {
	if l.since.IsZero() {
		l.since = e.At
	}
	if e.Move != "" && !e.Done {
		l.move = e.Move
	}
	if text := describe(e); text != "" {
		l.text = text
	}
	if e.Done || e.Fault != nil {
		l.ended, l.took = true, e.At.Sub(l.since)
	}
	if e.Done {
		l.move = ""
	}
}

// draw moves up over the lines that stand there, and writes them anew.
func (p *liveProgress) draw() {
	var b strings.Builder
	if p.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", p.drawn)
	}
	width := p.width()
	for _, l := range p.lines {
		b.WriteString("\r\x1b[K" + clip(l.render(p.now(), p.nameWidth()), width-1) + "\n")
	}
	p.drawn = len(p.lines)
	_, _ = io.WriteString(p.out, b.String())
}

func (p *liveProgress) nameWidth() int {
	w := 0
	for _, l := range p.lines {
		w = max(w, len(l.name))
	}
	return w
}

func (l *liveLine) render(now time.Time, width int) string {
	elapsed := "      "
	switch {
	case l.ended:
		elapsed = fmt.Sprintf("%5.1fs", l.took.Seconds())
	case !l.since.IsZero():
		elapsed = fmt.Sprintf("%5.1fs", now.Sub(l.since).Seconds())
	}
	return fmt.Sprintf("%-*s  %-7s %s  %s", width, l.name, l.move, elapsed, l.text)
}

func (p *liveProgress) Close() {
	close(p.done)
	p.wg.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draw()
}

// clip cuts a line to a width in characters, with an ellipsis, so that it never wraps.
func clip(s string, width int) string {
	r := []rune(s)
	if width <= 0 || len(r) <= width {
		return s
	}
	return string(r[:width-1]) + "…"
}
