package artifacts

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSourceDir(t *testing.T) {
	checkout := t.TempDir()
	lab := filepath.Join(checkout, "lab")
	deep := filepath.Join(lab, "cmd", "lab")
	beside := filepath.Join(checkout, "internal", "cli")
	elsewhere := t.TempDir()
	for _, dir := range []string{deep, beside} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for path, module := range map[string]string{checkout: "module github.com/cks-trueup/trueup\n", lab: modulePath} {
		if err := os.WriteFile(filepath.Join(path, "go.mod"), []byte(module), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct{ name, from, want string }{
		{"in the lab", lab, lab},
		{"below it", deep, lab},
		{"at the top of the checkout", checkout, lab},
		{"elsewhere in the checkout", beside, lab},
		{"outside", elsewhere, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Chdir(test.from)
			got, err := sourceDir()
			if got != test.want || (err != nil) != (test.want == "") {
				t.Errorf("from %s: got %q, %v, want %q", test.from, got, err, test.want)
			}
		})
	}
}
