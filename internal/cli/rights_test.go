package cli

import (
	"context"
	"slices"
	"testing"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/cloudstack"
	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/internal/guest"
	"github.com/cks-trueup/trueup/internal/kube"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// The rights are printed without any configuration, and without any connection.
func bare(p *program) { p.env = map[string]string{} }

func TestRightsSudoers(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		for args, user := range map[string]string{"rights sudoers": "cloud", "rights sudoers --user trueup": "trueup"} {
			want, err := guest.Sudoers(user, "1.2.3")
			if err != nil {
				t.Fatal(err)
			}
			if got := s.trueup(t, args, bare).want(t, ExitOK).out.String(); got != want {
				t.Errorf("%q prints:\n%s", args, got)
			}
		}
		s.trueup(t, "rights sudoers --user root", bare).want(t, ExitUsage).says(t, "--user: user root needs no sudo").oneError(t)
		s.trueup(t, "rights sudoers --user ALL", bare).want(t, ExitUsage).says(t, `"ALL" is not a login name`).oneError(t)
		s.trueup(t, "rights sudoers all", bare).want(t, ExitUsage).oneError(t)
		s.trueup(t, "rights sodoers", bare).want(t, ExitUsage).oneError(t)
		s.trueup(t, "rights", bare).want(t, ExitOK).prints(t, "sudoers")
		if got := s.Requests(); len(got) > 0 {
			t.Errorf("requests: %v", got)
		}
	})
}

func TestRightsRBAC(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		for args, want := range map[string]struct {
			to      kube.Subjects
			changes bool
		}{
			"rights rbac":                   {kube.Subjects{ServiceAccounts: []string{"kube-system/trueup"}}, true},
			"rights rbac --user ann":        {kube.Subjects{Users: []string{"ann"}}, true},
			"rights rbac --user a --user b": {kube.Subjects{Users: []string{"a", "b"}}, true},
			"rights rbac --look-only --group ops --service-account a/b": {kube.Subjects{Groups: []string{"ops"}, ServiceAccounts: []string{"a/b"}}, false},
		} {
			manifest, err := kube.RBAC(want.to, want.changes, "1.2.3")
			if err != nil {
				t.Fatal(err)
			}
			if got := s.trueup(t, args, bare).want(t, ExitOK).out.String(); got != string(manifest) {
				t.Errorf("%q prints:\n%s", args, got)
			}
		}
		golden(t, "rights-rbac.yaml", s.trueup(t, "rights rbac", bare).out.String())
		s.trueup(t, "rights rbac --service-account trueup", bare).want(t, ExitUsage).says(t, `"trueup" is no service account`).oneError(t)
	})
}

func TestRightsCloudStackRole(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		for args, want := range map[string]string{"": cloudstack.RoleCSV(), "-o csv": cloudstack.RoleCSV(), "-o cmk": cloudstack.RoleCalls("1.2.3")} {
			if got := s.trueup(t, "rights cloudstack-role "+args, bare).want(t, ExitOK).out.String(); got != want {
				t.Errorf("%q prints:\n%s", args, got)
			}
		}
		s.trueup(t, "rights cloudstack-role -o json", bare).want(t, ExitUsage).oneError(t)
	})
}

// onlyLooks is Kubernetes for someone with nothing but the rights to look.
type onlyLooks struct {
	kubernetes

	t *testing.T
}

// may fails the test if the right is not one of those to look.
func (o onlyLooks) may(verb, resource string) {
	o.t.Helper()
	if !slices.ContainsFunc(kube.Rights(), func(r kube.Right) bool { return r.Looks && r.Verb == verb && r.Resource == resource }) {
		o.t.Errorf("a command that changes nothing needs to %s %s", verb, resource)
	}
}

func (o onlyLooks) Lock() rollout.Lock {
	o.may("patch", "leases")
	return o.kubernetes.Lock()
}

func (o onlyLooks) Nodes(ctx context.Context) ([]capacity.Node, error) {
	o.may("list", "nodes")
	return o.kubernetes.Nodes(ctx)
}

func (o onlyLooks) Node(ctx context.Context, name string) (capacity.Node, error) {
	o.may("get", "nodes")
	return o.kubernetes.Node(ctx, name)
}

func (o onlyLooks) Pods(ctx context.Context, node string) ([]capacity.Pod, error) {
	o.may("list", "pods")
	return o.kubernetes.Pods(ctx, node)
}

func (o onlyLooks) Watch(ctx context.Context, name string) (<-chan struct{}, error) {
	o.may("watch", "nodes")
	return o.kubernetes.Watch(ctx, name)
}

func (o onlyLooks) Patch(ctx context.Context, p rollout.NodePatch) (capacity.Node, error) {
	o.may("patch", "nodes")
	return o.kubernetes.Patch(ctx, p)
}

func (o onlyLooks) Record(ctx context.Context, e rollout.NodeEvent) error {
	o.may("create", "events")
	return o.kubernetes.Record(ctx, e)
}

func (o onlyLooks) Shelve(ctx context.Context, tenure rollout.Tenure, id, text string) error {
	o.may("patch", "leases")
	return o.kubernetes.Shelve(ctx, tenure, id, text)
}

// The commands that change nothing get along with the rights of --look-only.
func TestLookOnly(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.onlyLooks = true
		for args, code := range map[string]int{
			"clusters": ExitOK, "status prod": ExitOK, "plan prod --worker big": ExitOK, "preflight prod --worker big": ExitOK,
			"verify prod": ExitOK, "explain prod prod-node-18f3c0d7b2": ExitOK, "history": ExitOK,
		} {
			s.trueup(t, args).want(t, code)
		}
	})
}

// With the needed commands, and the one that tells of permissions, a change works; without any single one of them it ends before anything is changed.
func TestNeededCommands(t *testing.T) {
	for _, offline := range []bool{false, true} {
		needed := cloudstack.Needed(offline)
		for missing := -1; missing < len(needed); missing++ {
			play(t, func(t *testing.T, s *stage) {
				if offline {
					s.stop(t)
				}
				before, allowed := len(s.changes()), append(slices.Clone(needed), "listApis")
				if missing >= 0 {
					allowed = slices.Delete(allowed, missing, missing+1)
				}
				a := s.AddAccount(standin.Account{Name: "least", Admin: true, Commands: allowed})
				p := s.trueup(t, "scale prod --worker big --yes", with("CLOUDSTACK_API_KEY", a.APIKey), with("CLOUDSTACK_SECRET_KEY", a.SecretKey))
				if missing < 0 {
					p.want(t, ExitOK)
					return
				}
				if now := s.changes(); p.code != ExitRefused && p.code != ExitUnreachable || len(now) != before {
					t.Errorf("offline %t, without %s: exit code %d, changed %v: %s", offline, needed[missing], p.code, now[before:], p.err.String())
				}
			})
		}
	}
}
