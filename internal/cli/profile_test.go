package cli

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestProfiles(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		cpu, memory := filepath.Join(s.home, "cpu"), filepath.Join(s.home, "memory")
		s.trueup(t, "clusters --cpu-profile "+cpu+" --memory-profile "+memory).want(t, ExitOK)
		for _, file := range []string{cpu, memory} {
			expectProfile(t, file)
		}
		missing := filepath.Join(s.home, "none", "profile")
		s.trueup(t, "clusters --cpu-profile "+missing).want(t, ExitUsage).says(t, "--cpu-profile", missing).oneError(t)
		s.trueup(t, "clusters --memory-profile "+missing).want(t, ExitUsage).says(t, "--memory-profile", missing).oneError(t)
	})
}

// expectProfile checks that the file is complete: pprof's files are compressed, and end with a checksum.
func expectProfile(t *testing.T, name string) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	content, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, content); err != nil || n == 0 {
		t.Errorf("%s: %d bytes, %v", name, n, err)
	}
}
