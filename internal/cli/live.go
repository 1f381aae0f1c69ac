package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// redrawEvery is how often the elapsed times on a terminal are redrawn.
const redrawEvery = 250 * time.Millisecond

// liveProgress keeps one line per node on a terminal: node, move, elapsed, observed -> expected.
type liveProgress struct {
	out    io.Writer
	screen func() screen // the terminal's size now
	now    func() time.Time

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

func newLiveProgress(out io.Writer, plan rollout.Plan, screen func() screen, now func() time.Time) *liveProgress {
	p := &liveProgress{out: out, screen: screen, now: now, done: make(chan struct{})}
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
	if text := oneLine(describe(e)); text != "" {
		l.text = text
	}
	if e.Done || e.Fault != nil {
		l.ended, l.took = true, e.At.Sub(l.since)
	}
	if e.Done {
		l.move = ""
	}
}

// Note writes a line above those of the nodes.
func (p *liveProgress) Note(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = io.WriteString(p.out, p.home()+"\x1b[J"+text+"\n")
	p.drawn = 0
	p.draw()
}

// home moves the cursor to the first of the lines that stand there.
func (p *liveProgress) home() string {
	if p.drawn == 0 {
		return "\r"
	}
	return fmt.Sprintf("\r\x1b[%dA", p.drawn)
}

// draw moves up over the lines that stand there, writes them anew, and clears what is left of them.
func (p *liveProgress) draw() {
	size := p.screen()
	lines := p.fitting(size.rows - 1) // the cursor stands below them
	var b strings.Builder
	b.WriteString(p.home())
	for _, l := range lines {
		b.WriteString("\x1b[K" + clip(l, size.columns-1) + "\n")
	}
	b.WriteString("\x1b[J")
	p.drawn = len(lines)
	_, _ = io.WriteString(p.out, b.String())
}

// fitting renders the nodes' lines, at most rows of them: what has scrolled off the screen can't be written anew. Where there are
// more, those around the node that is in work are shown, and a count of all.
func (p *liveProgress) fitting(rows int) []string {
	from, to := 0, len(p.lines)
	if rows > 0 && to > rows {
		shown := max(rows-1, 1)
		from = min(max(p.inWork()-shown/2, 0), to-shown)
		to = from + shown
	}
	var out []string
	now, width := p.now(), p.nameWidth()
	for _, l := range p.lines[from:to] {
		out = append(out, l.render(now, width))
	}
	if len(out) < len(p.lines) && rows > 1 {
		out = append(out, fmt.Sprintf("(%d of %d nodes ended; lines %d to %d)", p.ended(), len(p.lines), from+1, to))
	}
	return out
}

// inWork is the index of the first node that has not ended.
func (p *liveProgress) inWork() int {
	return min(p.ended(), len(p.lines)-1)
}

func (p *liveProgress) ended() (n int) {
	for _, l := range p.lines {
		if l.ended {
			n++
		}
	}
	return n
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
