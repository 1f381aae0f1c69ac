// Package store keeps what a server did, for people: history, audit, and the notices that are to be sent or were sent.
//
// It is one SQLite file with a write-ahead log. Its invariants: what a write returned without an error has been given to the disk, so a kill
// or a loss of power at any time loses nothing of it; history and audit are only added to; and nothing in trueup reads it to decide what is
// done to a cluster. A server without its store works as well, and only forgets what it has told.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// ErrInUse means that another process has the store open: its notices would be sent twice.
var ErrInUse = errors.New("another process uses this store")

// ErrNewer means that a newer version of trueup has written the store: it is left as it is.
var ErrNewer = errors.New("the store was written by a newer version of trueup")

// Options are the store's settings.
type Options struct {
	// Retention is how long history, audit and notices are kept. Zero keeps them for ever.
	Retention time.Duration
}

// Store is an open store. Its methods may be called from several goroutines.
type Store struct {
	db        *sql.DB
	lock      *os.File
	retention time.Duration
	aside     string
}

// Open opens the store in a file, which need not exist yet, and brings its schema up to date. A damaged file is set aside, see SetAside.
// The error is ErrInUse or ErrNewer, or what the file system said.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	s, err := open(ctx, path, o)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", path, err)
	}
	return s, nil
}

func open(ctx context.Context, path string, o Options) (*Store, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil { //nolint:gosec // the operator names the file
		return nil, err
	}
	lock, err := hold(path + ".lock")
	if err != nil {
		return nil, err
	}
	s := &Store{lock: lock, retention: o.Retention}
	err = s.connect(ctx, path)
	if damaged(err) {
		if s.aside, err = setAside(path, time.Now()); err == nil {
			err = s.connect(ctx, path)
		}
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return s, nil
}

// SetAside returns the name under which a damaged file was kept when the store was opened; empty if it was sound.
func (s *Store) SetAside() string { return s.aside }

// Close gives the file back. All that was acknowledged is on the disk before.
func (s *Store) Close() error { return errors.Join(s.db.Close(), s.lock.Close()) }

// hold takes the lock file for this process. It ends with the process, however that ends.
func hold(path string) (*os.File, error) {
	lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrInUse
		}
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// connect opens the database, looks whether it is sound, and migrates it.
func (s *Store) connect(ctx context.Context, path string) error {
	// SQLite makes a new file as the umask says, and its log files as the file is.
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // the operator names the file
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", dsn(path, info.Size() == 0))
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1) // one writer at a time is SQLite's own rule; a second connection would only wait
	if err := check(ctx, db); err != nil {
		return errors.Join(err, db.Close())
	}
	if err := migrate(ctx, db, migrations()); err != nil {
		return errors.Join(err, db.Close())
	}
	s.db = db
	return nil
}

// dsn names the file and how it is used: synchronous FULL gives every commit to the disk before it returns, also against a loss of power.
// How a file gives space back is chosen before its first table, so for a new one alone: a file that is only opened is not written to.
func dsn(path string, fresh bool) string {
	pragmas := []string{"journal_mode(WAL)", "synchronous(FULL)", "busy_timeout(5000)"}
	if fresh {
		pragmas = append([]string{"auto_vacuum(INCREMENTAL)"}, pragmas...)
	}
	q := url.Values{"_txlock": {"immediate"}, "_pragma": pragmas}
	return (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: q.Encode()}).String()
}

// errDamaged means that SQLite's own check found the file unsound.
var errDamaged = errors.New("the file is damaged")

func check(ctx context.Context, db *sql.DB) error {
	var verdict string
	if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict); err != nil {
		return err
	}
	if verdict != "ok" {
		return fmt.Errorf("%w: %s", errDamaged, verdict)
	}
	return nil
}

func damaged(err error) bool {
	if errors.Is(err, errDamaged) {
		return true
	}
	answer, is := errors.AsType[*sqlite.Error](err)
	const primary = 0xff // the rest of a result code only details it
	return is && (answer.Code()&primary == sqlite3.SQLITE_CORRUPT || answer.Code()&primary == sqlite3.SQLITE_NOTADB)
}

// setAside renames a damaged file and its logs, so that a person can look at them, and returns the file's new name.
func setAside(path string, now time.Time) (string, error) {
	name := path + ".damaged-" + now.UTC().Format("20060102T150405.000Z")
	for _, suffix := range []string{"-wal", "-shm", ""} {
		if err := os.Rename(path+suffix, name+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) { //nolint:gosec // the operator names the file
			return "", err
		}
	}
	return name, nil
}

// Prune deletes what is older than the retention, and gives the space back to the file system.
func (s *Store) Prune(ctx context.Context, now time.Time) error {
	if s.retention <= 0 {
		return nil
	}
	before := now.Add(-s.retention).UnixMilli()
	for _, statement := range []string{"DELETE FROM history WHERE time < ?", "DELETE FROM audit WHERE time < ?", "DELETE FROM notices WHERE created < ?"} {
		if _, err := s.db.ExecContext(ctx, statement, before); err != nil {
			return fmt.Errorf("store: %s: %w", statement, err)
		}
	}
	if _, err := s.db.ExecContext(ctx, "PRAGMA incremental_vacuum"); err != nil {
		return fmt.Errorf("store: give space back: %w", err)
	}
	return nil
}
