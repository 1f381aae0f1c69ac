package cloudstack

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// power are both calls, by their command.
func power(c *Client) map[string]func(context.Context, string, time.Time) (string, error) {
	return map[string]func(context.Context, string, time.Time) (string, error){"stopVirtualMachine": c.Stop, "startVirtualMachine": c.Start}
}

func TestStopAndStart(t *testing.T) {
	f := newFixture(t)
	c, ctx := f.client(), context.Background()
	for _, tt := range []struct {
		call            func(context.Context, string, time.Time) (string, error)
		during, finally string
		before          string
	}{
		{c.Stop, "Stopping", "Stopped", "Running"},
		{c.Start, "Starting", "Running", "Stopped"},
	} {
		start := f.clock.Now().UTC()
		id := must[string](t)(tt.call(ctx, f.vm(1), start.Add(time.Minute)))
		for _, want := range []string{tt.before, tt.during} {
			reading := must[rollout.InstanceReading](t)(c.Instance(ctx, f.vm(1)))
			if reading.PendingJobID != id || reading.Instance.State != want {
				t.Errorf("while the job runs: %+v, want job %s and %s", reading, id, want)
			}
			f.clock.Advance(time.Second)
		}
		f.clock.Advance(time.Minute)
		if got := must[rollout.Job](t)(c.Job(ctx, id)); got != (rollout.Job{ID: id, Status: rollout.JobSucceeded, Created: start}) {
			t.Errorf("job in the end: %+v", got)
		}
		reading := must[rollout.InstanceReading](t)(c.Instance(ctx, f.vm(1)))
		if reading.PendingJobID != "" || reading.Instance.State != tt.finally {
			t.Errorf("in the end: %+v, want no job and %s", reading, tt.finally)
		}
	}
	for _, r := range f.Requests() {
		if r.Params["forced"] != "" {
			t.Errorf("asked by force: %+v", r)
		}
	}
}

// The size of a machine that is off may become smaller, and its next start has it.
func TestShrinkBetweenStopAndStart(t *testing.T) {
	f := newFixture(t)
	f.UpdateVM(f.vm(1), func(vm *standin.VM) { vm.OfferingID = f.big.ID })
	c, ctx := f.client(), context.Background()
	finish := func(id string, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		f.clock.Advance(time.Minute)
		if j := must[rollout.Job](t)(c.Job(ctx, id)); j.Status != rollout.JobSucceeded {
			t.Fatalf("job %+v", j)
		}
	}
	finish(c.Stop(ctx, f.vm(1), f.clock.Now().Add(time.Minute)))
	finish(c.Resize(ctx, f.vm(1), f.small.ID, f.clock.Now().Add(time.Minute)))
	finish(c.Start(ctx, f.vm(1), f.clock.Now().Add(time.Minute)))
	reading := must[rollout.InstanceReading](t)(c.Instance(ctx, f.vm(1)))
	if i := reading.Instance; i.OfferingID != f.small.ID || i.MemoryMiB != 2048 || !i.Running() {
		t.Errorf("got %+v", i)
	}
}

func TestPowerRefused(t *testing.T) {
	for _, command := range []string{"stopVirtualMachine", "startVirtualMachine"} {
		for _, tt := range []struct {
			name   string
			vm     string
			fault  standin.Effect
			role   []string
			code   int
			denied bool
		}{
			{name: "unknown VM", vm: "22222222-2222-4222-8222-222222222222", code: 431},
			{name: "internal", fault: standin.Refuse{Code: 530, Text: "no"}, code: 530},
			{name: "role", role: []string{"listVirtualMachines", "scaleVirtualMachine"}, denied: true},
			{name: "resource", fault: standin.Refuse{Code: 531, Text: "no"}, denied: true},
		} {
			t.Run(command+" "+tt.name, func(t *testing.T) {
				f := newFixture(t)
				account := f.owner
				if tt.role != nil {
					account = f.AddAccount(standin.Account{Name: "limited", Commands: tt.role})
				}
				if tt.fault != nil {
					f.Script(standin.Fault{Command: command, Effect: tt.fault})
				}
				if tt.vm == "" {
					tt.vm = f.vm(1)
				}
				_, err := power(f.clientOf(account))[command](context.Background(), tt.vm, f.clock.Now().Add(time.Minute))
				var refused *rollout.RefusedError
				if errors.As(err, &refused) != (tt.code != 0) || refused != nil && (refused.Code != tt.code || refused.Command != command) {
					t.Errorf("error %#v, want a RefusedError with code %d", err, tt.code)
				}
				if errors.Is(err, rollout.ErrDenied) != tt.denied || len(f.Jobs()) != 0 {
					t.Errorf("error %v, want ErrDenied %t; jobs %+v", err, tt.denied, f.Jobs())
				}
			})
		}
	}
}

// CloudStack's own words and code come with a job that fails.
func TestFailedPowerJobs(t *testing.T) {
	f := newFixture(t)
	c, ctx := f.client(), context.Background()
	job := func(call func(context.Context, string, time.Time) (string, error)) rollout.Job {
		t.Helper()
		id := must[string](t)(call(ctx, f.vm(1), f.clock.Now().Add(time.Minute)))
		f.clock.Advance(time.Minute)
		return must[rollout.Job](t)(c.Job(ctx, id))
	}
	if j := job(c.Start); j.Status != rollout.JobFailed || j.Code != 530 || !strings.Contains(j.Text, "already running") {
		t.Errorf("start of a running VM: %+v", j)
	}
	if j := job(c.Stop); j.Status != rollout.JobSucceeded {
		t.Fatalf("stop: %+v", j)
	}
	if j := job(c.Stop); j.Status != rollout.JobSucceeded {
		t.Errorf("stop of a stopped VM: %+v", j)
	}
	f.Script(standin.Fault{Command: "startVirtualMachine", Effect: standin.NoCapacity{}})
	if j := job(c.Start); j.Status != rollout.JobFailed || j.Code != 533 {
		t.Errorf("start without room: %+v", j)
	}
	f.Script(standin.Fault{Command: "startVirtualMachine", Effect: standin.RestartServer{At: standin.AfterAgent}})
	if j := job(c.Start); j.Status != rollout.JobFailed || !j.Cancelled {
		t.Errorf("start while the management server went away: %+v", j)
	}
}

// After a lost reply the VM itself tells that a job is pending on it, and in the end its state; a stop is never taken for a resize.
func TestLostReplyOfAStop(t *testing.T) {
	f := newFixture(t)
	f.Script(standin.Fault{Command: "stopVirtualMachine", Effect: standin.LoseReply{}})
	c, ctx := f.client(), context.Background()
	if _, err := c.Stop(ctx, f.vm(1), f.clock.Now().Add(time.Minute)); !errors.Is(err, rollout.ErrUnreachable) {
		t.Fatalf("error %v, want ErrUnreachable", err)
	}
	if r := must[rollout.InstanceReading](t)(c.Instance(ctx, f.vm(1))); r.PendingJobID != f.Jobs()[0].ID {
		t.Errorf("got %+v, want the job %s", r, f.Jobs()[0].ID)
	}
	if j, err := c.FindJob(ctx, f.vm(1)); !errors.Is(err, rollout.ErrNotFound) {
		t.Errorf("got %+v, %v, want no resize job", j, err)
	}
	f.clock.Advance(time.Minute)
	if r := must[rollout.InstanceReading](t)(c.Instance(ctx, f.vm(1))); r.PendingJobID != "" || r.Instance.State != "Stopped" {
		t.Errorf("got %+v, want it Stopped", r)
	}
}

func TestSetDynamicallyScalable(t *testing.T) {
	f := newFixture(t)
	c, ctx := f.client(), context.Background()
	f.UpdateVM(f.vm(1), func(vm *standin.VM) { vm.DynamicallyScalable = false })
	for range 2 { // it may be repeated
		if err := c.SetDynamicallyScalable(ctx, f.vm(1)); err != nil {
			t.Fatal(err)
		}
	}
	if r := must[rollout.InstanceReading](t)(c.Instance(ctx, f.vm(1))); !r.Instance.DynamicallyScalable {
		t.Errorf("got %+v", r)
	}
	f.UpdateTemplate(f.Defaults().TemplateID, func(o *standin.Template) { o.DynamicallyScalable = false })
	err := c.SetDynamicallyScalable(ctx, f.vm(2))
	var refused *rollout.RefusedError
	if !errors.As(err, &refused) || refused.Code != 431 || refused.Command != "updateVirtualMachine" || !strings.Contains(refused.Text, "Template") {
		t.Errorf("error %v, want CloudStack's refusal", err)
	}
	limited := f.clientOf(f.AddAccount(standin.Account{Name: "limited", Commands: []string{"listVirtualMachines"}}))
	if err := limited.SetDynamicallyScalable(ctx, f.vm(1)); !errors.Is(err, rollout.ErrDenied) {
		t.Errorf("error %v, want ErrDenied", err)
	}
}

func TestNoJobWithoutAnExpiry(t *testing.T) {
	f := newFixture(t)
	for command, call := range power(f.client()) {
		if _, err := call(context.Background(), f.vm(1), time.Time{}); err == nil || f.count(command) != 0 {
			t.Errorf("%s: error %v after %d requests", command, err, f.count(command))
		}
	}
}
