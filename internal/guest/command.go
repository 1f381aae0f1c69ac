package guest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// command is a constant script of this package.
//
// A script prints "trueup-begin NAME" before anything else and "trueup-end" after everything else. What a login shell prints before
// is ignored, and an answer that was cut short is noticed. Input is sent only after the first of the two.
type command struct {
	name   string
	script string
	// bound is when the guest itself ends the script, in seconds: nothing of ours may stay behind in a guest that we lost.
	bound int
	limit int // bytes of output; more is an error
}

// beginMark and endMark enclose what a script has to say.
const (
	beginMark = "trueup-begin "
	endMark   = "trueup-end"
)

// stderrLimit is how much of a script's complaints is kept, in bytes.
const stderrLimit = 4 << 10

// remote is the command line that runs the script as root in the guest. It depends on nothing but constants and on whether
// the user is root. The script stands between single quotes, which is safe because no script contains one (there is a test).
func (c command) remote(user string) string {
	sudo := "sudo -n "
	if user == "root" {
		sudo = ""
	}
	return fmt.Sprintf("exec %stimeout -s KILL %d /bin/sh -c '%s'", sudo, c.bound, withoutComments(c.script))
}

// withoutComments drops comment lines: sudo writes the whole command into the guest's log.
func withoutComments(script string) string {
	var b strings.Builder
	for line := range strings.Lines(script) {
		if text := strings.TrimSpace(line); text != "" && text[0] != '#' {
			b.WriteString(line)
		}
	}
	return b.String()
}

// CommandError is a command that ran in a guest and failed there.
type CommandError struct {
	Place   string // node, VM, address and user
	Command string // probe, online, restart or diagnose
	Exit    int    // exit status; 0 if a signal ended it
	Signal  string // the signal that ended it, without SIG
	Said    string // what it printed as errors, shortened
}

// Error says what failed where, in the guest's own words.
func (e *CommandError) Error() string {
	how := fmt.Sprintf("with exit status %d", e.Exit)
	if e.Signal != "" {
		how = "by signal " + e.Signal
	}
	return fmt.Sprintf("%s: the %s command ended %s: %s", e.Place, e.Command, how, e.Said)
}

// errTooMuch is why a command is given up that prints more than its limit.
var errTooMuch = errors.New("it printed more than its limit")

// run runs the command and returns the lines between its marks.
func (g *guest) run(ctx context.Context, c command, timeout time.Duration, input string) (answer []string, err error) {
	ctx, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	session, at, release, err := g.link.session(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	out := &output{limit: c.limit, begin: beginMark + c.name, overflow: func() { cancel(errTooMuch) }}
	complaints := &output{limit: stderrLimit}
	session.Stdout, session.Stderr = out, complaints
	if input != "" {
		stdin, err := session.StdinPipe()
		if err != nil {
			release()
			return nil, fmt.Errorf("%w: %v: %s: %w", rollout.ErrUnreachable, at, c.name, err)
		}
		out.onBegin = func() {
			_, _ = stdin.Write([]byte(input)) // a failure shows in the answer: the script judges what it got
			_ = stdin.Close()
		}
	}
	err = perform(ctx, session, c.remote(at.endpoint.User), release)
	if err := (outcome{c, at, out, complaints}).judge(ctx, err); err != nil {
		return nil, err
	}
	if answer, err = out.answer(); err != nil {
		return nil, fmt.Errorf("%w: %v: %s: %w", rollout.ErrUnreachable, at, c.name, err)
	}
	return answer, nil
}

// perform runs the command line in the session until it ends or ctx does. The session's slot is released when it is really gone,
// which may be later than this returns.
func perform(ctx context.Context, session *ssh.Session, line string, release func()) error {
	done := make(chan error, 1)
	go func() {
		defer release()
		defer func() { _ = session.Close() }()
		if err := session.Start(line); err != nil {
			done <- errNotStarted // not err: it may quote the whole script
			return
		}
		done <- session.Wait()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		go func() { // on a dead connection each of these may block until it is found to be dead
			_ = session.Signal(ssh.SIGKILL)
			_ = session.Close()
		}()
		return context.Cause(ctx)
	}
}

var errNotStarted = errors.New("the SSH server did not start the command")

// outcome is a command that has ended, or was given up.
type outcome struct {
	command command
	place   place
	out     *output
	errors  *output
}

// judge turns the end of a session into an error that says who failed: the way, the permission or the script.
func (o outcome) judge(ctx context.Context, err error) error {
	exit := (*ssh.ExitError)(nil)
	switch {
	case errors.Is(context.Cause(ctx), errTooMuch):
		return fmt.Errorf("%v: the answer to %s is longer than %d bytes", o.place, o.command.name, o.command.limit)
	case err == nil && o.out.begun():
		return nil
	case err == nil:
		return fmt.Errorf("%v: something else than our %s command ran there; it said: %s", o.place, o.command.name, o.said())
	case !errors.As(err, &exit):
		return fmt.Errorf("%w: %v: %s: no answer: %w", rollout.ErrUnreachable, o.place, o.command.name, err)
	case !o.out.begun():
		return fmt.Errorf("%w: %v: could not run %s as root (exit status %d): %s; the user needs a shell and sudo without a password",
			rollout.ErrDenied, o.place, o.command.name, exit.ExitStatus(), o.said())
	}
	return &CommandError{Place: o.place.String(), Command: o.command.name, Exit: exit.ExitStatus(), Signal: exit.Signal(), Said: o.said()}
}

// said is what the guest printed, errors first, as one line.
func (o outcome) said() string {
	for _, text := range []string{o.errors.String(), o.out.String()} {
		if line := oneLine(text); line != "" {
			return line
		}
	}
	return "(nothing)"
}

// answer returns the lines between the marks.
func (o *output) answer() ([]string, error) {
	text := o.String()
	start := strings.Index("\n"+text, "\n"+o.begin+"\n")
	lines := strings.Split(strings.TrimSuffix(text[start+len(o.begin)+1:], "\n"), "\n")
	if lines[len(lines)-1] != endMark {
		return nil, fmt.Errorf("the answer is incomplete: it does not end with %s", endMark)
	}
	return lines[:len(lines)-1], nil
}
