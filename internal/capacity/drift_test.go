package capacity

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDrifts(t *testing.T) {
	small := Offering{ID: "s", Name: "small", CPUs: 2, MemoryMiB: 4096}
	big := Offering{ID: "b", Name: "big", CPUs: 4, MemoryMiB: 8192}
	atBig := Instance{OfferingID: "b", OfferingName: "big", CPUs: 4, MemoryMiB: 8192}
	guest := func(cpus int, gib, memTotal int64) *Guest {
		return &Guest{CPUsOnline: cpus, CPUsPresent: 4, BlockSize: 128 * MiB, BlocksOnline: int(gib * 8), BlocksOffline: int((8 - gib) * 8), MemTotal: memTotal * kB}
	}
	node := func(cpu, memory string) *Node { return &Node{Capacity: resources("cpu="+cpu, "memory="+memory)} }
	recordWhy := "the cluster record still says small (2 CPU / 4096 MiB), so a new node would come up with that, while this one has 4 CPU / 8192 MiB"
	rows := []struct {
		name  string
		views Views
		want  []Drift
	}{
		{"all agree", Views{Record{big}, atBig, guest(4, 8, 8213860), node("4", "8213860Ki")}, nil},
		{"the record names nothing", Views{Record{}, atBig, guest(4, 8, 8213860), node("4", "8213860Ki")}, nil},
		{"record lags", Views{Record{small}, atBig, guest(4, 8, 8213860), node("4", "8213860Ki")}, []Drift{{ViewRecord, recordWhy}}},
		{"guest lags, and the Node follows it", Views{Record{big}, atBig, guest(2, 4, 4021020), node("2", "4021020Ki")},
			[]Drift{{ViewGuest, "CPUs in the guest: expected 4 online, observed 2 online, 2 plugged but offline"}}},
		{"memory blocks lag", Views{Record{big}, atBig, guest(4, 4, 4021020), node("4", "4021020Ki")},
			[]Drift{{ViewGuest, "memory blocks in the guest: expected 64 x 128 MiB online, observed 32 x 128 MiB online, 32 plugged but offline"}}},
		{"Node lags: kubelet was not restarted", Views{Record{big}, atBig, guest(4, 8, 8213860), node("2", "4021020Ki")},
			[]Drift{{ViewNode, "capacity of the Node: expected 4 CPU / 8021 MiB, observed 2 CPU / 3926 MiB"}}},
		{"every view lags", Views{Record{small}, atBig, guest(2, 4, 4021020), node("1", "4021020Ki")},
			[]Drift{{ViewRecord, recordWhy}, {ViewGuest, "CPUs in the guest: expected 4 online, observed 2 online, 2 plugged but offline"},
				{ViewNode, "capacity of the Node: expected 2 CPU / 3926 MiB, observed 1 CPU / 3926 MiB"}}},
		{"guest not read", Views{Record{big}, atBig, nil, node("2", "4021020Ki")}, nil},
		{"dedicated etcd: no Node", Views{Record{big}, atBig, guest(4, 8, 8213860), nil}, nil},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			if diff := cmp.Diff(r.want, r.views.Drifts()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFailedReturnsTheFirst(t *testing.T) {
	bad := Check{What: "second", Expected: "x", Observed: "y"}
	if c, failed := Failed(Check{OK: true}, bad, Check{What: "third"}); !failed || c != bad {
		t.Errorf("got %v %t", c, failed)
	}
	if _, failed := Failed(Check{OK: true}); failed {
		t.Error("nothing failed")
	}
}

func TestSizesInWords(t *testing.T) {
	for got, want := range map[string]string{
		Offering{Name: "big", CPUs: 4, MemoryMiB: 8192}.String():                             "big (4 CPU / 8192 MiB)",
		Offering{CPUs: 4, MemoryMiB: 8192}.String():                                          "4 CPU / 8192 MiB",
		Guest{CPUsOnline: 2, BlockSize: 128 * MiB, BlocksOnline: 32}.Size():                  "2 CPU / 4096 MiB",
		Unit{ActiveState: "active", SubState: "running", MainPID: 7, Restarts: 1}.String():   "active (running), pid 7, 1 automatic restarts",
		Mark{Tool: "kured", Key: "weave.works/kured-reboot-in-progress"}.String():            "weave.works/kured-reboot-in-progress (kured)",
		Check{OK: true, What: "CPUs in the guest", Expected: "4", Observed: "4 on"}.String(): "CPUs in the guest: 4 on",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
