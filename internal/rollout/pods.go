package rollout

import (
	"fmt"
	"strings"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// A restart of kubelet stops no container, but a starting kubelet admits every pod of its node anew, and up to 1.34 it forgets what readiness
// probes had found. So the pods are read just before the restart, kept in the claim that announces it, and compared before the node is given
// back. What is found is told and undoes nothing: a pod that kubelet rejected is not brought back by stopping here.

// PodReading is one reading of a node's pods.
type PodReading struct {
	Pods []capacity.Pod `json:"pods,omitempty"`
	// Unknown says why they could not be read; empty if they were.
	Unknown string `json:"unknown,omitempty"`
}

// KeptPods is what a claim remembers of the pods before kubelet's restart: those that had not finished and were not being deleted.
type KeptPods struct {
	Pods []KeptPod `json:"pods,omitempty"`
	// LeftOut is how many more there were than a claim keeps.
	LeftOut int `json:"leftOut,omitempty"`
	// Unknown says why they could not be read; empty if they were.
	Unknown string `json:"unknown,omitempty"`
}

// KeptPod is one of them. Its names are short, because a claim is an annotation.
type KeptPod struct {
	UID      string `json:"u"`
	Name     string `json:"n"`           // namespace/name
	Phase    string `json:"p,omitempty"` // where it is not Running
	Ready    bool   `json:"y,omitempty"`
	Restarts int    `json:"r,omitempty"`
}

// mostKeptPods bounds a claim: kubelet's own default is 110 pods on a node. A pod takes about 100 bytes, at the very most 420 where all names
// are as long as Kubernetes allows; all annotations of a Node together may have 256 KiB.
const mostKeptPods = 256

// keptPods is what the claim keeps of a reading; nil if there was none.
func keptPods(seen *PodReading) *KeptPods {
	if seen == nil {
		return nil
	}
	kept := &KeptPods{Unknown: seen.Unknown}
	for _, p := range seen.Pods {
		switch {
		case p.Finished(), p.Deleting:
		case len(kept.Pods) == mostKeptPods:
			kept.LeftOut++
		default:
			kept.Pods = append(kept.Pods, keptPod(p))
		}
	}
	return kept
}

func keptPod(p capacity.Pod) KeptPod {
	k := KeptPod{UID: p.UID, Name: p.String(), Phase: p.Phase, Ready: p.Ready, Restarts: p.Restarts}
	if k.Phase == "Running" {
		k.Phase = ""
	}
	return k
}

// keptPods is what the claim keeps of the pods from before kubelet's restart, or before the stop; nil if nothing.
func (c *Claim) keptPods() *KeptPods {
	switch {
	case c.Cold != nil:
		return c.Cold.Pods
	case c.Restart != nil:
		return c.Restart.Pods
	}
	return nil
}

// interruption is what the pods went through, for people.
func (c *Claim) interruption() string {
	if c.Cold != nil {
		return "the instance's stop"
	}
	return "kubelet's restart"
}

// afterwards calls on each pod of before the restart with what it is now; nil if it is gone.
func afterwards(claim *Claim, seen Observation, on func(KeptPod, *capacity.Pod)) {
	kept := claim.keptPods()
	if kept == nil || seen.Pods == nil || seen.Pods.Unknown != "" {
		return
	}
	now := make(map[string]*capacity.Pod, len(seen.Pods.Pods))
	for i := range seen.Pods.Pods {
		now[seen.Pods.Pods[i].UID] = &seen.Pods.Pods[i]
	}
	for _, p := range kept.Pods {
		on(p, now[p.UID])
	}
}

// podsCheck is the name of checkPods' check.
const podsCheck = "readiness of pods that have a readiness probe"

// checkPods tells whether the pods that were ready before the restart, and have a readiness probe, are ready again. A kubelet that keeps
// what the probes had found needs no such wait. What is not known is not waited for.
func checkPods(claim *Claim, seen Observation) capacity.Check {
	c := capacity.Check{Layer: capacity.LayerReadiness, What: podsCheck, OK: true, Expected: "as before the restart", Observed: "as before the restart"}
	cold := claim.Cold != nil
	if cold {
		c.Expected, c.Observed = "as before the stop", "as before the stop"
	} else if capacity.KeepsReadiness(seen.Node.KubeletVersion) {
		return c
	}
	var missing []string
	afterwards(claim, seen, func(before KeptPod, now *capacity.Pod) {
		if now != nil && (cold || now.Probed) && notReadyAgain(before, *now) {
			missing = append(missing, before.Name)
		}
	})
	if missing != nil {
		c.OK, c.Observed = false, "not ready: "+some(missing)
	}
	return c
}

// notReadyAgain tells whether a pod was ready before and is not, although it still runs.
func notReadyAgain(before KeptPod, now capacity.Pod) bool {
	return before.Ready && !now.Ready && !now.Finished() && !now.Deleting
}

// podWarnings says what became of the pods since kubelet was restarted. After no restart there is nothing to say.
func podWarnings(claim *Claim, seen Observation) []string {
	if claim.Restart == nil && (claim.Cold == nil || claim.Cold.Power == nil) {
		return nil
	}
	const unknown = "what became of its pods is not known: "
	switch kept, it := claim.keptPods(), claim.interruption(); {
	case kept == nil && seen.Pods == nil:
		return nil
	case kept == nil:
		return []string{unknown + "the claim does not say what they were before " + it}
	case kept.Unknown != "":
		return []string{unknown + "before " + it + ": " + kept.Unknown}
	case seen.Pods == nil:
		return []string{unknown + "they were not read after " + it}
	case seen.Pods.Unknown != "":
		return []string{unknown + "after " + it + ": " + seen.Pods.Unknown}
	}
	return changedPods(claim, seen)
}

func changedPods(claim *Claim, seen Observation) []string {
	var rejected, failed, unready, restarted, gone []string
	afterwards(claim, seen, func(before KeptPod, now *capacity.Pod) {
		switch {
		case now == nil:
			gone = append(gone, before.Name)
		case now.Rejected():
			rejected = append(rejected, fmt.Sprintf("%s (%s)", before.Name, now.Reason))
		case now.Phase == "Failed":
			failed = append(failed, fmt.Sprintf("%s (%s)", before.Name, because(now.Reason)))
		case notReadyAgain(before, *now):
			unready = append(unready, before.Name)
		}
		if now != nil && before.Ready && now.Restarts > before.Restarts {
			restarted = append(restarted, fmt.Sprintf("%s (%d)", before.Name, now.Restarts-before.Restarts))
		}
	})
	var out []string
	say := func(names []string, text string) {
		if names != nil {
			out = append(out, text+some(names))
		}
	}
	say(rejected, "the restarted kubelet rejected pods that had run here: ")
	it := claim.interruption()
	say(failed, "pods failed since just before "+it+": ")
	say(unready, "pods that were ready before "+it+" are not: ")
	if claim.Cold == nil { // a boot starts every container anew
		say(restarted, "containers were restarted since just before "+it+", in pods that were ready: ")
	}
	say(gone, "pods of before "+it+" were deleted meanwhile: ")
	if n := claim.keptPods().LeftOut; n > 0 {
		out = append(out, fmt.Sprintf("%d pods were not compared: a claim keeps %d", n, mostKeptPods))
	}
	return out
}

func because(reason string) string {
	if reason == "" {
		return "no reason given"
	}
	return reason
}

// mostNamed is how many pods a sentence names.
const mostNamed = 10

// some names the first of them.
func some(names []string) string {
	text := strings.Join(names[:min(len(names), mostNamed)], ", ")
	if more := len(names) - mostNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
