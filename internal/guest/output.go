package guest

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"unicode"
)

// output collects what a command prints, up to a limit. It is written by the session and read by us, maybe while the session is
// still being given up.
type output struct {
	limit    int    // bytes; what comes after is dropped
	overflow func() // called once something was dropped; may be nil
	begin    string // the line that shows that the script runs
	onBegin  func() // called once after that line; may be nil
	// rest takes what comes after the line begin, instead of data; may be nil.
	rest io.Writer

	mu      sync.Mutex
	data    bytes.Buffer
	started bool
}

// Write takes in what fits. It never fails, because the session would stop reading and the command would never end.
func (o *output) Write(p []byte) (int, error) {
	if o.rest != nil && o.begun() {
		_, _ = o.rest.Write(p) // an error is the reader's: it wants no more
		return len(p), nil
	}
	if o.take(p) && o.onBegin != nil {
		o.onBegin()
	}
	if o.rest != nil && o.begun() {
		_, _ = o.rest.Write(o.afterBegin())
	}
	return len(p), nil
}

// afterBegin is what came in one piece with the line begin, after it.
func (o *output) afterBegin() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, after, _ := bytes.Cut(append([]byte("\n"), o.data.Bytes()...), []byte("\n"+o.begin+"\n"))
	return after
}

// take stores p and reports whether the script has just begun.
func (o *output) take(p []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	room := o.limit - o.data.Len()
	if len(p) > room {
		p = p[:room]
		if o.overflow != nil {
			o.overflow()
		}
	}
	o.data.Write(p)
	if o.started || o.begin == "" {
		return false
	}
	o.started = hasLine(o.data.Bytes(), o.begin)
	return o.started
}

// has reports whether the line was printed so far.
func (o *output) has(line string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return hasLine(o.data.Bytes(), line)
}

func hasLine(text []byte, line string) bool {
	return bytes.Contains(append([]byte("\n"), text...), []byte("\n"+line+"\n"))
}

// begun reports whether the script has said that it runs.
func (o *output) begun() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.started
}

// String is what was printed so far.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.data.String()
}

// oneLineLimit is how much of a guest's words an error repeats, in bytes.
const oneLineLimit = 400

// oneLine makes text from a guest fit for an error: one line, shortened, without anything that a terminal would obey.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(printable(text)), " ")
	if len(text) > oneLineLimit {
		text = strings.ToValidUTF8(text[:oneLineLimit], "") + "…"
	}
	return text
}

// printable replaces what a terminal would obey by spaces.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}
