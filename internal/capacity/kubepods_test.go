package capacity

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Before: 2 GiB with 100 MiB of eviction threshold. Now: 4 GiB.
func TestCheckKubepodsMemory(t *testing.T) {
	node := func(total, allocatable string) Node {
		return Node{Capacity: Resources{"memory": resource.MustParse(total)}, Allocatable: Resources{"memory": resource.MustParse(allocatable)}}
	}
	plain := node("4075268Ki", "3972868Ki")
	tests := map[string]struct {
		limit, before int64
		node          Node
		want          bool
	}{
		"kubelet reserves nothing: the full capacity":       {4075268 << 10, 1978116 << 10, plain, true},
		"less what is reserved":                             {4075268<<10 - 50*MiB, 1978116 << 10, plain, true},
		"cut to whole pages":                                {3972868<<10 - 4095, 1978116 << 10, plain, true},
		"a page below allocatable":                          {3972868<<10 - 4096, 1978116 << 10, plain, false},
		"as it was before":                                  {1978116 << 10, 1978116 << 10, plain, false},
		"between before and now":                            {3000 * MiB, 1978116 << 10, plain, false},
		"as before, an eviction threshold above the growth": {1978116 << 10, 1978116 << 10, node("2109188Ki", "1Gi"), false},
		"as before, huge pages above the growth":            {1978116 << 10, 1978116 << 10, node("4075268Ki", "1000Mi"), false},
		"as before, and the capacity did not grow":          {1978116 << 10, 1978116 << 10, node("1978116Ki", "1875716Ki"), true},
		"as before, from a kubelet that had not posted yet": {4075268 << 10, 4075268 << 10, plain, true},
		"before was not read":                               {4075268 << 10, 0, plain, true},
		"no limit, before and now":                          {Unlimited, Unlimited, plain, true},
		"above the capacity harms nobody":                   {8 << 30, 1978116 << 10, plain, true},
		"not read (cgroup v1)":                              {0, 0, plain, true},
		"allocatable is not read":                           {3000 * MiB, 1978116 << 10, Node{}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := CheckKubepodsMemory(Guest{KubepodsMemory: tt.before}, Resources{"memory": resource.MustParse("1978116Ki")}, Guest{KubepodsMemory: tt.limit}, tt.node)
			if c.OK != tt.want || c.Layer != LayerKubelet || c.Expected == "" || c.Observed == "" {
				t.Errorf("%+v, want %t", c, tt.want)
			}
		})
	}
}

func TestCgroupWarning(t *testing.T) {
	cpus := func(n string) Resources { return Resources{"cpu": resource.MustParse(n)} }
	for name, tt := range map[string]struct {
		version     int
		before, now string
		want        bool
	}{
		"v1, CPUs grew":      {1, "2", "4", true},
		"v1, memory alone":   {1, "2", "2", false},
		"v2, CPUs grew":      {2, "2", "4", false},
		"unknown, CPUs grew": {0, "2", "4", false},
	} {
		if got := CgroupWarning(cpus(tt.before), Guest{CgroupVersion: tt.version}, Node{Capacity: cpus(tt.now)}); (got != "") != tt.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
