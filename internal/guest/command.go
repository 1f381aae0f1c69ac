package guest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

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

// commands are all commands that are ever run in a guest, but for the administrative ones. They are what sudo must allow there; a test holds the
// lists complete.
func commands() []command {
	return []command{
		probeCommand(), inspectCommand(), onlineCommand(), restartCommand(), etcdCommand(),
		diagnoseCommand(rollout.RoleWorker), diagnoseCommand(rollout.RoleEtcd),
	}
}

// administrative are commands that make whoever may run them an administrator of the cluster. They are run only where that way to the API server is
// used, so sudo need not allow them.
func administrative() []command { return []command{kubectlCommand()} }

// beginMark and endMark enclose what a script has to say. shellMark comes before both: the user has a shell, and sudo is what is tried next.
const (
	shellMark = "trueup-shell"
	beginMark = "trueup-begin "
	endMark   = "trueup-end"
)

// stderrLimit is how much of a script's complaints is kept, in bytes.
const stderrLimit = 4 << 10

// Exit statuses before a script has begun.
const (
	exitRefused = 1  // sudo's own, "if there is a configuration or permission problem" (sudo(8)); nothing else of ours ends so
	exitGarbled = 65 // the loader's: what came over standard input is not the script
)

// prologue comes before each script: what it finds depends on nobody's environment. The folders are those of root on Debian, with sudo's
// secure_path; CKS' own are named where they are needed.
const prologue = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nexport PATH\n"

// text is what the guest evaluates.
func (c command) text() string {
	return strings.TrimSuffix(prologue+withoutComments(c.script), "\n")
}

// loader is a shell command that reads the script from standard input and evaluates it if, and only if, it is the one whose SHA-256 stands here. So the
// command line is short and constant, and sudo can be told to allow exactly this one.
//
// It contains no space: sudo joins the arguments with spaces before it compares them, so that one argument with spaces
// would also match as several, of which a shell obeys only the first. $IFS stands for them. The exit keeps an argument that was joined to the
// end from becoming one of eval. It contains nothing that sudoers takes for a wildcard.
func (c command) loader() string {
	return fmt.Sprintf(`s=$(/usr/bin/head$IFS-c%d);set$IFS--$IFS$(printf$IFS%%s$IFS"$s"|/usr/bin/sha256sum);test$IFS"$1"$IFS=$IFS"%x"||exit$IFS"%d";eval$IFS"$s";exit`,
		len(c.text()), sha256.Sum256([]byte(c.text())), exitGarbled)
}

// arguments are the program that sudo is to run, and its arguments. The last one is only for people who read logs.
func (c command) arguments() []string {
	return []string{"/usr/bin/timeout", "-s", "KILL", strconv.Itoa(c.bound), "/bin/sh", "-c", c.loader(), "trueup-" + c.name}
}

// remote is the command line that runs the script as root in the guest. It depends on nothing but constants and on whether
// the user is root. The arguments stand between single quotes, which is safe because none contains one (there is a test).
func (c command) remote(user string) string {
	sudo := "sudo -n "
	if user == "root" {
		sudo = ""
	}
	return "echo " + shellMark + "; exec " + sudo + "'" + strings.Join(c.arguments(), "' '") + "'"
}

// withoutComments drops comment lines: what is sent shall be short.
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

// run runs the command and returns the lines between its marks. It is a way.
func (l *link) run(ctx context.Context, c command, input string) ([]string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	session, at, release, err := l.session(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	stdin, err := session.StdinPipe()
	if err != nil {
		release()
		return nil, fmt.Errorf("%w: %v: %s: %w", rollout.ErrUnreachable, at, c.name, err)
	}
	out := &output{limit: c.limit, begin: beginMark + c.name, overflow: func() { cancel(errTooMuch) }}
	complaints := &output{limit: stderrLimit}
	session.Stdout, session.Stderr = out, complaints
	out.onBegin = func() {
		_, _ = io.WriteString(stdin, input) // a failure shows in the answer: the script judges what it got
		_ = stdin.Close()
	}
	err = perform(ctx, session, func() error { return c.start(session, stdin, at.endpoint.User) }, release)
	return outcome{c, at, out, complaints}.answer(ctx, err)
}

// start starts the command in the session and hands it its script.
func (c command) start(session *ssh.Session, stdin io.Writer, user string) error {
	if err := session.Start(c.remote(user)); err != nil {
		return errNotStarted // not err: it may quote the whole command line
	}
	_, _ = io.WriteString(stdin, c.text()) // a failure shows in the guest: the loader judges what it got
	return nil
}

// perform starts a command in the session and waits until it ends or ctx does. The session's slot is released when it is really gone,
// which may be later than this returns.
func perform(ctx context.Context, session *ssh.Session, start func() error, release func()) error {
	done := make(chan error, 1)
	go func() {
		defer release()
		defer func() { _ = session.Close() }()
		if err := start(); err != nil {
			done <- err
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

// answer returns the lines between the marks of a command that ended with err.
func (o outcome) answer(ctx context.Context, err error) ([]string, error) {
	if err := o.judge(ctx, err); err != nil {
		return nil, err
	}
	answer, err := o.out.answer()
	if err != nil {
		return nil, fmt.Errorf("%w: %v: %s: %w", rollout.ErrUnreachable, o.place, o.command.name, err)
	}
	return answer, nil
}

// exitError is the end of a program with another exit status than 0, by whichever way it was run.
type exitError interface {
	error
	ExitStatus() int
}

// exitKilled is the exit status that a container's runtime gives for the end by SIGKILL: the script's own bound, or the end of the pod.
const exitKilled = 128 + 9

// judge turns the end of a command into an error that says who failed: the way, the permission or the script.
func (o outcome) judge(ctx context.Context, err error) error {
	exit := exitError(nil)
	switch {
	case errors.Is(context.Cause(ctx), errTooMuch):
		return fmt.Errorf("%v: the answer to %s is longer than %d bytes", o.place, o.command.name, o.command.limit)
	case err == nil && o.out.begun():
		return nil
	case err == nil:
		return fmt.Errorf("%v: something else than our %s command ran there; it said: %s", o.place, o.command.name, o.said())
	case errors.Is(err, rollout.ErrDenied): // not started
		return fmt.Errorf("%v: %s: %w", o.place, o.command.name, err)
	case !errors.As(err, &exit):
		return fmt.Errorf("%w: %v: %s: no answer: %w", rollout.ErrUnreachable, o.place, o.command.name, err)
	case o.place.pod != "" && exit.ExitStatus() == exitKilled:
		return fmt.Errorf("%w: %v: %s was killed there: the pod ended, or it took longer than %d s", rollout.ErrUnreachable, o.place, o.command.name, o.command.bound)
	case !o.out.begun():
		return o.notBegun(exit.ExitStatus())
	}
	failed := &CommandError{Place: o.place.String(), Command: o.command.name, Exit: exit.ExitStatus(), Said: o.said()}
	if overSSH, is := exit.(*ssh.ExitError); is {
		failed.Signal = overSSH.Signal()
	}
	return failed
}

// notBegun says why a session ended with the exit status before the script had begun.
func (o outcome) notBegun(exit int) error {
	user := o.place.endpoint.User
	switch {
	case exit == exitGarbled:
		return fmt.Errorf("%w: %v: the %s script did not arrive whole; nothing was done: %s", rollout.ErrUnreachable, o.place, o.command.name, o.said())
	case o.place.pod != "":
		return fmt.Errorf("%w: %v: could not run %s as root (exit status %d): %s; the pod's image needs sh and nsenter (--guest-image), the machine timeout, head and sha256sum in /usr/bin",
			rollout.ErrDenied, o.place, o.command.name, exit, o.said())
	case !o.out.has(shellMark):
		return fmt.Errorf("%w: %v: could not run %s (exit status %d): %s; user %s needs a shell there", rollout.ErrDenied, o.place, o.command.name, exit, o.said(), user)
	case exit == exitRefused && user != "root":
		return fmt.Errorf("%w: %v: sudo there does not let %s run the %s command of this version of trueup: %s; "+
			"put what `trueup rights sudoers --user %s` prints into /etc/sudoers.d/trueup there, anew after each upgrade of trueup",
			rollout.ErrDenied, o.place, user, o.command.name, o.said(), user)
	}
	return fmt.Errorf("%w: %v: could not run %s as root (exit status %d): %s; the machine needs timeout, head and sha256sum in /usr/bin, and sudo unless the user is root",
		rollout.ErrDenied, o.place, o.command.name, exit, o.said())
}

// said is what the guest printed, errors first, as one line.
func (o outcome) said() string {
	for _, text := range []string{o.errors.String(), strings.ReplaceAll(o.out.String(), shellMark+"\n", "")} {
		if line := oneLine(text); line != "" {
			return line
		}
	}
	return "(nothing)"
}

// answer returns the lines between the marks, without them.
func (o *output) answer() ([]string, error) {
	text := o.String()
	start := strings.Index("\n"+text, "\n"+o.begin+"\n")
	lines := strings.Split(strings.TrimSuffix(text[start+len(o.begin)+1:], "\n"), "\n")
	if lines[len(lines)-1] != endMark {
		return nil, fmt.Errorf("the answer is incomplete: it does not end with %s", endMark)
	}
	return lines[:len(lines)-1], nil
}
