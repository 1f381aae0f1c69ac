// Package cli is the command line of trueup: flags, streams, exit codes, tables and progress.
//
// Its invariant: data goes to standard output and everything else to standard error; only scale, resume, reconcile and abort change
// anything, after a plan and a question; and no command says "done" on anything but the engine's verdict.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/cks-trueup/trueup/internal/history"
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
func Main(ctx context.Context, s Streams, args []string) int { return newApp(s).main(ctx, args) }

// app is one call of the program.
type app struct {
	Streams

	access   access
	profiles profiles
	clock    rollout.Clock
	// The ways to CloudStack, guests and Kubernetes, the size of what a stream is shown on, who runs this, the id of a new run, and where
	// history is kept. Tests and the server put others in their place.
	transport  http.RoundTripper // nil: the network
	openGuests func(*session) (guests, error)
	openKube   func(context.Context, *session) (kubernetes, error)
	screen     func(io.Writer) screen
	actor      func() string
	newRun     func() string
	record     func(history.Entry) error

	mu        sync.Mutex
	shown     progress // what shows a rollout now, nil while none is under way
	stop      func()   // asks the rollout that is under way to end at its next safe point, nil while there is none to ask
	performed bool     // a rollout was begun: something may have been changed
}

func newApp(s Streams) *app {
	a := &app{Streams: s, clock: systemClock{}, screen: screenOf, newRun: uuid.NewString}
	a.openGuests, a.openKube, a.actor, a.record = a.waysIn, a.kubeClient, a.userAtHost, a.appendHistory
	return a
}

func (a *app) main(ctx context.Context, args []string) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go a.watchInterrupts(ctx, cancel)
	root := a.root() //nolint:contextcheck // commands get theirs from cobra
	root.SetArgs(args)
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	err := root.ExecuteContext(ctx)
	if unwritten := a.profiles.finish(); err == nil {
		err = unwritten
	}
	if err != nil && ctx.Err() != nil && !a.performed {
		err = withCode(ExitInterrupted, errors.New("interrupted, nothing was changed"))
	}
	if err == nil {
		return ExitOK
	}
	a.printError(err)
	return codeOf(err)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "trueup",
		Short: "Give running CKS nodes more CPU and memory, until Kubernetes can use it",
		Long: `trueup changes the compute offering of the nodes of a running CloudStack
Kubernetes Service (CKS) cluster, one node at a time, and calls a node done
only when CloudStack, the guest operating system and Kubernetes agree about
its CPU and memory.`,
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
	a.profiles.addFlags(root.PersistentFlags())
	root.PersistentPreRunE = func(*cobra.Command, []string) error { return a.profiles.start() }
	root.AddCommand(a.clustersCommand(), a.statusCommand(), a.preflightCommand(), a.planCommand(), a.scaleCommand(), a.prepareCommand(), a.doctorCommand(), a.resumeCommand(),
		a.sshCommand(), a.reconcileCommand(), a.verifyCommand(), a.explainCommand(), a.abortCommand(), a.historyCommand(), a.rightsCommand(), a.configCommand())
	wrapArgs(root)
	return root
}

// wrapArgs makes wrong positional arguments a usage error, in the command and those below it.
func wrapArgs(c *cobra.Command) {
	for _, below := range c.Commands() {
		wrapArgs(below)
	}
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

// printError prints an error for a person: one line, and for each fault in it what else is known.
func (a *app) printError(err error) {
	for _, e := range joined(err) {
		fmt.Fprintf(a.Err, "trueup: %s\n", oneLine(e.Error()))
		if fault, is := errors.AsType[*rollout.Fault](e); is {
			printFault(a.Err, fault)
		}
		if stale, is := errors.AsType[*staleError](e); is {
			for _, change := range stale.changes {
				fmt.Fprintf(a.Err, "  | %s\n", oneLine(change))
			}
		}
	}
}

func printFault(w io.Writer, f *rollout.Fault) {
	for _, d := range f.Details {
		fmt.Fprintf(w, "  | %s\n", oneLine(d))
	}
	if !f.Since.IsZero() {
		fmt.Fprintf(w, "  layer: %s, move: %s, since: %s\n", f.Layer, orDash(string(f.Move)), f.Since.UTC().Format(time.RFC3339))
	}
	if f.Recover != "" {
		fmt.Fprintf(w, "  next: %s\n", oneLine(f.Recover))
	}
}

// joined takes apart what errors.Join made of several nodes' errors, so that each is told on its own.
func joined(err error) []error {
	if coded, is := errors.AsType[*exitError](err); is {
		err = coded.err
	}
	if list, ok := err.(interface{ Unwrap() []error }); ok && strings.Contains(err.Error(), "\n") {
		return list.Unwrap()
	}
	return []error{err}
}

// say tells the person something on standard error while a command runs, without tearing the live lines that may stand there.
func (a *app) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.shown != nil {
		a.shown.Note(text)
		return
	}
	fmt.Fprintln(a.Err, text)
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
