package e2e

import (
	"testing"

	"github.com/cks-trueup/trueup/lab/cluster"
)

// TestFaults lets things go wrong, one after the other on one lab. Each works from whatever size the nodes have by then.
func TestFaults(t *testing.T) {
	f := start(t, cluster.Options{Workers: 1, Pods: 2})
	for _, k := range kills() {
		t.Run("killed: "+k.at, func(t *testing.T) { k.test(t, f) })
	}
	t.Run("API server away", func(t *testing.T) {
		disturbed{role: "control", growth: growth{cpus: 1}, disturb: stopAPIServer}.test(t, f)
	})
	t.Run("SSH server away", func(t *testing.T) { disturbed{role: "control", growth: growth{mib: 128}, disturb: stopSSHD}.test(t, f) })
	t.Run("connection cut in the restart", func(t *testing.T) { testCutInRestart(t, f) })
	t.Run("management server restarted", func(t *testing.T) { testServerRestart(t, f) })
	t.Run("no host has room", func(t *testing.T) { testNoCapacity(t, f) })
	t.Run("memory attached, CPUs not", func(t *testing.T) { testPartial(t, f) })
	t.Run("verify and reconcile", func(t *testing.T) { testReconcile(t, f) })
}
