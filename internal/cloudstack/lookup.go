package cloudstack

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cks-trueup/trueup/internal/rollout"
	"github.com/cks-trueup/trueup/internal/spelling"
)

// maxCandidates bounds the list of candidates in an error.
const maxCandidates = 8

// Candidate is something that may have been meant.
type Candidate struct {
	ID   string
	Name string
	Note string // tells things of one name apart: the zone, the size
}

// String prints the candidate on one line.
func (c Candidate) String() string {
	if c.Note == "" {
		return fmt.Sprintf("%s (%s)", c.Name, c.ID)
	}
	return fmt.Sprintf("%s (%s, %s)", c.Name, c.ID, c.Note)
}

// LookupError means that a name or id names nothing, or several things. If nothing, it is rollout.ErrNotFound.
type LookupError struct {
	Kind      string // "cluster", "compute offering"
	Asked     string
	Ambiguous bool
	// Candidates are those of the name if it is ambiguous, else all, the closest name first.
	Candidates []Candidate
}

// Error names what was asked for and up to eight candidates.
func (e *LookupError) Error() string {
	var b strings.Builder
	switch {
	case e.Ambiguous:
		fmt.Fprintf(&b, "%s %q is ambiguous, give the id of one", e.Kind, e.Asked)
	case len(e.Candidates) == 0:
		fmt.Fprintf(&b, "%s %q is unknown: this account sees none", e.Kind, e.Asked)
	default:
		fmt.Fprintf(&b, "%s %q is unknown; there are", e.Kind, e.Asked)
	}
	separator := ": "
	for _, c := range e.Candidates[:min(len(e.Candidates), maxCandidates)] {
		b.WriteString(separator + c.String())
		separator = ", "
	}
	if more := len(e.Candidates) - maxCandidates; more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	return b.String()
}

// Is makes an unknown name rollout.ErrNotFound.
func (e *LookupError) Is(target error) bool { return target == rollout.ErrNotFound && !e.Ambiguous }

// lookup finds the one item with that id, else the one with that name, exactly as written.
func lookup[T any](kind, asked string, items []T, describe func(T) Candidate) (T, error) {
	var named []T
	for _, item := range items {
		switch c := describe(item); asked {
		case c.ID:
			return item, nil
		case c.Name:
			named = append(named, item)
		}
	}
	if len(named) == 1 {
		return named[0], nil
	}
	failed := &LookupError{Kind: kind, Asked: asked, Ambiguous: len(named) > 1}
	if failed.Ambiguous {
		items = named
	}
	for _, item := range items {
		failed.Candidates = append(failed.Candidates, describe(item))
	}
	sortByDistance(failed.Candidates, asked)
	var none T
	return none, failed
}

func sortByDistance(candidates []Candidate, asked string) {
	near := func(c Candidate) int {
		return min(spelling.Distance(asked, c.Name), spelling.Distance(asked, c.ID))
	}
	slices.SortStableFunc(candidates, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(near(a), near(b)), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
}
