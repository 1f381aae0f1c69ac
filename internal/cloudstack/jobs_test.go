package cloudstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/internal/rollout"
)

func TestInstance(t *testing.T) {
	f := newFixture(t)
	got := must[rollout.InstanceReading](t)(f.client().Instance(context.Background(), f.vm(0)))
	vm, _ := f.VM(f.vm(0))
	want := rollout.InstanceReading{
		Instance: capacity.Instance{
			ID: vm.ID, Name: vm.Name, State: "Running", OfferingID: f.small.ID, OfferingName: "small",
			CPUs: 2, SpeedMHz: 2000, MemoryMiB: 2048, DynamicallyScalable: true,
			TemplateID: f.Defaults().TemplateID, ZoneID: f.Defaults().ZoneID, LoginUser: "core",
		},
		ServerTime: f.clock.Now().UTC(),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestInstanceOfAProject(t *testing.T) {
	f := newFixture(t)
	vm := f.AddVM(standin.VM{Name: "in-project", OfferingID: f.small.ID, Owner: standin.Owner{ProjectID: projectID}})
	got := must[rollout.InstanceReading](t)(f.client().Instance(context.Background(), vm.ID))
	if got.Instance.ID != vm.ID || got.Instance.CPUs != 2 {
		t.Errorf("got %+v", got)
	}
}

func TestInstanceUnknown(t *testing.T) {
	f := newFixture(t)
	foreign := f.AddVM(standin.VM{Name: "foreign", OfferingID: f.small.ID, Owner: standin.Owner{Account: "somebody"}})
	for name, id := range map[string]string{"no such VM": "22222222-2222-4222-8222-222222222222", "not visible": foreign.ID} {
		_, err := f.client().Instance(context.Background(), id)
		if !errors.Is(err, rollout.ErrNotFound) || !strings.Contains(err.Error(), id) {
			t.Errorf("%s: error %v, want ErrNotFound with the id", name, err)
		}
	}
}

func TestInstanceWithoutServerTime(t *testing.T) {
	c := newHandlerClient(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Date"] = nil
		_, _ = w.Write([]byte(`{"listvirtualmachinesresponse":{"count":1,"virtualmachine":[{"id":"vm"}]}}`))
	})
	if _, err := c.Instance(context.Background(), "vm"); err == nil || !strings.Contains(err.Error(), "Date") {
		t.Errorf("error %v, want one about the missing Date", err)
	}
}

func TestResizeAndItsJob(t *testing.T) {
	f := newFixture(t)
	c := f.client()
	ctx := context.Background()
	start := f.clock.Now().UTC()
	jobID := must[string](t)(c.Resize(ctx, f.vm(1), f.big.ID, f.clock.Now().Add(time.Minute)))

	reading := must[rollout.InstanceReading](t)(c.Instance(ctx, f.vm(1)))
	if reading.PendingJobID != jobID || reading.Instance.CPUs != 2 {
		t.Errorf("while the job runs: %+v, want the job %s and the old size", reading, jobID)
	}
	for name, read := range map[string]func() (rollout.Job, error){
		"by id": func() (rollout.Job, error) { return c.Job(ctx, jobID) },
		"found": func() (rollout.Job, error) { return c.FindJob(ctx, f.vm(1)) },
	} {
		if got := must[rollout.Job](t)(read()); got != (rollout.Job{ID: jobID, Status: rollout.JobPending, Created: start}) {
			t.Errorf("%s: %+v, want it pending", name, got)
		}
	}

	f.clock.Advance(time.Minute)
	if got := must[rollout.Job](t)(c.Job(ctx, jobID)); got != (rollout.Job{ID: jobID, Status: rollout.JobSucceeded, Created: start}) {
		t.Errorf("in the end: %+v, want success", got)
	}
	reading = must[rollout.InstanceReading](t)(c.Instance(ctx, f.vm(1)))
	if reading.PendingJobID != "" || reading.Instance.OfferingID != f.big.ID || reading.Instance.MemoryMiB != 4096 {
		t.Errorf("in the end: %+v, want no job and the new size", reading)
	}
}

func TestFailedJobKeepsCloudStacksWords(t *testing.T) {
	f := newFixture(t)
	f.Script(standin.Fault{VM: f.vm(1), Effect: standin.JobFailure{At: standin.BeforeAgent, Text: "50% of the hosts say no"}})
	c := f.client()
	start := f.clock.Now().UTC()
	jobID := must[string](t)(c.Resize(context.Background(), f.vm(1), f.big.ID, start.Add(time.Minute)))
	f.clock.Advance(time.Minute)
	got := must[rollout.Job](t)(c.Job(context.Background(), jobID))
	if got != (rollout.Job{ID: jobID, Status: rollout.JobFailed, Created: start, Code: 530, Text: "50% of the hosts say no"}) {
		t.Errorf("got %+v", got)
	}
}

func TestJobUnknown(t *testing.T) {
	f := newFixture(t)
	_, err := f.client().Job(context.Background(), "22222222-2222-4222-8222-222222222222")
	if !errors.Is(err, rollout.ErrNotFound) {
		t.Errorf("error %v, want ErrNotFound", err)
	}
}

func TestResizeRefused(t *testing.T) {
	f := newFixture(t)
	c := f.client()
	at := f.clock.Now().Add(time.Minute)
	limited := f.AddAccount(standin.Account{Name: "limited", Commands: []string{"listVirtualMachines"}})
	for _, tt := range []struct {
		name    string
		client  *Client
		vm      string
		fault   standin.Effect
		code    int // of the RefusedError, 0 for none
		denied  bool
		unknown bool // whether it had an effect
	}{
		{name: "unknown VM", client: c, vm: "22222222-2222-4222-8222-222222222222", code: 431},
		{name: "internal", client: c, vm: f.vm(1), fault: standin.Refuse{Code: 530, Text: "Unable to schedule async job"}, code: 530},
		{name: "capacity", client: c, vm: f.vm(1), fault: standin.Refuse{Code: 533, Text: "no"}, code: 533},
		{name: "role", client: f.clientOf(limited), vm: f.vm(1), denied: true},
		{name: "resource", client: c, vm: f.vm(1), fault: standin.Refuse{Code: 531, Text: "no"}, denied: true},
		{name: "throttled", client: c, vm: f.vm(1), fault: standin.TooManyRequests{RetryAfter: time.Second}, unknown: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.fault != nil {
				f.Script(standin.Fault{Command: "scaleVirtualMachine", Effect: tt.fault})
			}
			_, err := tt.client.Resize(context.Background(), tt.vm, f.big.ID, at)
			var refused *rollout.RefusedError
			if errors.As(err, &refused) != (tt.code != 0) || refused != nil && (refused.Code != tt.code || refused.Command != "scaleVirtualMachine") {
				t.Errorf("error %#v, want a RefusedError with code %d", err, tt.code)
			}
			if errors.Is(err, rollout.ErrDenied) != tt.denied || errors.Is(err, rollout.ErrUnreachable) != tt.unknown {
				t.Errorf("error %v: want ErrDenied %t, ErrUnreachable %t", err, tt.denied, tt.unknown)
			}
		})
	}
	if jobs := f.Jobs(); len(jobs) != 0 {
		t.Errorf("%d jobs were started", len(jobs))
	}
}

func TestResizeAnswerThatIsNoJob(t *testing.T) {
	for _, body := range []string{`{"scalevirtualmachineresponse":{}}`, `{"scalevirtualmachineresponse":{"jobid":7}}`} {
		c := newHandlerClient(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) })
		if id, err := c.Resize(context.Background(), "vm", "o", time.Now().Add(time.Minute)); !errors.Is(err, rollout.ErrUnreachable) {
			t.Errorf("%s: job %q, error %v, want ErrUnreachable: its outcome is unknown", body, id, err)
		}
	}
}

func TestFindJobAfterALostReply(t *testing.T) {
	for _, tt := range []struct {
		name    string
		arrange func(*fixture)
		advance time.Duration
		status  rollout.JobStatus
		none    bool
	}{
		{name: "pending", advance: 0, status: rollout.JobPending},
		{name: "just done", advance: time.Minute, status: rollout.JobSucceeded},
		{name: "just failed", advance: time.Minute, status: rollout.JobFailed, arrange: func(f *fixture) {
			f.Script(standin.Fault{VM: f.vm(1), Effect: standin.CPUFailure{}})
		}},
		{name: "forgotten", advance: time.Minute, none: true, arrange: func(f *fixture) {
			f.Script(standin.Fault{VM: f.vm(1), Effect: standin.JobLost{}})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			if tt.arrange != nil {
				tt.arrange(f)
			}
			f.Script(standin.Fault{Command: "scaleVirtualMachine", Effect: standin.LoseReply{}})
			start := f.clock.Now()
			if _, err := f.client().Resize(context.Background(), f.vm(1), f.big.ID, start.Add(time.Minute)); !errors.Is(err, rollout.ErrUnreachable) {
				t.Fatalf("error %v, want ErrUnreachable", err)
			}
			f.clock.Advance(tt.advance)
			got, err := f.client().FindJob(context.Background(), f.vm(1))
			if tt.none {
				if !errors.Is(err, rollout.ErrNotFound) {
					t.Fatalf("got %+v, error %v, want ErrNotFound", got, err)
				}
				return
			}
			want := rollout.Job{ID: f.Jobs()[0].ID, Status: tt.status, Created: start.UTC()}
			got.Code, got.Text = 0, ""
			if err != nil || got != want {
				t.Errorf("got %+v, error %v, want %+v", got, err, want)
			}
		})
	}
}

func TestFindJobNone(t *testing.T) {
	f := newFixture(t)
	limited := f.AddAccount(standin.Account{Name: "owner-without-jobs", Admin: true, Commands: []string{"listVirtualMachines"}})
	for name, c := range map[string]*Client{"no job": f.client(), "not permitted": f.clientOf(limited)} {
		if got, err := c.FindJob(context.Background(), f.vm(1)); !errors.Is(err, rollout.ErrNotFound) {
			t.Errorf("%s: got %+v, error %v, want ErrNotFound", name, got, err)
		}
	}
}

// jobServer answers with one VM and the jobs that are given, at a fixed time.
func jobServer(t *testing.T, pending string, jobs ...job) *Client {
	return newHandlerClient(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", "Sat, 31 Jan 2026 12:00:00 GMT")
		var inner any
		switch command := r.URL.Query().Get("command"); command {
		case "listVirtualMachines":
			inner = map[string]any{"count": 1, "virtualmachine": []any{map[string]any{"id": "vm", "jobid": pending, "jobstatus": 0}}}
		case "queryAsyncJobResult":
			for _, j := range jobs {
				if j.ID == r.URL.Query().Get("jobid") {
					inner = wire(j)
				}
			}
		case "listAsyncJobs":
			list := []any{}
			for _, j := range jobs {
				list = append(list, wire(j))
			}
			inner = map[string]any{"count": len(list), "asyncjobs": list}
		default:
			t.Errorf("unexpected command %s", command)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"response": inner})
	})
}

func wire(j job) map[string]any {
	return map[string]any{
		"jobid": j.ID, "cmd": "org.apache.cloudstack.api.command." + j.Command, "jobstatus": j.Status,
		"jobinstanceid": j.InstanceID, "created": j.Created, "jobresult": j.Result, "jobresultcode": j.Code,
	}
}

func TestFindJobChoosesAmongJobs(t *testing.T) {
	const recent, older, old = "2026-01-31T11:59:30+0000", "2026-01-31T11:55:00+0000", "2026-01-31T11:00:00+0000"
	const scale, byAdmin = "user.vm.ScaleVMCmd", "admin.vm.ScaleVMCmdByAdmin"
	pending, done := number(rollout.JobPending), number(rollout.JobSucceeded)
	for _, tt := range []struct {
		name    string
		pending string
		jobs    []job
		want    string // the job's id, empty for none
	}{
		{"the younger one", "", []job{{ID: "a", Command: scale, InstanceID: "vm", Status: done, Created: older}, {ID: "b", Command: scale, InstanceID: "vm", Status: done, Created: recent}}, "b"},
		{"of an administrator", "", []job{{ID: "a", Command: byAdmin, InstanceID: "vm", Status: done, Created: recent}}, "a"},
		{"pending before younger", "", []job{{ID: "a", Command: scale, InstanceID: "vm", Status: pending, Created: old}, {ID: "b", Command: scale, InstanceID: "vm", Status: done, Created: recent}}, "a"},
		{"of another VM", "", []job{{ID: "a", Command: scale, InstanceID: "other", Status: pending, Created: recent}}, ""},
		{"of another kind", "j", []job{{ID: "j", Command: "user.vm.RebootVMCmd", InstanceID: "vm", Status: pending, Created: recent}}, ""},
		{"old, for the caller to judge", "", []job{{ID: "a", Command: scale, InstanceID: "vm", Status: done, Created: old}}, "a"},
		{"without a time", "", []job{{ID: "a", Command: scale, InstanceID: "vm", Status: done}, {ID: "b", Command: scale, InstanceID: "vm", Status: done, Created: old}}, "b"},
		{"named by the VM", "j", []job{{ID: "j", Command: scale, InstanceID: "vm", Status: pending, Created: old}}, "j"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := jobServer(t, tt.pending, tt.jobs...).FindJob(context.Background(), "vm")
			if tt.want == "" {
				if !errors.Is(err, rollout.ErrNotFound) {
					t.Fatalf("got %+v, error %v, want ErrNotFound", got, err)
				}
				return
			}
			if err != nil || got.ID != tt.want {
				t.Errorf("got %+v, error %v, want job %s", got, err, tt.want)
			}
		})
	}
}

func TestJobResults(t *testing.T) {
	for _, tt := range []struct {
		result string
		status number
		want   rollout.Job
	}{
		{`{"errorcode":533,"errortext":"full"}`, 2, rollout.Job{ID: "j", Status: rollout.JobFailed, Code: 533, Text: "full"}},
		{`"plain text"`, 2, rollout.Job{ID: "j", Status: rollout.JobFailed, Code: 530, Text: "plain text"}},
		{`null`, 2, rollout.Job{ID: "j", Status: rollout.JobFailed, Code: 530, Text: "no reason given"}},
		{`null`, 3, rollout.Job{ID: "j", Status: rollout.JobFailed, Code: 530, Text: "cancelled", Cancelled: true}},
		{`{"errorcode":530,"errortext":"job cancelled because of management server restart or shutdown"}`, 2, rollout.Job{ID: "j", Status: rollout.JobFailed, Code: 530,
			Text: "job cancelled because of management server restart or shutdown", Cancelled: true}},
		{`{"virtualmachine":{}}`, 1, rollout.Job{ID: "j", Status: rollout.JobSucceeded}},
	} {
		t.Run(fmt.Sprint(tt.status, tt.result), func(t *testing.T) {
			c := jobServer(t, "", job{ID: "j", Status: tt.status, Code: 530, Result: json.RawMessage(tt.result)})
			if diff := cmp.Diff(tt.want, must[rollout.Job](t)(c.Job(context.Background(), "j"))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	c := jobServer(t, "", job{ID: "j", Status: 9, Result: json.RawMessage("null")})
	if got, err := c.Job(context.Background(), "j"); err == nil {
		t.Errorf("status 9 gave %+v, want an error: it is not known", got)
	}
}
