package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
)

func TestCredentials(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		config := filepath.Join(s.home, "cmk")
		if err := os.WriteFile(config, []byte("profile = prod\n[prod]\nurl = https://cloudstack.example"+standin.Path+"\napikey = "+s.owner.APIKey+"\nsecretkey = "+s.owner.SecretKey+"\n[half]\nurl = https://x/client/api\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		secret := filepath.Join(s.home, "secret")
		if err := os.WriteFile(secret, []byte(s.owner.SecretKey+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		none := func(p *program) {
			delete(p.env, "CLOUDSTACK_API_URL")
			delete(p.env, "CLOUDSTACK_API_KEY")
			delete(p.env, "CLOUDSTACK_SECRET_KEY")
		}
		s.trueup(t, "clusters --cmk-config "+config, none).want(t, ExitOK)
		s.trueup(t, "clusters --profile prod --cmk-config "+config).want(t, ExitOK)
		s.trueup(t, "clusters --api-url https://cloudstack.example"+standin.Path+" --api-key "+s.owner.APIKey+" --secret-key-file "+secret, none).want(t, ExitOK)

		s.trueup(t, "clusters", none).want(t, ExitUsage).says(t, "CLOUDSTACK_API_URL is not set", "--secret-key-file").oneError(t)
		s.trueup(t, "clusters --profile staging --cmk-config "+config).want(t, ExitUsage).says(t, `profile "staging" is not in`, "it has prod, half").oneError(t)
		s.trueup(t, "clusters --profile half --cmk-config "+config).want(t, ExitUsage).says(t, `profile "half"`, "has no apikey").oneError(t)
		s.trueup(t, "clusters --secret-key-file "+filepath.Join(s.home, "none")).want(t, ExitUsage).says(t, "secret key").oneError(t)
		s.trueup(t, "clusters", with("CLOUDSTACK_SECRET_KEY", "wrong")).want(t, ExitUnreachable).says(t, "401", "secret key").oneError(t)
		s.trueup(t, "clusters", with("CLOUDSTACK_API_URL", "ftp://x")).want(t, ExitUsage).oneError(t)
	})
}

func TestPermissions(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		as := func(name string, commands ...string) func(*program) {
			a := s.AddAccount(standin.Account{Name: name, Admin: true, Commands: commands})
			return func(p *program) { p.env["CLOUDSTACK_API_KEY"], p.env["CLOUDSTACK_SECRET_KEY"] = a.APIKey, a.SecretKey }
		}
		s.trueup(t, "status prod", as("stranger", "listApis")).want(t, ExitUnreachable).says(t, "432", "listKubernetesClusters").oneError(t)
		reads := []string{"listCapabilities", "listZones", "listKubernetesClusters", "getKubernetesClusterConfig", "listVirtualMachines", "listServiceOfferings",
			"listNetworks", "listPublicIpAddresses", "listPortForwardingRules", "listTemplates", "listApis", "queryAsyncJobResult"}
		s.trueup(t, "scale prod --worker big --yes", as("looker", reads...)).want(t, ExitRefused).says(t, "not allowed: scaleVirtualMachine", "Ask an administrator")
		if got := s.changes(); got != nil {
			t.Errorf("changed: %v", got)
		}
	})
}

// TestRefusals: what a live rollout can't lead to is refused before anything is changed, by plan and by scale, in one line after the plan.
func TestRefusals(t *testing.T) {
	state := func(state standin.ClusterState) func(*stage) {
		return func(s *stage) { s.UpdateCluster(s.cluster.ID, func(c *standin.Cluster) { c.State = state }) }
	}
	for _, r := range []struct {
		name string
		args string
		make func(*stage)
		says []string
	}{
		{"smaller offering", "--worker tiny", nil, []string{"for 2 reasons", "size of the offering", "only grow"}},
		{"no etcd nodes", "--etcd big", nil, []string{"no dedicated etcd nodes", "leave out --etcd"}},
		{"Alert", "--worker big", state(standin.ClusterAlert), []string{"cluster prod is Alert", "within about a minute"}},
		{"Scaling", "--worker big", state(standin.ClusterScaling), []string{"cluster prod is Scaling"}},
		{"Stopping", "--worker big", state(standin.ClusterStopping), []string{"cluster prod is Stopping", "CloudStack is at work on it"}},
		{"managed by another tool", "--worker big", func(s *stage) { s.UpdateCluster(s.cluster.ID, func(c *standin.Cluster) { c.External = true }) }, []string{"cluster type: ExternalManaged"}},
		{"dynamic scaling off", "--worker big", func(s *stage) { s.Set(standin.SettingDynamicScaling, s.Defaults().ZoneID, "false") }, []string{"enable.dynamic.scale.vm"}},
		{"a node not Ready", "--worker big", func(s *stage) { s.node(1).node.Ready.Status = "False" }, []string{"prod-node-18f3c0d7b2: Ready condition of the Node"}},
		{"SSH leads elsewhere", "--worker big", func(s *stage) { s.node(1).guest.ProductUUID = idOf(9) }, []string{"SSH leads to another machine", idOf(9)}},
		{"the Node is another machine", "--worker big", func(s *stage) { s.node(1).node.SystemUUID = idOf(9) }, []string{"the Node of this name is another machine", idOf(9)}},
		{"a Node is missing", "--worker big", func(s *stage) { s.node(2).node.Name = "" }, []string{"prod-node-18f3c0dbc3: the node could not be read", "not found in the cluster's 2 Nodes"}},
		{"a claim of a newer version", "--worker big", func(s *stage) { s.node(2).node.Claim = `{"version":99}` }, []string{"unreadable claim: version 99", "use the version of trueup that wrote it"}},
	} {
		t.Run(r.name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				if r.make != nil {
					r.make(s)
				}
				s.trueup(t, "scale prod --yes "+r.args).want(t, ExitRefused).says(t, r.says...).oneError(t)
				plan := s.trueup(t, "plan prod "+r.args).want(t, ExitRefused).oneError(t)
				if last := plan.err.String(); strings.Count(last, "\n") != 1 {
					t.Errorf("more than one line: %s", last)
				}
				if got := s.changes(); got != nil {
					t.Errorf("changed: %v", got)
				}
			})
		})
	}
}
