package notice

import (
	"os"
	"strings"
	"testing"
)

func TestDocsNameEverything(t *testing.T) {
	page, err := os.ReadFile("../../../docs/notices.md")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{keyPrefix}
	for _, name := range []string{headerID, headerTimestamp, headerSignature} {
		want = append(want, "`"+strings.ToLower(name)+"`")
	}
	for _, k := range Kinds() {
		want = append(want, "| `"+string(k)+"` |")
	}
	for _, text := range want {
		if !strings.Contains(string(page), text) {
			t.Errorf("docs/notices.md does not say %s", text)
		}
	}
}
