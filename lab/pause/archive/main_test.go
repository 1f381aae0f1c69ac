package main

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestArchiveIsRepeatable(t *testing.T) {
	program := filepath.Join(t.TempDir(), "pause")
	if err := os.WriteFile(program, []byte("a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		if err := run(program, program, out); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the same programs gave two different archives")
	}
	var names []string
	r := tar.NewReader(&first)
	for header, err := r.Next(); err == nil; header, err = r.Next() {
		names = append(names, header.Name)
	}
	if diff := cmp.Diff([]string{"pause-layer.tar", "pause-config.json", "tools-layer.tar", "tools-config.json", "manifest.json"}, names); diff != "" {
		t.Errorf("files in the archive (-want +got):\n%s", diff)
	}
}
