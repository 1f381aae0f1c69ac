package cloudstack

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/internal/rollout"
)

func TestFacts(t *testing.T) {
	f := newFixture(t)
	f.UpdateTemplate(f.Defaults().TemplateID, func(tpl *standin.Template) { tpl.System = true })
	limited := f.AddAccount(standin.Account{
		Name: "limited", Projects: []string{projectID},
		Commands: []string{"listApis", "listVirtualMachines", "listTemplates", "listCapabilities"},
	})
	blind := f.AddAccount(standin.Account{Name: "blind", Commands: []string{"listVirtualMachines"}})
	cluster := must[Cluster](t)(f.client().Cluster(context.Background(), "prod"))
	template := f.Defaults().TemplateID
	f.Set(standin.SettingDynamicScaling, f.AddZone(standin.Zone{Name: "zone-2"}).ID, "true")
	for _, tt := range []struct {
		name                     string
		account                  standin.Account
		zone                     string // this zone's setting; another zone has it on, so the general answer is yes
		version                  bool
		scaling, template, scale Truth
	}{
		{"admin", f.admin, "true", true, Yes, Yes, Yes},
		{"admin, zone off", f.admin, "false", true, No, Yes, Yes},
		{"owner sees neither the zone's setting nor system templates", f.owner, "false", true, Yes, Unknown, Yes},
		{"limited role", limited, "false", true, Yes, Unknown, No},
		{"may read nothing", blind, "true", false, Unknown, Unknown, Unknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f.Set(standin.SettingDynamicScaling, f.Defaults().ZoneID, tt.zone)
			got := must[Facts](t)(f.clientOf(tt.account).Facts(context.Background(), cluster))
			if (got.Version == "4.23.0.0") != tt.version {
				t.Errorf("version %q", got.Version)
			}
			for name, fact := range map[string]struct {
				got  Fact
				want Truth
			}{
				"dynamic scaling": {got.DynamicScaling, tt.scaling},
				"template":        {got.Templates[template], tt.template},
				"scale command":   {got.Permitted["scaleVirtualMachine"], tt.scale},
			} {
				if fact.got.Truth != fact.want || fact.got.Source == "" {
					t.Errorf("%s: %s from %q, want %s with its source", name, fact.got.Truth, fact.got.Source, fact.want)
				}
			}
		})
	}
}

func TestFactsEndWithTheContext(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := f.client().Facts(ctx, Cluster{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

func TestCommandsAreThoseThatAreSent(t *testing.T) {
	f := newFixture(t)
	c := f.client()
	ctx := context.Background()
	cluster := must[Cluster](t)(c.Cluster(ctx, "prod"))
	must[map[string]Endpoint](t)(c.Endpoints(ctx, cluster, Way{}))
	must[[]byte](t)(c.Kubeconfig(ctx, cluster.ID))
	must[Facts](t)(c.Facts(ctx, cluster))
	must[Limits](t)(c.Limits(ctx, cluster))
	_, _ = c.Limits(ctx, Cluster{ProjectID: "p"})
	job := must[string](t)(c.Resize(ctx, f.vm(1), f.big.ID, f.clock.Now().Add(1e9)))
	must[string](t)(c.Stop(ctx, f.vm(1), f.clock.Now().Add(1e9)))
	must[string](t)(c.Start(ctx, f.vm(1), f.clock.Now().Add(1e9)))
	if err := c.SetDynamicallyScalable(ctx, f.vm(1)); err != nil {
		t.Error(err)
	}
	_, _ = c.FindJob(ctx, f.vm(2))
	_, _ = c.Job(ctx, job)
	_, _ = c.ScaleCluster(ctx, cluster.ID, map[rollout.Role]string{rollout.RoleWorker: f.big.ID})
	_, _ = c.StartCluster(ctx, cluster.ID)
	var sent []string
	for _, r := range f.Requests() {
		sent = append(sent, r.Command)
	}
	slices.Sort(sent)
	sent = slices.Compact(sent)
	if want := commandNames(); strings.Join(sent, " ") != strings.Join(want, " ") {
		t.Errorf("sent    %v\nlisted  %v", sent, want)
	}
}
