package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cks-trueup/trueup/lab/process"
)

// pidName is the file in which a lab's daemon says who it is; it is believed only while the lock is held and the process carries the lab's mark.
const pidName = "daemon.pid"

// downTimeout bounds the end of a lab: guests are cut off, the control plane takes a few seconds.
const downTimeout = 90 * time.Second

// Serve brings a lab up and keeps it until the context ends. It is the body of the daemon that Spawn starts.
func Serve(ctx context.Context, options Options) error {
	l, err := Up(ctx, options)
	if err != nil {
		return err
	}
	<-ctx.Done()
	return l.Down(context.WithoutCancel(ctx))
}

// Spawn runs argv, which must call Serve for this folder with its progress on file descriptor 3, as a daemon that outlives
// this process. It copies the progress and returns when the lab is up or the daemon has given up.
func Spawn(ctx context.Context, dir string, argv []string, progress io.Writer) error {
	log, err := os.CreateTemp("", "trueup-lab-*.log")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(log.Name()) }() // read below if things go wrong; the daemon's programs have their own logs
	defer func() { _ = log.Close() }()
	ours, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = ours.Close() }()
	cmd := exec.Command(argv[0], argv[1:]...) //nolint:noctx // it outlives the call on purpose
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, []*os.File{theirs}
	cmd.Env = append(os.Environ(), process.Mark+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_ = theirs.Close()
	if err != nil {
		return err
	}
	// Whoever interrupts this command does not want half a lab.
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer stop()
	if up := copyProgress(progress, ours); up {
		return cmd.Process.Release()
	}
	err = cmd.Wait()
	said, _ := os.ReadFile(log.Name()) // what it said is only there to explain err
	return fmt.Errorf("the lab did not come up: %w\n%s", errors.Join(ctx.Err(), err), said)
}

// upLine is the daemon's last line of progress.
const upLine = "the lab is up"

// copyProgress copies lines until the daemon says that the lab is up, or ends.
func copyProgress(out io.Writer, in io.Reader) (up bool) {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		_, _ = fmt.Fprintln(out, lines.Text()) // progress that nobody reads is no reason to stop
		if strings.HasSuffix(lines.Text(), upLine) {
			return true
		}
	}
	return false
}

// Remove ends the lab in the folder, whichever process holds it, and cleans up after one that was killed. It says whether there was one.
func Remove(ctx context.Context, dir string) (existed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, downTimeout)
	defer cancel()
	if _, err := os.Stat(filepath.Join(dir, lockName)); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	held, err := Held(dir)
	if err != nil {
		return true, err
	}
	if held {
		if err := endDaemon(ctx, dir); err != nil {
			return true, err
		}
	}
	left, err := holdFolder(ctx, dir)
	if err != nil {
		return true, err
	}
	return true, left.release(ctx)
}

// endDaemon asks the daemon to end and waits until it let go of the folder.
func endDaemon(ctx context.Context, dir string) error {
	body, err := os.ReadFile(filepath.Join(dir, pidName))
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("the lab in %s belongs to a program that is no lab daemon (a test?): end that program", dir)
	}
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(body)))
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, pidName), err)
	}
	if err := process.Terminate(pid, dir); err != nil {
		return err
	}
	return waitReleased(ctx, dir)
}

// writePID lets Remove find this process, if it is a daemon of the lab: then it carries the lab's mark.
func (f *folder) writePID() error {
	if os.Getenv(process.Mark) != f.path {
		return nil
	}
	return os.WriteFile(filepath.Join(f.path, pidName), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600)
}
