package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/cks-trueup/trueup/lab/process"
)

// lockName is the file whose flock says that a lab lives in the folder, and whose presence says that the folder is a lab's.
const lockName = "lab.lock"

// InUseError says that a living process holds the lab's folder.
type InUseError struct{ Dir string }

func (e *InUseError) Error() string {
	return fmt.Sprintf("a lab runs in %s: stop it first (lab down)", e.Dir)
}

// folder is a lab's folder, held by this process.
type folder struct {
	path string
	lock *os.File
}

// holdFolder makes the folder or takes one that a former lab left, ends what still runs of that lab, and empties it.
func holdFolder(ctx context.Context, path string) (*folder, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := claimable(path); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(path, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, &InUseError{Dir: path}
		}
		return nil, fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if stale(lock) {
		_ = lock.Close()
		return holdFolder(ctx, path)
	}
	f := &folder{path: path, lock: lock}
	if err := errors.Join(f.clean(ctx), f.writePID()); err != nil {
		_ = lock.Close()
		return nil, err
	}
	return f, nil
}

// stale says that the lock's file was removed by its former holder after it was opened here: it guards nothing any more.
func stale(lock *os.File) bool {
	mine, err := lock.Stat()
	if err != nil {
		return true
	}
	there, err := os.Stat(lock.Name())
	return err != nil || !os.SameFile(mine, there)
}

// claimable makes sure that emptying the folder can't destroy what no lab made.
func claimable(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(path)
	if err != nil || len(entries) == 0 {
		return err
	}
	if _, err := os.Stat(filepath.Join(path, lockName)); err != nil {
		return fmt.Errorf("%s has files and is no lab's folder (no %s in it): choose an empty or a new one", path, lockName)
	}
	return nil
}

// clean ends all programs of a former lab in this folder and removes its files.
func (f *folder) clean(ctx context.Context) error {
	if _, err := process.KillMarked(ctx, f.path); err != nil {
		return err
	}
	entries, err := os.ReadDir(f.path)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Name() == lockName {
			continue
		}
		if err := os.RemoveAll(filepath.Join(f.path, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// release empties the folder, removes it and lets go of it.
func (f *folder) release(ctx context.Context) error {
	defer func() { _ = f.lock.Close() }()
	if err := f.clean(ctx); err != nil {
		return err
	}
	if err := os.Remove(f.lock.Name()); err != nil {
		return err
	}
	return os.Remove(f.path)
}

// Held says whether a living process holds a lab in the folder.
func Held(path string) (bool, error) {
	lock, err := os.Open(filepath.Join(path, lockName))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = lock.Close() }() // lets go of the lock, too
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

// waitReleased polls: flock can't be waited for with a deadline.
func waitReleased(ctx context.Context, path string) error {
	retry := time.NewTicker(100 * time.Millisecond)
	defer retry.Stop()
	for {
		held, err := Held(path)
		if err != nil || !held {
			return err
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
			return fmt.Errorf("the lab in %s does not end: %w", path, ctx.Err())
		}
	}
}
