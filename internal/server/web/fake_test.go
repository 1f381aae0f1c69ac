package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/history"
	"github.com/cks-trueup/trueup/internal/preflight"
	"github.com/cks-trueup/trueup/internal/rollout"
	"github.com/cks-trueup/trueup/internal/server/access"
	"github.com/cks-trueup/trueup/internal/survey"
)

// fake stands in for the engine: it knows two clusters, and does what is asked at once.
type fake struct {
	mu      sync.Mutex
	cluster map[string]*Detail
	plans   map[string]Plan
	acts    []string
	records []Record
	entries []history.Entry
	err     error // what each act answers
	noAudit bool
	hub     *Hub
	now     func() time.Time
}

const (
	prod, blind = "c0000000-0000-4000-8000-000000000001", "c0000000-0000-4000-8000-000000000002"
	run1        = "7f0c1a52-9a3e-4b8c-8a51-3f2f0a3b9c10"
)

func (f *fake) Clusters(context.Context) ([]Cluster, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return []Cluster{f.cluster[prod].Cluster, f.cluster[blind].Cluster}, nil
}

func (f *fake) Cluster(_ context.Context, id string) (Detail, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if d := f.cluster[id]; d != nil {
		return *d, nil
	}
	return Detail{}, fmt.Errorf("%w: no cluster has this id", ErrNotFound)
}

func (f *fake) did(act, id, actor string) error {
	f.acts = append(f.acts, act+" "+id+" by "+actor)
	return f.err
}

func (f *fake) Plan(_ context.Context, id string, r Request, actor string) (Plan, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.did("plan", id, actor); err != nil {
		return Plan{}, err
	}
	big := capacity.Offering{ID: "big", Name: "big", CPUs: 4, MemoryMiB: 8192}
	p := Plan{ID: fmt.Sprintf("plan-%d", len(f.plans)+1), Request: r, Made: f.now(), Expires: f.now().Add(time.Hour), Actor: actor, Plan: rollout.Plan{ClusterID: id, ClusterName: "prod",
		Goals: map[rollout.Role]rollout.Goal{rollout.RoleWorker: {Offering: big}}}}
	for i := range 3 {
		name := fmt.Sprintf("prod-node-%d", i+1)
		p.Nodes = append(p.Nodes, rollout.NodePlan{Target: rollout.Target{ClusterID: id, ClusterName: "prod", Role: rollout.RoleWorker, Name: name, InstanceID: name}, Present: "2 CPU / 4096 MiB",
			Moves: []rollout.PlannedMove{{Move: rollout.MoveClaim, Action: rollout.ActionClaim, Sentence: "cordon Node " + name + " and record the claim, in one patch"},
				{Move: rollout.MoveResize, Action: rollout.ActionResize, Sentence: "scaleVirtualMachine " + name + " from small to big (4 CPU / 8192 MiB)"},
				{Move: rollout.MoveOnline, Action: rollout.ActionOnline, Sentence: "bring up 2 CPUs and 32 memory blocks of 128 MiB in the guest of " + name},
				{Move: rollout.MoveRestart, Action: rollout.ActionRestart, Sentence: "restart kubelet on " + name + ", once"},
				{Move: rollout.MoveVerify, Sentence: "wait until Node " + name + " is Ready with 4 CPU"},
				{Move: rollout.MoveRelease, Action: rollout.ActionRelease, Sentence: "uncordon Node " + name + " and drop the claim, in one patch"}}})
	}
	f.plans[p.ID] = p
	return p, nil
}

func (f *fake) Planned(_ context.Context, id, plan string) (Plan, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, ok := f.plans[plan]
	if !ok || p.ClusterID != id {
		return Plan{}, fmt.Errorf("%w: no such plan, or it has expired", ErrNotFound)
	}
	return p, nil
}

func (f *fake) Start(_ context.Context, id, plan, actor string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.plans[plan]; !ok {
		return "", fmt.Errorf("%w: no such plan", ErrNotFound)
	}
	if err := f.did("start", id, actor); err != nil {
		return "", err
	}
	f.cluster[id].Now = &Rollout{Run: run1, Command: "scale", Actor: actor, Phase: PhaseRunning, Began: f.now(), Total: 3}
	f.hub.Changed(id)
	return run1, nil
}

func (f *fake) phase(act, id, actor string, p Phase) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.did(act, id, actor); err != nil {
		return "", err
	}
	if f.cluster[id].Now == nil {
		return "", fmt.Errorf("%w: there is no rollout", ErrConflict)
	}
	f.cluster[id].Now.Phase = p
	f.hub.Changed(id)
	return run1, nil
}

func (f *fake) Pause(_ context.Context, id, actor string) error {
	_, err := f.phase("pause", id, actor, PhaseUnfinished)
	return err
}

func (f *fake) Resume(_ context.Context, id, actor string) (string, error) {
	return f.phase("resume", id, actor, PhaseRunning)
}

func (f *fake) Release(_ context.Context, id, actor string) (string, error) {
	return f.phase("release", id, actor, PhaseReleasing)
}

func (f *fake) History(_ context.Context, q Query) ([]history.Entry, int, error) {
	var out []history.Entry
	for _, e := range f.entries {
		if (q.Run == "" || q.Run == e.Run) && (q.Cluster == "" || q.Cluster == e.ClusterID || q.Cluster == e.Cluster) {
			out = append(out, e)
		}
	}
	return out, 0, nil
}

func (f *fake) Audit(_ context.Context, r Record) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.noAudit {
		return errors.New("disk full")
	}
	f.records = append(f.records, r)
	return nil
}

// site is a server with a fake behind it.
type site struct {
	*fake

	url           string
	handler       http.Handler
	keys          *access.Keys
	read, operate string // tokens
	options       Options
}

func newFake(now func() time.Time) *fake {
	f := &fake{plans: map[string]Plan{}, hub: NewHub(now), now: now}
	at := now().UTC().Truncate(time.Second)
	p := &Detail{Cluster: Cluster{ID: prod, Name: "prod", Endpoint: "zone-a", State: "Running", Policy: PolicyHeal, Window: "opens Sat 22:00 Europe/Berlin", Readable: true, Since: at.Add(-time.Hour), Read: at.Add(-40 * time.Second),
		Nodes: 4, Drift: map[capacity.View]int{capacity.ViewGuest: 1, capacity.ViewNode: 1, capacity.ViewRecord: 2}, Claimed: 1}}
	p.Members = []survey.Node{member("prod-control-18f3c0d2a1", rollout.RoleControl, 2, 4096, 2, 4096, 2), member("prod-node-18f3c0d7b2", rollout.RoleWorker, 4, 8192, 4, 8192, 4),
		member("prod-node-18f3c0dbc3", rollout.RoleWorker, 4, 8192, 2, 4096, 2), member("prod-node-18f3c0dfd4", rollout.RoleWorker, 4, 8192, 4, 8192, 2)}
	p.Members[2].Claim = &rollout.Claim{Run: run1, Actor: "night@shift", Since: at.Add(-10 * time.Minute), Goal: capacity.Offering{ID: "big", Name: "big", CPUs: 4, MemoryMiB: 8192}, Cordoned: true, Phase: "guest",
		Fault: &rollout.Fault{Layer: capacity.LayerGuest, Node: "prod-node-18f3c0dbc3", Move: rollout.MoveOnline, Summary: "CPUs in the guest: not within 2m0s", Expected: "4 online", Observed: "2 online, 2 plugged but offline", Recover: "trueup resume prod"}}
	p.Members[3].Views.Guest = nil
	p.Members[3].Drifts = nil
	p.Members[3].Problems = []survey.Problem{{View: capacity.ViewGuest, Text: "unreachable: no route to host"}}
	p.Checked = at
	for i, v := range []preflight.Verdict{preflight.Pass, preflight.Fail, preflight.Unknown, preflight.Warn, preflight.Pass} {
		p.Preflight = append(p.Preflight, Check{Check: preflight.Check{ID: fmt.Sprintf("check-%d", i), Name: "dynamic scaling in the zone", Verdict: v, Evidence: "enable.dynamic.scale.vm is false", Remedy: "An administrator must set it"}})
	}
	p.Preflight[4].Node = "prod-node-18f3c0d7b2"
	p.Offerings = []capacity.Offering{{ID: "small", Name: "small", CPUs: 2, MemoryMiB: 4096}, {ID: "big", Name: "big", CPUs: 4, MemoryMiB: 8192}}
	b := &Detail{Cluster: Cluster{ID: blind, Name: "staging", Endpoint: "zone-b", State: "Alert", Policy: PolicyObserve, Unread: "the Kubernetes API does not answer", Since: at.Add(-time.Hour), Waiting: "a rollout is unfinished", Next: "trueup resume staging"}}
	f.cluster = map[string]*Detail{prod: p, blind: b}
	f.entries = pastRollout(at)
	return f
}

func member(name string, role rollout.Role, cpus int, mib int64, online int, onlineMiB int64, nodeCPUs int64) survey.Node {
	n := survey.Node{Target: rollout.Target{ClusterID: prod, ClusterName: "prod", Role: role, Name: name, InstanceID: "id-" + name}}
	n.Views.Record.Offering = capacity.Offering{ID: "small", Name: "small", CPUs: 2, MemoryMiB: 4096}
	n.Views.Instance = capacity.Instance{ID: n.Target.InstanceID, Name: name, State: "Running", OfferingID: "big", OfferingName: "big", CPUs: cpus, MemoryMiB: mib}
	if cpus == 2 {
		n.Views.Instance.OfferingID, n.Views.Instance.OfferingName = "small", "small"
	}
	n.Views.Guest = &capacity.Guest{CPUsOnline: online, CPUsPresent: cpus, BlockSize: 128 << 20, BlocksOnline: int(onlineMiB / 128), MemTotal: onlineMiB<<20 - 120<<20}
	memory := resource.NewQuantity(onlineMiB<<20-120<<20, resource.BinarySI)
	n.Views.Node = &capacity.Node{Name: name, Capacity: capacity.Resources{"cpu": *resource.NewQuantity(nodeCPUs, resource.DecimalSI), "memory": *memory}, Ready: capacity.Condition{Status: "True"}}
	n.Drifts = n.Views.Drifts()
	return n
}

func pastRollout(at time.Time) []history.Entry {
	base := history.Entry{Version: 1, Command: "scale", Run: "old-run", Actor: "alice", Why: "more pods", ClusterID: prod, Cluster: "prod"}
	begin, node, end := base, base, base
	begin.Kind, begin.Time, begin.Goals = history.KindBegin, at.Add(-3*time.Hour), map[string]rollout.Goal{"x": {}}
	report := rollout.NodeReport{Target: rollout.Target{ClusterID: prod, Role: rollout.RoleWorker, Name: "prod-node-18f3c0d7b2"}, Outcome: rollout.OutcomeDone, Took: 18 * time.Second,
		Moves: map[rollout.Move]time.Duration{rollout.MoveClaim: 80 * time.Millisecond, rollout.MoveResize: 3100 * time.Millisecond, rollout.MoveOnline: 600 * time.Millisecond, rollout.MoveRestart: 300 * time.Millisecond, rollout.MoveVerify: 13500 * time.Millisecond, rollout.MoveRelease: 90 * time.Millisecond},
		Claim: &rollout.Claim{Resize: &rollout.ResizeIntent{JobID: "dafc1f1f-b002"}, Restart: &rollout.RestartIntent{BootID: "boot-1", InvocationID: "inv-1", MainPID: 101, Heartbeat: at.Add(-3 * time.Hour)}},
		Final: &rollout.Observation{Instance: capacity.Instance{ID: "x", CPUs: 4, MemoryMiB: 8192}, Guest: capacity.Guest{BootID: "boot-1", CPUsOnline: 4, BlocksOnline: 64, BlockSize: 128 << 20, Kubelet: capacity.Unit{InvocationID: "inv-2", MainPID: 202}}}}
	node.Kind, node.Time, node.Node = history.KindNode, begin.Time.Add(18*time.Second), &history.Node{NodeReport: report}
	end.Kind, end.Time, end.Result = history.KindEnd, begin.Time.Add(19*time.Second), "done"
	return []history.Entry{begin, node, end}
}

// newSite starts a server on loopback. Change may alter the options, nil for none.
func newSite(t *testing.T, change func(*Options)) *site {
	t.Helper()
	f := newFake(time.Now)
	read, readText, _ := access.NewToken("rita", access.Read)
	operate, operateText, _ := access.NewToken("olga", access.Operate)
	s := &site{fake: f, read: readText, operate: operateText, keys: access.NewKeys([]access.Token{read, operate})}
	s.options = Options{Fleet: f, Planner: f, Rollouts: f, History: f, Auditor: f, Hub: f.hub, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Exposure: access.Exposure{Address: "127.0.0.1:0", Tokens: 2}, Keys: s.keys, Version: "test"}
	if change != nil {
		change(&s.options)
	}
	h, err := New(s.options)
	if err != nil {
		t.Fatal(err)
	}
	s.handler = h
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	s.url = srv.URL
	return s
}
