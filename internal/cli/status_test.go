package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/internal/kube"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// upsetting gives status something to tell of every kind: hardware that is plugged but offline, a claim with a fault, a guest out of reach,
// a record that lags.
func upsetting(t *testing.T, s *stage) {
	t.Helper()
	s.resizeBehind(t, 1, "big")
	s.resizeBehind(t, 2, "big")
	s.claim(t, 1, func(c *rollout.Claim) {
		c.Phase = "online-guest"
		c.Fault = &rollout.Fault{Layer: capacity.LayerGuest, Move: rollout.MoveOnline, Summary: "CPUs in the guest: not within 2m0s", Expected: "4 online", Observed: "2 online, 2 plugged but offline"}
	})
	s.node(2).lost = fmt.Errorf("%w: node prod-node-18f3c0dbc3 at 203.0.113.10:2224: no route to \x1b[31mhost", rollout.ErrUnreachable)
	s.open("big", 1, 2)
}

func TestStatusOnScreensOfEveryWidth(t *testing.T) {
	for name, change := range map[string]func(*program){"80": on(80, 24), "140": on(140, 50), "pipe": func(*program) {}} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				upsetting(t, s)
				p := s.trueup(t, "status prod", change).want(t, ExitOK)
				golden(t, "status-"+name+".txt", p.out.String())
				if p.err.String() != "" {
					t.Errorf("standard error: %s", p.err.String())
				}
				for line := range strings.Lines(p.out.String()) {
					if n := utf8.RuneCountInString(strings.TrimSpace(line)); p.screen.is && n > p.screen.columns && !strings.Contains(line, "could not be read") {
						t.Errorf("%d columns: %s", n, line)
					}
				}
				if strings.Contains(p.out.String(), "\x1b") {
					t.Error("a control character from outside was shown")
				}
			})
		})
	}
}

func TestStatusForMachines(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		upsetting(t, s)
		text := s.trueup(t, "status prod -o json").want(t, ExitOK).out.String()
		golden(t, "status.json", text)
		golden(t, "status-wide.txt", s.trueup(t, "status prod -o wide", on(80, 24)).want(t, ExitOK).out.String())
		golden(t, "clusters-wide.txt", s.trueup(t, "clusters -o wide").want(t, ExitOK).out.String())
		golden(t, "clusters.txt", s.trueup(t, "clusters", on(60, 24)).want(t, ExitOK).out.String())

		var fromJSON, fromYAML statusDocument
		if err := json.Unmarshal([]byte(text), &fromJSON); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal([]byte(s.trueup(t, "status prod -o yaml").want(t, ExitOK).out.String()), &fromYAML); err != nil {
			t.Fatal(err)
		}
		if fromJSON.Kind != "ClusterStatus" || fromJSON.APIVersion != "cks-trueup.github.io/v1" || len(fromYAML.Nodes) != 3 || fromYAML.Agree || fromYAML.Rollout.Run != "run-0" {
			t.Errorf("JSON %+v, YAML %+v", fromJSON.header, fromYAML)
		}
	})
}

func TestStatusWhereAllIsWell(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		p := s.trueup(t, "status prod").want(t, ExitOK).prints(t, "Cluster prod is Running. Sizes are CPUs/MiB.\n", "All views of every node agree.\n")
		if n := strings.Count(p.out.String(), "\n"); n != 8 {
			t.Errorf("%d lines:\n%s", n, p.out.String())
		}
		if got := s.changes(); got != nil {
			t.Errorf("status changed: %v", got)
		}
	})
}

// TestRecordLagIsNoFailure: after a scale node by node the record lags. It is told once per role, after the good news.
func TestRecordLagIsNoFailure(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.trueup(t, "scale prod --worker big --yes").want(t, ExitOK)
		out := s.trueup(t, "status prod").want(t, ExitOK).out.String()
		good, note := strings.Index(out, "Instances, guests and Nodes agree."), strings.Index(out, "Note: the cluster record")
		if good < 0 || note < good || strings.Count(out, "Note:") != 1 || !strings.Contains(out, "2 nodes of that role have another offering") || !strings.Contains(out, "nodeofferings") || strings.Contains(out, "lags") {
			t.Error(out)
		}
	})
}

// TestStatusNamesTheRemedy for guests that lag behind their instances.
func TestStatusNamesTheRemedy(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.resizeBehind(t, 1, "big")
		s.trueup(t, "status prod").want(t, ExitOK).prints(t, "prod-node-18f3c0d7b2: the guest lags: CPUs in the guest: expected 4 online", "`trueup reconcile prod` brings guests and Nodes up")
	})
}

func TestStatusOfTheLease(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.open("big", 1)
		s.lease.Run, s.lease.Since = "run-0", s.lease.State.Since
		s.trueup(t, "status prod").want(t, ExitOK).prints(t, "held by run run-0 of night@shift since 1999-12-31T23:00:00Z")
		s.lease.Run = ""
		s.trueup(t, "status prod").want(t, ExitOK).prints(t, "A rollout is not finished: scale, run run-0 of night@shift", "`trueup resume prod`", "`trueup abort prod`")
		s.lease = kube.Holding{}
		s.leaseErr = fmt.Errorf("leases.coordination.k8s.io is forbidden: %w", rollout.ErrDenied)
		s.trueup(t, "status prod").want(t, ExitOK).prints(t, "Who holds the cluster could not be read: leases.coordination.k8s.io is forbidden")
	})
}

func TestClustersWithoutNodes(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.AddCluster(standin.ClusterSpec{Name: "fresh", State: standin.ClusterCreated, Owner: standin.Owner{Account: "owner"}, OfferingID: s.offeringID("small"), Kubeconfig: kubeconfigText, Control: standin.Nodes(1), Workers: standin.Nodes(1)})
		s.trueup(t, "status fresh").want(t, ExitOK).prints(t, "Cluster fresh is Created", "It has no nodes.")
		nobody := s.AddAccount(standin.Account{Name: "nobody"})
		p := s.trueup(t, "clusters", with("CLOUDSTACK_API_KEY", nobody.APIKey), with("CLOUDSTACK_SECRET_KEY", nobody.SecretKey)).want(t, ExitOK).says(t, "No CKS cluster is visible")
		if p.out.String() != "" {
			t.Errorf("standard output: %s", p.out.String())
		}
	})
}
