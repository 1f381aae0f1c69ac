package standin

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// cycle stops and starts the first worker by the API.
func (b *bench) cycle() {
	b.t.Helper()
	for _, command := range []string{"stopVirtualMachine", "startVirtualMachine"} {
		if j := b.finished(b.start(command, "id", b.node(1).ID)); j.Status != JobSucceeded {
			b.t.Fatalf("%s: %+v", command, j)
		}
	}
}

// shown is the first worker as lists show it.
func (b *bench) shown() map[string]any {
	b.t.Helper()
	return b.must(b.admin, "listVirtualMachines", "id", b.node(1).ID)["virtualmachine"].([]any)[0].(map[string]any)
}

// off reports whether the first worker is off for the hypervisor.
func (b *bench) off() bool {
	_, err := b.Sim().Domain(b.t.Context(), b.node(1).ID)
	return err != nil
}

func TestStopAndStart(t *testing.T) {
	b := newBench(t)
	states := func(command, class string, want ...any) {
		t.Helper()
		id := b.start(command, "id", b.node(1).ID)
		got := []any{b.shown()["state"]}
		for range 2 {
			b.clock.Advance(time.Second)
			got = append(got, b.shown()["state"])
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: states after 0, 1 and 2 s (-want +got):\n%s", command, diff)
		}
		j, _ := b.Job(id)
		vm := j.Result.(map[string]any)["virtualmachine"].(vmJSON)
		if j.Status != JobSucceeded || vm.ID != b.node(1).ID || vm.State != VMState(want[2].(string)) || j.class != "org.apache.cloudstack.api.command.user.vm."+class {
			t.Errorf("%s: job %+v", command, j)
		}
	}
	states("stopVirtualMachine", "StopVMCmd", "Running", "Stopping", "Stopped")
	if _, there := b.shown()["hostid"]; there || !b.off() {
		t.Errorf("after the stop: %v, off = %t, want it off and on no host", b.shown(), b.off())
	}
	states("startVirtualMachine", "StartVMCmd", "Stopped", "Starting", "Running")
	want := Domain{MemoryMiB: 2048, MaxMemoryMiB: 64 << 10, VCPUs: 2, MaxVCPUs: 32, MaxDIMMs: 16}
	if b.shown()["hostid"] != b.Defaults().HostID || b.domain(b.node(1).ID) != want {
		t.Errorf("after the start: %v, %+v", b.shown(), b.domain(b.node(1).ID))
	}
}

// One line per refusal, at once or in the job.
func TestPowerRules(t *testing.T) {
	state := func(s VMState) func(*bench) {
		return func(b *bench) { b.UpdateVM(b.node(1).ID, func(vm *VM) { vm.State = s }) }
	}
	full := func(b *bench) { state(VMStopped)(b); b.host(b.Defaults().HostID).VCPUs = 5 }
	for name, tc := range map[string]struct {
		command string
		before  func(*bench)
		code    int // of the job, 0 for success
		text    string
		state   VMState // afterwards
	}{
		"stop of a stopped VM":    {"stopVirtualMachine", state(VMStopped), 0, "", VMStopped},
		"stop of a migrating VM":  {"stopVirtualMachine", state("Migrating"), 530, "We cannot stop VM instance {NAME} when it is in state Migrating", "Migrating"},
		"start of a running VM":   {"startVirtualMachine", nil, 530, "The virtual machine UUID (DISPLAY) is already running", VMRunning},
		"start of a migrating VM": {"startVirtualMachine", state("Migrating"), 530, "Unable to start VM instance {NAME} in state Migrating", "Migrating"},
		"no room":                 {"startVirtualMachine", full, 533, "Unable to create a deployment for VM instance {NAME}", VMStopped},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			if tc.before != nil {
				tc.before(b)
			}
			vm := b.node(1)
			text := strings.NewReplacer("VM instance {NAME}", vm.String(), "UUID", vm.ID, "DISPLAY", vm.DisplayName).Replace(tc.text)
			j := b.finished(b.start(tc.command, "id", vm.ID))
			if j.ResultCode != tc.code || errorText(j) != text || (j.Status == JobFailed) != (tc.code != 0) {
				t.Errorf("job = %+v, want code %d and %q", j, tc.code, text)
			}
			if got := b.node(1).State; got != tc.state {
				t.Errorf("state afterwards = %s, want %s", got, tc.state)
			}
		})
	}
	b := newBench(t)
	for _, command := range []string{"stopVirtualMachine", "startVirtualMachine", "updateVirtualMachine"} {
		_, err := b.do(b.owner, command, "id", "no-such-vm")
		wantCode(t, err, CodeParameter)
		_, err = b.do(b.stranger, command, "id", b.node(1).ID)
		wantCode(t, err, CodeAccount)
	}
	if len(b.Jobs()) != 0 {
		t.Errorf("refused calls left jobs: %+v", b.Jobs())
	}
}

// A stopped VM may become smaller. Its next domain is of the new size, all of it from the boot.
func TestShrinkOfAStoppedVM(t *testing.T) {
	b := newBench(t)
	vm := b.node(1).ID
	if j := b.finished(b.start("scaleVirtualMachine", "id", vm, "serviceofferingid", b.big.ID)); j.Status != JobSucceeded {
		t.Fatal(j)
	}
	b.finished(b.start("stopVirtualMachine", "id", vm))
	if j := b.finished(b.start("scaleVirtualMachine", "id", vm, "serviceofferingid", b.small.ID)); j.Status != JobSucceeded || !b.off() {
		t.Fatalf("shrink of a stopped VM: %+v, off = %t", j, b.off())
	}
	b.finished(b.start("startVirtualMachine", "id", vm))
	want := Domain{MemoryMiB: 2048, MaxMemoryMiB: 64 << 10, VCPUs: 2, MaxVCPUs: 32, MaxDIMMs: 16}
	if diff := cmp.Diff(want, b.domain(vm)); diff != "" || b.shown()["memory"] != 2048.0 {
		t.Errorf("domain after the start (-want +got):\n%s", diff)
	}
}

// Room to grow is decided at the start, by the VM's flag, the zone and the version.
func TestRoomToGrowIsDecidedAtTheStart(t *testing.T) {
	for name, tc := range map[string]struct {
		version string
		before  func(*bench)
		slots   int
	}{
		"prepared":        {slots: 16},
		"the VM's flag":   {before: func(b *bench) { b.UpdateVM(b.node(1).ID, func(vm *VM) { vm.DynamicallyScalable = false }) }},
		"the zone":        {before: func(b *bench) { b.Set(SettingDynamicScaling, b.Defaults().ZoneID, "false") }},
		"CloudStack 4.22": {version: "4.22.1.0"},
		"customized in CloudStack 4.22": {version: "4.22.1.0", slots: 16,
			before: func(b *bench) {
				b.UpdateOffering(b.small.ID, func(o *Offering) { o.Customized = true })
				b.UpdateVM(b.node(1).ID, func(vm *VM) { vm.CustomCPUs, vm.CustomMemoryMiB = 2, 2048 })
			}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(c *Config) { c.Version = tc.version })
			if tc.before != nil {
				tc.before(b)
			}
			b.cycle()
			d := b.domain(b.node(1).ID)
			if d.MaxDIMMs != tc.slots || (d.MaxVCPUs > d.VCPUs) != (tc.slots > 0) || (d.MaxMemoryMiB > d.MemoryMiB) != (tc.slots > 0) {
				t.Errorf("domain = %+v, want %d slots", d, tc.slots)
			}
		})
	}
}

// What `prepare` is for: the flag is set, and the domain is older than it. A live scale fails until the VM was stopped and started once.
func TestPreparedByStopAndStart(t *testing.T) {
	b := newBench(t)
	k := b.AddCluster(ClusterSpec{Name: "old", Owner: Owner{Account: "owner"}, OfferingID: b.small.ID, Control: Nodes(1), Workers: []NodeSpec{{Unprepared: true}}})
	vm := k.Nodes[1].VMID
	grow := func() Job { return b.finished(b.start("scaleVirtualMachine", "id", vm, "serviceofferingid", b.big.ID)) }
	if d := b.domain(vm); d.MaxDIMMs != 0 || b.domain(k.Nodes[0].VMID).MaxDIMMs != 16 {
		t.Fatalf("domain = %+v, want no slots in the worker alone", d)
	}
	if j := grow(); j.Status != JobFailed || errorText(j) != "Unhandled exception" {
		t.Fatalf("live scale of an unprepared VM: %+v", j)
	}
	for _, command := range []string{"stopVirtualMachine", "startVirtualMachine"} {
		b.finished(b.start(command, "id", vm))
	}
	if j := grow(); j.Status != JobSucceeded {
		t.Errorf("live scale after a stop and a start: %+v", j)
	}
}

func TestUpdateVirtualMachine(t *testing.T) {
	const cannot = "Dynamic Scaling cannot be enabled for "
	for name, tc := range map[string]struct {
		before func(*bench)
		text   string
	}{
		"all three allow it": {},
		"template": {func(b *bench) {
			b.UpdateTemplate(b.Defaults().TemplateID, func(o *Template) { o.DynamicallyScalable = false })
		},
			cannot + "the Instance since its Template does not have dynamic scaling enabled"},
		"offering": {func(b *bench) { b.UpdateOffering(b.small.ID, func(o *Offering) { o.DynamicScaling = false }) },
			cannot + "the Instance since its service offering does not have dynamic scaling enabled"},
		"zone": {func(b *bench) { b.Set(SettingDynamicScaling, b.Defaults().ZoneID, "false") },
			cannot + "the VM since corresponding global setting is set to false"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			if tc.before != nil {
				tc.before(b)
			}
			vm := b.node(1).ID
			b.UpdateVM(vm, func(vm *VM) { vm.DynamicallyScalable = false })
			had := b.domain(vm)
			_, err := b.do(b.owner, "updateVirtualMachine", "id", vm, "isdynamicallyscalable", "true")
			var refused *APIError
			if errors.As(err, &refused) != (tc.text != "") || refused != nil && (refused.Code != CodeParameter || refused.Text != tc.text) {
				t.Errorf("error = %v, want 431 with %q", err, tc.text)
			}
			if b.node(1).DynamicallyScalable != (tc.text == "") || b.domain(vm) != had || len(b.Jobs()) != 0 {
				t.Errorf("VM = %+v, domain %+v", b.node(1), b.domain(vm))
			}
			b.must(b.owner, "updateVirtualMachine", "id", vm, "isdynamicallyscalable", "false") // always allowed
			if b.node(1).DynamicallyScalable {
				t.Error("the flag stayed")
			}
		})
	}
}

func TestPowerFaults(t *testing.T) {
	const stop, start = "stopVirtualMachine", "startVirtualMachine"
	for name, tc := range map[string]struct {
		command string
		effect  Effect
		code    int
		text    string
		state   VMState // right after the job's end
		later   VMState // once the host has reported
	}{
		"stop fails":               {stop, JobFailure{Text: "no"}, 530, "no", VMRunning, VMRunning},
		"stop fails, and is done":  {stop, JobFailure{At: AfterAgent, Text: "late"}, 530, "late", VMRunning, VMStopped},
		"restart before the stop":  {stop, RestartServer{}, 530, cancelledText, VMStopping, VMRunning},
		"restart after the stop":   {stop, RestartServer{At: AfterAgent}, 530, cancelledText, VMStopping, VMStopped},
		"start fails":              {start, JobFailure{Code: 534, Text: "no"}, 534, "no", VMStopped, VMStopped},
		"start fails, and is done": {start, JobFailure{At: AfterAgent, Text: "late"}, 530, "late", VMStopped, VMRunning},
		"no capacity":              {start, NoCapacity{}, 533, "Unable to create a deployment", VMStopped, VMStopped},
		"restart before the start": {start, RestartServer{}, 530, cancelledText, VMStarting, VMStopped},
		"restart after the start":  {start, RestartServer{At: AfterAgent}, 530, cancelledText, VMStarting, VMRunning},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			if tc.command == start {
				b.finished(b.start(stop, "id", b.node(1).ID))
			}
			b.Script(Fault{Command: tc.command, VM: b.node(1).ID, Effect: tc.effect})
			id := b.start(tc.command, "id", b.node(1).ID)
			b.clock.Advance(3 * time.Second)
			j, _ := b.Job(id)
			if j.ResultCode != tc.code || !contains(errorText(j), tc.text) || b.node(1).State != tc.state {
				t.Errorf("job = %+v, state %s, want code %d, %q and %s", j, b.node(1).State, tc.code, tc.text, tc.state)
			}
			b.clock.Advance(time.Minute)
			if got := b.node(1).State; got != tc.later || b.off() != (tc.later == VMStopped) {
				t.Errorf("state after a minute = %s, off = %t, want %s", got, b.off(), tc.later)
			}
			if len(b.Unstruck()) != 0 {
				t.Errorf("the fault did not strike")
			}
		})
	}
}

func TestHypervisorThatCantSwitch(t *testing.T) {
	b := newBench(t)
	record := b.node(1)
	vm := record.ID
	b.Sim().FailNext(OpStop, vm, errors.New("guest agent says no"))
	if j := b.finished(b.start("stopVirtualMachine", "id", vm)); errorText(j) != "Unable to stop "+record.String() || b.node(1).State != VMRunning {
		t.Errorf("job = %+v, state %s", j, b.node(1).State)
	}
	b.finished(b.start("stopVirtualMachine", "id", vm))
	b.Sim().FailNext(OpStart, vm, errors.New("no such bridge"))
	if j := b.finished(b.start("startVirtualMachine", "id", vm)); j.ResultCode != 533 || contains(errorText(j), "bridge") || b.node(1).State != VMStopped {
		t.Errorf("job = %+v, state %s, want 533 without the hypervisor's words", j, b.node(1).State)
	}
}

func TestStopThatHangs(t *testing.T) {
	b := newBench(t)
	b.Script(Fault{VM: b.node(1).ID, Effect: JobDelay{By: 10 * time.Minute}})
	id := b.start("stopVirtualMachine", "id", b.node(1).ID)
	if j := b.finished(id); j.Status != JobPending || b.node(1).State != VMStopping || b.shown()["jobid"] != id {
		t.Errorf("job after a minute = %+v, state %s", j, b.node(1).State)
	}
	start := b.start("startVirtualMachine", "id", b.node(1).ID) // waits for its turn
	b.clock.Advance(10 * time.Minute)
	if j, _ := b.Job(start); j.Status != JobSucceeded || b.node(1).State != VMRunning {
		t.Errorf("start after the stop = %+v, state %s", j, b.node(1).State)
	}
}

func TestStopIsListedLate(t *testing.T) {
	b := newBench(t)
	b.Script(Fault{VM: b.node(1).ID, Effect: ListedLate{For: 2 * time.Minute}})
	b.finished(b.start("stopVirtualMachine", "id", b.node(1).ID))
	if b.node(1).State != VMStopped || b.shown()["state"] != "Running" {
		t.Errorf("state = %s, listed %v", b.node(1).State, b.shown()["state"])
	}
	b.clock.Advance(2 * time.Minute)
	if b.shown()["state"] != "Stopped" {
		t.Errorf("listed later %v", b.shown()["state"])
	}
}

// A start goes to the host where the VM ran last, and to another one if that is full by now.
func TestStartChoosesAHost(t *testing.T) {
	for name, full := range map[string]bool{"last host": false, "another host": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			other := b.AddHost(Host{Name: "host-2"})
			b.UpdateVM(b.node(1).ID, func(vm *VM) { vm.HostID = other.ID })
			b.finished(b.start("stopVirtualMachine", "id", b.node(1).ID))
			want := other.ID
			if full {
				want, b.host(other.ID).VCPUs = b.Defaults().HostID, 1
			}
			b.finished(b.start("startVirtualMachine", "id", b.node(1).ID))
			if got := b.node(1).HostID; got != want {
				t.Errorf("host = %s, want %s", got, want)
			}
		})
	}
}

// A cluster with a machine that is not Running goes to Alert, and comes back by itself once its Nodes are Ready.
func TestClusterBlipsWhileAMachineIsOff(t *testing.T) {
	ready := true
	b := newBench(t, func(c *Config) { c.NodesReady = func(string) bool { return ready } })
	b.clock.Advance(5 * time.Minute) // the first scan
	state := func() ClusterState { k, _ := b.Cluster(b.cluster.ID); return k.State }
	ready = false
	if _, err := b.StopVirtualMachine(t.Context(), "owner", b.node(1).ID); err != nil {
		t.Fatal(err)
	}
	if b.clock.Advance(time.Minute); state() != ClusterAlert {
		t.Errorf("cluster = %s while a machine is off, want Alert", state())
	}
	if _, err := b.StartVirtualMachine(t.Context(), "owner", b.node(1).ID); err != nil {
		t.Fatal(err)
	}
	if b.clock.Advance(time.Minute); state() != ClusterAlert {
		t.Errorf("cluster = %s before its Nodes are Ready, want Alert", state())
	}
	ready = true
	if b.clock.Advance(30 * time.Second); state() != ClusterRunning {
		t.Errorf("cluster = %s with all Nodes Ready, want Running", state())
	}
}
