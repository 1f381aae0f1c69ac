package rollout

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// restartNotes are warnings about what a restart of kubelet does on this very node, for a moment.
func restartNotes(seen Observation) []NodeCheck {
	notes := []NodeCheck{devicesNote(seen.Node)}
	if note, known := kubeletVersionNote(seen.Node.KubeletVersion); known {
		notes = append(notes, note)
	}
	return notes
}

// kubeletVersionNote tells of what newer kubelets have mended: up to 1.30 the first post after a start often says Ready=False (kubernetes pull request
// 124430), up to 1.34 every container with a readiness probe is not ready until its first probe (KEP-4781).
func kubeletVersionNote(kubelet string) (note NodeCheck, known bool) {
	v, err := version.ParseSemantic(kubelet)
	remedy := ""
	switch {
	case err != nil:
		return NodeCheck{}, false
	case v.LessThan(version.MustParseSemantic("1.31.0-0")):
		remedy = "After its restart the Node may be not Ready for about ten seconds, which trueup waits for; load balancers that go by that see it, too. And pods"
	case !capacity.KeepsReadiness(kubelet):
		remedy = "After its restart pods"
	}
	if remedy != "" {
		remedy += " with a readiness probe are not ready until their first probe succeeds: a Service with one pod has none meanwhile. trueup waits for them before the next node"
	}
	return warning("kubelet-version", preflight("version of kubelet", remedy == "", "1.35 or newer", kubelet), remedy), true
}

// devicesNote tells that the devices of this node are gone for a moment: device plugins register anew with a restarted kubelet.
func devicesNote(n capacity.Node) NodeCheck {
	devices := capacity.Extended(n.Allocatable)
	return warning("extended-resources", preflight("extended resources of the Node", len(devices) == 0, "none", orNone(devices)),
		"They are 0 after kubelet's restart until each device plugin has registered anew; trueup waits for them before the node is given back. Containers that have them keep them")
}

func orNone(words []string) string {
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}
