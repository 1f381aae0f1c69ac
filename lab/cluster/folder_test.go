package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/cks-trueup/trueup/lab/process"
)

func isInUse(err error) bool {
	var inUse *InUseError
	return errors.As(err, &inUse)
}

func TestFolderOfAKilledLabIsCleaned(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lab")
	if err := os.MkdirAll(filepath.Join(dir, "guests"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{lockName, "lab.json", "guests/disk.qcow2"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	starter, err := process.NewStarter(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer starter.Close()
	left, err := starter.Start("left", []string{"sleep", "1000"})
	if err != nil {
		t.Fatal(err)
	}
	defer left.Kill()

	held, err := holdFolder(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	<-left.Done()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("in the folder afterwards: %v (%v), want the lock alone", entries, err)
	}
	if err := held.release(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder after release: %v, want it gone", err)
	}
}

func TestFolderOfOthersIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	precious := filepath.Join(dir, "thesis.tex")
	if err := os.WriteFile(precious, []byte("years"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := holdFolder(t.Context(), dir); err == nil {
		t.Error("a folder with somebody's files was taken")
	}
	if existed, err := Remove(t.Context(), dir); existed || err != nil {
		t.Errorf("Remove: %v, %v, want that there is no lab", existed, err)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}

func TestFolderIsHeldOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lab")
	first, err := holdFolder(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holdFolder(t.Context(), dir); !isInUse(err) {
		t.Errorf("got %v, want an InUseError", err)
	}
	// No daemon holds it, but this test: Remove must not end the test.
	if _, err := Remove(t.Context(), dir); err == nil {
		t.Error("Remove of a folder that a test holds: no error")
	}
	if err := first.release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if held, err := Held(dir); held || err != nil {
		t.Errorf("Held after release: %v, %v", held, err)
	}
}

func TestOptions(t *testing.T) {
	tests := []struct {
		name    string
		options Options
		ok      bool
	}{
		{"defaults", Options{Dir: "d"}, true},
		{"no folder", Options{}, false},
		{"too many nodes", Options{Dir: "d", Workers: maxNodes}, false},
		{"negative", Options{Dir: "d", Workers: -1}, false},
		{"too little memory for a kubelet", Options{Dir: "d", MemoryMiB: 512}, false},
		{"more vCPUs than can be", Options{Dir: "d", VCPUs: maxVCPUs + 1}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.options.complete()
			if (err == nil) != test.ok {
				t.Fatalf("error %v, want ok = %v", err, test.ok)
			}
			if err == nil && (got.Control != 1 || got.VCPUs != 2 || got.MemoryMiB != 2048) {
				t.Errorf("defaults: %+v", got)
			}
		})
	}
}
