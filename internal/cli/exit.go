package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// The exit codes of trueup. docs/exit-codes.md has the same table, which a test holds; scripts depend on it.
const (
	ExitOK          = 0   // done, or nothing to do: every view agrees
	ExitFailed      = 1   // something failed that has no code of its own; where a rollout failed, it changed nothing
	ExitUsage       = 2   // bad flags or input, or the question was not answered with "yes": nothing was changed
	ExitDrift       = 3   // verify: views disagree, or a claim is left
	ExitRefused     = 4   // refused before any change
	ExitPartly      = 5   // a fault stopped the rollout after something was changed: run the same command again
	ExitHeld        = 7   // another rollout holds the cluster, or one with another goal is unfinished; nothing was changed
	ExitUnreachable = 8   // CloudStack, Kubernetes or a guest can't be reached or denies access, nothing was changed
	ExitInterrupted = 130 // stopped because it was asked to
)

// exitError carries an exit code beside the error that a person reads.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usageErrorf is an error of the person's input: exit code 2.
func usageErrorf(format string, args ...any) error {
	return &exitError{code: ExitUsage, err: fmt.Errorf(format, args...)}
}

// withCode gives err an exit code, unless it is nil.
func withCode(code int, err error) error {
	if err == nil {
		return nil
	}
	return &exitError{code: code, err: err}
}

// codeOf returns the exit code for an error.
func codeOf(err error) int {
	var coded *exitError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &coded):
		return coded.code
	case errors.Is(err, rollout.ErrInterrupted), errors.Is(err, context.Canceled):
		return ExitInterrupted
	case errors.Is(err, rollout.ErrHeld):
		return ExitHeld
	case errors.Is(err, rollout.ErrUnreachable), errors.Is(err, rollout.ErrDenied):
		return ExitUnreachable
	}
	return ExitFailed
}

// rolloutCode returns the exit code for the end of a rollout: a fault after an effect is another matter than one before.
func rolloutCode(report rollout.Report, err error) int {
	var fault *rollout.Fault
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, rollout.ErrInterrupted), errors.Is(err, context.Canceled):
		return ExitInterrupted
	case errors.As(err, &fault) && fault.GivenBack && !anyDone(report):
		return ExitFailed
	case len(report.Effects) > 0:
		return ExitPartly
	case errors.Is(err, rollout.ErrHeld):
		return ExitHeld
	case errors.As(err, &fault) && (fault.Layer == capacity.LayerPreflight || keptByAbort(fault)):
		return ExitRefused
	}
	return codeOf(err)
}

// keptByAbort tells whether abort did not give a node back because a check failed.
func keptByAbort(f *rollout.Fault) bool { return f.Move == rollout.MoveRelease && f.Cause == nil }

// anyDone tells whether the rollout has finished at least one node.
func anyDone(report rollout.Report) bool {
	return slices.ContainsFunc(report.Nodes, func(n rollout.NodeReport) bool { return n.Outcome == rollout.OutcomeDone })
}
