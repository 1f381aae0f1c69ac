package standin

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// offerings returns the offering names of the cluster's VMs in their order.
func (b *bench) offerings() []string {
	b.t.Helper()
	var out []string
	for i := range b.cluster.Nodes {
		o := b.node(i).OfferingID
		out = append(out, map[string]string{b.small.ID: "small", b.big.ID: "big"}[o])
	}
	return out
}

func (b *bench) record() Cluster {
	b.t.Helper()
	c, ok := b.Cluster(b.cluster.ID)
	if !ok {
		b.t.Fatal("the cluster is gone")
	}
	return c
}

// setOffering puts a VM at an offering behind the API's back.
func (b *bench) setOffering(i int, o Offering) {
	b.t.Helper()
	if !b.UpdateVM(b.node(i).ID, func(vm *VM) { vm.OfferingID = o.ID }) {
		b.t.Fatal("no such VM")
	}
}

func (b *bench) scaleCluster(pairs ...string) Job {
	b.t.Helper()
	return b.finished(b.start("scaleKubernetesCluster", append([]string{"id", b.cluster.ID}, pairs...)...))
}

func wantOfferings(t *testing.T, b *bench, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, b.offerings()); diff != "" {
		t.Errorf("offerings of control, worker, worker (-want +got):\n%s", diff)
	}
}

func TestScaleClusterAllRoles(t *testing.T) {
	b := newBench(t)
	id := b.start("scaleKubernetesCluster", "id", b.cluster.ID, "serviceofferingid", b.big.ID)
	b.clock.Advance(1500 * time.Millisecond)
	if b.record().State != ClusterScaling {
		t.Errorf("state during the job = %s, want Scaling", b.record().State)
	}
	if j := b.finished(id); j.Status != JobSucceeded {
		t.Fatalf("job = %+v", j)
	}
	wantOfferings(t, b, "big", "big", "big")
	k := b.record()
	if k.State != ClusterRunning || k.OfferingID != b.big.ID || k.WorkerOfferingID != b.big.ID || k.ControlOfferingID != b.big.ID || k.Cores != 6 || k.MemoryMiB != 6144 {
		t.Errorf("record = %+v, want Running, the new offering in the columns, old totals", k)
	}
}

func TestScaleClusterOneRole(t *testing.T) {
	b := newBench(t)
	j := b.scaleCluster("nodeofferings[0].node", "worker", "nodeofferings[0].offering", b.big.ID, "serviceofferingid", b.small.ID)
	if j.Status != JobSucceeded {
		t.Fatalf("job = %+v", j)
	}
	wantOfferings(t, b, "small", "big", "big")
	if k := b.record(); k.WorkerOfferingID != b.big.ID || k.OfferingID != b.small.ID || k.ControlOfferingID != "" {
		t.Errorf("record = %+v, want only the worker column changed", k)
	}
}

// Only the first VM of a role decides.
func TestFirstVMDecides(t *testing.T) {
	for name, tc := range map[string]struct {
		ahead []int // workers that have the goal already
		want  []string
		state ClusterState
		job   JobStatus
		col   bool // the worker column is written
	}{
		"none has it":            {nil, []string{"small", "big", "big"}, ClusterRunning, JobSucceeded, true},
		"all have it: no-op":     {[]int{1, 2}, []string{"small", "big", "big"}, ClusterRunning, JobSucceeded, false},
		"first has it: no-op":    {[]int{1}, []string{"small", "big", "small"}, ClusterRunning, JobSucceeded, false},
		"second has it: failure": {[]int{2}, []string{"small", "big", "big"}, ClusterAlert, JobFailed, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			for _, i := range tc.ahead {
				b.setOffering(i, b.big)
			}
			j := b.scaleCluster("nodeofferings[0].node", "worker", "nodeofferings[0].offering", b.big.ID)
			if j.Status != tc.job || b.record().State != tc.state {
				t.Errorf("job status = %d, state = %s, want %d and %s (%s)", j.Status, b.record().State, tc.job, tc.state, errorText(j))
			}
			wantOfferings(t, b, tc.want...)
			if got := b.record().WorkerOfferingID == b.big.ID; got != tc.col {
				t.Errorf("worker column written = %t, want %t", got, tc.col)
			}
		})
	}
}

// A failure leaves a mix and Alert; the scanner forgets it; a repeat is a silent no-op.
func TestFailureLeavesMixAndAlertThatTheScannerForgets(t *testing.T) {
	healthy := false
	b := newBench(t, func(c *Config) { c.NodesReady = func(string) bool { return healthy } })
	b.Script(Fault{Command: "scaleKubernetesCluster", VM: b.node(2).ID, Effect: CPUFailure{}})
	j := b.scaleCluster("nodeofferings[0].node", "worker", "nodeofferings[0].offering", b.big.ID)
	want := "Scaling Kubernetes cluster : prod failed, unable to scale cluster VM : " + b.node(2).DisplayName + " due to Unhandled exception"
	if j.Status != JobFailed || errorText(j) != want {
		t.Fatalf("job = %+v\nwant text %q", j, want)
	}
	wantOfferings(t, b, "small", "big", "small")
	if j := b.scaleCluster("serviceofferingid", b.big.ID); errorText(j) != "Kubernetes cluster prod is in Alert state and can not be scaled" {
		t.Errorf("scale in Alert: %+v", j)
	}
	b.clock.Advance(6 * time.Minute)
	if b.record().State != ClusterAlert {
		t.Errorf("the scanner revived a cluster whose nodes aren't Ready")
	}
	healthy = true
	b.clock.Advance(30 * time.Second)
	if k := b.record(); k.State != ClusterRunning || k.WorkerOfferingID != "" {
		t.Errorf("record after the scanner = %+v, want Running with the old column", k)
	}
	if j := b.scaleCluster("nodeofferings[0].node", "worker", "nodeofferings[0].offering", b.big.ID); j.Status != JobSucceeded {
		t.Errorf("the repeat = %+v, want a success that does nothing", j)
	}
	wantOfferings(t, b, "small", "big", "small")
}

func TestScannerPutsAlertOnStoppedVM(t *testing.T) {
	b := newBench(t)
	b.UpdateVM(b.node(1).ID, func(vm *VM) { vm.State = VMStopped })
	b.clock.Advance(5 * time.Minute)
	if b.record().State != ClusterAlert {
		t.Errorf("state = %s, want Alert", b.record().State)
	}
	b.UpdateVM(b.node(1).ID, func(vm *VM) { vm.State = VMRunning })
	b.clock.Advance(30 * time.Second)
	if b.record().State != ClusterRunning {
		t.Errorf("state = %s, want Running again", b.record().State)
	}
}

func TestRestartLeavesClusterScalingForEver(t *testing.T) {
	b := newBench(t)
	b.Script(Fault{VM: b.node(2).ID, Effect: RestartServer{At: AfterMemory}})
	j := b.scaleCluster("nodeofferings[0].node", "worker", "nodeofferings[0].offering", b.big.ID)
	if j.Status != JobFailed || errorText(j) != cancelledText {
		t.Fatalf("job = %+v", j)
	}
	b.clock.Advance(24 * time.Hour)
	if b.record().State != ClusterScaling {
		t.Errorf("state = %s, want Scaling for ever", b.record().State)
	}
	wantOfferings(t, b, "small", "big", "small")
	if d := b.domain(b.node(2).ID); d.MemoryMiB != 4096 || d.VCPUs != 2 {
		t.Errorf("domain of the second worker = %+v, want it half done", d)
	}
}

func TestScaleClusterTimeout(t *testing.T) {
	b := newBench(t)
	b.Set(SettingScaleTimeout, "", "10")
	b.Script(Fault{VM: b.node(1).ID, Effect: JobDelay{By: 20 * time.Second}})
	j := b.scaleCluster("nodeofferings[0].node", "worker", "nodeofferings[0].offering", b.big.ID)
	if errorText(j) != "Scaling Kubernetes cluster : prod failed, scaling action timed out" || b.record().State != ClusterAlert {
		t.Errorf("job = %+v, state = %s", j, b.record().State)
	}
	wantOfferings(t, b, "small", "big", "small")
}

func TestScaleClusterOtherStates(t *testing.T) {
	t.Run("Created", func(t *testing.T) {
		b := newBench(t)
		b.cluster = b.AddCluster(ClusterSpec{Name: "new", State: ClusterCreated, Owner: Owner{Account: "owner"}, OfferingID: b.small.ID, Control: Nodes(1), Workers: Nodes(2)})
		j := b.scaleCluster("serviceofferingid", b.big.ID)
		if k := b.record(); j.Status != JobSucceeded || k.State != ClusterCreated || k.OfferingID != b.big.ID || len(k.Nodes) != 0 {
			t.Errorf("job = %+v, record = %+v", j, k)
		}
	})
	t.Run("Stopped", func(t *testing.T) {
		b := newBench(t)
		b.finished(b.start("stopKubernetesCluster", "id", b.cluster.ID))
		if k := b.record(); k.State != ClusterStopped || b.node(0).State != VMStopped {
			t.Fatalf("record after stop = %+v", k)
		}
		if j := b.scaleCluster("serviceofferingid", b.big.ID); j.Status != JobSucceeded {
			t.Fatalf("job = %+v", j)
		}
		wantOfferings(t, b, "big", "big", "big")
		if b.record().State != ClusterStopped {
			t.Errorf("state = %s, want Stopped", b.record().State)
		}
		b.finished(b.start("startKubernetesCluster", "id", b.cluster.ID))
		if d := b.domain(b.node(0).ID); b.record().State != ClusterRunning || d.MemoryMiB != 4096 || d.VCPUs != 4 || d.DIMMs != 0 {
			t.Errorf("state = %s, domain = %+v", b.record().State, d)
		}
	})
}

// One line per rule that is checked inside the job.
func TestScaleClusterRules(t *testing.T) {
	for name, tc := range map[string]struct {
		version string
		before  func(*bench)
		pairs   []string // OFFERING stands for the id of big
		want    string
	}{
		"nothing asked":     {want: "must be passed"},
		"external":          {before: func(b *bench) { b.UpdateCluster(b.cluster.ID, func(c *Cluster) { c.External = true }) }, pairs: []string{"serviceofferingid", "OFFERING"}, want: "not supported for an externally managed cluster (prod)"},
		"state":             {before: func(b *bench) { b.UpdateCluster(b.cluster.ID, func(c *Cluster) { c.State = "Upgrading" }) }, pairs: []string{"serviceofferingid", "OFFERING"}, want: "Kubernetes cluster prod is in Upgrading state and can not be scaled"},
		"customized":        {before: bigIs(func(o *Offering) { o.Customized = true }), pairs: []string{"serviceofferingid", "OFFERING"}, want: "Custom service offerings are not supported"},
		"one CPU":           {before: bigIs(func(o *Offering) { o.CPUs = 1 }), pairs: []string{"serviceofferingid", "OFFERING"}, want: "needs minimum 2 vCPUs and 2048 MB RAM"},
		"version's minimum": {before: func(b *bench) { b.version(b.Defaults().VersionID).MinMemoryMiB = 8192 }, pairs: []string{"serviceofferingid", "OFFERING"}, want: "Kubernetes version : v1.36.3 needs minimum 8192 MB RAM"},
		"smaller than the record": {before: func(b *bench) {
			b.UpdateCluster(b.cluster.ID, func(c *Cluster) { c.WorkerOfferingID = b.big.ID })
			bigIs(func(o *Offering) { o.MemoryMiB = 8192 })(b)
		},
			pairs: []string{"nodeofferings[0].node", "worker", "nodeofferings[0].offering", "SMALL"}, want: "cannot be scaled down for service offering. Service offering : small offers lesser resources as compared to service offering : big of Kubernetes cluster : prod"},
		"record without offering": {before: func(b *bench) { b.UpdateCluster(b.cluster.ID, func(c *Cluster) { c.OfferingID = "" }) }, pairs: []string{"serviceofferingid", "OFFERING"}, want: `because "existingServiceOffering" is null`},
		"VM missing":              {before: func(b *bench) { b.UpdateCluster(b.cluster.ID, func(c *Cluster) { c.Size = 3 }) }, pairs: []string{"serviceofferingid", "OFFERING"}, want: "not enough existing VM instances found!"},
		"before 4.23":             {version: "4.22.0.0", pairs: []string{"serviceofferingid", "OFFERING"}, want: "hypervisor KVM is not supported!"},
		"node type":               {pairs: []string{"nodeofferings[0].node", "master", "nodeofferings[0].offering", "OFFERING"}, want: "The provided value [master] for node type is invalid"},
		"half a mapping":          {pairs: []string{"nodeofferings[0].node", "worker"}, want: "Incomplete node type to Service Offering ID mapping"},
		"unknown in mapping":      {pairs: []string{"nodeofferings[0].node", "worker", "nodeofferings[0].offering", "none"}, want: "Cannot find a service offering with ID none"},
		"autoscaling with size":   {pairs: []string{"autoscalingenabled", "true", "size", "3"}, want: "Autoscaling can not be passed along"},
		"autoscaling without max": {pairs: []string{"autoscalingenabled", "true", "minsize", "1"}, want: "requires minsize and maxsize"},
		"autoscaling beyond max":  {pairs: []string{"autoscalingenabled", "true", "minsize", "1", "maxsize", "11"}, want: "can not exceed 10"},
		"no worker":               {pairs: []string{"size", "0"}, want: "cannot be scaled for size, 0"},
		"too many nodes":          {pairs: []string{"size", "10"}, want: "Maximum cluster size can not exceed 10"},
		"size and nodeids":        {pairs: []string{"size", "3", "nodeids", "WORKER"}, want: "nodeids can not be passed along"},
		"nodeids and offering":    {pairs: []string{"nodeids", "WORKER", "serviceofferingid", "OFFERING"}, want: "nodeids can not be passed along"},
		"foreign node":            {pairs: []string{"nodeids", "none"}, want: "none is not a worker node of the Kubernetes cluster prod"},
		"last worker":             {pairs: []string{"nodeids", "WORKER,WORKER"}, want: "At least one worker node"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(c *Config) { c.Version = tc.version })
			if tc.before != nil {
				tc.before(b)
			}
			var pairs []string
			for _, p := range tc.pairs {
				pairs = append(pairs, strings.NewReplacer("WORKER", b.node(1).ID, "OFFERING", b.big.ID, "SMALL", b.small.ID).Replace(p))
			}
			had := b.record()
			j := b.scaleCluster(pairs...)
			if j.Status != JobFailed || j.ResultCode != 530 || !strings.Contains(errorText(j), tc.want) {
				t.Errorf("job = %d, code %d, text %q, want a failure 530 with %q", j.Status, j.ResultCode, errorText(j), tc.want)
			}
			if diff := cmp.Diff(had, b.record()); diff != "" {
				t.Errorf("a refused scale changed the record (-before +after):\n%s", diff)
			}
		})
	}
}

func bigIs(change func(*Offering)) func(*bench) {
	return func(b *bench) { b.UpdateOffering(b.big.ID, change) }
}

func TestScaleClusterImmediateErrors(t *testing.T) {
	b := newBench(t)
	_, err := b.do(b.owner, "scaleKubernetesCluster", "id", "none", "serviceofferingid", b.big.ID)
	wantCode(t, err, CodeParameter)
	_, err = b.do(b.owner, "scaleKubernetesCluster", "id", b.cluster.ID, "serviceofferingid", "none")
	wantCode(t, err, CodeParameter)
	_, err = b.do(b.stranger, "scaleKubernetesCluster", "id", b.cluster.ID, "serviceofferingid", b.big.ID)
	wantCode(t, err, CodeAccount)
}

func TestAutoscalingOnlyChangesTheRecord(t *testing.T) {
	b := newBench(t)
	j := b.scaleCluster("autoscalingenabled", "true", "minsize", "1", "maxsize", "3")
	if k := b.record(); j.Status != JobSucceeded || !k.Autoscaling || k.MinSize != 1 || k.MaxSize != 3 {
		t.Errorf("job = %+v, record = %+v", j, k)
	}
	wantOfferings(t, b, "small", "small", "small")
}

func TestPowerFailureEndsInAlert(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Hypervisor = brokenSwitch{NewSimHypervisor()} })
	j := b.finished(b.start("stopKubernetesCluster", "id", b.cluster.ID))
	if j.Status != JobFailed || b.record().State != ClusterAlert {
		t.Errorf("job = %+v, state = %s, want a failure and Alert", j, b.record().State)
	}
	j = b.finished(b.start("startKubernetesCluster", "id", b.cluster.ID))
	if errorText(j) != "Kubernetes cluster prod is in Alert state" {
		t.Errorf("start from Alert: %+v", j)
	}
}

// brokenSwitch can't stop a VM.
type brokenSwitch struct{ *SimHypervisor }

func (brokenSwitch) Stop(context.Context, string) error {
	return errors.New("the power switch is stuck")
}
