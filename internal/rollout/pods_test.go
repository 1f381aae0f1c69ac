package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// podOf is a ready pod with a readiness probe.
func podOf(name string, changes ...func(*capacity.Pod)) capacity.Pod {
	p := capacity.Pod{UID: "uid-" + name, Namespace: "default", Name: name, Phase: "Running", Ready: true, Probed: true, Restarts: 1}
	for _, change := range changes {
		change(&p)
	}
	return p
}

func unready(p *capacity.Pod)  { p.Ready = false }
func unprobed(p *capacity.Pod) { p.Probed = false }
func leaving(p *capacity.Pod)  { p.Deleting = true }
func failed(reason string) func(*capacity.Pod) {
	return func(p *capacity.Pod) { p.Phase, p.Reason, p.Ready = "Failed", reason, false }
}

// podsBefore and podsNow put pods into the claim of the restart, and into the observation.
func podsBefore(pods ...capacity.Pod) func(*scene) {
	return func(s *scene) {
		restart := *s.claim.Restart
		restart.Pods = keptPods(&PodReading{Pods: pods})
		s.claim.Restart = &restart
	}
}

func podsNow(pods ...capacity.Pod) func(*scene) {
	return func(s *scene) { s.seen.Pods = &PodReading{Pods: pods} }
}

func aged(d time.Duration) func(*scene) {
	return func(s *scene) { later(s, d-s.seen.Guest.KubeletAge()) }
}

func TestNextWaitsForPods(t *testing.T) {
	version := func(v string) func(*scene) { return func(s *scene) { s.seen.Node.KubeletVersion = v } }
	before, waits := podsBefore(podOf("a"), podOf("b")), "wait in verify: "+podsCheck
	checkRules(t, []rule{
		{"ready again", settled().with(before, podsNow(podOf("a"), podOf("b"))), "act: release"},
		{"one is not", settled().with(before, podsNow(podOf("a"), podOf("b", unready))), waits},
		{"one is not, kubelet 1.34", settled().with(before, podsNow(podOf("a"), podOf("b", unready)), version("v1.34.2")), waits},
		{"one is not, and kubelet keeps readiness: it is for another reason", settled().with(before, podsNow(podOf("a"), podOf("b", unready)), version("v1.35.0")), "act: release"},
		{"it has no probe: it is for another reason", settled().with(before, podsNow(podOf("a"), podOf("b", unready, unprobed))), "act: release"},
		{"it was not ready before either", settled().with(podsBefore(podOf("b", unready)), podsNow(podOf("b", unready))), "act: release"},
		{"it is gone", settled().with(before, podsNow(podOf("a"))), "act: release"},
		{"it was deleted and made anew under its name", settled().with(before, podsNow(podOf("a"), podOf("b", unready, func(p *capacity.Pod) { p.UID = "uid-2" }))), "act: release"},
		{"it is being deleted", settled().with(before, podsNow(podOf("a"), podOf("b", unready, leaving))), "act: release"},
		{"it was rejected", settled().with(before, podsNow(podOf("a"), podOf("b", failed("NodeAffinity")))), "act: release"},
		{"it is done", settled().with(before, podsNow(podOf("a"), podOf("b", unready, func(p *capacity.Pod) { p.Phase = "Succeeded" }))), "act: release"},
		{"not known now", settled().with(before, func(s *scene) { s.seen.Pods = &PodReading{Unknown: "denied"} }), "act: release"},
		{"not read now", settled().with(before), "act: release"},
		{"not known before", settled().with(podsNow(podOf("b", unready))), "act: release"},
		{"a nanosecond short of all patience", settled().with(before, podsNow(podOf("b", unready)), aged(DefaultPatience-1)), waits},
		{"patience has ended", settled().with(before, podsNow(podOf("b", unready)), aged(DefaultPatience)), "act: release"},
		{"there is none", settled().with(before, podsNow(podOf("b", unready)), func(s *scene) { s.goal.Patience = -1 }), "act: release"},
		{"patience does not shorten the settle time", posted().with(before, podsNow(podOf("b", unready)), func(s *scene) { s.goal.Patience = -1 }), "wait in verify: kubelet settled"},
	})
	for name, s := range map[string]Step{"pods": settled().with(before, podsNow(podOf("b", unready))).next(), "devices": settled().with(gpus("0")).next()} {
		if !s.Yields {
			t.Errorf("the wait for %s ends in a fault", name)
		}
	}
	if posted().next().Yields {
		t.Error("the wait for a settled kubelet ends in a warning")
	}
}

func gpus(now string) func(*scene) {
	return func(s *scene) {
		s.claim.Before.Allocatable = with(s.claim.Before.Allocatable, 1900, 3918620*kB)
		s.claim.Before.Allocatable["vendor.example/gpu"] = quantities("2", "1")["cpu"]
		s.seen.Node.Allocatable = with(s.seen.Node.Allocatable, 3900, 8112924*kB)
		s.seen.Node.Allocatable["vendor.example/gpu"] = quantities(now, "1")["cpu"]
	}
}

// What is told of the pods, and of devices, when the node is given back.
func TestReleaseWarnings(t *testing.T) {
	restarted := func(p *capacity.Pod) { p.Restarts += 2 }
	many := func(change func(*capacity.Pod)) (out []capacity.Pod) {
		for i := range 12 {
			out = append(out, podOf(fmt.Sprintf("p%02d", i), change))
		}
		return out
	}
	nothing := func(*capacity.Pod) {}
	for name, c := range map[string]struct {
		changes []func(*scene)
		want    []string
	}{
		"nobody asked for them":    {nil, nil},
		"all as before":            {[]func(*scene){podsBefore(podOf("a")), podsNow(podOf("a"))}, nil},
		"a pod that came since":    {[]func(*scene){podsBefore(podOf("a")), podsNow(podOf("a"), podOf("b", unready))}, nil},
		"had failed before":        {[]func(*scene){podsBefore(podOf("a", failed("Evicted"))), podsNow(podOf("a", failed("Evicted")))}, nil},
		"is done":                  {[]func(*scene){podsBefore(podOf("a")), podsNow(podOf("a", unready, func(p *capacity.Pod) { p.Phase = "Succeeded" }))}, nil},
		"was being deleted before": {[]func(*scene){podsBefore(podOf("a", leaving)), podsNow()}, nil},
		"was not ready before":     {[]func(*scene){podsBefore(podOf("a", unready)), podsNow(podOf("a", unready, restarted))}, nil},
		"rejected": {[]func(*scene){podsBefore(podOf("a"), podOf("b"), podOf("c")), podsNow(podOf("a", failed("NodeAffinity")), podOf("b", failed("OutOfcpu")), podOf("c", failed("UnexpectedAdmissionError")))},
			[]string{"the restarted kubelet rejected pods that had run here: default/a (NodeAffinity), default/b (OutOfcpu), default/c (UnexpectedAdmissionError)"}},
		"a pod that waited to run was rejected": {[]func(*scene){podsBefore(podOf("a", unready, func(p *capacity.Pod) { p.Phase = "Pending" })), podsNow(podOf("a", failed("NodeAffinity")))},
			[]string{"the restarted kubelet rejected pods that had run here: default/a (NodeAffinity)"}},
		"failed otherwise": {[]func(*scene){podsBefore(podOf("a"), podOf("b")), podsNow(podOf("a", failed("Evicted")), podOf("b", failed("")))},
			[]string{"pods failed since just before kubelet's restart: default/a (Evicted), default/b (no reason given)"}},
		"not ready, probed or not": {[]func(*scene){podsBefore(podOf("a"), podOf("b")), podsNow(podOf("a", unready), podOf("b", unready, unprobed))},
			[]string{"pods that were ready before kubelet's restart are not: default/a, default/b"}},
		"containers restarted": {[]func(*scene){podsBefore(podOf("a")), podsNow(podOf("a", restarted))},
			[]string{"containers were restarted since just before kubelet's restart, in pods that were ready: default/a (2)"}},
		"gone": {[]func(*scene){podsBefore(podOf("a"), podOf("b")), podsNow(podOf("b"))}, []string{"pods of before kubelet's restart were deleted meanwhile: default/a"}},
		"many": {[]func(*scene){podsBefore(many(nothing)...), podsNow(many(unready)...)},
			[]string{"pods that were ready before kubelet's restart are not: default/p00, default/p01, default/p02, default/p03, default/p04, default/p05, default/p06, default/p07, default/p08, default/p09 and 2 more"}},
		"more than a claim keeps": {[]func(*scene){podsBefore(podOf("a")), podsNow(podOf("a")), func(s *scene) { s.claim.Restart.Pods.LeftOut = 3 }},
			[]string{"3 pods were not compared: a claim keeps 256"}},
		"not known before": {[]func(*scene){func(s *scene) { s.claim.Restart.Pods = &KeptPods{Unknown: "denied"} }, podsNow()},
			[]string{"what became of its pods is not known: before kubelet's restart: denied"}},
		"not known now": {[]func(*scene){podsBefore(podOf("a")), func(s *scene) { s.seen.Pods = &PodReading{Unknown: "denied"} }},
			[]string{"what became of its pods is not known: after kubelet's restart: denied"}},
		"a claim that does not say": {[]func(*scene){podsNow()}, []string{"what became of its pods is not known: the claim does not say what they were before kubelet's restart"}},
		"not read now":              {[]func(*scene){podsBefore()}, []string{"what became of its pods is not known: they were not read after kubelet's restart"}},
		"no restart":                {[]func(*scene){func(s *scene) { s.claim.Restart = nil }, podsNow()}, nil},
		"devices are back":          {[]func(*scene){gpus("2")}, nil},
		"devices are not back": {[]func(*scene){gpus("1")},
			[]string{"extended resources are not back since kubelet's restart: vendor.example/gpu=1, before vendor.example/gpu=2; look at their device plugins"}},
	} {
		s := settled().with(c.changes...)
		if diff := cmp.Diff(c.want, releaseWarnings(s.claim, s.seen, true)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A claim stays far below what a Node's annotations may have, whatever runs on the node.
func TestKeptPodsAreBounded(t *testing.T) {
	var pods []capacity.Pod
	for i := range 600 {
		pods = append(pods, capacity.Pod{UID: strings.Repeat("u", 36), Namespace: strings.Repeat("n", 63), Name: fmt.Sprintf("%0253d", i), Phase: "Pending", Ready: true, Restarts: 1 << 30})
	}
	kept := keptPods(&PodReading{Pods: pods})
	if len(kept.Pods) != mostKeptPods || kept.LeftOut != 600-mostKeptPods {
		t.Errorf("%d kept, %d left out", len(kept.Pods), kept.LeftOut)
	}
	s := settled()
	s.claim.Restart.Pods = kept
	text, err := s.claim.Encode()
	if err != nil || len(text) > 128<<10 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

// The restart's intent holds the pods of just before it, and the next person's run compares with those.
func TestResumeComparesPods(t *testing.T) {
	simulate(t, []string{"w1"}, func(t *testing.T, tr *trial) {
		m := tr.machine("w1")
		tr.limits.Verify = time.Second
		tr.fault(t)
		tr.limits = DefaultLimits()
		if p := m.claim().Restart.Pods; p == nil || len(p.Pods) != 1 || p.Pods[0] != (KeptPod{UID: "p-w1", Name: "default/web-w1", Ready: true}) {
			t.Fatalf("the claim holds %+v", p)
		}
		tr.now("w1", func(m *machine) {
			m.pods = []capacity.Pod{podOf("web", failed("NodeAffinity"))}
			m.pods[0].UID, m.pods[0].Restarts = "p-w1", 0
		})
		want := []string{"the restarted kubelet rejected pods that had run here: default/web-w1 (NodeAffinity)"}
		report := tr.must(t)
		if diff := cmp.Diff(want, report.Nodes[0].Warnings); diff != "" {
			t.Error(diff)
		}
		if got := report.Nodes[0].Final.Pods; got == nil || len(got.Pods) != 1 || got.Pods[0].Reason != "NodeAffinity" {
			t.Errorf("the evidence shows %+v", got)
		}
	})
}

// Pods are listed just before the restart and before the release, and once each where nothing has to be waited for.
func TestPodsAreReadTwice(t *testing.T) {
	simulate(t, []string{"w1"}, func(t *testing.T, tr *trial) {
		tr.must(t)
		var n int
		for _, call := range tr.calls {
			if call == "Pods w1" {
				n++
			}
		}
		if n != 2 {
			t.Errorf("%d times: %v", n, tr.calls)
		}
	})
}

// A wait that yields ends in a warning, even where its move's own bound is shorter than all patience.
func TestYieldingWaitEndsInAWarning(t *testing.T) {
	simulate(t, two, func(t *testing.T, tr *trial) {
		tr.limits.Verify = 30 * time.Second
		tr.now("w1", func(m *machine) { m.unprobed = true })
		report := tr.must(t)
		if n := report.Nodes[0]; len(n.Warnings) != 1 || n.Moves[MoveVerify] > 35*time.Second || n.Goal.Patience != 0 {
			t.Errorf("%q after %s", n.Warnings, n.Moves[MoveVerify])
		}
	})
}
