package cli

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/internal/kube"
	"github.com/cks-trueup/trueup/internal/preflight"
)

// unmet is one way in which a check is not met.
type unmet struct {
	check string
	args  string // of preflight; empty: prod --worker big
	given func(*stage)
	// says is what is said where the reading itself is refused, before the check could be made; empty: the check speaks.
	says string
}

func unmetChecks() []unmet {
	const cold = "prod --worker tiny --method cold"
	guest := func(change func(*capacity.Guest)) func(*stage) { return func(s *stage) { change(&s.node(1).guest) } }
	inside := func(change func(*capacity.Inspection)) func(*stage) {
		return func(s *stage) { change(&s.node(1).inside) }
	}
	node := func(change func(*capacity.Node)) func(*stage) { return func(s *stage) { change(&s.node(1).node) } }
	vm := func(change func(*standin.VM)) func(*stage) {
		return func(s *stage) { s.UpdateVM(s.node(1).id, change) }
	}
	big := func(change func(*standin.Offering)) func(*stage) {
		return func(s *stage) { s.UpdateOffering(s.offeringID("big"), change) }
	}
	cluster := func(change func(*standin.Cluster)) func(*stage) {
		return func(s *stage) { s.UpdateCluster(s.cluster.ID, change) }
	}
	return []unmet{
		{check: "cluster-type", given: cluster(func(c *standin.Cluster) { c.External = true })},
		{check: "cluster-state", given: cluster(func(c *standin.Cluster) { c.State = standin.ClusterScaling })},
		{check: "role-has-nodes", args: "prod --etcd big"},
		{check: "cluster-offering-kind", given: big(func(o *standin.Offering) { o.Customized = true })},
		{check: "cloudstack-version", given: func(s *stage) { s.SetVersion("4.22.0.0") }},
		{check: "hypervisor", given: vm(func(v *standin.VM) { v.Hypervisor = "VMware" })},
		{check: "zone-dynamic-scaling", given: func(s *stage) { s.Set(standin.SettingDynamicScaling, s.Defaults().ZoneID, "false") }},
		{check: "cloudstack-permissions", given: func(s *stage) {
			a := s.AddAccount(standin.Account{Name: "least", Admin: true, Commands: []string{"listApis", "listKubernetesClusters", "listVirtualMachines", "listServiceOfferings", "listPortForwardingRules"}})
			s.owner = a
		}},
		{check: "account-limits", given: func(s *stage) { s.SetLimit(standin.Owner{Account: "owner"}, standin.Limit{MemoryMiB: 8192}) }},
		{check: "offering-compatible", given: big(func(o *standin.Offering) { o.LocalStorage = true })},
		{check: "kubernetes-permissions", given: func(s *stage) { s.denied = []kube.Right{{Verb: "patch", Resource: "nodes"}} }},
		{check: "other-nodes", given: func(s *stage) { s.node(0).node.Ready.Status = "False" }},
		{check: "pods-node-affinity", given: func(s *stage) { s.node(1).misplaced = []string{"default/old"} }},
		{check: "requests-fit", args: cold, given: func(s *stage) { s.run(1, capacity.Pod{Name: "big", Controller: "ReplicaSet", MilliCPU: 1900}) }},
		{check: "drain-room", args: cold, given: func(s *stage) {
			s.run(1, capacity.Pod{Name: "a", Controller: "ReplicaSet", MilliCPU: 800})
			s.run(2, capacity.Pod{Name: "b", Controller: "ReplicaSet", MilliCPU: 1500})
		}},
		{check: "api-outage", args: "prod --control tiny --method cold"},
		{check: "pods-readable", args: cold, given: func(s *stage) { s.podsErr = errors.New("denied") }},
		{check: "bare-pods", args: cold, given: func(s *stage) { s.run(1, capacity.Pod{Name: "bare"}) }},
		{check: "local-data", args: cold, given: func(s *stage) { s.run(1, capacity.Pod{Name: "db", Controller: "StatefulSet", LocalData: true}) }},
		{check: "ssh-identity", given: guest(func(g *capacity.Guest) { g.ProductUUID = idOf(9) }), says: "SSH leads to another machine: its DMI UUID is " + idOf(9)},
		{check: "node-identity", given: node(func(n *capacity.Node) { n.SystemUUID = idOf(9) }), says: "the Node of this name is another machine: its systemUUID is " + idOf(9)},
		{check: "machine-id", given: node(func(n *capacity.Node) { n.MachineID = "another" })},
		{check: "boot-id", given: node(func(n *capacity.Node) { n.BootID = "another" })},
		{check: "instance-state", given: vm(func(v *standin.VM) { v.State = standin.VMStopped }), says: "the instance is Stopped"},
		{check: "role", given: node(func(n *capacity.Node) { n.ControlPlane = true })},
		{check: "kubelet-unit", given: guest(func(g *capacity.Guest) { g.Kubelet.ActiveState = "failed" })},
		{check: "node-ready", given: node(func(n *capacity.Node) { n.Ready.Status = "False" })},
		{check: "allocatable", given: node(func(n *capacity.Node) {
			n.Allocatable = capacity.Resources{"cpu": resource.MustParse("9"), "memory": resource.MustParse("1Gi")}
		})},
		{check: "foreign-marks", given: node(func(n *capacity.Node) {
			n.Marks = []capacity.Mark{{Tool: "kured", Key: "weave.works/kured-reboot-in-progress"}}
		})},
		{check: "control-plane", args: "ha --control big", given: func(s *stage) {
			for _, n := range s.AddCluster(standin.ClusterSpec{Name: "ha", Owner: standin.Owner{Account: "owner"}, OfferingID: s.offeringID("small"), KeyPair: "ops", Kubeconfig: kubeconfigText, Control: standin.Nodes(2), Workers: standin.Nodes(1)}).Nodes {
				v, _ := s.VM(n.VMID)
				s.nodes = append(s.nodes, s.newNode(v))
			}
			s.nodes[3].node.Ready.Status = "False"
		}},
		{check: "etcd", args: "db --etcd big", given: func(s *stage) { s.withEtcd()[0].etcd.Members[1].Healthy = false }},
		{check: "offering-kind", given: big(func(o *standin.Offering) { o.Customized = true }), says: "offering for worker"},
		{check: "offering-size", args: "prod --worker tiny"},
		{check: "offering-dynamic-scaling", given: big(func(o *standin.Offering) { o.DynamicScaling = false })},
		{check: "instance-dynamic-scaling", given: vm(func(v *standin.VM) { v.DynamicallyScalable = false })},
		{check: "plugged-hardware", given: guest(func(g *capacity.Guest) { g.CPUsOnline = 5 })},
		{check: "memtotal", given: func(s *stage) { s.node(1).kept = 1500 }},
		{check: "memory-alignment", given: big(func(o *standin.Offering) { o.MemoryMiB = 4000 })},
		{check: "possible-cpus", given: guest(func(g *capacity.Guest) { g.CPUsPossible = 2 })},
		{check: "cpu-manager", given: guest(func(g *capacity.Guest) { g.CPUManagerPolicy = "static" })},
		{check: "memory-manager", given: guest(func(g *capacity.Guest) { g.MemoryManagerPolicy = "Static" })},
		{check: "balloon", given: inside(func(i *capacity.Inspection) { i.Balloon = 256 << 20 })},
		{check: "dimm-slots", given: inside(func(i *capacity.Inspection) { i.DIMMSlots = 0 })},
		{check: "refused-memory", given: inside(func(i *capacity.Inspection) { i.Kernel.MemoryRefused = []string{"Block size unaligned hotplug range"} })},
		{check: "refused-cpus", given: inside(func(i *capacity.Inspection) { i.Kernel.CPUsRefused = []string{"CPU2 failed to come online"} })},
		{check: "boot-memory", given: inside(func(i *capacity.Inspection) { i.MemAvailable = 1 << 20 })},
		{check: "offline-hardware", given: guest(func(g *capacity.Guest) { g.CPUsOnline = 1 })},
		{check: "cgroup-version", given: guest(func(g *capacity.Guest) { g.CgroupVersion = 1 })},
		{check: "kubelet-version", given: node(func(n *capacity.Node) { n.KubeletVersion = "v1.30.1" })},
		{check: "extended-resources", given: node(func(n *capacity.Node) {
			n.Allocatable = capacity.Resources{"cpu": n.Allocatable["cpu"], "memory": n.Allocatable["memory"], "vendor.example/gpu": resource.MustParse("2")}
		})},
		{check: "kubelet-service", given: inside(func(i *capacity.Inspection) { i.OtherKubelets = []string{"k3s-agent.service is active"} })},
		{check: "kubelet-config", given: inside(func(i *capacity.Inspection) { i.Kubelet.Unread = "no such file" })},
		{check: "kubelet-config-changed", given: inside(func(i *capacity.Inspection) { i.Kubelet.NeedsReload = true })},
		{check: "reservations", given: inside(func(i *capacity.Inspection) { i.Kubelet.Percentages = []string{"evictionHard memory.available 5%"} })},
		{check: "inspection", given: func(s *stage) { s.node(1).closed = errors.New("exit status 1") }},
	}
}

// Each check is shown once as not met, with its remedy, by the command itself over the stand-in; and none that docs/preflight.md names is left out.
func TestEveryCheckIsSeenUnmet(t *testing.T) {
	covered := map[string]bool{}
	for _, u := range unmetChecks() {
		covered[u.check] = true
		t.Run(u.check, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				if u.given != nil {
					u.given(s)
					time.Sleep(time.Second)
				}
				args := u.args
				if args == "" {
					args = "prod --worker big"
				}
				p := s.trueup(t, "preflight "+args+" -o json")
				if u.says != "" {
					if all := p.err.String() + p.out.String(); !strings.Contains(all, u.says) || p.code == ExitOK {
						t.Errorf("exit code %d, it does not say %q:\n%s", p.code, u.says, all)
					}
					return
				}
				var doc preflightDocument
				if err := json.Unmarshal([]byte(p.out.String()), &doc); err != nil {
					t.Fatalf("%v\n%s\n%s", err, p.err.String(), p.out.String())
				}
				i := slices.IndexFunc(doc.Checks, func(c namedPreflight) bool {
					return c.Name == u.check && (c.Verdict == preflight.Fail || c.Verdict == preflight.Warn)
				})
				if i < 0 {
					t.Fatalf("it is met, or not made: %s\n%s", p.err.String(), p.out.String())
				}
				if c := doc.Checks[i]; c.Remedy == "" || c.Evidence == "" || c.Verdict == preflight.Fail && p.code != ExitRefused {
					t.Errorf("exit code %d: %+v", p.code, c)
				}
				if got := s.changes(); got != nil {
					t.Errorf("preflight changed: %v", got)
				}
			})
		})
	}
	for line := range strings.Lines(read(t, filepath.Join("..", "..", "docs", "preflight.md"))) {
		if name, _, row := strings.Cut(strings.TrimPrefix(line, "| `"), "` |"); row && strings.HasPrefix(line, "| `") && !covered[name] {
			t.Errorf("check %s is nowhere seen unmet", name)
		}
	}
}
