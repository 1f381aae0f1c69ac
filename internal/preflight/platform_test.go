package preflight

import (
	"strings"
	"testing"
)

func TestCloudStackVersion(t *testing.T) {
	for text, want := range map[string]Verdict{
		"4.23.0.0": Pass, "4.24.0.0-SNAPSHOT": Pass, "5.0": Pass, "4.23": Pass, "4.22.1.0": Fail, "4.9.3.1": Fail, "3.99.0": Fail,
		"": Unknown, "four": Unknown, "4": Unknown, "4.x.0": Unknown,
	} {
		c := cloudStackVersion(Cluster{Version: text})
		if c.Verdict != want || (c.Remedy != "") != (want == Fail) {
			t.Errorf("%q: %+v, want %s", text, c, want)
		}
	}
}

func TestHypervisor(t *testing.T) {
	for text, want := range map[string]Verdict{"KVM": Pass, "kvm": Pass, "VMware": Fail, "KVM VMware": Fail, "": Unknown} {
		c := hypervisor(Cluster{Hypervisors: strings.Fields(text)})
		if c.Verdict != want || (c.Remedy != "") != (want == Fail) {
			t.Errorf("%q: %+v, want %s", text, c, want)
		}
	}
}

func TestChangeCheck(t *testing.T) {
	yes, no := true, false
	for want, c := range map[Verdict]Change{Pass: {Offered: &yes}, Fail: {Offered: &no}, Unknown: {Problem: "no answer"}} {
		if got := ChangeCheck(c); got.Verdict != want || (got.Remedy != "") != (want == Fail) || want == Unknown && got.Evidence != "no answer" {
			t.Errorf("%+v: %+v, want %s", c, got, want)
		}
	}
}

func TestForLooking(t *testing.T) {
	checks := append(KubernetesChecks(Kubernetes{Asked: true, Denied: []string{"patch nodes"}}), ChangeCheck(Change{Offered: new(bool)}))
	got := ForLooking(checks)
	if got[0].Verdict != Warn || got[0].Evidence != "not allowed: patch nodes" || got[0].Remedy == checks[0].Remedy || got[2].Verdict != Fail || checks[0].Verdict != Fail {
		t.Errorf("%+v", got)
	}
}

func TestKubernetesChecks(t *testing.T) {
	for name, tt := range map[string]struct {
		k      Kubernetes
		rights Verdict
		nodes  Verdict
		says   string
	}{
		"all is well":              {Kubernetes{Asked: true}, Pass, Pass, "all needed rights"},
		"not asked":                {Kubernetes{Problem: "no answer"}, Unknown, Pass, "no answer"},
		"a right is missing":       {Kubernetes{Asked: true, Denied: []string{"patch nodes"}, Lacking: []string{"list pods"}}, Fail, Pass, "not allowed: patch nodes, list pods"},
		"one that is good to have": {Kubernetes{Asked: true, Lacking: []string{"list pods"}}, Warn, Pass, "not allowed: list pods"},
		"a Node is not Ready":      {Kubernetes{Asked: true, NotReady: []string{"w9"}}, Pass, Warn, "not Ready: w9"},
	} {
		checks := KubernetesChecks(tt.k)
		text := ""
		for _, c := range checks {
			text += c.Evidence + "\n"
			if needs := c.Verdict == Fail || c.Verdict == Warn; needs != (c.Remedy != "") {
				t.Errorf("%s: %+v", name, c)
			}
		}
		if checks[0].Verdict != tt.rights || checks[1].Verdict != tt.nodes || !strings.Contains(text, tt.says) {
			t.Errorf("%s: %+v", name, checks)
		}
	}
}
