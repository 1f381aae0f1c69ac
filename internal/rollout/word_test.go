package rollout

import "testing"

func TestWord(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"prod": "prod", "my cluster": "'my cluster'", "it's": `'it'\''s'`, "": "''"} {
		if got := Word(in); got != want {
			t.Errorf("%q: %s", in, got)
		}
	}
}
