package cli

import (
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// screen is what a stream is shown on. The zero value is a file or a pipe: nothing is ever cut or folded for it.
type screen struct {
	is            bool
	columns, rows int // characters
}

// screenOf tells whether w is a terminal, and its size: 80 by 24 where it can't be told.
func screenOf(w io.Writer) screen {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return screen{}
	}
	columns, rows, err := term.GetSize(int(f.Fd()))
	if err != nil || columns <= 0 || rows <= 0 {
		return screen{is: true, columns: 80, rows: 24}
	}
	return screen{is: true, columns: columns, rows: rows}
}

// oneLine makes a text from outside safe to show: what would break the line or steer the terminal becomes a space.
func oneLine(s string) string {
	clean := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	return strings.TrimSpace(clean)
}

// fold breaks a text between words so that it fits on the screen. The first line begins with first, the others with as many spaces.
func (s screen) fold(first, text string) string {
	width := utf8.RuneCountInString(first)
	if !s.is || s.columns <= width {
		return first + text
	}
	var b strings.Builder
	b.WriteString(first)
	used, indent := width, strings.Repeat(" ", width)
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case used+1+n > s.columns:
			b.WriteString("\n" + indent)
			used = width
		default:
			b.WriteString(" ")
			used++
		}
		b.WriteString(word)
		used += n
	}
	return b.String()
}

// clip cuts a line to a width in characters, with an ellipsis, so that it never wraps.
func clip(s string, width int) string {
	r := []rune(s)
	if width <= 0 || len(r) <= width {
		return s
	}
	return string(r[:width-1]) + "…"
}
