package standin

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// post sends a signed resize of the first worker without a network.
func (b *bench) post(command string, pairs ...string) (*http.Response, error) {
	b.t.Helper()
	body := strings.NewReader(b.signed(b.owner, command, pairs...).Encode())
	req, err := http.NewRequest(http.MethodPost, "http://cloudstack.example"+Path, body)
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := b.Transport().RoundTrip(req)
	if err == nil {
		b.t.Cleanup(func() { resp.Body.Close() })
	}
	return resp, err
}

func (b *bench) resizeWorker() string {
	b.t.Helper()
	return b.start("scaleVirtualMachine", "id", b.node(1).ID, "serviceofferingid", b.big.ID)
}

func TestLostRequestAndLostReply(t *testing.T) {
	for name, tc := range map[string]struct {
		effect Effect
		jobs   int
	}{
		"request": {LoseRequest{}, 0},
		"reply":   {LoseReply{}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.Script(Fault{Command: "scaleVirtualMachine", Effect: tc.effect})
			_, err := b.post("scaleVirtualMachine", "id", b.node(1).ID, "serviceofferingid", b.big.ID)
			if !errors.Is(err, ErrConnectionCut) || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("error = %v, want a cut connection", err)
			}
			if got := len(b.Jobs()); got != tc.jobs {
				t.Errorf("%d jobs were started, want %d", got, tc.jobs)
			}
			if r := b.Requests(); len(r) != 1 || r[0].Status != 0 || !r[0].Mutating {
				t.Errorf("requests = %+v, want one without a status", r)
			}
		})
	}
}

func TestLostReplyOverHTTP(t *testing.T) {
	b := newBench(t)
	b.Script(Fault{Command: "scaleVirtualMachine", Effect: LoseReply{}})
	resp, err := http.PostForm(b.serve(), b.signed(b.owner, "scaleVirtualMachine", "id", b.node(1).ID, "serviceofferingid", b.big.ID))
	if err == nil {
		resp.Body.Close()
		t.Fatalf("answer = %s, want none", resp.Status)
	}
	if len(b.Jobs()) != 1 {
		t.Errorf("jobs = %+v, want one", b.Jobs())
	}
}

func TestFaultsOnAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		effect     Effect
		status     int
		kind, wait string
	}{
		"proxy":           {ProxyError{}, 502, "text/html", ""},
		"other proxy":     {ProxyError{Status: 503}, 503, "text/html", ""},
		"too many":        {TooManyRequests{RetryAfter: 2500 * time.Millisecond}, 429, "application/json", "3"},
		"refused":         {Refuse{Code: CodeInsufficientCapacity, Text: "full"}, 533, "application/json", ""},
		"internal with %": {Refuse{Code: CodeInternal, Text: "100% wrong"}, 530, "application/json", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.Script(Fault{Command: "listVirtualMachines", Effect: tc.effect})
			resp, _, text := b.raw("GET", b.signed(b.owner, "listVirtualMachines"))
			if resp.StatusCode != tc.status || !strings.HasPrefix(resp.Header.Get("Content-Type"), tc.kind) || resp.Header.Get("Retry-After") != tc.wait {
				t.Errorf("answer = %d %v: %s", resp.StatusCode, resp.Header, text)
			}
			b.must(b.owner, "listVirtualMachines") // once only
		})
	}
}

func TestFaultMatching(t *testing.T) {
	b := newBench(t)
	second := b.node(2).ID
	b.Script(
		Fault{Command: "listVirtualMachines", VM: second, Skip: 1, Times: 2, Effect: Refuse{Code: 530}},
		Fault{Account: "stranger", Times: Always, Effect: Refuse{Code: 534}},
	)
	ask := func(a Account, id string) int {
		var refused *APIError
		if _, err := b.do(a, "listVirtualMachines", "id", id); errors.As(err, &refused) {
			return refused.Code
		}
		return 200
	}
	for i, want := range []int{200, 530, 530, 200} {
		if got := ask(b.owner, second); got != want {
			t.Errorf("call %d: code = %d, want %d", i+1, got, want)
		}
	}
	if got := ask(b.owner, b.node(1).ID); got != 200 {
		t.Errorf("another VM: code = %d", got)
	}
	for range 3 {
		if got := ask(b.stranger, second); got != 534 {
			t.Errorf("the stranger: code = %d, want 534 always", got)
		}
	}
	if left := b.Unstruck(); len(left) != 0 {
		t.Errorf("faults left: %+v", left)
	}
	b.Script(Fault{Command: "listZones", Effect: LoseReply{}})
	if left := b.Unstruck(); len(left) != 1 {
		t.Errorf("faults left = %+v, want the new one", left)
	}
}

func TestJobFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		effect Effect
		status JobStatus
		code   int
		text   string
		memory int
		cpus   int
	}{
		"fails before the agent": {JobFailure{Text: "no"}, JobFailed, 530, "no", 2048, 2},
		"fails after memory":     {JobFailure{At: AfterMemory, Code: 534, Text: "agent lost"}, JobFailed, 534, "agent lost", 4096, 2},
		"fails after everything": {JobFailure{At: AfterCPUs, Text: "database"}, JobFailed, 530, "database", 4096, 4},
		"no capacity":            {NoCapacity{}, JobFailed, 530, "due to insufficient resources", 2048, 2},
		"memory refused":         {MemoryFailure{}, JobFailed, 530, "Unhandled exception", 2048, 2},
		"restart before agent":   {RestartServer{}, JobFailed, 530, cancelledText, 2048, 2},
		"restart after all":      {RestartServer{At: AfterCPUs}, JobFailed, 530, cancelledText, 4096, 4},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.Script(Fault{Effect: tc.effect})
			j := b.finished(b.resizeWorker())
			if j.Status != tc.status || j.ResultCode != tc.code || !strings.Contains(errorText(j), tc.text) {
				t.Errorf("job = %+v", j)
			}
			if d := b.domain(b.node(1).ID); d.MemoryMiB != tc.memory || d.VCPUs != tc.cpus {
				t.Errorf("domain = %+v, want %d MiB and %d CPUs", d, tc.memory, tc.cpus)
			}
			if b.node(1).OfferingID != b.small.ID {
				t.Errorf("the record has the new offering after a failure")
			}
		})
	}
}

func TestSlowJob(t *testing.T) {
	b := newBench(t)
	b.Script(Fault{VM: b.node(1).ID, Effect: JobDelay{By: 10 * time.Minute}})
	id := b.resizeWorker()
	if j := b.finished(id); j.Status != JobPending {
		t.Errorf("job after a minute = %+v, want pending", j)
	}
	b.clock.Advance(10 * time.Minute)
	if j, _ := b.Job(id); j.Status != JobSucceeded {
		t.Errorf("job after 11 minutes = %+v", j)
	}
}

func TestJobThatDoesNotTell(t *testing.T) {
	b := newBench(t)
	b.Script(Fault{Effect: JobSilent{}})
	id := b.resizeWorker()
	b.clock.Advance(24 * time.Hour)
	if got := b.must(b.owner, "queryAsyncJobResult", "jobid", id); got["jobstatus"] != 0.0 {
		t.Errorf("job = %v, want it pending for ever", got)
	}
	if b.node(1).OfferingID != b.big.ID {
		t.Errorf("the work was not done")
	}
}

func TestLostJob(t *testing.T) {
	b := newBench(t)
	b.Script(Fault{Effect: JobLost{}})
	id := b.resizeWorker()
	b.must(b.owner, "queryAsyncJobResult", "jobid", id) // known while it runs
	b.clock.Advance(time.Minute)
	_, err := b.do(b.owner, "queryAsyncJobResult", "jobid", id)
	wantCode(t, err, CodeParameter)
	if got := b.must(b.owner, "listAsyncJobs"); len(got) != 0 {
		t.Errorf("jobs = %v, want none", got)
	}
	if b.node(1).OfferingID != b.big.ID {
		t.Errorf("the work was not done")
	}
}

func TestMoveHost(t *testing.T) {
	b := newBench(t)
	other := b.AddHost(Host{Name: "host-2"})
	b.Script(Fault{VM: b.node(1).ID, Effect: MoveHost{HostID: other.ID}})
	b.finished(b.resizeWorker())
	shown := b.must(b.admin, "listVirtualMachines", "id", b.node(1).ID)["virtualmachine"].([]any)[0].(map[string]any)
	if shown["hostid"] != other.ID || shown["hostname"] != "host-2" || shown["serviceofferingid"] != b.big.ID {
		t.Errorf("VM = %v", shown)
	}
}

func TestListedLate(t *testing.T) {
	b := newBench(t)
	b.Script(Fault{VM: b.node(1).ID, Effect: ListedLate{For: 2 * time.Minute}})
	if j := b.finished(b.resizeWorker()); j.Status != JobSucceeded {
		t.Fatalf("job = %+v", j)
	}
	shown := func() any {
		return b.must(b.owner, "listVirtualMachines", "id", b.node(1).ID)["virtualmachine"].([]any)[0].(map[string]any)["memory"]
	}
	if got := shown(); got != 2048.0 {
		t.Errorf("memory right after the job = %v, want the old", got)
	}
	b.clock.Advance(2 * time.Minute)
	if got := shown(); got != 4096.0 {
		t.Errorf("memory later = %v, want the new", got)
	}
}

func TestRestartAndDowntime(t *testing.T) {
	b := newBench(t)
	id := b.resizeWorker()
	b.Restart(10 * time.Second)
	if _, err := b.do(b.owner, "listZones"); !errors.Is(err, ErrConnectionCut) {
		t.Errorf("call during the downtime = %v, want a cut connection", err)
	}
	if j := b.finished(id); j.Status != JobFailed || errorText(j) != cancelledText {
		t.Errorf("job = %+v", j)
	}
	if d := b.domain(b.node(1).ID); d.MemoryMiB != 2048 || b.node(1).OfferingID != b.small.ID {
		t.Errorf("a cancelled job went on: %+v", d)
	}
	if j := b.finished(b.resizeWorker()); j.Status != JobSucceeded {
		t.Errorf("the VM can't be resized after the restart: %+v", j)
	}
}

func TestTransportRefusesDoneContext(t *testing.T) {
	b := newBench(t)
	ctx, cancel := contextDone(t)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://cloudstack.example"+Path+"?"+url.Values{}.Encode(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := b.Transport().RoundTrip(req); err == nil {
		resp.Body.Close()
		t.Errorf("answer = %s, want the context's error", resp.Status)
	}
	if len(b.Requests()) != 0 {
		t.Errorf("the model saw the call")
	}
}
