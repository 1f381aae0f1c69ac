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
}
