package capacity

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

func TestAllocatable(t *testing.T) {
	capBefore, allocBefore := resources("cpu=2", "memory=4021020Ki"), resources("cpu=1900m", "memory=3918620Ki")
	rows := []struct {
		name            string
		capacity, alloc Resources
		ok              bool
		warns           bool
	}{
		{"grew by what the capacity grew", resources("cpu=4", "memory=8213860Ki"), resources("cpu=3900m", "memory=8111460Ki"), true, false},
		{"reservation in percent: plain bytes, not a multiple of 1024", resources("cpu=4", "memory=8213860Ki"), resources("cpu=3900m", "memory=7736458240"), true, true},
		{"reservation recomputed at the start", resources("cpu=4", "memory=8213860Ki"), resources("cpu=3920m", "memory=8111460Ki"), true, true},
		{"nothing grew, nothing needs to", capBefore, allocBefore, true, false},
		{"memory alone grew", resources("cpu=2", "memory=8213860Ki"), resources("cpu=1900m", "memory=8111460Ki"), true, false},
		{"CPU did not follow", resources("cpu=4", "memory=8213860Ki"), resources("cpu=1900m", "memory=8111460Ki"), false, true},
		{"memory did not follow", resources("cpu=4", "memory=8213860Ki"), resources("cpu=3900m", "memory=3918620Ki"), false, true},
		{"memory fell", resources("cpu=4", "memory=8213860Ki"), resources("cpu=3900m", "memory=1Gi"), false, true},
		{"a byte above the capacity", resources("cpu=4", "memory=8213860Ki"), resources("cpu=3900m", "memory=8410992641"), false, true},
		{"a millicore above the capacity", resources("cpu=4", "memory=8213860Ki"), resources("cpu=4001m", "memory=8111460Ki"), false, true},
		{"not posted", resources("cpu=4", "memory=8213860Ki"), nil, false, true},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			n := Node{Capacity: r.capacity, Allocatable: r.alloc}
			if c := CheckAllocatable(capBefore, allocBefore, n); c.OK != r.ok || c.Layer != LayerAllocatable {
				t.Errorf("OK=%t in %s: expected %s, observed %s", c.OK, c.Layer, c.Expected, c.Observed)
			}
			if w := AllocatableWarning(capBefore, allocBefore, n); (w != "") != r.warns {
				t.Errorf("warning %q", w)
			}
		})
	}
}

func TestArithmetic(t *testing.T) {
	rows := []struct {
		name            string
		capacity, alloc Resources
		want            Arithmetic
		says            string
	}{
		{"default eviction threshold", resources("cpu=4", "memory=8143640Ki"), resources("cpu=4", "memory=8041240Ki"),
			Arithmetic{0, 100 * MiB, 0}, "capacity less 0m CPU and 100 MiB (reserved + eviction threshold)"},
		{"reserved CPU", resources("cpu=4", "memory=4Gi"), resources("cpu=3920m", "memory=3Gi"),
			Arithmetic{80, 1024 * MiB, 0}, "capacity less 80m CPU and 1024 MiB (reserved + eviction threshold)"},
		{"huge pages are capacity, never allocatable as memory", resources("cpu=4", "memory=8Gi", "hugepages-2Mi=1Gi", "hugepages-1Gi=2Gi"), resources("cpu=4", "memory=5020Mi", "hugepages-2Mi=1Gi", "hugepages-1Gi=2Gi"),
			Arithmetic{0, 100 * MiB, 3 * GiB}, "capacity less 0m CPU and 100 MiB (reserved + eviction threshold), less 3072 MiB of huge pages"},
		{"a percentage", resources("cpu=2", "memory=8143640Ki"), resources("cpu=2", "memory=7736458240"),
			Arithmetic{0, 602629120, 0}, "capacity less 0m CPU and 574.71 MiB (reserved + eviction threshold)"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			got := Explain(r.capacity, r.alloc)
			if got != r.want || got.String() != r.says {
				t.Errorf("got %+v %q", got, got)
			}
		})
	}
}

func TestWarningHasBothSums(t *testing.T) {
	n := Node{Capacity: resources("cpu=4", "memory=8Gi"), Allocatable: resources("cpu=3800m", "memory=7Gi")}
	w := AllocatableWarning(resources("cpu=2", "memory=4Gi"), resources("cpu=1900m", "memory=3Gi"), n)
	for _, part := range []string{"100m CPU and 1024 MiB", "200m CPU and 1024 MiB"} {
		if !strings.Contains(w, part) {
			t.Errorf("%q lacks %q", w, part)
		}
	}
}

func TestExtendedResources(t *testing.T) {
	before := resources("cpu=2", "memory=4Gi", "pods=110", "ephemeral-storage=10Gi", "hugepages-2Mi=0", "vendor.example/gpu=2", "vendor.example/nic=1")
	rows := []struct {
		name string
		now  Resources
		ok   bool
		says string
	}{
		{"back", before, true, "vendor.example/gpu=2, vendor.example/nic=1"},
		{"more than before", resources("vendor.example/gpu=4", "vendor.example/nic=1"), true, "vendor.example/gpu=4, vendor.example/nic=1"},
		{"the plugin has not registered yet", resources("vendor.example/gpu=0", "vendor.example/nic=1"), false, "vendor.example/gpu=0, vendor.example/nic=1"},
		{"one of two devices", resources("vendor.example/gpu=1", "vendor.example/nic=1"), false, "vendor.example/gpu=1, vendor.example/nic=1"},
		{"gone from the list", resources("cpu=4"), false, "vendor.example/gpu=0, vendor.example/nic=0"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			if c := CheckExtended(before, Node{Allocatable: r.now}); c.OK != r.ok || c.Observed != r.says {
				t.Errorf("OK=%t %q", c.OK, c.Observed)
			}
		})
	}
	if c := CheckExtended(resources("cpu=2", "pods=110"), Node{}); !c.OK {
		t.Errorf("a node without extended resources: %s", c)
	}
}

// The traps of quantities: what kubelets print, and what must never be read by hand.
func TestQuantities(t *testing.T) {
	rows := []struct {
		cpu, memory string
		milli       int64
		bytes       int64
		size        string
	}{
		{"4", "8143640Ki", 4000, 8143640 * kB, "4 CPU / 7952 MiB"},
		{"7900m", "4Gi", 7900, 4 * GiB, "7900m CPU / 4096 MiB"},
		{"2.0", "7736458240", 2000, 7736458240, "2 CPU / 7378 MiB"},
		{"2000m", "1000M", 2000, 1000000000, "2 CPU / 953 MiB"},
		{".5", "1.5Gi", 500, 1536 * MiB, "500m CPU / 1536 MiB"},
		{"1", "129e6", 1000, 129000000, "1 CPU / 123 MiB"},
	}
	for _, r := range rows {
		n := Node{Capacity: resources("cpu="+r.cpu, "memory="+r.memory)}
		n.Allocatable = n.Capacity
		if n.CPUs() != r.milli || n.Memory() != r.bytes || n.Size() != r.size || n.AllocatableSize() != r.size {
			t.Errorf("%s/%s: got %d millicores, %d bytes, %q", r.cpu, r.memory, n.CPUs(), n.Memory(), n.Size())
		}
	}
	whole := Whole(4, 8143640*kB)
	for name, want := range resources("cpu=4", "memory=8143640Ki") {
		if got := whole[name]; got.Cmp(want) != 0 || got.String() != want.String() {
			t.Errorf("Whole: %s is %s, want %s", name, got.String(), want.String())
		}
	}
	if _, err := resource.ParseQuantity("8143640KiB"); err == nil {
		t.Error("KiB is no suffix of Kubernetes")
	}
}
