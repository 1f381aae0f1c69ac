package kube

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cks-trueup/trueup/internal/rollout"
)

func TestEncodePatch(t *testing.T) {
	const preconditions = `"resourceVersion":"7","uid":"u"`
	tests := []struct {
		name  string
		patch rollout.NodePatch
		want  string
	}{
		{"claim alone", rollout.NodePatch{Claim: new("c")},
			`{"metadata":{"annotations":{"cks-trueup.github.io/claim":"c"},` + preconditions + `}}`},
		{"drop the claim", rollout.NodePatch{Claim: new("")},
			`{"metadata":{"annotations":{"cks-trueup.github.io/claim":null},` + preconditions + `}}`},
		{"cordon alone", rollout.NodePatch{Unschedulable: new(true)},
			`{"metadata":{` + preconditions + `},"spec":{"unschedulable":true}}`},
		{"uncordon as kubectl does", rollout.NodePatch{Unschedulable: new(false)},
			`{"metadata":{` + preconditions + `},"spec":{"unschedulable":null}}`},
		{"scale-down mark", rollout.NodePatch{ScaleDownDisabled: new(true)},
			`{"metadata":{"annotations":{"cluster-autoscaler.kubernetes.io/scale-down-disabled":"true"},` + preconditions + `}}`},
		{"all of a release", rollout.NodePatch{Claim: new(""), Unschedulable: new(false), ScaleDownDisabled: new(false)},
			`{"metadata":{"annotations":{"cks-trueup.github.io/claim":null,"cluster-autoscaler.kubernetes.io/scale-down-disabled":null},` +
				preconditions + `},"spec":{"unschedulable":null}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.patch.Name, tt.patch.UID, tt.patch.ResourceVersion = "n", "u", "7"
			got, err := encodePatch(tt.patch)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEncodePatchRefuses(t *testing.T) {
	tests := map[string]rollout.NodePatch{
		"no uid":             {Name: "n", ResourceVersion: "7", Claim: new("c")},
		"no resourceVersion": {Name: "n", UID: "u", Claim: new("c")},
		"no name":            {UID: "u", ResourceVersion: "7", Claim: new("c")},
		"no change":          {Name: "n", UID: "u", ResourceVersion: "7"},
	}
	for name, patch := range tests {
		t.Run(name, func(t *testing.T) {
			if body, err := encodePatch(patch); err == nil {
				t.Errorf("encoded %s, want an error", body)
			}
		})
	}
}
