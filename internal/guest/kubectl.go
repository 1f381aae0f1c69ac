package guest

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/cks-trueup/trueup/internal/rollout"
)

//go:embed scripts/kubectl.sh
var kubectlScript string

// kubectlBound is when the guest itself ends kubectl, in seconds. A watch is made anew then.
const kubectlBound = 600

func kubectlCommand() command {
	return command{name: "kubectl", script: kubectlScript, bound: kubectlBound, limit: stderrLimit}
}

// Dial opens a TCP connection from the target's guest to an address, through its kept SSH connection. The error is rollout.ErrUnreachable where nobody
// answers, or the guest's sshd allows no forwarding; rollout.ErrDenied where it does not let us in.
func (s *SSH) Dial(ctx context.Context, target rollout.Target, address string) (net.Conn, error) {
	link, err := s.link(target)
	if err != nil {
		return nil, err
	}
	client, err := link.connect(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := client.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w: %v: open a connection from there to %s: %w", rollout.ErrUnreachable, client.place, address, err)
	}
	return conn, nil
}

// Answer is what kubectl prints, as it comes. Its reader ends with an error of Kubectl's kinds if kubectl does not end well. It must be closed.
type Answer struct {
	io.Reader

	end func()
}

// Close ends what is still under way.
func (a *Answer) Close() error {
	a.end()
	return nil
}

// Kubectl hands a request (see scripts/kubectl.sh) to kubectl on a control-plane node. A *CommandError is kubectl's own complaint: Said is what it
// printed. rollout.ErrUnreachable tells nothing about whether the request was carried out.
func (s *SSH) Kubectl(ctx context.Context, target rollout.Target, request []byte) (*Answer, error) {
	link, err := s.link(target)
	if err != nil {
		return nil, err
	}
	session, at, release, err := link.session(ctx)
	if err != nil {
		return nil, err
	}
	c := kubectlCommand()
	stdin, err := session.StdinPipe()
	if err != nil {
		release()
		return nil, fmt.Errorf("%w: %v: %s: %w", rollout.ErrUnreachable, at, c.name, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	read, write := io.Pipe()
	out := &output{limit: c.limit, begin: beginMark + c.name, rest: write}
	complaints := &output{limit: stderrLimit}
	session.Stdout, session.Stderr = out, complaints
	out.onBegin = func() {
		go func() { // kubectl may answer before it has read everything
			_, _ = stdin.Write(request)
			_ = stdin.Close()
		}()
	}
	go func() {
		err := perform(ctx, session, func() error { return c.start(session, stdin, at.endpoint.User) }, release)
		err = (outcome{c, at, out, complaints}).judge(ctx, err)
		if failed := (*CommandError)(nil); errors.As(err, &failed) {
			failed.Said = complaints.String() // whole: it is what the API server said
		}
		_ = write.CloseWithError(err) // nil is the end of the stream
		cancel()
	}()
	return &Answer{Reader: read, end: func() { cancel(); _ = read.Close() }}, nil
}
