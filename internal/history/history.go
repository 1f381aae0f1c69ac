// Package history keeps what was done, for people: who ran which rollout, with what result, durations and evidence.
//
// It is a file of JSON lines that is only ever appended to. Its invariants: what Append returned without an error has been given to
// the disk; a line that was cut by a crash or a power loss is left where it is, never joined to the next one, and skipped in
// reading; and nothing in trueup reads it to decide anything.
package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// Kind says what an entry tells.
type Kind string

// The kinds of entry.
const (
	KindBegin Kind = "begin" // a rollout began
	KindNode  Kind = "node"  // a node's turn ended
	KindEnd   Kind = "end"   // the rollout ended
)

// entryVersion is the version of an entry's JSON. Fields are only ever added within it.
const entryVersion = 1

// Entry is one line of the history. It holds no secret.
type Entry struct {
	Version   int       `json:"v"`
	Time      time.Time `json:"time"` // by the clock of the machine that ran trueup
	Kind      Kind      `json:"kind"`
	Command   string    `json:"command"` // scale, reconcile, abort, …
	Run       string    `json:"run"`
	Actor     string    `json:"actor"`
	Why       string    `json:"why,omitempty"`
	ClusterID string    `json:"clusterID"`
	Cluster   string    `json:"cluster"`
	// Goals are what the rollout was to reach, by instance id; in the entry of its begin.
	Goals map[string]rollout.Goal `json:"goals,omitempty"`
	Node  *Node                   `json:"node,omitempty"`
	// Result is the outcome in one word, Error the error in full; in the entry of its end.
	Result string `json:"result,omitempty"`
	Error  string `json:"error,omitempty"`
	// Notes are things that a person chose, such as a forced abort or an ignored check.
	Notes []string `json:"notes,omitempty"`
}

// Node is what became of one node, with the evidence: readings before and after, durations, job id, boot id, InvocationIDs.
type Node struct {
	rollout.NodeReport
}

// Encode returns the entry as one line of JSON without its end, in the present version.
func Encode(e Entry) ([]byte, error) {
	e.Version = entryVersion
	line, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return line, nil
}

// Decode reads what Encode wrote. A line that was cut, or written by a newer version, is an error.
func Decode(line []byte) (Entry, error) {
	var e Entry
	if err := json.Unmarshal(line, &e); err != nil {
		return Entry{}, fmt.Errorf("history: %w", err)
	}
	if e.Version < 1 || e.Version > entryVersion {
		return Entry{}, fmt.Errorf("history: the entry has version %d, this program reads up to %d", e.Version, entryVersion)
	}
	return e, nil
}

// File is a history file.
type File struct{ path string }

// Open returns the history in a file, which need not exist yet.
func Open(path string) File { return File{path: path} }

// DefaultPath is where a user's history is kept: trueup/history.jsonl in the state folder of the XDG convention.
func DefaultPath(env func(string) string) string {
	state := env("XDG_STATE_HOME")
	if state == "" {
		state = filepath.Join(env("HOME"), ".local", "state")
	}
	return filepath.Join(state, "trueup", "history.jsonl")
}

// Path is the file's path.
func (f File) Path() string { return f.path }

// Append adds an entry and returns once it has been given to the disk. Several processes may append at the same time.
func (f File) Append(e Entry) (err error) {
	line, err := Encode(e)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	file, err := os.OpenFile(f.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil { // released with the close
		return fmt.Errorf("history: lock %s: %w", f.path, err)
	}
	torn, err := endsTorn(file)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	line = append(line, '\n')
	if torn {
		line = append([]byte{'\n'}, line...) // the cut line stays alone, and unreadable
	}
	if _, err := file.Write(line); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	if err := file.Sync(); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	return nil
}

// endsTorn tells whether the file's last line has no end: a write was cut there.
func endsTorn(file *os.File) (bool, error) {
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return false, err
	}
	last := make([]byte, 1)
	if _, err := file.ReadAt(last, info.Size()-1); err != nil {
		return false, err
	}
	return last[0] != '\n', nil
}

// Read returns all entries, oldest first, and how many lines could not be read: cut by a crash, or written by a newer version.
// A file that does not exist is an empty history.
func (f File) Read() (entries []Entry, unreadable int, err error) {
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("history: %w", err)
	}
	defer func() { _ = file.Close() }() // nothing was written
	return decode(file)
}

// decode reads lines of any length: an entry with a node's evidence is several KiB long.
func decode(r io.Reader) (entries []Entry, unreadable int, err error) {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if e, err := Decode(line); err != nil {
				unreadable++
			} else {
				entries = append(entries, e)
			}
		}
		if errors.Is(err, io.EOF) {
			return entries, unreadable, nil
		}
		if err != nil {
			return entries, unreadable, fmt.Errorf("history: %w", err)
		}
	}
}
