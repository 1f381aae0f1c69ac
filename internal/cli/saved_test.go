package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
)

// save runs plan and keeps what it printed.
func (s *stage) save(t *testing.T, args string) string {
	t.Helper()
	p := s.trueup(t, "plan "+args).want(t, ExitOK)
	return s.file(t, "plan.json", p.out.String())
}

func (s *stage) file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(s.home, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSavedPlan(t *testing.T) {
	for name, c := range map[string]struct {
		plan, scale string
		want        []int
	}{
		"json":          {"prod --worker big -o json", "--yes --plan ", []int{2, 4, 4}},
		"yaml":          {"prod --offering big -o yaml", "prod --yes --plan ", []int{4, 4, 4}},
		"of one node":   {"prod --worker big --node prod-node-18f3c0dbc3 -o json", "--yes --plan ", []int{2, 2, 4}},
		"by id":         {"prod --worker big -o json", "c0000000-0000-4000-8000-000000000000 --yes --plan ", []int{2, 4, 4}},
		"with a settle": {"prod --worker big --settle 3s --no-online=false -o json", "--yes --plan ", []int{2, 4, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				file := s.save(t, c.plan)
				if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), s.owner.SecretKey) || strings.Contains(string(text), s.owner.APIKey) {
					t.Errorf("the plan holds a secret, or can't be read: %v", err)
				}
				s.trueup(t, "scale "+c.scale+file).want(t, ExitOK)
				if got := s.cpus(); !slices.Equal(got, c.want) {
					t.Errorf("%v, want %v", got, c.want)
				}
			})
		})
	}
}

// A plan from standard input can't be asked about there.
func TestSavedPlanFromStandardInput(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		plan := s.trueup(t, "plan prod --worker big -o json").out.String()
		s.trueup(t, "scale --plan -", answering(plan)).want(t, ExitUsage).says(t, "add --yes").oneError(t)
		s.trueup(t, "scale --plan - --yes", answering(plan)).want(t, ExitOK)
		if got := s.cpus(); !slices.Equal(got, []int{2, 4, 4}) {
			t.Errorf("%v", got)
		}
	})
}

// TestStalePlan: which changes since the plan count. After one that does nothing is changed, and the difference is shown.
func TestStalePlan(t *testing.T) {
	node := "prod-node-18f3c0d7b2"
	for name, c := range map[string]struct {
		change func(*testing.T, *stage)
		says   string // empty: it does not count
	}{
		"nothing": {func(*testing.T, *stage) {}, ""},
		"a heartbeat": {func(_ *testing.T, s *stage) {
			s.node(1).node.Ready.Heartbeat = s.node(1).node.Ready.Heartbeat.Add(10 * time.Second)
		}, ""},
		"another kubelet process": {func(_ *testing.T, s *stage) { s.node(1).guest.Kubelet.InvocationID = strings.Repeat("e", 32) }, ""},
		"another node": {func(_ *testing.T, s *stage) {
			s.node(0).node.Unschedulable = true
		}, ""},
		"cordoned meanwhile":         {func(_ *testing.T, s *stage) { s.node(1).node.Unschedulable = true }, node + ": node cordoned: then false, now true"},
		"kubelet of another version": {func(_ *testing.T, s *stage) { s.node(1).node.KubeletVersion = "v1.35.0" }, node + ": kubelet: then v1.36.3, now v1.35.0"},
		"another tool at work": {func(_ *testing.T, s *stage) {
			s.node(1).node.Marks = []capacity.Mark{{Tool: "kured", Key: "weave.works/kured-reboot-in-progress"}}
		}, node + ": foreign marks: then none, now weave.works/kured-reboot-in-progress (kured)"},
		"the Node made anew":  {func(_ *testing.T, s *stage) { s.node(1).node.UID = "uid-2" }, node + ": node: then uid-" + node + ", now uid-2"},
		"begun on by another": {func(t *testing.T, s *stage) { s.claim(t, 1, nil) }, node + ": claim of run: then -, now run-0"},
		"not Ready":           {func(_ *testing.T, s *stage) { s.node(1).node.Ready.Status = "False" }, node + ": node Ready: then True, now False"},
		"rebooted": {func(_ *testing.T, s *stage) {
			s.node(1).guest.BootID, s.node(1).node.BootID = "b2", "b2"
		}, node + ": guest boot: then "},
		"resized by somebody": {func(t *testing.T, s *stage) {
			if _, err := s.ScaleVirtualMachine(t.Context(), s.owner.Name, idOf(2), s.offeringID("big")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}, node + ": instance offering: then "},
		"memory in use": {func(_ *testing.T, s *stage) { s.node(1).inside.MemAvailable /= 2 }, ""},
		"a warning that nobody has seen": {func(_ *testing.T, s *stage) { s.node(1).inside.Kubelet.NeedsReload = true },
			node + ": warnings: then none, now kubelet-config-changed"},
		"another offering under the goal's id": {func(_ *testing.T, s *stage) {
			s.UpdateOffering(s.offeringID("big"), func(o *standin.Offering) { o.DynamicScaling = false })
		}, "cluster: goal of worker: then big (4 CPU / 4096 MiB), 2000 MHz, custom false, dynamic scaling true, now"},
		"the cluster in another state": {func(_ *testing.T, s *stage) {
			s.UpdateCluster(s.cluster.ID, func(c *standin.Cluster) { c.State = "Alert" })
		}, "cluster: state: then Running, now Alert"},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				file := s.save(t, "prod --worker big -o json")
				c.change(t, s)
				before := len(s.changes())
				if c.says == "" {
					s.trueup(t, "scale --yes --plan "+file).want(t, ExitOK)
					return
				}
				s.trueup(t, "scale --yes --plan "+file).want(t, ExitRefused).says(t, "holds no longer; plan again with `trueup plan prod`", "  | "+c.says)
				if got := s.changes()[before:]; len(got) > 0 {
					t.Errorf("changed: %v", got)
				}
			})
		})
	}
}

func TestBadSavedPlan(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		file := s.save(t, "prod --worker big -o json")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct{ args, says string }{
			"no such file":      {"--plan " + filepath.Join(s.home, "none"), "none"},
			"another cluster":   {"other --plan " + file, "is a plan for cluster prod (c0000000-0000-4000-8000-000000000000), not for other"},
			"a goal beside":     {"--worker huge --node x --plan " + file, "--node, --worker beside --plan"},
			"no JSON":           {"--plan " + s.file(t, "text", "hello"), "is no plan"},
			"empty":             {"--plan " + s.file(t, "empty", ""), "is no plan"},
			"cut short":         {"--plan " + s.file(t, "short", string(text[:len(text)/2])), "is no plan"},
			"another kind":      {"--plan " + s.file(t, "kind", strings.Replace(string(text), `"kind": "Plan"`, `"kind": "Status"`, 1)), "it is cks-trueup.github.io/v1 Status, expected cks-trueup.github.io/v1 Plan"},
			"an unknown field":  {"--plan " + s.file(t, "field", strings.Replace(string(text), `"kind": "Plan"`, `"kind": "Plan", "drain": true`, 1)), `unknown field "drain"`},
			"no settle":         {"--plan " + s.file(t, "settle", strings.Replace(string(text), `"settle": "15s"`, `"settle": "soon"`, 1)), `settle: time: invalid duration "soon"`},
			"neither of both":   {"", "no cluster is named"},
			"too many clusters": {"a b --plan " + file, "accepts at most 1 arg"},
		} {
			t.Log(name)
			s.trueup(t, "scale --yes "+c.args).want(t, ExitUsage).says(t, c.says).oneError(t)
		}
		if got := s.changes(); got != nil {
			t.Errorf("changed: %v", got)
		}
	})
}

// A plan of a cluster of which nothing runs is saved as well.
func TestSavedPlanOffline(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.stop(t)
		file := s.save(t, "prod --worker big -o json")
		small, big := s.offeringID("small"), s.offeringID("big")
		s.UpdateVM(idOf(2), func(vm *standin.VM) { vm.OfferingID = big })
		s.trueup(t, "scale --yes --plan "+file).want(t, ExitRefused).says(t, "prod-node-18f3c0d7b2: instance offering: then ")
		s.UpdateVM(idOf(2), func(vm *standin.VM) { vm.OfferingID = small })
		s.trueup(t, "scale --yes --plan "+file).want(t, ExitOK)
		if got := s.offering(1); got != "big" {
			t.Errorf("%s", got)
		}
	})
}

// A check that the plan was made against is ignored again; another one that has failed since is not.
func TestSavedPlanIgnores(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.node(1).inside.DIMMsPlugged = 16
		s.trueup(t, "plan prod --worker big -o json").want(t, ExitRefused)
		file := s.save(t, "prod --worker big --ignore dimm-slots -o json")
		s.node(2).guest.CPUManagerPolicy = "static"
		s.trueup(t, "scale --yes --plan "+file).want(t, ExitRefused).says(t, "kubelet's policies: then CPU manager -", "now CPU manager static")
		s.node(2).guest.CPUManagerPolicy = ""
		s.trueup(t, "scale --yes --plan "+file).want(t, ExitOK)
		if got := s.cpus(); !slices.Equal(got, []int{2, 4, 4}) {
			t.Errorf("%v", got)
		}
	})
}
