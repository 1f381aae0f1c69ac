package main

import (
	_ "embed" // the page's text
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
)

// page is where the table is kept.
const page = "docs/mutants.md"

//go:embed page.md
var pageText string

// outcome says in a few words what became of the mutant.
func (v verdict) outcome() string {
	switch {
	case v.err != nil:
		return "NO VERDICT"
	case v.failed == nil:
		return "SURVIVED"
	}
	return "caught by " + v.names()
}

// names lists the tests that caught the mutant, the first few by name.
func (v verdict) names() string {
	const shown = 3
	if n := len(v.failed) - shown; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(v.failed[:shown], ", "), n)
	}
	return strings.Join(v.failed, ", ")
}

// summary prints the table, and returns an error if any mutant survived.
func summary(out io.Writer, verdicts []verdict) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nMUTANT\tPROMISE\tCAUGHT BY\tSECONDS")
	var faults []string
	var total time.Duration
	for _, v := range verdicts {
		fmt.Fprintf(w, "%s\t%s\t%s\t%.1f\n", v.name, v.promise, v.names(), v.took.Seconds())
		total += v.took
		switch {
		case v.err != nil:
			faults = append(faults, fmt.Sprintf("%s (%s): %v", v.name, v.file, v.err))
		case v.failed == nil:
			faults = append(faults, fmt.Sprintf("%s (%s) survived: no test matching %s in %s failed, so one is missing", v.name, v.file, v.by.run, v.by.dir))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if faults != nil {
		return fmt.Errorf("%d of %d mutants were not caught\n\t%s", len(faults), len(verdicts), strings.Join(faults, "\n\t"))
	}
	_, err := fmt.Fprintf(out, "\nall %d mutants were caught, in %s\n", len(verdicts), total.Round(time.Second))
	return err
}

// writePage writes the page of the documentation. Mutants that were not tried this time keep what the page says of them. How long each took
// is left out: it would change with every run.
func writePage(path string, verdicts []verdict) error {
	caught, err := caughtBefore(path)
	if err != nil {
		return err
	}
	for _, v := range verdicts {
		caught[v.name] = v.names()
	}
	var b strings.Builder
	fmt.Fprintf(&b, pageText, len(all()))
	for _, m := range all() {
		if caught[m.name] == "" {
			return fmt.Errorf("%s is not written: %q was never tried", path, m.name)
		}
		fmt.Fprintf(&b, "| %s | %s | `%s` | %s |\n", m.name, m.promise, strings.TrimPrefix(m.file, "internal/"), caught[m.name])
	}
	return os.WriteFile(path, []byte(b.String()), 0o644) //nolint:gosec // documentation
}

// caughtBefore reads from the page which tests caught which mutant. No page: none.
func caughtBefore(path string) (map[string]string, error) {
	caught := map[string]string{}
	text, err := os.ReadFile(path) //nolint:gosec // documentation
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) == 4 {
			caught[cells[0]] = cells[3]
		}
	}
	return caught, nil
}

// printList prints what would be tried.
func printList(out io.Writer, mutants []mutant) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, err := fmt.Fprintln(w, "MUTANT\tPROMISE\tFILE")
	for _, m := range mutants {
		_, e := fmt.Fprintf(w, "%s\t%s\t%s\n", m.name, m.promise, m.file)
		err = errors.Join(err, e)
	}
	return errors.Join(err, w.Flush())
}
