package capacity

import "testing"

func TestRoom(t *testing.T) {
	t.Parallel()
	const gib = 1 << 30
	pod := func(cpu, memory int64, controller string) Pod {
		return Pod{Name: "p", Phase: "Running", MilliCPU: cpu, Memory: memory, Controller: controller}
	}
	done := pod(9000, 9*gib, "Job")
	done.Phase = "Succeeded"
	node := func(name string, after Offering, pods ...Pod) RoomNode {
		return RoomNode{Name: name, Schedulable: true, Capacity: Whole(4, 8*gib), Allocatable: Whole(4, 7*gib), Before: Offering{CPUs: 4, MemoryMiB: 8192}, After: after, Pods: pods}
	}
	smaller := Offering{CPUs: 2, MemoryMiB: 4096}
	closed := node("w3", Offering{})
	closed.Schedulable = false
	for name, c := range map[string]struct {
		nodes         []RoomNode
		fits, without bool
		after, free   string
	}{
		"empty":                      {[]RoomNode{node("w1", smaller), node("w2", smaller)}, true, true, "4000m CPU and 6144 MiB allocatable on the workers after the change", "4000m CPU and 7168 MiB free on w2"},
		"both full of CPU":           {[]RoomNode{node("w1", smaller, pod(2500, gib, "ReplicaSet")), node("w2", smaller, pod(2000, gib, "ReplicaSet"))}, false, false, "4000m CPU and 6144 MiB allocatable on the workers after the change", "2000m CPU and 6144 MiB free on w2"},
		"exactly":                    {[]RoomNode{node("w1", smaller, pod(2000, gib, "ReplicaSet")), node("w2", smaller, pod(2000, gib, "ReplicaSet"))}, true, true, "", ""},
		"full of memory":             {[]RoomNode{node("w1", smaller, pod(100, 5*gib, "ReplicaSet")), node("w2", smaller, pod(100, 2*gib, "ReplicaSet"))}, false, true, "", ""},
		"one stays as it is":         {[]RoomNode{node("w1", smaller, pod(2500, gib, "ReplicaSet")), node("w2", Offering{}, pod(3000, gib, "ReplicaSet"))}, true, false, "6000m CPU and 10240 MiB allocatable on the workers after the change", ""},
		"finished pods ask nothing":  {[]RoomNode{node("w1", smaller, done), node("w2", smaller)}, true, true, "", ""},
		"its own pods don't fit":     {[]RoomNode{node("w1", smaller, pod(2500, gib, "DaemonSet")), node("w2", Offering{})}, false, true, "w1: 4000m CPU and 7168 MiB allocatable, 2000m CPU and 3072 MiB after the change", ""},
		"own pods need no room away": {[]RoomNode{node("w1", Offering{}, pod(3900, gib, "DaemonSet")), node("w2", Offering{}, pod(3900, gib, "DaemonSet"))}, true, true, "", ""},
		"others take none":           {[]RoomNode{node("w1", Offering{}, pod(100, gib, "ReplicaSet")), closed}, true, false, "", "0m CPU and 0 MiB free on 0 other workers"},
		"growth":                     {[]RoomNode{node("w1", Offering{CPUs: 8, MemoryMiB: 16384}, pod(3000, gib, "ReplicaSet")), node("w2", Offering{})}, true, true, "12000m CPU and 22528 MiB allocatable on the workers after the change", ""},
		"one grows, one shrinks":     {[]RoomNode{node("w1", Offering{CPUs: 4, MemoryMiB: 16384}, pod(100, 12*gib, "ReplicaSet")), node("w2", smaller)}, true, false, "6000m CPU and 18432 MiB allocatable on the workers after the change", ""},
		"the kernel's share": {[]RoomNode{{Name: "w1", Schedulable: true, Capacity: Whole(4, 7800<<20), Allocatable: Whole(4, 7700<<20), Before: Offering{CPUs: 4, MemoryMiB: 8192}, After: smaller}}, true, true,
			"2000m CPU and 3800 MiB allocatable on the workers after the change", ""},
	} {
		t.Run(name, func(t *testing.T) {
			fits, without := CheckRequestsFit(c.nodes), CheckRoomWithout(c.nodes, "w1")
			if fits.OK != c.fits || without.OK != c.without {
				t.Errorf("%s\n%s", fits, without)
			}
			if c.after != "" && fits.Observed != c.after || c.free != "" && without.Observed != c.free {
				t.Errorf("%q\n%q", fits.Observed, without.Observed)
			}
		})
	}
}
