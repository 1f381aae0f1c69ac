package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cks-trueup/trueup/internal/history"
)

// largest bounds the file, in bytes.
const largest = 1 << 20

// Load reads the file and looks whether the files that it names are there. The error is an *Error if the file itself could be read.
func Load(path string, env func(string) (string, bool)) (Config, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Config{}, fmt.Errorf("read the configuration: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > largest {
		return Config{}, fmt.Errorf("read the configuration: %s: expected a regular file of at most 1 MiB", path)
	}
	data, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return Config{}, fmt.Errorf("read the configuration: %w", err)
	}
	c, r := read(data, path, env)
	for _, f := range r.files {
		f.look()
	}
	return r.end(c)
}

// Parse reads a configuration that stands in the file of this name. It looks at no file.
func Parse(data []byte, file string, env func(string) (string, bool)) (Config, error) {
	c, r := read(data, file, env)
	return r.end(c)
}

func read(data []byte, file string, env func(string) (string, bool)) (Config, *reader) {
	r := &reader{file: file, env: env}
	c := r.defaults()
	if root, ok := r.document(data); ok {
		root.config(&c)
	}
	return c, r
}

// end returns the configuration, or what is wrong with it.
func (r *reader) end(c Config) (Config, error) {
	slices.SortStableFunc(r.problems, byLine)
	slices.SortStableFunc(r.warnings, byLine)
	if len(r.problems) > 0 {
		return Config{}, &Error{Problems: r.problems}
	}
	c.Warnings = r.warnings
	return c, nil
}

func (r *reader) variable(name string) string {
	if r.env == nil {
		return ""
	}
	v, _ := r.env(name)
	return v
}

func (r *reader) defaults() Config {
	return Config{
		Listen: "127.0.0.1:9464",
		Log:    Log{Format: "text", Level: "info"},
		Store:  Store{Path: r.storePath(), Retention: 90 * day},
		Scan:   Scan{Every: 2 * time.Minute, Clusters: 8, Sample: day, Timeout: time.Minute},
		Heal:   Heal{Clusters: 1},
	}
}

// storePath is in systemd's folder for the service's state, else beside the person's history.
func (r *reader) storePath() string {
	if folder, _, _ := strings.Cut(r.variable("STATE_DIRECTORY"), ":"); folder != "" {
		return filepath.Join(folder, "trueup.db")
	}
	return filepath.Join(filepath.Dir(history.DefaultPath(r.variable)), "serve.db")
}

// absolute is the path seen from the folder of the configuration.
func (r *reader) absolute(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	folder, err := filepath.Abs(filepath.Dir(r.file))
	if err != nil {
		return path
	}
	return filepath.Join(folder, path)
}

// credentials is where systemd puts a service's secrets, only while it runs.
const credentials = "/run/credentials/"

// look tells of a file that can't be used. A path where a secret belongs is not repeated: it may be the secret.
func (f named) look() {
	which := f.path
	if f.secret {
		which = "the file"
	}
	info, err := os.Stat(f.path)
	switch {
	case err != nil && strings.HasPrefix(f.path, credentials):
		f.at.warn("%s is not there now; systemd makes it when the service starts (LoadCredential=)", which)
	case errors.Is(err, fs.ErrNotExist):
		f.at.problem("%s does not exist", which)
	case errors.Is(err, fs.ErrPermission):
		f.at.warn("%s can't be looked at by this user: check again as the user of the service", which)
	case err != nil:
		f.at.problem("%s can't be looked at", which)
	case !info.Mode().IsRegular():
		f.at.problem("%s is no regular file", which)
	case f.secret && info.Mode().Perm()&0o007 != 0:
		f.at.warn("%s can be used by every user of the machine: chmod o= takes that away", which)
	case f.secret && info.Size() == 0:
		f.at.problem("%s is empty", which)
	}
}
