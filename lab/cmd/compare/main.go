// Command compare measures trueup beside what people do today and writes the raw figures, a table and a plot. See docs/performance.md.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/cks-trueup/trueup/lab/compare"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

// options of a comparison.
type options struct {
	root, out string
	rounds    int
	only      []string
}

func command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "compare",
		Short: "Measure trueup beside a runbook and CloudStack's draft reconciler, each on a fresh lab",
		Args:  cobra.NoArgs, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.ErrOrStderr(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&o.root, "root", ".", "the checkout's `folder`")
	cmd.Flags().StringVar(&o.out, "out", "bin/compare", "`folder` for runs.csv, nodes.csv, summary.md and phases.svg")
	cmd.Flags().IntVar(&o.rounds, "rounds", 3, "how often each contender works, in turn")
	cmd.Flags().StringSliceVar(&o.only, "only", nil, "contenders, by `name`; else all")
	return cmd
}

func (o options) run(ctx context.Context, log, out io.Writer) error {
	dir, err := os.MkdirTemp("", "trueup-contenders-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	programs, err := o.build(ctx, dir)
	if err != nil {
		return err
	}
	var trials []compare.Trial
	for round := 1; round <= o.rounds; round++ {
		for _, c := range compare.Contenders() {
			if o.only != nil && !slices.Contains(o.only, c.Name) {
				continue
			}
			fmt.Fprintf(log, "Round %d of %d: %s\n", round, o.rounds, c.Name)
			trial, err := compare.Run(ctx, round, c, programs, &indented{to: log})
			if err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
			trials = append(trials, trial)
			if err := o.write(trials); err != nil { // after each: a long measurement that is ended keeps what it has
				return err
			}
		}
	}
	return compare.WriteSummary(out, trials)
}

// build compiles trueup as it is released, and the reconciler.
func (o options) build(ctx context.Context, dir string) (compare.Programs, error) {
	root, err := filepath.Abs(o.root)
	if err != nil {
		return compare.Programs{}, err
	}
	programs := compare.Programs{Trueup: filepath.Join(dir, "trueup"), Reconciler: filepath.Join(dir, "reconciler"), Folder: filepath.Join(root, "lab", "compare")}
	for target, source := range map[string]string{programs.Trueup: "./cmd/trueup", programs.Reconciler: "./lab/compare/reconciler"} {
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", target, source)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
		if said, err := cmd.CombinedOutput(); err != nil {
			return compare.Programs{}, fmt.Errorf("build %s: %w\n%s", source, err, said)
		}
	}
	return programs, nil
}

func (o options) write(trials []compare.Trial) error {
	if err := os.MkdirAll(o.out, 0o750); err != nil {
		return err
	}
	var failed error
	for name, write := range map[string]func(io.Writer, []compare.Trial) error{
		"runs.csv": compare.WriteRuns, "nodes.csv": compare.WriteNodes, "summary.md": compare.WriteSummary, "phases.svg": compare.WritePlot,
	} {
		file, err := os.Create(filepath.Join(o.out, name))
		if err != nil {
			return err
		}
		failed = errors.Join(failed, write(file, trials), file.Close())
	}
	return failed
}

// indented marks what a lab or a contender says, line by line.
type indented struct {
	to  io.Writer
	had []byte // of a line that is not complete
}

func (w *indented) Write(p []byte) (int, error) {
	w.had = append(w.had, p...)
	for {
		line, rest, complete := bytes.Cut(w.had, []byte("\n"))
		if !complete {
			return len(p), nil
		}
		if _, err := fmt.Fprintf(w.to, "    %s\n", line); err != nil {
			return 0, err
		}
		w.had = rest
	}
}
