package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cks-trueup/trueup/internal/spelling"
)

// Problem is one thing that is wrong in the file. It holds no secret.
type Problem struct {
	File string
	Line int    // 0: the file as a whole
	Path string // of the key, like endpoints[0].clusters[2].policy; empty for the file as a whole
	Text string
}

// String prints the problem as compilers do, so that editors find the place.
func (p Problem) String() string {
	place := p.File
	if p.Line > 0 {
		place = fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	if p.Path != "" {
		place += ": " + p.Path
	}
	return place + ": " + p.Text
}

// Error is everything that is wrong in the file, in the order of the lines.
type Error struct{ Problems []Problem }

// Error prints one problem on each line.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives each problem as an error of its own.
func (e *Error) Unwrap() []error {
	each := make([]error, len(e.Problems))
	for i, p := range e.Problems {
		each[i] = &Error{Problems: []Problem{p}}
	}
	return each
}

func byLine(a, b Problem) int { return cmp.Compare(a.Line, b.Line) }

// longestQuote is shorter than any key of CloudStack (86) or a webhook's (at least 24 bytes): a longer text is not repeated, since it may be a secret
// that stands in the wrong place.
const longestQuote = 23

// plainWord is what is repeated of a key: what a person may have mistyped.
var plainWord = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]*$`)

// quote repeats a value, unless it could be a secret.
func quote(text string) string {
	if len(text) > longestQuote || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "this value"
	}
	return fmt.Sprintf("%q", text)
}

// near is the word that was probably meant, empty if none is near.
func near(text string, words []string) string {
	if len(text) > longestQuote {
		return ""
	}
	best, least := "", 3
	for _, word := range words {
		d := spelling.Distance(text, word)
		if d < least && d <= len(word)/2 {
			best, least = word, d
		}
	}
	if best != "" {
		return best
	}
	return sameStem(text, words)
}

// sameStem finds policy for policies and paused for pause: half of the longer word is equal from its beginning.
func sameStem(text string, words []string) string {
	for _, word := range words {
		same := 0
		for same < len(text) && same < len(word) && text[same]|0x20 == word[same]|0x20 {
			same++
		}
		if same >= 4 && same*2 >= max(len(text), len(word)) {
			return word
		}
	}
	return ""
}

// didYouMean ends a message about a word: with the word that is near, else with all there are.
func didYouMean(text string, words []string) string {
	if word := near(text, words); word != "" {
		return fmt.Sprintf("did you mean %s?", word)
	}
	sorted := slices.Sorted(slices.Values(words))
	return "known here: " + strings.Join(sorted, ", ")
}
