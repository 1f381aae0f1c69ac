package rollout

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// sameQuantity compares quantities by their value: how they were written is no part of a claim.
var sameQuantity = cmp.Comparer(func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })

func TestClaimSurvivesItsText(t *testing.T) {
	full := *settled().claim
	full.Why, full.Since = "more memory", noon
	full.Phase, full.Fault = "verify-readiness", &Fault{Layer: capacity.LayerReadiness, Node: "w1", Move: MoveVerify, Summary: "s", Expected: "e", Observed: "o", Since: noon}
	full.Before.Allocatable["vendor.example/gpu"] = resource.MustParse("2")
	full.Before.Allocatable["memory"] = resource.MustParse("7736458240")
	for name, claim := range map[string]Claim{"new": *claimed().claim, "asked": *asked().claim, "announced": *announced().claim, "full": full} {
		text, err := claim.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeClaim(text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&claim, got, sameQuantity); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if len(text) > 8<<10 {
			t.Errorf("%s: %d bytes; all annotations of a Node together may have 256 KiB", name, len(text))
		}
	}
}

func TestUnreadableClaims(t *testing.T) {
	text, err := claimed().claim.Encode()
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{
		"not JSON":                   "yes",
		"cut":                        text[:len(text)/2],
		"something behind it":        text + "{}",
		"null":                       "null",
		"another program's":          `{"holder":"me"}`,
		"a list":                     "[]",
		"version 0":                  strings.Replace(text, `"version":1`, `"version":0`, 1),
		"a newer version":            strings.Replace(text, `"version":1`, `"version":2`, 1),
		"no run":                     strings.Replace(text, `"run":"run-1"`, `"run":""`, 1),
		"no instance":                strings.Replace(text, `"instanceID":"`+vm1+`"`, `"instanceID":""`, 1),
		"no goal":                    strings.Replace(text, `"id":"off-big"`, `"id":""`, 1),
		"a quantity that is none":    strings.Replace(text, `4021020Ki`, `4021020KiB`, 1),
		"a time that is none":        strings.Replace(text, `"since":"0001-01-01T00:00:00Z"`, `"since":"noon"`, 1),
		"a number where text is due": strings.Replace(text, `"actor":"me@here"`, `"actor":7`, 1),
	}
	for name, text := range rows {
		if claim, err := DecodeClaim(text); !errors.Is(err, ErrClaimUnreadable) || claim != nil {
			t.Errorf("%s: got %v, %v", name, claim, err)
		}
	}
	if claim, err := DecodeClaim(""); claim != nil || err != nil {
		t.Errorf("no annotation is no claim: got %v, %v", claim, err)
	}
	if _, err := DecodeClaim(strings.Replace(text, `"version":1`, `"version":1,"later":{"field":true}`, 1)); err != nil {
		t.Errorf("a field added later: %v", err)
	}
}

func FuzzDecodeClaim(f *testing.F) {
	text, _ := settled().claim.Encode()
	f.Add(text)
	f.Add("null")
	f.Fuzz(func(t *testing.T, text string) {
		claim, err := DecodeClaim(text)
		if (err != nil) != errors.Is(err, ErrClaimUnreadable) || (err != nil && claim != nil) {
			t.Errorf("%v %v", claim, err)
		}
	})
}

// An unreadable claim stops everything on that node, and nothing is written.
func TestUnreadableClaimStopsTheRollout(t *testing.T) {
	simulate(t, []string{"w1"}, func(t *testing.T, tr *trial) {
		m := tr.machine("w1")
		tr.after(50*time.Millisecond, func() { m.node.Claim = `{"version":99}`; m.changed() }) // between the plan and the look before the cordon
		f, _ := tr.fault(t)
		tr.close()
		if f.Layer != capacity.LayerLock || !errors.Is(f, ErrClaimUnreadable) || len(tr.effects) > 0 || m.node.Unschedulable {
			t.Errorf("%v %v", f, tr.effects)
		}
		m.node.Claim = ""
	})
}

func TestNewClaimOwnsOnlyWhatItDid(t *testing.T) {
	autoscaler := func(s *scene) { s.seen.Node.ScaleDownDisabled = true }
	speed := func(s *scene) { s.goal.Offering = faster }
	rows := []struct {
		name                string
		scene               scene
		cordoned, scaleDown bool
	}{
		{"schedulable", untouched(), true, true},
		{"cordoned by somebody", untouched().with(someoneCordoned), false, true},
		{"mark set by somebody", untouched().with(autoscaler), true, false},
		{"speed alone", untouched().with(speed), false, true},
		{"only the Node lags", released().with(shows("2", "4021020Ki")), true, true},
	}
	for _, r := range rows {
		c := newClaim(r.scene.goal, r.scene.tenure, Author{}, r.scene.seen)
		if c.Cordoned != r.cordoned || c.ScaleDown != r.scaleDown || c.Tenure() != ours || c.Goal != r.scene.goal.Offering {
			t.Errorf("%s: %+v", r.name, c)
		}
	}
}

func TestReleaseGivesBackOnlyOurs(t *testing.T) {
	rows := []struct {
		name                string
		scene               scene
		uncordon, scaleDown bool
	}{
		{"our cordon, our mark", settled(), true, true},
		{"cordoned before us", settled().with(func(s *scene) { s.claim.Cordoned = false }), false, true},
		{"cordoned anew by somebody", settled().with(someoneCordoned), false, true},
		{"nobody owns the field", settled().with(func(s *scene) { s.seen.Node.UnschedulableBy = "" }), false, true},
		{"uncordoned by somebody", settled().with(func(s *scene) { s.seen.Node.Unschedulable = false }), false, true},
		{"mark not ours", settled().with(func(s *scene) { s.claim.ScaleDown = false }), true, false},
		{"mark removed by somebody", settled().with(func(s *scene) { s.seen.Node.ScaleDownDisabled = false }), true, false},
	}
	for _, r := range rows {
		if uncordon, scaleDown := release(r.scene.claim, r.scene.seen); uncordon != r.uncordon || scaleDown != r.scaleDown {
			t.Errorf("%s: uncordon %t, scale-down %t", r.name, uncordon, scaleDown)
		}
	}
}

// What a new attempt keeps of an earlier one, and what it tries once more.
func TestAdopt(t *testing.T) {
	failed := func(s *scene) { s.seen.Job.Status = JobFailed }
	inVain := func(s *scene) { s.claim.Fault = &Fault{Move: MoveResize} }
	lostReply := func(s *scene) { s.claim.Resize.JobID = "" }
	rows := []struct {
		name            string
		scene           scene
		resize, restart bool // still announced
	}{
		{"job pending", asked(), true, false},
		{"job pending, the earlier attempt gave up waiting", asked().with(inVain), true, false},
		{"job failed", asked().with(failed), false, false},
		{"job unknown", asked().with(func(s *scene) { s.seen.Job = nil }), true, false},
		{"job unknown, the earlier attempt waited in vain", asked().with(inVain, func(s *scene) { s.seen.Job = nil }), false, false},
		{"job succeeded, the earlier attempt waited in vain", asked().with(inVain, func(s *scene) { s.seen.Job.Status = JobSucceeded }), false, false},
		{"job unknown, the earlier attempt failed elsewhere", asked().with(func(s *scene) { s.seen.Job, s.claim.Fault = nil, &Fault{Move: MoveVerify} }), true, false},
		{"reply lost, an older job failed: the request may still arrive", asked().with(lostReply, failed, func(s *scene) { s.seen.Job.Created = noon.Add(-time.Hour) }), true, false},
		{"reply lost, the earlier attempt waited in vain: it expires by itself", asked().with(lostReply, inVain, func(s *scene) { s.seen.Job = nil }), true, false},
		{"restart announced", announced(), true, true},
		{"restarted", restartedScene(), true, true},
		{"restarted, hardware changed after", restartedScene().with(func(s *scene) { s.seen.Guest.CPUsOnline++ }), true, false},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			s := r.scene.with(laterRun, func(s *scene) { s.claim.Phase = "x" })
			before := *s.claim
			got := adopted(*s.claim, s.tenure, s.seen)
			if (got.Resize != nil) != r.resize || (got.Restart != nil) != r.restart {
				t.Errorf("resize announced %t, restart announced %t", got.Resize != nil, got.Restart != nil)
			}
			if got.Tenure() != s.tenure || got.Phase != "" || got.Fault != nil {
				t.Errorf("%+v", got)
			}
			if got.Cordoned != before.Cordoned || got.ScaleDown != before.ScaleDown || got.Goal != before.Goal || got.Actor != before.Actor {
				t.Error("what was ours must stay ours")
			}
			if diff := cmp.Diff(before, *s.claim, sameQuantity); diff != "" {
				t.Errorf("the earlier claim was changed in place: %s", diff)
			}
		})
	}
}
