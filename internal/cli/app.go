// Package cli is the command line of trueup: flags, streams, exit codes, tables and progress.
//
// Its invariant: data goes to standard output and everything else to standard error, every command but scale changes nothing,
// and no command says "done" on anything but the engine's verdict.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// Streams is everything that a command has to do with the outside besides the network.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	// Env looks up the environment: os.LookupEnv.
	Env func(string) (string, bool)
	// Interrupts gets a value for each interrupt of the person. The first stops at a safe point, the second at once.
	Interrupts <-chan os.Signal
	// Version is the program's version.
	Version string
}

// Main runs the command line and returns the exit code.
func Main(ctx context.Context, s Streams, args []string) int {
	a := &app{Streams: s, clock: systemClock{}}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	a.printError(err)
	return codeOf(err)
}

type app struct {
	Streams
	access access
	clock  rollout.Clock
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "trueup",
		Short: "Give running CKS nodes more CPU and memory, until Kubernetes can use it",
		Long: `trueup changes the compute offering of the nodes of a running CloudStack Kubernetes
Service (CKS) cluster, one node at a time, and calls a node done only when CloudStack,
the guest operating system and Kubernetes agree about its CPU and memory.`,
		Example: `  trueup clusters
  trueup status prod
  trueup plan prod --worker large
  trueup scale prod --worker large --control medium`,
		Version:           a.Version,
		SilenceErrors:     true,
		SilenceUsage:      true,
		Args:              cobra.NoArgs,
		DisableAutoGenTag: true,
		RunE:              func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageErrorf("%w; see `%s --help`", err, c.CommandPath())
	})
	root.SetUsageTemplate(strings.NewReplacer(".LocalFlags.FlagUsages ", ".LocalFlags.FlagUsagesWrapped 80 ", ".InheritedFlags.FlagUsages ", ".InheritedFlags.FlagUsagesWrapped 80 ").
		Replace(root.UsageTemplate()))
	a.access.addFlags(root.PersistentFlags())
	root.AddCommand(a.clustersCommand(), a.statusCommand(), a.planCommand(), a.scaleCommand(), a.resumeCommand(),
		a.reconcileCommand(), a.verifyCommand(), a.abortCommand(), a.historyCommand())
	for _, c := range root.Commands() {
		wrapArgs(c)
	}
	wrapArgs(root)
	return root
}

// wrapArgs makes wrong positional arguments a usage error.
func wrapArgs(c *cobra.Command) {
	check := c.Args
	if check == nil {
		return
	}
	c.Args = func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return usageErrorf("%w; see `%s --help`", err, c.CommandPath())
		}
		return nil
	}
}

// printError prints an error for a person: one line, and for a fault what else is known.
func (a *app) printError(err error) {
	fmt.Fprintf(a.Err, "trueup: %s\n", err)
	var fault *rollout.Fault
	if !errors.As(err, &fault) {
		return
	}
	for _, d := range fault.Details {
		fmt.Fprintf(a.Err, "  | %s\n", d)
	}
	if !fault.Since.IsZero() {
		fmt.Fprintf(a.Err, "  layer: %s, move: %s, since: %s\n", fault.Layer, orDash(string(fault.Move)), fault.Since.UTC().Format(time.RFC3339))
	}
	if fault.Recover != "" {
		fmt.Fprintf(a.Err, "  next: %s\n", fault.Recover)
	}
}

// terminal reports whether w is a terminal, and its width in columns (80 where it can't be told).
func terminal(w io.Writer) (is bool, width int) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return false, 80
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 {
		return true, 80
	}
	return true, width
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, strings.TrimSuffix(word, "s"))
}

type systemClock struct{}

func (systemClock) Now() time.Time                         { return time.Now() }
func (systemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }
