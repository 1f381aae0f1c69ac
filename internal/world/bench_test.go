package world

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// BenchmarkRollout walks whole clusters on virtual time: what trueup, and the simulation around it, does for a node shall not depend on how many
// nodes there are. Compare the two sizes' figures per node with benchstat.
func BenchmarkRollout(b *testing.B) {
	for _, nodes := range []int{10, 100} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) { benchmarkRollout(b, nodes) })
	}
}

func benchmarkRollout(b *testing.B, nodes int) {
	var before, after runtime.MemStats
	calls, live := 0, uint64(0)
	runtime.ReadMemStats(&before)
	for b.Loop() {
		inBubble(b, func(t *testing.T) {
			w := New(workers(nodes))
			r := w.Run()
			if _, err := r.Scale(t.Context(), w.grow()); err != nil {
				t.Error(err)
			}
			calls += made(r)
			live = heldBy(w)
			w.Close()
		})
	}
	runtime.ReadMemStats(&after)
	per := float64(b.N * nodes)
	b.ReportMetric(float64(b.Elapsed().Microseconds())/per, "µs/node")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/per, "allocs/node")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/1024/per, "KiB/node")
	b.ReportMetric(float64(live)/1024/float64(nodes), "live-KiB/node")
	b.ReportMetric(float64(calls)/per, "calls/node")
}

// TestCallsPerNode: a rollout makes as many calls for a node of a big cluster as for one of a small cluster.
func TestCallsPerNode(t *testing.T) {
	per := func(nodes int) (calls int) {
		simulate(t, workers(nodes), func(t *testing.T, w *World) {
			r := w.Run()
			if _, err := r.Scale(t.Context(), w.grow()); err != nil {
				t.Error(err)
			}
			calls = made(r) / nodes
		})
		return calls
	}
	few, many := per(3), per(60)
	if many > few {
		t.Errorf("calls for each of 60 nodes: %d, for each of 3 nodes: %d; want no more", many, few)
	}
}

// made is how many calls the run has made, whatever the system.
func made(r *Run) (n int) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	for _, c := range r.calls {
		n += c
	}
	return n
}

// heldBy is the heap that is in use while w is.
func heldBy(w *World) uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	runtime.KeepAlive(w)
	return m.HeapAlloc
}

// inBubble runs play in a bubble of virtual time. synctest wants a T, and a benchmark has none.
func inBubble(b *testing.B, play func(*testing.T)) {
	b.Helper()
	everything := func(string, string) (bool, error) { return true, nil }
	ok := testing.RunTests(everything, []testing.InternalTest{{Name: b.Name(), F: func(t *testing.T) { synctest.Test(t, play) }}})
	if !ok {
		b.Fatal("the rollout failed")
	}
}

// workers is a cluster of n. kubelets post as they do by default where nothing changes: at each post the world looks at all of its nodes for broken
// promises, which is the world's work and no rollout's.
func workers(n int) (c Config) {
	for i := range n {
		c.Nodes = append(c.Nodes, NodeConfig{Name: fmt.Sprintf("w%d", i+1), PostEvery: 5 * time.Minute})
	}
	return c
}
