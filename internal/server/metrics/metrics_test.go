package metrics

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// clock is a clock that a test sets.
type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

// busy is a server of two clusters with something in every series.
func busy(c *clock) *Metrics {
	m := New(Build{Version: "v1.2.3", Revision: "abc"}, c.now)
	m.Config(true)
	m.Cycle(3 * time.Second)
	m.Notice("ops", true)
	m.Notice("ops", false)
	m.StoreError()
	_, _ = m.Transport("zone-a", CloudStack, answers(200)).RoundTrip(httptest.NewRequest("GET", "/", nil))
	prod := m.Cluster("id-1", "prod")
	prod.Scanned(Scan{Took: 2 * time.Second, Readable: true, Nodes: 5, Drift: map[capacity.View]int{capacity.ViewGuest: 2, capacity.ViewNode: 1},
		Claimed: 1, Abandoned: 1, Waiting: true})
	prod.Ended(rollout.Report{Effects: []rollout.Effect{{Action: rollout.ActionRestart}, {Action: rollout.ActionClaim}, {Action: rollout.ActionRestart, Unanswered: true}}}, nil)
	prod.Watch(rollout.Event{At: noon.Add(-90 * time.Second), Move: rollout.MoveResize, Target: rollout.Target{InstanceID: "vm-1"}})
	m.Cluster("id-2", "test").Scanned(Scan{Took: time.Second})
	return m
}

// shown is every series with its value, as Prometheus gets it, of the families of ours.
func shown(t *testing.T, m *Metrics) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for _, f := range families(t, m) {
		for _, s := range f.GetMetric() {
			var labels []string
			for _, l := range s.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			out[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = s.GetGauge().GetValue() + s.GetCounter().GetValue() + s.GetHistogram().GetSampleSum()
		}
	}
	return out
}

func families(t *testing.T, m *Metrics) (ours []*dto.MetricFamily) {
	t.Helper()
	all, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if strings.HasPrefix(f.GetName(), "trueup_") {
			ours = append(ours, f)
		}
	}
	return ours
}

// of picks the series of one cluster, without its labels.
func of(all map[string]float64, id, name string) map[string]float64 {
	out := map[string]float64{}
	for series, value := range all {
		if rest, is := strings.CutPrefix(series, "trueup_cluster_"); is {
			if before, after, has := strings.Cut(rest, "cluster="+name+",cluster_id="+id); has {
				out[before+strings.TrimPrefix(after, ",")] = value
			}
		}
	}
	return out
}

func TestCluster(t *testing.T) {
	all := shown(t, busy(&clock{noon}))
	want := map[string]float64{
		"nodes{}": 5, "claimed_nodes{}": 1, "abandoned_cordons{}": 1, "readable{}": 1, "waiting{}": 1, "scan_duration_seconds{}": 2,
		"last_scan_timestamp_seconds{}": float64(noon.Unix()), "drifted_nodes{view=record}": 0, "drifted_nodes{view=instance}": 0,
		"drifted_nodes{view=guest}": 2, "drifted_nodes{view=node}": 1, "move_seconds{move=resize}": 90, "kubelet_restarts_total{}": 2,
		"rollouts_total{result=done}": 1, "rollouts_total{result=failed}": 0, "rollouts_total{result=refused}": 0, "rollouts_total{result=interrupted}": 0,
	}
	if diff := cmp.Diff(want, of(all, "id-1", "prod")); diff != "" {
		t.Errorf("prod (-want +got):\n%s", diff)
	}
	// Of a cluster that could never be read nothing is claimed but that.
	want = map[string]float64{"readable{}": 0, "scan_duration_seconds{}": 1, "kubelet_restarts_total{}": 0,
		"rollouts_total{result=done}": 0, "rollouts_total{result=failed}": 0, "rollouts_total{result=refused}": 0, "rollouts_total{result=interrupted}": 0}
	if diff := cmp.Diff(want, of(all, "id-2", "test")); diff != "" {
		t.Errorf("test (-want +got):\n%s", diff)
	}
}

func TestUnreadableKeepsWhatWasSeen(t *testing.T) {
	c := &clock{noon}
	m := busy(c)
	c.t = noon.Add(time.Hour)
	m.Cluster("id-1", "prod").Scanned(Scan{Took: 30 * time.Second})
	got := of(shown(t, m), "id-1", "prod")
	if got["readable{}"] != 0 || got["nodes{}"] != 5 || got["drifted_nodes{view=guest}"] != 2 || got["last_scan_timestamp_seconds{}"] != float64(noon.Unix()) || got["scan_duration_seconds{}"] != 30 {
		t.Errorf("got %v", got)
	}
}

func TestMove(t *testing.T) {
	event := func(at int, vm string, move rollout.Move, change func(*rollout.Event)) rollout.Event {
		e := rollout.Event{At: noon.Add(time.Duration(at) * time.Second), Move: move, Target: rollout.Target{InstanceID: vm}}
		if change != nil {
			change(&e)
		}
		return e
	}
	done := func(e *rollout.Event) { e.Done = true }
	for name, tt := range map[string]struct {
		events []rollout.Event
		want   map[string]float64
	}{
		"none":                          {nil, map[string]float64{}},
		"one":                           {[]rollout.Event{event(0, "a", rollout.MoveClaim, nil)}, map[string]float64{"move_seconds{move=claim}": 100}},
		"waits do not begin it again":   {[]rollout.Event{event(0, "a", rollout.MoveResize, nil), event(60, "a", rollout.MoveResize, nil)}, map[string]float64{"move_seconds{move=resize}": 100}},
		"the next move":                 {[]rollout.Event{event(0, "a", rollout.MoveResize, nil), event(60, "a", rollout.MoveOnline, nil)}, map[string]float64{"move_seconds{move=online}": 40}},
		"the same move of another node": {[]rollout.Event{event(0, "a", rollout.MoveResize, nil), event(60, "b", rollout.MoveResize, nil)}, map[string]float64{"move_seconds{move=resize}": 40}},
		"the node is done":              {[]rollout.Event{event(0, "a", rollout.MoveRelease, nil), event(60, "a", rollout.MoveRelease, done)}, map[string]float64{}},
		"the node failed": {[]rollout.Event{event(0, "a", rollout.MoveOnline, nil), event(60, "a", rollout.MoveOnline, func(e *rollout.Event) { e.Fault = &rollout.Fault{} })},
			map[string]float64{}},
		"our clock is behind": {[]rollout.Event{event(500, "a", rollout.MoveClaim, nil)}, map[string]float64{"move_seconds{move=claim}": 0}},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(Build{}, (&clock{noon.Add(100 * time.Second)}).now)
			for _, e := range tt.events {
				m.Cluster("id-1", "prod").Watch(e)
			}
			got := of(shown(t, m), "id-1", "prod")
			maps.DeleteFunc(got, func(series string, _ float64) bool { return !strings.HasPrefix(series, "move_") })
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRolloutThatEndedHasNoMove(t *testing.T) {
	m := busy(&clock{noon})
	m.Cluster("id-1", "prod").Ended(rollout.Report{}, rollout.ErrInterrupted)
	if _, there := of(shown(t, m), "id-1", "prod")["move_seconds{move=resize}"]; there {
		t.Error("the move of a rollout that was interrupted goes on for ever")
	}
}

func TestResults(t *testing.T) {
	touched := rollout.Report{Effects: []rollout.Effect{{Action: rollout.ActionClaim}}}
	fault := &rollout.Fault{Layer: capacity.LayerGuest}
	for name, tt := range map[string]struct {
		report rollout.Report
		err    error
		want   Result
	}{
		"done":               {touched, nil, Done},
		"nothing to do":      {rollout.Report{}, nil, Done},
		"fault":              {touched, fault, Failed},
		"fault before any":   {rollout.Report{}, fault, Refused},
		"held":               {rollout.Report{}, &rollout.Fault{Cause: rollout.ErrHeld}, Refused},
		"interrupted":        {touched, fmt.Errorf("x: %w", rollout.ErrInterrupted), Interrupted},
		"killed by a signal": {touched, context.Canceled, Interrupted},
	} {
		if got := ResultOf(tt.report, tt.err); got != tt.want || !slices.Contains(results(), got) {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

type answers int

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	if a == 0 {
		return nil, errors.New("nobody there")
	}
	return &http.Response{StatusCode: int(a), Body: http.NoBody}, nil
}

func TestRequests(t *testing.T) {
	for name, tt := range map[string]struct {
		api    API
		answer answers
		errors float64
	}{
		"answered": {CloudStack, 200, 0}, "nobody there": {CloudStack, 0, 1}, "CloudStack says no": {CloudStack, 431, 1}, "CloudStack fails": {CloudStack, 530, 1},
		"CloudStack is not there": {CloudStack, 404, 1}, "no such Node": {Kubernetes, 404, 0}, "a lost race": {Kubernetes, 409, 0}, "a watch too old": {Kubernetes, 410, 0},
		"Kubernetes denies": {Kubernetes, 403, 1}, "Kubernetes fails": {Kubernetes, 500, 1}, "too many": {Kubernetes, 429, 1},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(Build{}, time.Now)
			for range 3 {
				_, _ = m.Transport("zone-a", tt.api, tt.answer).RoundTrip(httptest.NewRequest("GET", "/", nil))
			}
			labels := "{api=" + string(tt.api) + ",endpoint=zone-a}"
			got := shown(t, m)
			errs, there := got["trueup_api_request_errors_total"+labels]
			if got["trueup_api_requests_total"+labels] != 3 || errs != 3*tt.errors || !there {
				t.Errorf("%v, want 3 requests and %v errors", got, 3*tt.errors)
			}
		})
	}
}

// What leaves the fleet leaves no series behind.
func TestForget(t *testing.T) {
	m := busy(&clock{noon})
	for _, id := range []string{"id-1", "id-2"} {
		m.Forget(id)
	}
	m.ForgetEndpoint("zone-a")
	m.ForgetChannel("ops")
	for series := range shown(t, m) {
		for _, gone := range []string{"cluster", "endpoint", "channel"} {
			if strings.Contains(series, gone+"=") {
				t.Errorf("%s is left", series)
			}
		}
	}
}

// Labels are bounded: whatever a cluster does, no label but these, and no node's name.
func TestLabels(t *testing.T) {
	may := []string{"cluster_id", "cluster", "view", "move", "result", "endpoint", "api", "channel", "version", "revision", "goversion"}
	m := busy(&clock{noon})
	m.Cluster("id-1", "prod").Watch(rollout.Event{Move: rollout.MoveClaim, Target: rollout.Target{InstanceID: "vm", Name: "a-node"}})
	for series := range shown(t, m) {
		_, labels, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
		for label := range strings.SplitSeq(labels, ",") {
			if name, _, _ := strings.Cut(label, "="); name != "" && !slices.Contains(may, name) || strings.Contains(label, "a-node") {
				t.Errorf("%s has the label %s", series, label)
			}
		}
	}
}

// A cluster may be called anything, and be renamed.
func TestNames(t *testing.T) {
	m := New(Build{}, time.Now)
	m.Cluster("id-1", "bro\xffken\n\"name\"")
	if got := of(shown(t, m), "id-1", "bro�ken\n\"name\""); len(got) == 0 {
		t.Errorf("series %v", shown(t, m))
	}
	m.Cluster("id-1", "renamed")
	if got := of(shown(t, m), "id-1", "renamed"); len(got) == 0 || len(got) != len(shown(t, m))-len(families(t, New(Build{}, time.Now))) {
		t.Errorf("series %v", shown(t, m))
	}
}

func TestConventions(t *testing.T) {
	problems, err := testutil.GatherAndLint(busy(&clock{noon}).registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestConfig(t *testing.T) {
	c := &clock{noon}
	m := New(Build{}, c.now)
	m.Config(true)
	c.t = noon.Add(time.Hour)
	m.Config(false)
	got := shown(t, m)
	if got["trueup_config_last_reload_successful{}"] != 0 || got["trueup_config_last_reload_success_timestamp_seconds{}"] != float64(noon.Unix()) {
		t.Errorf("got %v", got)
	}
}

func TestNilDoesNothing(t *testing.T) {
	var m *Metrics
	m.Cycle(time.Second)
	m.Config(true)
	m.Notice("ops", true)
	m.StoreError()
	m.Forget("x")
	m.ForgetEndpoint("x")
	m.ForgetChannel("x")
	c := m.Cluster("x", "y")
	c.Scanned(Scan{})
	c.Watch(rollout.Event{})
	c.Ended(rollout.Report{}, nil)
	if next := answers(200); m.Transport("x", CloudStack, next) != http.RoundTripper(next) {
		t.Error("a transport that counts nowhere")
	}
}
