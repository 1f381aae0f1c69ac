package cli

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/cloudstack"
	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/internal/kube"
	"github.com/cks-trueup/trueup/internal/rollout"
)

const (
	blockMiB  = 128
	keptMiB   = 120 // what a guest's kernel keeps of its memory
	bootedAgo = 1000 * time.Second
)

// fleet is the guests, the Nodes and the Lease of the cluster prod, which behave: plugged hardware arrives offline, and a restarted
// kubelet posts two seconds later what it found. Its CloudStack is the stand-in. It runs in a bubble of virtual time.
type fleet struct {
	*standin.Model

	owner   standin.Account
	cluster standin.Cluster

	mu       sync.Mutex
	nodes    []*node
	lease    kube.Holding
	denied   []kube.Right
	held     map[string]bool // pods, by name, that a disruption budget holds
	trusted  map[string]bool // nodes whose host key is on file; nil: all
	leaseErr error

	leaseReads int
	podsErr    error             // why pods can't be listed
	shelf      map[string]string // claims on the Lease, by instance id
	version    int
	events     []string
	upon       map[string]func() // what else happens upon a call, by its name, once
	calls      []string
}

type node struct {
	id     string
	guest  capacity.Guest
	node   capacity.Node
	booted time.Time
	starts int
	lost   error // why the guest can't be read
	mute   bool  // a restarted kubelet does not post
	inside capacity.Inspection
	closed error // why it can't be inspected
	off    bool  // its instance was found stopped

	kept      int64    // MiB that the kernel keeps; keptMiB if 0
	misplaced []string // pods whose node affinity does not match any more
	name      string
	pods      []capacity.Pod
	reject    string         // why a restarted kubelet rejects the pods; empty if it takes them
	etcd      *capacity.Etcd // on a dedicated etcd machine, which has no Node
}

// leastRole is what the role allows that `trueup rights cloudstack-role` prints: so all tests of the commands show that it is enough.
func leastRole(t *testing.T) (allowed []string) {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(cloudstack.RoleCSV())).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if row[1] == "allow" {
			allowed = append(allowed, row[0])
		}
	}
	return allowed
}

// newFleet has one control-plane node and two workers with 2 CPUs and 2048 MiB; names are as long as CKS makes them.
func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{Model: standin.New(standin.Config{Seed: 1, AgentStep: time.Second}), upon: map[string]func(){}, shelf: map[string]string{}}
	f.owner = f.AddAccount(standin.Account{Name: "owner", Commands: leastRole(t)})
	small := f.AddOffering(standin.FixedOffering("small", 2, 2048))
	f.AddOffering(standin.FixedOffering("big", 4, 4096))
	f.AddOffering(standin.FixedOffering("huge", 8, 8192))
	f.AddOffering(standin.FixedOffering("tiny", 1, 1024))
	f.AddOffering(standin.FixedOffering("twin", 4, 4096))
	f.AddOffering(standin.FixedOffering("twin", 6, 4096))
	f.cluster = f.AddCluster(standin.ClusterSpec{
		ID: "c0000000-0000-4000-8000-000000000000", Name: "prod", Owner: standin.Owner{Account: "owner"}, OfferingID: small.ID, KeyPair: "ops", Kubeconfig: kubeconfigText,
		Control: []standin.NodeSpec{{ID: idOf(1), Name: "prod-control-18f3c0d2a1"}},
		Workers: []standin.NodeSpec{{ID: idOf(2), Name: "prod-node-18f3c0d7b2"}, {ID: idOf(3), Name: "prod-node-18f3c0dbc3"}},
	})
	for _, n := range f.cluster.Nodes {
		vm, _ := f.VM(n.VMID)
		f.nodes = append(f.nodes, f.newNode(vm))
	}
	return f
}

func idOf(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

func (f *fleet) newNode(vm standin.VM) *node {
	m := &node{id: vm.ID, name: vm.Name, booted: time.Now().Add(-bootedAgo), starts: 1}
	m.guest = capacity.Guest{ProductUUID: vm.ID, MachineID: "machine-" + vm.Name, BootID: "boot-" + vm.Name, CPUsOnline: 2, CPUsPresent: 2, CPUsPossible: 32,
		CgroupVersion: 2, BlockSize: blockMiB * capacity.MiB, BlocksOnline: 2048 / blockMiB, Kubelet: capacity.Unit{ActiveState: "active", SubState: "running", InvocationID: "inv-1", MainPID: 101, Start: time.Minute}}
	m.inside = capacity.Inspection{DIMMSlots: 16, ACPI: true, MemAvailable: 900 * capacity.MiB, Kernel: capacity.KernelLog{Whole: true, BootMemory: 2047 * capacity.MiB},
		Kubelet: capacity.KubeletConfig{Path: "/var/lib/kubelet/config.yaml"}}
	m.node = capacity.Node{Name: vm.Name, UID: "uid-" + vm.Name, KubeletVersion: "v1.36.3", SystemUUID: vm.ID, MachineID: m.guest.MachineID, BootID: m.guest.BootID, ControlPlane: strings.Contains(vm.Name, "-control-")}
	m.post()
	f.touch(m)
	return m
}

// newEtcd is a dedicated etcd machine of a cluster with count members.
func (f *fleet) newEtcd(vm standin.VM, count int) *node {
	m := f.newNode(vm)
	m.node, m.guest.Kubelet = capacity.Node{}, capacity.Unit{ActiveState: "inactive", SubState: "dead"}
	m.etcd = &capacity.Etcd{Unit: capacity.Unit{ActiveState: "active", SubState: "running", MainPID: 70}}
	for i := range count {
		m.etcd.Members = append(m.etcd.Members, capacity.EtcdMember{Endpoint: fmt.Sprintf("http://10.1.1.%d:2379", i+2), Healthy: true})
	}
	return m
}

// touch gives the Node another resourceVersion.
func (f *fleet) touch(m *node) {
	f.version++
	m.node.ResourceVersion = fmt.Sprint(f.version)
}

// post is what the present kubelet says of the machine.
func (m *node) post() {
	g := m.reading()
	m.node.Capacity = capacity.Resources{"cpu": *resource.NewQuantity(int64(g.CPUsOnline), resource.DecimalSI), "memory": *resource.NewQuantity(g.MemTotal, resource.BinarySI)}
	m.node.Allocatable = capacity.Resources{"cpu": *resource.NewMilliQuantity(int64(g.CPUsOnline)*1000-100, resource.DecimalSI), "memory": *resource.NewQuantity(g.MemTotal-100*capacity.MiB, resource.BinarySI)}
	m.node.Ready = capacity.Condition{Status: "True", Heartbeat: time.Now().Truncate(time.Second)}
}

func (m *node) reading() capacity.Guest {
	g := m.guest
	g.MemTotal = g.MemoryOnline() - cmp.Or(m.kept, keptMiB)*capacity.MiB
	g.Clock, g.Monotonic, g.Etcd = time.Now(), time.Since(m.booted), m.etcd
	return g
}

// machine finds the i-th machine: the control-plane node, then the workers.
func (f *fleet) node(i int) *node { return f.nodes[i] }

func (f *fleet) find(key string) *node {
	i := slices.IndexFunc(f.nodes, func(m *node) bool { return m.id == key || m.name == key })
	if i < 0 {
		return nil
	}
	return f.nodes[i]
}

// call notes a call, and does what shall happen upon it.
func (f *fleet) call(name string) {
	f.mu.Lock()
	f.calls = append(f.calls, name)
	do := f.upon[name]
	delete(f.upon, name)
	f.mu.Unlock()
	if do != nil {
		do()
	}
}

// resizeBehind lets somebody else resize the machine in CloudStack: the guest gets the hardware, offline.
func (f *fleet) resizeBehind(t *testing.T, i int, offering string) {
	t.Helper()
	var list struct {
		ServiceOffering []struct{ ID, Name string } `json:"serviceoffering"`
	}
	if err := f.Call(t.Context(), "owner", "listServiceOfferings", map[string]string{}, &list); err != nil {
		t.Fatal(err)
	}
	for _, o := range list.ServiceOffering {
		if o.Name == offering {
			if _, err := f.ScaleVirtualMachine(t.Context(), "owner", f.node(i).id, o.ID); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			f.ForgetRequests()
			return
		}
	}
	t.Fatalf("no offering %s", offering)
}

// claim puts a claim of an earlier run on the Node, cordoned.
func (f *fleet) claim(t *testing.T, i int, change func(*rollout.Claim)) {
	t.Helper()
	m := f.node(i)
	vm, _ := f.VM(m.id)
	c := rollout.Claim{Run: "run-0", Transitions: 1, Actor: "night@shift", Since: time.Now().Add(-time.Hour).UTC(), InstanceID: m.id,
		Goal: capacity.Offering{ID: f.offeringID("big"), Name: "big", CPUs: 4, SpeedMHz: 2000, MemoryMiB: 4096, DynamicScaling: true}, Cordoned: true,
		Before: rollout.Before{Instance: capacity.Instance{ID: m.id, Name: vm.Name, State: "Running", OfferingID: vm.OfferingID, OfferingName: "small", CPUs: 2, SpeedMHz: 2000, MemoryMiB: 2048, DynamicallyScalable: true},
			Guest: m.reading(), Capacity: m.node.Capacity, Allocatable: m.node.Allocatable}}
	if change != nil {
		change(&c)
	}
	text, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	m.node.Claim, m.node.Unschedulable, m.node.UnschedulableBy = text, true, rollout.FieldManager
	f.touch(m)
}

func (f *fleet) offeringID(name string) string {
	var list struct {
		ServiceOffering []struct{ ID, Name string } `json:"serviceoffering"`
	}
	if err := f.Call(context.Background(), "owner", "listServiceOfferings", map[string]string{}, &list); err != nil {
		panic(err)
	}
	for _, o := range list.ServiceOffering {
		if o.Name == name {
			return o.ID
		}
	}
	panic("no offering " + name)
}

// open leaves an unfinished rollout on the Lease that nobody holds, with the goal for these machines.
func (f *fleet) open(offering string, nodes ...int) {
	goals := map[string]rollout.Goal{}
	for _, i := range nodes {
		goals[f.node(i).id] = f.goal(offering)
	}
	f.lease.Transitions = 1
	f.lease.State = rollout.LeaseState{Run: "run-0", Actor: "night@shift", Since: time.Now().Add(-time.Hour).UTC(), ClusterID: f.cluster.ID, Command: "scale", Goals: goals}
}

func (f *fleet) goal(offering string) rollout.Goal {
	size := map[string][2]int{"big": {4, 4096}, "huge": {8, 8192}}[offering]
	return rollout.Goal{Settle: rollout.DefaultSettle, Offering: capacity.Offering{ID: f.offeringID(offering), Name: offering, CPUs: size[0], SpeedMHz: 2000, MemoryMiB: int64(size[1]), DynamicScaling: true}}
}

// The ports, as the app gets them.
type (
	fleetGuests struct{ *fleet }
	fleetGuest  struct {
		*fleet

		m *node
	}
	fleetKube struct{ *fleet }
	fleetLock struct{ *fleet }
)

func (fleetGuests) Close() error { return nil }

func (f fleetGuests) Guest(_ context.Context, t rollout.Target) (rollout.Guest, error) {
	f.call("guest " + t.Name)
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.find(t.InstanceID)
	return fleetGuest{f.fleet, m}, m.lost
}

func (f fleetGuests) Inspect(_ context.Context, t rollout.Target) (capacity.Inspection, error) {
	f.call("guest inspection " + t.Name)
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.find(t.InstanceID)
	return m.inside, cmp.Or(m.lost, m.closed)
}

func (g fleetGuest) Probe(ctx context.Context) (capacity.Guest, error) {
	domain, err := g.Sim().Domain(ctx, g.m.id)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		g.m.off = true
		return capacity.Guest{}, fmt.Errorf("%w: %w", rollout.ErrUnreachable, err)
	}
	if g.m.off {
		g.m.off = false
		g.m.boot(domain.VCPUs, domain.MemoryMiB)
		g.touch(g.m)
	}
	g.m.guest.CPUsPresent = domain.VCPUs
	g.m.guest.BlocksOffline = domain.MemoryMiB/blockMiB - g.m.guest.BlocksOnline
	return g.m.reading(), g.m.lost
}

func (g fleetGuest) Online(context.Context) error {
	g.call("online " + g.m.name)
	g.mu.Lock()
	defer g.mu.Unlock()
	r := &g.m.guest
	r.CPUsOnline, r.BlocksOnline, r.BlocksOffline = r.CPUsPresent, r.BlocksOnline+r.BlocksOffline, 0
	return nil
}

func (g fleetGuest) RestartKubelet(_ context.Context, invocation string) (rollout.RestartResult, error) {
	g.call("restart " + g.m.name)
	g.mu.Lock()
	defer g.mu.Unlock()
	u := &g.m.guest.Kubelet
	if u.InvocationID != invocation {
		return rollout.RestartNotOurs, nil
	}
	g.m.starts++
	u.InvocationID, u.MainPID, u.Start = fmt.Sprintf("inv-%d", g.m.starts), 100+g.m.starts, time.Since(g.m.booted)
	for i := range g.m.pods {
		if g.m.reject != "" {
			g.m.pods[i].Phase, g.m.pods[i].Reason, g.m.pods[i].Ready = "Failed", g.m.reject, false
		}
	}
	time.AfterFunc(2*time.Second, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if !g.m.mute {
			g.m.post()
			g.touch(g.m)
		}
	})
	return rollout.RestartIssued, nil
}

func (fleetGuest) Diagnose(context.Context) ([]string, error) {
	return []string{"kubelet=a telling line \x1b[31mof the journal"}, nil
}
