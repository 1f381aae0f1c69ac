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

// Where pods will be made on nodes, their rights are asked for as well.
func TestMissingForHostPods(t *testing.T) {
	all, err := clientAs(t, Options{HostPodNamespace: "anywhere"}, "nobody-at-all").Missing(t.Context())
	fatal(t, err)
	if diff := cmp.Diff(append(Rights(), HostPodRights("anywhere")...), all); diff != "" {
		t.Errorf("missing for who has no right (-want +got):\n%s", diff)
	}
	makeNamespace(t, "asked", "asked", nil)
	lacks, err := clientAs(t, Options{HostPodNamespace: "default"}, "asked").Missing(t.Context())
	fatal(t, err)
	if len(lacks) != len(Rights())+len(HostPodRights("default")) {
		t.Errorf("rights in another namespace count: missing are only %v", lacks)
	}
}
