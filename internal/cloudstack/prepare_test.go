package cloudstack

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/internal/rollout"
)

func TestObstacles(t *testing.T) {
	yes, no, hidden := Fact{Truth: Yes, Source: "read"}, Fact{Truth: No, Source: "read"}, Fact{Source: "hidden"}
	vm := capacity.Instance{ID: "vm", TemplateID: "t-1", ZoneID: "z-1", OfferingID: "o-1", OfferingName: "small"}
	fit := capacity.Offering{ID: "o-1", Name: "small", CPUs: 2, SpeedMHz: 2000, MemoryMiB: 2048, DynamicScaling: true}
	const templateCall = "cmk update template id=t-1 isdynamicallyscalable=true"
	const zoneCall = "cmk update configuration name=enable.dynamic.scale.vm value=true zoneid=z-1"
	for _, tt := range []struct {
		name     string
		version  string
		template Fact
		zone     Fact
		offering func(*capacity.Offering)
		want     []string // "known" or "not known", then the calls
	}{
		{"nothing in the way", "4.23.0.0", yes, yes, nil, nil},
		{"template", "4.23.0.0", no, yes, nil, []string{"known: " + templateCall}},
		{"template that is not shown", "4.23.0.0", hidden, yes, nil, []string{"not known: " + templateCall}},
		{"zone", "4.23.0.0", yes, no, nil, []string{"known: " + zoneCall}},
		{"zone that is not shown", "4.23.0.0", yes, hidden, nil, []string{"not known: " + zoneCall}},
		{"offering", "4.23.0.0", yes, yes, func(o *capacity.Offering) { o.DynamicScaling = false },
			[]string{"known: cmk create serviceoffering name=small-dynamic displaytext=small-dynamic cpunumber=2 cpuspeed=2000 memory=2048 dynamicscalingenabled=true"}},
		{"customized offering", "4.22.0.0", yes, yes, func(o *capacity.Offering) { o.DynamicScaling, o.Custom = false, true },
			[]string{"known: cmk create serviceoffering name=small-dynamic displaytext=small-dynamic customized=true dynamicscalingenabled=true"}},
		{"offering that is not shown", "4.22.0.0", yes, yes, func(o *capacity.Offering) { *o = capacity.Offering{} }, []string{"not known: "}},
		{"fixed offering before 4.23", "4.22.1.0", yes, yes, nil, []string{"known: "}},
		{"fixed offering in 4.9", "4.9.3", yes, yes, nil, []string{"known: "}},
		{"4.30", "4.30.0.0", yes, yes, nil, nil},
		{"20.1", "20.1.0", yes, yes, nil, nil},
		{"no version", "", yes, yes, nil, nil},
		{"all in CloudStack's order", "4.22.1.0", no, no, func(o *capacity.Offering) { o.DynamicScaling = false }, []string{
			"known: " + templateCall,
			"known: cmk create serviceoffering name=small-dynamic displaytext=small-dynamic cpunumber=2 cpuspeed=2000 memory=2048 dynamicscalingenabled=true",
			"known: " + zoneCall, "known: "}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			offering := fit
			if tt.offering != nil {
				tt.offering(&offering)
			}
			facts := Facts{Version: tt.version, DynamicScaling: tt.zone, Templates: map[string]Fact{"t-1": tt.template}}
			var got []string
			for _, o := range facts.Obstacles(vm, offering) {
				if o.What == "" || o.Source == "" {
					t.Errorf("%+v does not say what is in the way, and where that was read", o)
				}
				got = append(got, map[bool]string{true: "known: ", false: "not known: "}[o.Known]+strings.Join(o.Calls, "; "))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// What CloudStack refuses is what Obstacles had said, and once an administrator has done what it says CloudStack refuses no more.
func TestObstaclesAreWhatCloudStackRefuses(t *testing.T) {
	ctx := context.Background()
	for name, change := range map[string]func(f *fixture, allowed bool){
		"template": func(f *fixture, allowed bool) {
			f.UpdateTemplate(f.Defaults().TemplateID, func(o *standin.Template) { o.DynamicallyScalable = allowed })
		},
		"offering": func(f *fixture, allowed bool) {
			f.UpdateOffering(f.small.ID, func(o *standin.Offering) { o.DynamicScaling = allowed })
		},
		"zone": func(f *fixture, allowed bool) {
			f.Set(standin.SettingDynamicScaling, f.Defaults().ZoneID, map[bool]string{true: "true", false: "false"}[allowed])
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			c := f.client()
			for _, allowed := range []bool{false, true} {
				change(f, allowed)
				cluster := must[Cluster](t)(f.clientOf(f.admin).Cluster(ctx, "prod"))
				facts := must[Facts](t)(f.clientOf(f.admin).Facts(ctx, cluster))
				offering := must[capacity.Offering](t)(c.Offering(ctx, f.small.ID))
				obstacles := facts.Obstacles(cluster.VMs[1].Instance, offering)
				err := c.SetDynamicallyScalable(ctx, f.vm(1))
				if (len(obstacles) == 0) != allowed || (err == nil) != allowed {
					t.Errorf("allowed %t: obstacles %+v, error %v", allowed, obstacles, err)
				}
			}
		})
	}
}

// The sentences are for a person and end with the call, if one helps. What the account can't read is left out.
func TestMarkObstacles(t *testing.T) {
	f := newFixture(t)
	ctx := context.Background()
	blind := f.AddAccount(standin.Account{Name: "blind", Admin: true, Commands: []string{"listVirtualMachines"}})
	said := func(a standin.Account) []string {
		t.Helper()
		return must[[]string](t)(f.clientOf(a).MarkObstacles(ctx, f.vm(1)))
	}
	if got := said(f.admin); len(got) != 0 {
		t.Errorf("nothing is in the way, got %q", got)
	}
	template, zone := f.Defaults().TemplateID, f.Defaults().ZoneID
	f.UpdateTemplate(template, func(o *standin.Template) { o.DynamicallyScalable = false })
	f.UpdateOffering(f.small.ID, func(o *standin.Offering) { o.DynamicScaling = false })
	f.Set(standin.SettingDynamicScaling, zone, "false")
	got := said(f.admin)
	for i, want := range []string{
		" cmk update template id=" + template + " isdynamicallyscalable=true",
		" cmk create serviceoffering name=small-dynamic displaytext=small-dynamic cpunumber=2 cpuspeed=2000 memory=2048 dynamicscalingenabled=true",
		" cmk update configuration name=enable.dynamic.scale.vm value=true zoneid=" + zone,
	} {
		if len(got) != 3 || !strings.HasSuffix(got[i], want) {
			t.Fatalf("sentence %d of %q, want its end to be %q", i+1, got, want)
		}
	}
	if got := said(blind); len(got) != 0 {
		t.Errorf("an account that can read none of it: %q", got)
	}
	if got, err := f.client().MarkObstacles(ctx, "22222222-2222-4222-8222-222222222222"); !errors.Is(err, rollout.ErrNotFound) {
		t.Errorf("got %q, %v, want ErrNotFound", got, err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if got, err := f.client().MarkObstacles(ended, f.vm(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %q, %v, want context.Canceled", got, err)
	}
}

// A name is a word to the shell, whatever is in it.
func TestCallsAreSafeInAShell(t *testing.T) {
	for _, name := range []string{"small", "two words", "it's; touch /tmp/x", "$(id)`id`", "a\nb", `\"`} {
		o := Facts{DynamicScaling: Fact{Truth: Yes}}.Obstacles(capacity.Instance{}, capacity.Offering{ID: "o", Name: name, CPUs: 1})
		call := o[len(o)-1].Calls[0]
		out := must[[]byte](t)(exec.Command("sh", "-c", `cmk() { printf "%s|" "$@"; }
`+call).Output())
		want := "create|serviceoffering|name=" + name + "-dynamic|displaytext=" + name + "-dynamic|cpunumber=1|cpuspeed=0|memory=0|dynamicscalingenabled=true|"
		if string(out) != want {
			t.Errorf("%q: the shell got %q, want %q", call, out, want)
		}
	}
}
