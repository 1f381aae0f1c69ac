package cloudstack

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// The limits of an account and of a project, as CloudStack shows them to their own users: texts, of which one is a word.
func TestLimits(t *testing.T) {
	f := newFixture(t)
	owner := standin.Owner{Account: f.owner.Name}
	cluster := must[Cluster](t)(f.client().Cluster(t.Context(), f.cluster.ID))
	free := must[Limits](t)(f.client().Limits(t.Context(), cluster))
	if free.Of != "account "+f.owner.Name || free.CPUs.Most != nil || free.MemoryMiB.Most != nil || free.CPUs.Used == 0 || free.MemoryMiB.Used == 0 {
		t.Errorf("without limits: %+v", free)
	}
	f.SetLimit(owner, standin.Limit{CPUs: 40, MemoryMiB: 80000})
	got := must[Limits](t)(f.client().Limits(t.Context(), cluster))
	want := free
	want.CPUs.Most, want.MemoryMiB.Most = new(int64(40)), new(int64(80000))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	reader := f.AddAccount(standin.Account{Name: "reader", Commands: []string{"listZones"}})
	if _, err := f.clientOf(reader).Limits(t.Context(), cluster); !errors.Is(err, rollout.ErrDenied) {
		t.Errorf("without the command: %v", err)
	}
	if _, err := f.client().Limits(t.Context(), Cluster{Account: "nosuch"}); err == nil {
		t.Error("no error for an account that is not shown")
	}
	if _, err := f.client().Limits(t.Context(), Cluster{ProjectID: "nosuch"}); err == nil {
		t.Error("no error for a project that is not shown")
	}
}

func TestLimitsOfAProject(t *testing.T) {
	f := newFixture(t)
	const project = "0f000000-0000-4000-8000-000000000000"
	member := f.AddAccount(standin.Account{Name: "member", Projects: []string{project}})
	f.SetLimit(standin.Owner{ProjectID: project}, standin.Limit{CPUs: 8})
	got := must[Limits](t)(f.clientOf(member).Limits(t.Context(), Cluster{ProjectID: project}))
	if got.CPUs.Most == nil || *got.CPUs.Most != 8 || got.MemoryMiB.Most != nil {
		t.Errorf("%+v", got)
	}
}

func TestLimitTexts(t *testing.T) {
	for text, want := range map[string]*int64{"Unlimited": nil, "-1": nil, "": nil, "0": new(int64(0)), "12": new(int64(12))} {
		l, err := newLimits("x", 1, 2, text, "Unlimited")
		if diff := cmp.Diff(want, l.CPUs.Most); err != nil || diff != "" {
			t.Errorf("%q: %v\n%s", text, err, diff)
		}
	}
	if _, err := newLimits("x", 1, 2, "many", "Unlimited"); err == nil {
		t.Error("a limit that is no number was taken")
	}
}
