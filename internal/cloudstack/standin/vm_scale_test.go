package standin

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// domain returns the VM as the simulated hypervisor has it.
func (b *bench) domain(vmID string) Domain {
	b.t.Helper()
	d, err := b.Sim().Domain(b.t.Context(), vmID)
	if err != nil {
		b.t.Fatal(err)
	}
	return d
}

func TestScaleVirtualMachine(t *testing.T) {
	b := newBench(t)
	vm := b.node(1)
	id := b.start("scaleVirtualMachine", "id", vm.ID, "serviceofferingid", b.big.ID)
	if j, _ := b.Job(id); j.Status != JobPending {
		t.Errorf("job status at the start = %d, want pending", j.Status)
	}
	j := b.finished(id)
	if j.Status != JobSucceeded || b.node(1).OfferingID != b.big.ID {
		t.Fatalf("job = %+v, offering = %s", j, b.node(1).OfferingID)
	}
	want := Domain{MemoryMiB: 4096, MaxMemoryMiB: 64 << 10, VCPUs: 4, MaxVCPUs: 32, DIMMs: 1, MaxDIMMs: 16}
	if diff := cmp.Diff(want, b.domain(vm.ID)); diff != "" {
		t.Errorf("domain (-want +got):\n%s", diff)
	}
	if k, _ := b.Cluster(b.cluster.ID); k.State != ClusterRunning || k.column(RoleWorker) != b.small.ID {
		t.Errorf("the cluster record changed: %+v", k)
	}
}

// One line per condition of a live scale.
func TestScaleVirtualMachineRules(t *testing.T) {
	for name, tc := range map[string]struct {
		version string
		goal    func(*Offering)
		before  func(*bench)
		want    string
	}{
		"zone switch off": {before: func(b *bench) { b.Set(SettingDynamicScaling, b.Defaults().ZoneID, "false") },
			want: "Dynamically scaling Instances is disabled for this zone"},
		"VM not scalable": {before: func(b *bench) { b.UpdateVM(b.node(1).ID, func(vm *VM) { vm.DynamicallyScalable = false }) },
			want: "does not have tools to support dynamic scaling"},
		"flag differs":      {goal: func(o *Offering) { o.DynamicScaling = false }, want: "dynamic scaling enabled flag is not same"},
		"less memory":       {goal: func(o *Offering) { o.MemoryMiB = 1024 }, want: "While the VM is running, only scalling up it is supported"},
		"fewer CPUs":        {goal: func(o *Offering) { o.CPUs = 1 }, want: "While the VM is running, only scalling up it is supported"},
		"slower CPUs":       {goal: func(o *Offering) { o.MHz = 1000 }, want: "While the VM is running, only scalling up it is supported"},
		"nothing grows":     {goal: func(o *Offering) { o.CPUs, o.MemoryMiB = 2, 2048 }, want: "While the VM is running, only scalling up it is supported"},
		"inactive offering": {goal: func(o *Offering) { o.Inactive = true }, want: "New service offering is inactive"},
		"system offering":   {goal: func(o *Offering) { o.System = true }, want: "isSystem property is different"},
		"local storage":     {goal: func(o *Offering) { o.LocalStorage = true }, want: "cannot switch between local storage and shared storage"},
		"disk strictness":   {goal: func(o *Offering) { o.DiskStrict = true }, want: "strictness"},
		"encryption":        {goal: func(o *Offering) { o.EncryptRoot = true }, want: "encryption"},
		"storage tags": {before: func(b *bench) { b.UpdateOffering(b.small.ID, func(o *Offering) { o.StorageTags = "ssd" }) },
			want: "tags as subset"},
		"VM in another state": {before: func(b *bench) { b.UpdateVM(b.node(1).ID, func(vm *VM) { vm.State = "Migrating" }) },
			want: "make sure the virtual machine is stopped/running"},
		"fixed offering before 4.23": {version: "4.22.1.0", want: `current service offering is a "Fixed Offering"`},
		"no host has room": {before: func(b *bench) { b.host(b.Defaults().HostID).VCPUs = 6 },
			want: "Unable to find suitable host"},
		"beyond the maximum of the domain": {goal: func(o *Offering) { o.MemoryMiB = 65 << 10 }, want: "Unhandled exception"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(c *Config) { c.Version = tc.version })
			if tc.goal != nil {
				b.UpdateOffering(b.big.ID, tc.goal)
			}
			if tc.before != nil {
				tc.before(b)
			}
			had := b.domain(b.node(1).ID)
			j := b.finished(b.start("scaleVirtualMachine", "id", b.node(1).ID, "serviceofferingid", b.big.ID))
			if j.Status != JobFailed || j.ResultCode != 530 || !strings.Contains(errorText(j), tc.want) {
				t.Errorf("job = %d, code %d, text %q, want a failure 530 with %q", j.Status, j.ResultCode, errorText(j), tc.want)
			}
			if b.node(1).OfferingID != b.small.ID || b.domain(b.node(1).ID) != had {
				t.Errorf("a refused resize changed something: %+v, %+v", b.node(1), b.domain(b.node(1).ID))
			}
		})
	}
}

func TestSameOfferingIsRefused(t *testing.T) {
	b := newBench(t)
	j := b.finished(b.start("scaleVirtualMachine", "id", b.node(1).ID, "serviceofferingid", b.small.ID))
	want := `Not upgrading vm VM instance {"instanceName":"` + b.node(1).InstanceName + `","type":"User","uuid":"` + b.node(1).ID +
		`"} since it already has the requested service offering (small)`
	if errorText(j) != want {
		t.Errorf("text = %q\nwant   %q", errorText(j), want)
	}
}

func TestOnlyTheSpeedGrows(t *testing.T) {
	b := newBench(t)
	b.UpdateOffering(b.big.ID, func(o *Offering) { o.CPUs, o.MemoryMiB, o.MHz = 2, 2048, 3000 })
	had := b.domain(b.node(1).ID)
	j := b.finished(b.start("scaleVirtualMachine", "id", b.node(1).ID, "serviceofferingid", b.big.ID))
	if j.Status != JobSucceeded || b.domain(b.node(1).ID) != had {
		t.Errorf("job = %+v, domain = %+v, want success and the domain as it was", j, b.domain(b.node(1).ID))
	}
}

func TestStoppedVMChangesOnlyItsRecord(t *testing.T) {
	b := newBench(t)
	vm := b.node(1)
	if err := b.StopVM(t.Context(), vm.ID); err != nil {
		t.Fatal(err)
	}
	b.UpdateVM(vm.ID, func(vm *VM) { vm.OfferingID = b.big.ID })
	j := b.finished(b.start("scaleVirtualMachine", "id", vm.ID, "serviceofferingid", b.small.ID)) // smaller is fine here
	if j.Status != JobSucceeded || b.node(1).OfferingID != b.small.ID {
		t.Fatalf("job = %+v", j)
	}
	if err := b.StartVM(t.Context(), vm.ID); err != nil {
		t.Fatal(err)
	}
	if d := b.domain(vm.ID); d.MemoryMiB != 2048 || d.VCPUs != 2 || d.DIMMs != 0 {
		t.Errorf("domain after the start = %+v", d)
	}
}

// Memory comes first; when the CPUs then fail, the memory stays and a repeat attaches nothing twice.
func TestCPUFailureAfterMemory(t *testing.T) {
	for name, arm := range map[string]func(*bench){
		"by the script":     func(b *bench) { b.Script(Fault{VM: b.node(1).ID, Effect: CPUFailure{}}) },
		"by the hypervisor": func(b *bench) { b.Sim().FailNext(OpSetVCPUs, b.node(1).ID, errors.New("no thread left")) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			arm(b)
			vm := b.node(1).ID
			j := b.finished(b.start("scaleVirtualMachine", "id", vm, "serviceofferingid", b.big.ID))
			if j.Status != JobFailed || errorText(j) != "Unhandled exception" || b.node(1).OfferingID != b.small.ID {
				t.Fatalf("job = %+v, offering %s", j, b.node(1).OfferingID)
			}
			if d := b.domain(vm); d.MemoryMiB != 4096 || d.VCPUs != 2 || d.DIMMs != 1 {
				t.Errorf("domain after the failure = %+v, want the memory alone", d)
			}
			if j := b.finished(b.start("scaleVirtualMachine", "id", vm, "serviceofferingid", b.big.ID)); j.Status != JobSucceeded {
				t.Fatalf("the repeat failed: %+v", j)
			}
			if d := b.domain(vm); d.MemoryMiB != 4096 || d.VCPUs != 4 || d.DIMMs != 1 {
				t.Errorf("domain after the repeat = %+v, want one DIMM", d)
			}
		})
	}
}

func TestSixteenGrowthsPerBoot(t *testing.T) {
	b := newBench(t)
	vm := b.node(1).ID
	for i := 1; i <= 17; i++ {
		o := b.AddOffering(FixedOffering("step", 2, 2048+128*i))
		j := b.finished(b.start("scaleVirtualMachine", "id", vm, "serviceofferingid", o.ID))
		if want := map[bool]JobStatus{true: JobSucceeded, false: JobFailed}[i <= 16]; j.Status != want {
			t.Fatalf("growth %d: job status = %d, want %d", i, j.Status, want)
		}
	}
	if d := b.domain(vm); d.DIMMs != 16 || d.MemoryMiB != 2048+16*128 {
		t.Errorf("domain = %+v", d)
	}
}

func TestFullHostMovesTheVM(t *testing.T) {
	b := newBench(t)
	b.host(b.Defaults().HostID).MemoryMiB = 3 * 2048
	other := b.AddHost(Host{Name: "host-2"})
	j := b.finished(b.start("scaleVirtualMachine", "id", b.node(1).ID, "serviceofferingid", b.big.ID))
	if j.Status != JobSucceeded || b.node(1).HostID != other.ID {
		t.Errorf("job = %+v, host = %s, want it scaled on %s", j, b.node(1).HostID, other.ID)
	}
}

// The present host must have the new offering's tags, and so must the one on which a machine is started.
func TestHostTags(t *testing.T) {
	b := newBench(t)
	b.UpdateOffering(b.big.ID, func(o *Offering) { o.HostTags = "fast" })
	j := b.finished(b.start("scaleVirtualMachine", "id", b.node(1).ID, "serviceofferingid", b.big.ID))
	if j.Status != JobFailed || errorText(j) != "Failed to scale the VM" {
		t.Errorf("job = %+v", j)
	}
	b.finished(b.start("stopVirtualMachine", "id", b.node(1).ID))
	if j := b.finished(b.start("scaleVirtualMachine", "id", b.node(1).ID, "serviceofferingid", b.big.ID)); j.Status != JobSucceeded {
		t.Errorf("of a stopped machine: %+v", j)
	}
	if j := b.finished(b.start("startVirtualMachine", "id", b.node(1).ID)); j.Status != JobFailed {
		t.Errorf("started without a host that has the tag: %+v", j)
	}
	fast := b.AddHost(Host{Name: "host-2", Tags: "other,fast"})
	if j := b.finished(b.start("startVirtualMachine", "id", b.node(1).ID)); j.Status != JobSucceeded || b.node(1).HostID != fast.ID {
		t.Errorf("job = %+v, host = %s", j, b.node(1).HostID)
	}
}

func TestFlagIsRecomputedAfterResize(t *testing.T) {
	b := newBench(t)
	b.UpdateTemplate(b.Defaults().TemplateID, func(o *Template) { o.DynamicallyScalable = false })
	j := b.finished(b.start("scaleVirtualMachine", "id", b.node(1).ID, "serviceofferingid", b.big.ID))
	if j.Status != JobSucceeded || b.node(1).DynamicallyScalable {
		t.Errorf("job = %+v, isdynamicallyscalable = %t, want success and false", j, b.node(1).DynamicallyScalable)
	}
}

func TestCustomizedOffering(t *testing.T) {
	b := newBench(t)
	custom := b.AddOffering(Offering{Name: "custom", Customized: true, MHz: 2000, DynamicScaling: true})
	vm := b.node(1).ID
	j := b.finished(b.start("scaleVirtualMachine", "id", vm, "serviceofferingid", custom.ID, "details[0].cpuNumber", "3", "details[0].memory", "3072"))
	if j.Status != JobSucceeded || b.domain(vm).VCPUs != 3 || b.domain(vm).MemoryMiB != 3072 {
		t.Errorf("job = %+v, domain = %+v", j, b.domain(vm))
	}
}

// One VM does one thing at a time: the second resize is judged after the first has ended.
func TestResizesOfOneVMQueueUp(t *testing.T) {
	b := newBench(t)
	vm := b.node(1).ID
	first := b.start("scaleVirtualMachine", "id", vm, "serviceofferingid", b.big.ID)
	second := b.start("scaleVirtualMachine", "id", vm, "serviceofferingid", b.big.ID)
	b.clock.Advance(3 * time.Second)
	if j, _ := b.Job(first); j.Status != JobSucceeded {
		t.Fatalf("first job = %+v", j)
	}
	if j, _ := b.Job(second); j.Status != JobPending {
		t.Fatalf("second job = %+v, want it waiting", j)
	}
	if j := b.finished(second); !strings.Contains(errorText(j), "already has the requested service offering") {
		t.Errorf("second job = %+v", j)
	}
	if d := b.domain(vm); d.DIMMs != 1 {
		t.Errorf("domain = %+v, want one DIMM", d)
	}
}
