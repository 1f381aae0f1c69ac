package rollout

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cks-trueup/trueup/internal/capacity"
)

func TestKubeletVersionNote(t *testing.T) {
	for version, says := range map[string]string{
		"v1.36.3": "", "v1.35.0": "", "v1.35.0-rc.1": "",
		"v1.34.9": "After its restart pods with a readiness probe", "v1.31.0": "After its restart pods with a readiness probe",
		"v1.30.14": "the Node may be not Ready", "v1.28.4+k3s1": "the Node may be not Ready",
	} {
		n, known := kubeletVersionNote(version)
		if !known || n.Check.OK != (says == "") || !n.Warning || !strings.Contains(n.Remedy, says) || (n.Remedy == "") != (says == "") {
			t.Errorf("%q: %+v, want %q", version, n, says)
		}
	}
}

func TestDevicesNote(t *testing.T) {
	n := capacity.Node{Allocatable: capacity.Resources{"cpu": resource.MustParse("2"), "memory": resource.MustParse("2Gi"), "pods": resource.MustParse("110"),
		"ephemeral-storage": resource.MustParse("1Gi"), "hugepages-2Mi": resource.MustParse("2Mi")}}
	if note := devicesNote(n); !note.Check.OK {
		t.Errorf("%+v", note)
	}
	n.Allocatable["vendor.example/gpu"] = resource.MustParse("2")
	n.Allocatable["vendor.example/none"] = resource.MustParse("0")
	if note := devicesNote(n); note.Check.OK || note.Check.Observed != "vendor.example/gpu 2" || !note.Warning {
		t.Errorf("%+v", note)
	}
}

func TestUnknownKubeletVersion(t *testing.T) {
	for _, version := range []string{"", "newest"} {
		if n, known := kubeletVersionNote(version); known {
			t.Errorf("%q: %+v", version, n)
		}
	}
}

// The notes are about a restart: they are told only where there will be one.
func TestNotesAreForARestart(t *testing.T) {
	has := func(s scene) bool {
		for _, c := range NodeChecks(s.goal, s.seen) {
			if c.Name == "extended-resources" {
				return true
			}
		}
		return false
	}
	if !has(untouched()) {
		t.Error("no note where kubelet will be restarted")
	}
	if has(untouched().with(func(s *scene) { s.seen.Target.Role = RoleEtcd })) {
		t.Error("a note on a machine without a kubelet")
	}
	if has(untouched().with(func(s *scene) { s.goal.Offering = faster })) {
		t.Error("a note where only the speed changes")
	}
}
