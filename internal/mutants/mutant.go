package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mutant is one small fault that is put into the engine.
type mutant struct {
	// name says in a few words what is broken; it is unique.
	name string
	// promise is what no longer holds, said to somebody who runs a cluster.
	promise string
	// file is where, as a path from the checkout's root.
	file string
	// was is the exact text that is replaced, and must occur once in the file; becomes is what stands there instead.
	was, becomes string
	// by are the tests that should notice.
	by suite
}

// suite is a choice of tests: one package, from the checkout's root, and a pattern of names as `go test -run` takes it.
type suite struct{ dir, run string }

// all lists every mutant, from the heart outwards.
func all() []mutant {
	return slices.Concat(ofNext(), ofEtcd(), ofResize(), ofVerification(), ofClaims(), ofRunner(), ofEnds(), ofPlans(), ofRefusals(), ofInspection(), ofPods(), ofCapacity(), ofLease(), ofGuest(), ofSSH(), ofCloudStack(), ofCold())
}

// matching returns the mutants whose name or file holds the text.
func matching(mutants []mutant, text string) []mutant {
	var out []mutant
	for _, m := range mutants {
		if strings.Contains(m.name, text) || strings.Contains(m.file, text) {
			out = append(out, m)
		}
	}
	return out
}

// applicable returns an error that names every mutant which does not apply to the checkout at root.
func applicable(mutants []mutant, root string) error {
	var errs []error
	for _, m := range mutants {
		_, err := m.applied(root)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// applied returns the file's text with the mutation in it.
func (m mutant) applied(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, m.file)) //nolint:gosec // the list of mutants names it
	if err != nil {
		return "", fmt.Errorf("mutant %q no longer applies: %w", m.name, err)
	}
	if n := strings.Count(string(text), m.was); n != 1 {
		return "", fmt.Errorf("mutant %q no longer applies: %s holds its text %d times, want once; bring the mutant in internal/mutants up to date:\n\t%s",
			m.name, m.file, n, strings.ReplaceAll(m.was, "\n", "\n\t"))
	}
	return strings.Replace(string(text), m.was, m.becomes, 1), nil
}
