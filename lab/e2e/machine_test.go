package e2e

import (
	"os"
	"path/filepath"
	"testing"
)

// machine is where trueup runs: its whole environment and its working directory (empty: the test's own).
type machine struct {
	env []string
	dir string
}

// another returns a machine that shares nothing with any other: home, user, working directory, and copies of the key and of the host keys.
// What it knows of an earlier run, it knows from the cluster.
func (f *fixture) another(t testing.TB) machine {
	t.Helper()
	home, dir := t.TempDir(), t.TempDir()
	env := append(f.environment(), "HOME="+home, "USER=colleague",
		"TRUEUP_SSH_KEY="+copied(t, f.SSHKeyPath(), home), "TRUEUP_KNOWN_HOSTS="+copied(t, f.KnownHostsPath(), home))
	return machine{env: env, dir: dir}
}

// copied copies a file into a folder and returns the new path.
func copied(t testing.TB, from, dir string) string {
	t.Helper()
	body, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(dir, filepath.Base(from))
	if err := os.WriteFile(to, body, 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}
