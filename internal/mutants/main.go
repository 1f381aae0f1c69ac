// Command mutants tests the tests: it breaks the engine in one small place at a time, and each time some test must fail.
//
//	make mutants                          all of them; takes half an hour on two cores
//	go run ./internal/mutants -only cordon   those whose name or file holds the word
//	go run ./internal/mutants -update        all of them, and write docs/mutants.md; with -only, its rows of those
//
// Its invariant: no file of the checkout is ever changed (the Go command is given an overlay), and a mutant counts as caught only if a
// named test failed on it that passes without it. A mutant that survives, that no longer applies or compiles, or that gives no
// verdict in time fails the run.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

// options are the flags.
type options struct {
	only    string
	list    bool
	update  bool
	timeout time.Duration
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.StringVar(&o.only, "only", "", "only mutants whose name or file holds this text")
	flags.BoolVar(&o.list, "list", false, "check that every mutant applies, list them, run nothing")
	flags.BoolVar(&o.update, "update", false, "write "+page+" if every one that was tried was caught; the others keep their rows")
	flags.DurationVar(&o.timeout, "timeout", 4*time.Minute, "bound of one mutant's tests; the walk of Next alone takes a minute on a busy machine")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	return o, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	chosen := matching(all(), o.only)
	if len(chosen) == 0 {
		return fmt.Errorf("no mutant's name or file holds %q", o.only)
	}
	if err := applicable(chosen, "."); err != nil {
		return err
	}
	if o.list {
		return printList(out, chosen)
	}
	verdicts, err := try(ctx, chosen, o.timeout, out)
	if err != nil {
		return err
	}
	if err := summary(out, verdicts); err != nil {
		return err
	}
	if o.update {
		return writePage(page, verdicts)
	}
	return nil
}
