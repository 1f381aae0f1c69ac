package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The documents that -o json prints, as far as scripts rely on them.
type (
	planDocument struct {
		Nodes []struct {
			Target   target        `json:"target"`
			Moves    []plannedMove `json:"moves"`
			Refusals []any         `json:"refusals"`
		} `json:"nodes"`
	}
	target struct {
		Name string `json:"name"`
		Role string `json:"role"`
	}
	plannedMove struct {
		Move     string `json:"move"`
		Action   string `json:"action"`
		Sentence string `json:"sentence"`
	}
	reportDocument struct {
		Effects []effect     `json:"effects"`
		Nodes   []nodeReport `json:"nodes"`
	}
	effect struct {
		Node       string `json:"node"`
		Action     string `json:"action"`
		Text       string `json:"text"`
		Unanswered bool   `json:"unanswered"`
	}
	nodeReport struct {
		Target    target                   `json:"target"`
		Outcome   string                   `json:"outcome"`
		Took      time.Duration            `json:"took"`
		Moves     map[string]time.Duration `json:"moves"`
		Unneeded  []string                 `json:"unneeded"`
		Unplanned []string                 `json:"unplanned"`
	}
	statusDocument struct {
		State string `json:"state"`
		Agree bool   `json:"agree"`
		Nodes []struct {
			Target target `json:"target"`
			Drift  []struct {
				View string `json:"view"`
			} `json:"drift"`
			Problems []any `json:"problems"`
		} `json:"nodes"`
	}
)

// plan asks for a plan, which must be one that scale would walk.
func (f *fixture) plan(t testing.TB, goal ...string) (plan planDocument) {
	t.Helper()
	decode(t, f.trueup(t, 0, append([]string{"plan", f.Options.Name, "-o", "json"}, goal...)...), &plan)
	return plan
}

// scale lets trueup do it, which must succeed.
func (f *fixture) scale(t testing.TB, goal ...string) (report reportDocument) {
	t.Helper()
	decode(t, f.trueup(t, 0, append([]string{"scale", f.Options.Name, "--yes", "-o", "json"}, goal...)...), &report)
	return report
}

// moves lists what the plan has for a node.
func (p planDocument) moves(name string) (moves []string) {
	for _, node := range p.Nodes {
		for _, move := range node.Moves {
			if node.Target.Name == name {
				moves = append(moves, move.Move)
			}
		}
	}
	return moves
}

func (p planDocument) order() (names []string) {
	for _, node := range p.Nodes {
		names = append(names, node.Target.Name)
	}
	return names
}

// outcomes lists what became of the nodes.
func (r reportDocument) outcomes() (outcomes []string) {
	for _, node := range r.Nodes {
		outcomes = append(outcomes, node.Target.Name+" "+node.Outcome)
	}
	return outcomes
}

// expectWalked compares what was done with what had been planned: equal but for planned effects that the report calls unneeded,
// and effects that it calls unplanned. Bookkeeping in the claim is in no plan.
func expectWalked(t testing.TB, plan planDocument, report reportDocument) {
	t.Helper()
	var planned, done []string
	for _, node := range plan.Nodes {
		for _, move := range node.Moves {
			if move.Action != "" && !report.has(node.Target.Name, move.Sentence, func(n nodeReport) []string { return n.Unneeded }) {
				planned = append(planned, node.Target.Name+" "+move.Action)
			}
		}
	}
	for _, effect := range report.Effects {
		bookkeeping := effect.Action == "adopt" || effect.Action == "note-job"
		if !bookkeeping && !report.has(effect.Node, effect.Text, func(n nodeReport) []string { return n.Unplanned }) {
			done = append(done, effect.Node+" "+effect.Action)
		}
	}
	if diff := cmp.Diff(planned, done); diff != "" {
		t.Errorf("effects against the plan (-planned +done):\n%s", diff)
	}
}

// has tells whether a list of the node's report has an entry about the sentence.
func (r reportDocument) has(name, sentence string, list func(nodeReport) []string) bool {
	return slices.ContainsFunc(r.Nodes, func(n nodeReport) bool {
		about := func(entry string) bool { return strings.HasPrefix(entry, sentence+": ") }
		return n.Target.Name == name && slices.ContainsFunc(list(n), about)
	})
}
