package cli

import (
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// terminal is a screen that understands what liveProgress writes: text, carriage return, line feed, and the sequences to move up and to
// clear to the end of the line or of the screen. Anything else is kept in strange. It scrolls, as terminals do.
type terminal struct {
	mu sync.Mutex

	columns, rows int
	cells         [][]rune
	row, column   int
	strange       []string
	wrapped       bool // a line was longer than the screen is wide
	scrolled      int
}

func newTerminal(columns, rows int) *terminal {
	return &terminal{columns: columns, rows: rows, cells: make([][]rune, rows)}
}

func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := string(p)
	for text != "" {
		switch {
		case strings.HasPrefix(text, "\x1b["):
			end := strings.IndexFunc(text[2:], func(r rune) bool { return r >= '@' }) + 2
			t.control(text[2:end], text[end])
			text = text[end+1:]
		case text[0] == '\n':
			t.lineFeed()
			text = text[1:]
		case text[0] == '\r':
			t.column = 0
			text = text[1:]
		default:
			r, size := utf8.DecodeRuneInString(text)
			t.put(r)
			text = text[size:]
		}
	}
	return len(p), nil
}

func (t *terminal) control(parameter string, final byte) {
	switch n, _ := strconv.Atoi(parameter); {
	case final == 'A':
		t.row = max(t.row-n, 0)
	case final == 'K' && parameter == "":
		t.cells[t.row] = t.cells[t.row][:min(t.column, len(t.cells[t.row]))]
	case final == 'J' && parameter == "":
		t.cells[t.row] = t.cells[t.row][:min(t.column, len(t.cells[t.row]))]
		for i := t.row + 1; i < t.rows; i++ {
			t.cells[i] = nil
		}
	default:
		t.strange = append(t.strange, parameter+string(final))
	}
}

// lineFeed also returns the carriage, as a terminal's driver makes it.
func (t *terminal) lineFeed() {
	t.column = 0
	if t.row++; t.row == t.rows {
		t.cells, t.row = append(t.cells[1:], nil), t.rows-1
		t.scrolled++
	}
}

func (t *terminal) put(r rune) {
	if r < ' ' {
		t.strange = append(t.strange, strconv.QuoteRune(r))
		return
	}
	if t.column == t.columns {
		t.wrapped = true
		t.lineFeed()
	}
	line := t.cells[t.row]
	for len(line) <= t.column {
		line = append(line, ' ')
	}
	line[t.column] = r
	t.cells[t.row] = line
	t.column++
}

// String is what stands on the screen.
func (t *terminal) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for _, l := range t.cells {
		lines = append(lines, strings.TrimRight(string(l), " "))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}
