package trace

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// collected is what a collector has got.
type collected struct {
	mu       sync.Mutex
	resource map[string]string
	spans    []*otlp.Span
	headers  http.Header
}

// collecting is a collector that speaks OTLP over HTTP.
func collecting(t *testing.T) (*collected, string) {
	t.Helper()
	c := &collected{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var request collector.ExportTraceServiceRequest
		if err = errors.Join(err, proto.Unmarshal(body, &request)); err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.headers = r.Header
		for _, rs := range request.GetResourceSpans() {
			c.resource = texts(rs.GetResource().GetAttributes())
			for _, ss := range rs.GetScopeSpans() {
				c.spans = append(c.spans, ss.GetSpans()...)
			}
		}
	}))
	t.Cleanup(server.Close)
	return c, server.URL
}

func texts(attributes []*common.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range attributes {
		out[a.GetKey()] = a.GetValue().GetStringValue()
	}
	return out
}

// span is a span without ids.
type span struct {
	Name, Parent, Node string
	From, To           int // seconds after noon
	Events             string
	Failed             bool
}

// shown is the spans with their parents' names, in the order in which they began.
func (c *collected) shown() (out []span) {
	names := map[string]string{}
	for _, s := range c.spans {
		names[string(s.GetSpanId())] = s.GetName()
	}
	at := func(ns uint64) int { return int(time.Unix(0, int64(ns)).Sub(noon).Seconds()) }
	for _, s := range c.spans {
		var events []string
		for _, e := range s.GetEvents() {
			events = append(events, e.GetName())
		}
		out = append(out, span{s.GetName(), names[string(s.GetParentSpanId())], texts(s.GetAttributes())["k8s.node.name"], at(s.GetStartTimeUnixNano()), at(s.GetEndTimeUnixNano()),
			strings.Join(events, " "), s.GetStatus().GetCode() == otlp.Status_STATUS_CODE_ERROR})
	}
	return out
}

func event(at int, node string, move rollout.Move, change func(*rollout.Event)) rollout.Event {
	e := rollout.Event{At: noon.Add(time.Duration(at) * time.Second), Move: move, Target: rollout.Target{Name: node, InstanceID: "vm-" + node, Role: rollout.RoleWorker}}
	if change != nil {
		change(&e)
	}
	return e
}

func action(a rollout.Action) func(*rollout.Event) {
	return func(e *rollout.Event) { e.Action, e.Text = a, "what "+string(a)+" does" }
}

func waits(e *rollout.Event) { e.Check = capacity.Check{What: "something"} }

func done(e *rollout.Event) { e.Done = true }

func fault(e *rollout.Event) {
	e.Fault = &rollout.Fault{Layer: capacity.LayerGuest, Node: e.Target.Name, Summary: "blocks are offline", Expected: "16", Observed: "8"}
}

func tracing(t *testing.T, env map[string]string) *Tracer {
	t.Helper()
	for name, value := range env {
		t.Setenv(name, value)
	}
	tracer, err := New(t.Context(), os.LookupEnv, "v1.2.3", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return tracer
}

func TestRollout(t *testing.T) {
	c, url := collecting(t)
	tracer := tracing(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_HEADERS": "authorization=token", "OTEL_RESOURCE_ATTRIBUTES": "site=lab"})
	r := tracer.Rollout(About{ClusterID: "c1", Cluster: "prod", Run: "run-2", Command: "resume", Continues: "run-1", At: noon})
	for _, e := range []rollout.Event{
		event(1, "a", rollout.MoveClaim, action(rollout.ActionClaim)),
		event(2, "a", rollout.MoveResize, action(rollout.ActionResize)),
		event(3, "a", rollout.MoveResize, waits),
		event(9, "a", rollout.MoveVerify, waits),
		event(20, "a", rollout.MoveRelease, action(rollout.ActionRelease)),
		event(21, "a", rollout.MoveRelease, done),
		event(22, "b", "", done), // nothing was to be done there
		event(23, "c", rollout.MoveOnline, action(rollout.ActionOnline)),
		event(30, "c", rollout.MoveOnline, fault),
	} {
		r.Watch(e)
	}
	report := rollout.Report{Nodes: []rollout.NodeReport{{Target: rollout.Target{Name: "a"}, Outcome: rollout.OutcomeDone}}}
	r.End(report, errors.New("c: guest: blocks are offline"), noon.Add(31*time.Second))
	if err := tracer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []span{
		{"claim", "node", "a", 1, 2, "claim", false},
		{"resize", "node", "a", 2, 9, "resize", false},
		{"verify", "node", "a", 9, 20, "", false},
		{"release", "node", "a", 20, 21, "release", false},
		{"node", "rollout", "a", 1, 21, "", false},
		{"node", "rollout", "b", 22, 22, "", false},
		{"online", "node", "c", 23, 30, "online fault", true},
		{"node", "rollout", "c", 23, 30, "fault", true},
		{"rollout", "", "", 0, 31, "node", true},
	}
	if diff := cmp.Diff(want, c.shown()); diff != "" {
		t.Errorf("spans, in the order of their ends (-want +got):\n%s", diff)
	}
	whole := texts(c.spans[len(c.spans)-1].GetAttributes())
	if diff := cmp.Diff(map[string]string{"k8s.cluster.name": "prod", "trueup.cluster.id": "c1", "trueup.run": "run-2", "trueup.command": "resume", "trueup.continues": "run-1"}, whole); diff != "" {
		t.Errorf("attributes of the rollout (-want +got):\n%s", diff)
	}
	if c.resource["service.name"] != "trueup" || c.resource["service.version"] != "v1.2.3" || c.resource["site"] != "lab" || c.headers.Get("Authorization") != "token" {
		t.Errorf("resource %v, headers %v", c.resource, c.headers)
	}
}

// A rollout that is interrupted tells no end of its node: its spans end with it.
func TestInterrupted(t *testing.T) {
	c, url := collecting(t)
	tracer := tracing(t, map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": url + "/v1/traces", "OTEL_SERVICE_NAME": "our-name"})
	r := tracer.Rollout(About{At: noon})
	r.Watch(event(1, "a", rollout.MoveResize, waits))
	r.Watch(event(3, "b", rollout.MoveResize, waits)) // whatever became of the one before: its turn is over
	r.End(rollout.Report{}, rollout.ErrInterrupted, noon.Add(5*time.Second))
	if err := tracer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []span{{"resize", "node", "a", 1, 3, "", false}, {"node", "rollout", "a", 1, 3, "", false},
		{"resize", "node", "b", 3, 5, "", false}, {"node", "rollout", "b", 3, 5, "", false}, {"rollout", "", "", 0, 5, "", true}}
	if diff := cmp.Diff(want, c.shown()); diff != "" || c.resource["service.name"] != "our-name" {
		t.Errorf("resource %v, spans (-want +got):\n%s", c.resource, diff)
	}
}

func TestAsked(t *testing.T) {
	const endpoint = "http://127.0.0.1:4318"
	for name, tt := range map[string]struct {
		env         map[string]string
		want, fails bool
	}{
		"nothing":             {nil, false, false},
		"endpoint":            {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}, true, false},
		"endpoint for traces": {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": endpoint}, true, false},
		"for metrics alone":   {map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": endpoint}, false, false},
		"by name":             {map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true, false},
		"none by name":        {map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}, false, false},
		"disabled":            {map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}, false, false},
		"empty is not set":    {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, false, false},
		"protocol":            {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, true, false},
		"another protocol":    {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, false, true},
		"another exporter":    {map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			env := func(name string) (string, bool) { v, ok := tt.env[name]; return v, ok }
			got, err := asks(env)
			if got != tt.want || (err != nil) != tt.fails {
				t.Errorf("%v, %v; want %v, an error: %v", got, err, tt.want, tt.fails)
			}
		})
	}
}

// Off is the default, and costs nothing.
func TestOff(t *testing.T) {
	tracer, err := New(t.Context(), func(string) (string, bool) { return "", false }, "v1", nil)
	if tracer != nil || err != nil {
		t.Fatalf("%v, %v; want neither tracer nor error", tracer, err)
	}
	e := event(1, "a", rollout.MoveResize, waits)
	if n := testing.AllocsPerRun(100, func() {
		r := tracer.Rollout(About{ClusterID: "c1"})
		r.Watch(e)
		r.End(rollout.Report{}, nil, noon)
	}); n != 0 {
		t.Errorf("%v allocations without a tracer, want none", n)
	}
	if err := tracer.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A collector that is down is logged, without the headers, and holds nothing up.
func TestCollectorIsDown(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	var log bytes.Buffer
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=CANARY")
	tracer, err := New(t.Context(), os.LookupEnv, "v1", slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	r := tracer.Rollout(About{At: noon})
	r.End(rollout.Report{}, nil, noon)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err = tracer.Close(ctx)
	if text := log.String(); !strings.Contains(text, "traces are not sent") && err == nil || strings.Contains(text, "CANARY") {
		t.Errorf("log %q, %v", text, err)
	}
}
