package capacity

import "testing"

func TestKeepsReadiness(t *testing.T) {
	for version, want := range map[string]bool{
		"": false, "unknown": false, "v1.30.14": false, "v1.34.9": false, "v1.34.0-rc.1": false,
		"v1.35.0": true, "v1.35.0-beta.0": true, "v1.36.2+k3s1": true, "v2.0.0": true, "v1.4.0": false,
	} {
		if got := KeepsReadiness(version); got != want {
			t.Errorf("%q: %t", version, got)
		}
	}
}

func TestRejected(t *testing.T) {
	for _, c := range []struct {
		phase, reason string
		want          bool
	}{
		{"Failed", "NodeAffinity", true},
		{"Failed", "UnexpectedAdmissionError", true},
		{"Failed", "OutOfcpu", true},
		{"Failed", "OutOfvendor.example/gpu", true},
		{"Failed", "TaintToleration", true},
		{"Failed", "TopologyAffinityError", true},
		{"Failed", "SMTAlignmentError", true},
		{"Failed", "Evicted", false},
		{"Failed", "", false},
		{"Running", "NodeAffinity", false},
	} {
		if got := (Pod{Phase: c.phase, Reason: c.reason}).Rejected(); got != c.want {
			t.Errorf("%s %q: %t", c.phase, c.reason, got)
		}
	}
}
