package capacity

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

func resources(pairs ...string) Resources {
	r := Resources{}
	for _, p := range pairs {
		name, q, _ := strings.Cut(p, "=")
		r[name] = resource.MustParse(q)
	}
	return r
}

func TestCapacityEqualsTheGuest(t *testing.T) {
	const memTotal = 8143640 * kB
	slack := func(bytes int64) Resources { return Whole(4, memTotal+bytes) }
	guest := Guest{CPUsOnline: 4, MemTotal: memTotal}
	rows := []struct {
		name     string
		guest    Guest
		capacity Resources
		ok       bool
	}{
		{"as kubelet prints it", guest, resources("cpu=4", "memory=8143640Ki"), true},
		{"the same in other words", guest, resources("cpu=4000m", "memory=8339087360"), true},
		{"cpu in milli, one too few", guest, resources("cpu=3999m", "memory=8143640Ki"), false},
		{"cpu that only rounds up to 4", guest, resources("cpu=3900m", "memory=8143640Ki"), false},
		{"old CPU count", guest, resources("cpu=2", "memory=8143640Ki"), false},
		{"old memory", guest, resources("cpu=4", "memory=4021020Ki"), false},
		{"balloon: 16 MiB more", guest, slack(16 * MiB), true},
		{"balloon: 16 MiB and a byte more", guest, slack(16*MiB + 1), false},
		{"balloon: 16 MiB less", guest, slack(-16 * MiB), true},
		{"balloon: 16 MiB and a byte less", guest, slack(-16*MiB - 1), false},
		{"kubelet never posted", guest, nil, false},
		{"neither was read", Guest{}, nil, false},
		{"only CPUs are known on both sides", Guest{CPUsOnline: 4}, resources("cpu=4"), false},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			if c := CheckCapacity(r.guest, Node{Capacity: r.capacity}); c.OK != r.ok || c.Layer != LayerCapacity {
				t.Errorf("OK=%t in %s: expected %s, observed %s", c.OK, c.Layer, c.Expected, c.Observed)
			}
		})
	}
}

// One reading of a guest at 12:00:40.7, 1000 s after its boot; kubelet was started at 12:00:30.7, cut to :30.
func freshGuest() Guest {
	return Guest{
		Clock: time.Date(2026, 1, 2, 12, 0, 40, 7e8, time.UTC), Monotonic: 1000 * time.Second,
		Kubelet: Unit{ActiveState: "active", SubState: "running", InvocationID: "i2", MainPID: 77, Start: 990 * time.Second},
	}
}

func at(second int) time.Time { return time.Date(2026, 1, 2, 12, 0, second, 0, time.UTC) }

func TestFreshness(t *testing.T) {
	rows := []struct {
		name string
		beat time.Time
		f    Freshness
		ok   bool
	}{
		{"in the very second of the start: heartbeats are cut", at(30), Freshness{Before: at(25)}, true},
		{"later", at(39), Freshness{Before: at(25)}, true},
		{"a second before the start", at(29), Freshness{Before: at(25)}, false},
		{"unchanged since before the restart", at(25), Freshness{Before: at(25)}, false},
		{"unchanged, although in the second of the start", at(30), Freshness{Before: at(30)}, false},
		{"no restart was needed: after the start", at(30), Freshness{}, true},
		{"no restart was needed: before the start", at(29), Freshness{}, false},
		{"never posted", time.Time{}, Freshness{}, false},
		{"never posted, stepped clock", time.Time{}, Freshness{Before: at(25), Stepped: true}, false},
		{"stepped clock: changed is enough", at(2), Freshness{Before: at(25), Stepped: true}, true},
		{"stepped clock: unchanged", at(25), Freshness{Before: at(25), Stepped: true}, false},
		{"unchanged, written in another zone", at(30).In(time.FixedZone("x", 3600)), Freshness{Before: at(30)}, false},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			if c := CheckFresh(freshGuest(), Node{Ready: Condition{Heartbeat: r.beat}}, r.f); c.OK != r.ok || c.Layer != LayerReadiness {
				t.Errorf("OK=%t: expected %s, observed %s", c.OK, c.Expected, c.Observed)
			}
		})
	}
	if c := CheckFresh(Guest{}, Node{Ready: Condition{Heartbeat: at(30)}}, Freshness{}); c.OK {
		t.Error("fresh although the guest was not read")
	}
}

func TestKubeletStartAndAge(t *testing.T) {
	g := freshGuest()
	if got := g.KubeletStart(); !got.Equal(at(30)) {
		t.Errorf("start %s, want it cut to 12:00:30", got)
	}
	if got := g.KubeletAge(); got != 10*time.Second {
		t.Errorf("age %s", got)
	}
	if got := g.BootTime(); !got.Equal(g.Clock.Add(-1000 * time.Second)) {
		t.Errorf("boot time %s", got)
	}
}

func TestSettled(t *testing.T) {
	rows := []struct {
		name   string
		change func(*Guest)
		settle time.Duration
		ok     bool
	}{
		{"old enough to the nanosecond", func(*Guest) {}, 10 * time.Second, true},
		{"a nanosecond too young", func(*Guest) {}, 10*time.Second + 1, false},
		{"crash-looping", func(g *Guest) { g.Kubelet.ActiveState, g.Kubelet.SubState = "activating", "auto-restart" }, time.Second, false},
		{"active without a process", func(g *Guest) { g.Kubelet.MainPID = 0 }, time.Second, false},
		{"start in the future", func(g *Guest) { g.Kubelet.Start = 2000 * time.Second }, 0, false},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			g := freshGuest()
			r.change(&g)
			if c := CheckSettled(g, r.settle); c.OK != r.ok || c.Layer != LayerKubelet {
				t.Errorf("OK=%t: %s", c.OK, c.Observed)
			}
		})
	}
}

func TestRunning(t *testing.T) {
	for state, want := range map[[2]string]bool{
		{"active", "running"}: true, {"active", "exited"}: false, {"activating", "auto-restart"}: false,
		{"failed", "failed"}: false, {"inactive", "dead"}: false, {"", ""}: false,
	} {
		g := Guest{Kubelet: Unit{ActiveState: state[0], SubState: state[1], MainPID: 1}}
		if c := CheckRunning(g); c.OK != want {
			t.Errorf("%v: OK=%t", state, c.OK)
		}
	}
}

func TestReady(t *testing.T) {
	rows := []struct {
		name string
		c    Condition
		ok   bool
		says string
	}{
		{"ready", Condition{Status: "True", Reason: "KubeletReady", Message: "kubelet is posting ready status"}, true, "Ready=True"},
		{"right after a restart", Condition{Status: "False", Reason: "KubeletNotReady", Message: "PLEG is not healthy"}, false, "Ready=False (KubeletNotReady: PLEG is not healthy)"},
		{"kubelet is gone", Condition{Status: "Unknown"}, false, "Ready=Unknown"},
		{"never posted", Condition{}, false, "Ready="},
	}
	for _, r := range rows {
		if c := CheckReady(Node{Ready: r.c}); c.OK != r.ok || c.Observed != r.says {
			t.Errorf("%s: OK=%t %q", r.name, c.OK, c.Observed)
		}
	}
}

func TestInstanceAndCPUs(t *testing.T) {
	goal := Offering{ID: "o2", Name: "big", CPUs: 4, MemoryMiB: 8192}
	at := Instance{OfferingID: "o2", OfferingName: "big", CPUs: 4, MemoryMiB: 8192}
	for name, change := range map[string]func(*Instance){
		"other id":     func(i *Instance) { i.OfferingID = "o1" },
		"other CPUs":   func(i *Instance) { i.CPUs = 2 },
		"other memory": func(i *Instance) { i.MemoryMiB = 8191 },
	} {
		i := at
		change(&i)
		if CheckInstance(i, goal).OK {
			t.Errorf("%s: passes", name)
		}
	}
	if c := CheckInstance(at, goal); !c.OK {
		t.Error(c)
	}
	for online, want := range map[int]bool{3: false, 4: true, 5: false} {
		if c := CheckGuestCPUs(Guest{CPUsOnline: online, CPUsPresent: 5}, goal); c.OK != want {
			t.Errorf("%d online: OK=%t", online, c.OK)
		}
	}
	const says = "CPUs in the guest: expected 4 online, observed 2 online, 2 plugged but offline"
	if c := CheckGuestCPUs(Guest{CPUsOnline: 2, CPUsPresent: 4}, goal); c.String() != says {
		t.Errorf("says %q", c)
	}
}
