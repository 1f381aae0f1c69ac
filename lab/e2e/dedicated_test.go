package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/cks-trueup/trueup/lab/guest"
)

// etcdScript reads an etcd machine: the size that its kernel has, and etcd's process and data.
const etcdScript = `echo $(cat /sys/devices/system/cpu/online) $(cat /sys/devices/system/memory/memory*/state | sort | uniq -c)
systemctl show --property=InvocationID --value etcd
cat /proc/sys/kernel/random/boot_id
/opt/bin/etcdctl get --print-value-only kept
/opt/bin/etcdctl endpoint health --cluster 2>&1 | grep -o 'is healthy'`

// testEtcdMachine: a machine with a real etcd and no Node is resized live. etcd is healthy before and after, in the same process.
func testEtcdMachine(t *testing.T, f *fixture) {
	etcd, goal := f.Etcd[0], f.Cloud.Offerings["etcd-medium"]
	run := func(command string) string {
		t.Helper()
		out, err := etcd.Run(t.Context(), command)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	run("/opt/bin/etcdctl put kept 'a value'")
	was, asked := strings.Split(run(etcdScript), "\n"), f.changes(t)
	nodes, record := f.read(t), f.record(t)

	f.scale(t, "--etcd", goal.Name)

	if is := strings.Split(run(etcdScript), "\n"); is[0] != "0-1 12 online" || !slices.Equal(is[1:], was[1:]) || !slices.Equal(is[3:], []string{"a value", "is healthy"}) {
		t.Errorf("%s: %q, before %q; want CPUs 0-1, 12 blocks of memory, and the same boot, process and data of a healthy etcd", etcd.Name(), is, was)
	}
	want := guest.Hardware{MemoryMiB: goal.MemoryMiB, VCPUs: goal.CPUs, DIMMs: 1}
	got, err := etcd.Hardware(t.Context())
	if want.MaxMemoryMiB, want.MaxVCPUs, want.MaxDIMMs = got.MaxMemoryMiB, got.MaxVCPUs, got.MaxDIMMs; err != nil || got != want {
		t.Errorf("%s in QEMU: %+v (%v), want %+v", etcd.Name(), got, err, want)
	}
	if order := expectOneAtATime(t, record.stop(t)); len(order) > 0 {
		t.Errorf("Nodes that were claimed: %v, want none", order)
	}
	for _, write := range f.changes(t).since(asked).Kubernetes {
		if write.Resource == "nodes" {
			t.Errorf("asked of Kubernetes: %+v, want no change of a Node", write)
		}
	}
	if got := commands(f.changes(t).since(asked)); !slices.Equal(got, []string{"scaleVirtualMachine"}) {
		t.Errorf("changes asked of CloudStack: %q, want one scaleVirtualMachine", got)
	}
	f.expectUntouched(t, nodes)
	f.expectLeaseFree(t)
	f.trueup(t, 0, "verify", f.Options.Name)
}
