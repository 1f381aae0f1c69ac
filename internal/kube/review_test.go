package kube

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMissing(t *testing.T) {
	all, err := clientAs(t, Options{}, "nobody-at-all").Missing(t.Context())
	fatal(t, err)
	if diff := cmp.Diff(Rights(), all); diff != "" {
		t.Errorf("missing for who has no right (-want +got):\n%s", diff)
	}
	none, err := newClient(t, Options{}).Missing(t.Context())
	fatal(t, err)
	if none != nil {
		t.Errorf("missing for who has all rights: %v", none)
	}
	some := slices.DeleteFunc(Rights(), func(r Right) bool { return !r.Looks })
	grant(t, "who-looks", some)
	awaitRights(t, "who-looks", some)
	rest, err := clientAs(t, Options{}, "who-looks").Missing(t.Context())
	fatal(t, err)
	if diff := cmp.Diff(slices.DeleteFunc(Rights(), func(r Right) bool { return r.Looks }), rest); diff != "" {
		t.Errorf("missing for who may only look (-want +got):\n%s", diff)
	}
}
