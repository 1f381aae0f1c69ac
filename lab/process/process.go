// Package process starts and ends the programs that a lab consists of.
//
// Invariant: no program outlives its lab. Each is killed by the kernel when the process that started it dies, and each
// carries the lab's folder in its environment, so that one which escaped is found by that mark (see KillMarked) and
// never by a process id from a file, which another program may have got meanwhile.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// Mark is the environment variable by which a lab's programs are recognised; its value is the lab's folder.
const Mark = "TRUEUP_LAB_PROCESS"

// Starter starts programs for one lab.
type Starter struct {
	dir   string
	calls chan func()
}

// NewStarter returns a Starter for the lab in folder dir. Logs go to dir/log. Close it only after its programs have ended.
func NewStarter(dir string) (*Starter, error) {
	if err := os.MkdirAll(filepath.Join(dir, "log"), 0o700); err != nil {
		return nil, err
	}
	s := &Starter{dir: dir, calls: make(chan func())}
	go s.loop()
	return s, nil
}

// loop starts programs on one operating system thread that lives as long as the Starter: Linux sends the parent-death
// signal when the thread that forked ends, not when the process does.
func (s *Starter) loop() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for call := range s.calls {
		call()
	}
}

// Close ends the Starter's thread.
func (s *Starter) Close() { close(s.calls) }

// Process is one running program.
type Process struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Start runs argv under the given name in its own process group; output is appended to log/NAME.log.
// Files become descriptors 3 and up of the program.
func (s *Starter) Start(name string, argv []string, files ...*os.File) (*Process, error) {
	logPath := filepath.Join(s.dir, "log", name+".log")
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()

	cmd := exec.Command(argv[0], argv[1:]...) //nolint:noctx // it outlives the call on purpose
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = files
	cmd.Env = append(os.Environ(), Mark+"="+s.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}

	started := make(chan error, 1)
	s.calls <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &Process{name: name, log: logPath, cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// Name is the name under which the program was started.
func (p *Process) Name() string { return p.name }

// PID is the program's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Log is the path of the program's log.
func (p *Process) Log() string { return p.log }

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err says how the program ended, with the end of its log; it is nil while the program runs.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s ended (%v); the end of %s:\n%s", p.name, p.cmd.ProcessState, p.log, tail(p.log))
	default:
		return nil
	}
}

// ErrKilled says that a program did not end on SIGTERM in time and was killed.
var ErrKilled = errors.New("killed, as it did not end in time")

// Stop asks the program to end and waits; after grace it is killed.
func (p *Process) Stop(ctx context.Context, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	// os.Process signals through a pidfd: a program that has ended already gets nothing, nor does a stranger.
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
	}
	p.Kill()
	return fmt.Errorf("%s: %w", p.name, ErrKilled)
}

// Kill ends the program at once and waits until it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// tail returns the last 2000 bytes of a log.
func tail(path string) string {
	const most = 2000
	body, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if len(body) > most {
		body = append([]byte("…"), body[len(body)-most:]...)
	}
	return string(body)
}
