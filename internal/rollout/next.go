package rollout

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// clockStep is how far two computed boot times of one boot may differ before the guest's clock counts as stepped. Both stamps of
// a reading are taken within milliseconds; slewing by NTP is 0.5 ms per second at most.
const clockStep = 2 * time.Second

// Next names the next step for one node. It is pure and level-triggered: it decides on the goal, the claim on the Node and one
// observation, never on what was done before. Tenure is the holding of the Lease under which the step would be taken.
func Next(goal Goal, tenure Tenure, claim *Claim, seen Observation) Step {
	if goal.Keep && !seen.Instance.AtOffering(goal.Offering) {
		return stopChanged(claim, goal, seen)
	}
	if claim == nil {
		return nextUnclaimed(goal, seen)
	}
	if s, bad := foreign(claim, goal, seen); bad {
		return s
	}
	if claim.Tenure() != tenure {
		return act(ActionAdopt, "the claim was written by "+claim.Tenure().String())
	}
	if claim.Cold != nil {
		return nextCold(goal, claim, seen)
	}
	switch {
	case !seen.Instance.AtOffering(goal.Offering):
		return nextResize(goal, claim, seen)
	case !guestAgrees(claim, goal, seen):
		return nextOnline(goal, claim, seen)
	case !seen.Target.Role.HasNode():
		return nextEtcd(seen)
	}
	return nextNode(goal, claim, seen)
}

// nextUnclaimed decides for a node that trueup has not touched, or has finished with.
func nextUnclaimed(goal Goal, seen Observation) Step {
	if lag := lagging(goal, seen); lag != "" {
		if refused := Refusals(goal, seen); len(refused) > 0 {
			return stopRefused(MoveClaim, refused[0])
		}
		return act(ActionClaim, lag)
	}
	if refused := failing(identityRefusals(seen)); len(refused) > 0 {
		return stopRefused(MoveVerify, refused[0])
	}
	if c := capacity.CheckMemTotal(nil, seen.Guest, goal.Offering); !c.OK {
		return stopCheck(MoveVerify, "all memory blocks are online, but MemTotal is implausible: is a balloon inflated?", c)
	}
	return nextAgreeing(seen)
}

// nextAgreeing decides for a node that is where it shall be: it must be well, too.
func nextAgreeing(seen Observation) Step {
	if !seen.Target.Role.HasNode() {
		if c := capacity.CheckEtcd(seen.Guest); !c.OK {
			return stopCheck(MoveVerify, "every view agrees, but etcd is not healthy", c)
		}
		return Step{Kind: KindDone, Why: "all views agree"}
	}
	if c, failed := capacity.Failed(capacity.CheckRunning(seen.Guest), capacity.CheckReady(seen.Node),
		capacity.CheckAllocatable(seen.Node.Capacity, seen.Node.Allocatable, seen.Node)); failed {
		return stopCheck(MoveVerify, "every view agrees, but the Node is not healthy", c)
	}
	return Step{Kind: KindDone, Why: "all views agree"}
}

// stopChanged ends a rollout that shall change no offering, where somebody did since it was planned.
func stopChanged(claim *Claim, goal Goal, seen Observation) Step {
	s := stopCheck(MoveClaim, "somebody changed the instance's offering, and this rollout shall not", capacity.CheckInstance(seen.Instance, goal.Offering))
	cluster := Word(cmp.Or(seen.Target.ClusterName, seen.Target.ClusterID))
	s.Fault.Recover = "trueup reconcile " + cluster + " " + Word(seen.Target.Name)
	if claim != nil {
		s.Fault.Recover = "trueup abort " + cluster + "; then " + s.Fault.Recover
	}
	return s
}

// stopRefused ends the rollout on a refusal.
func stopRefused(m Move, r Refusal) Step {
	s := stopCheck(m, r.Check.What, r.Check)
	s.Fault.Recover = r.Remedy
	return s
}

// lagging says in words which view has not reached the goal yet, or "" if all have.
func lagging(goal Goal, seen Observation) string {
	if goal.PastBoot != "" && goal.PastBoot == seen.Guest.BootID {
		return "its instance has not been stopped and started yet"
	}
	if c, failed := capacity.Failed(append([]capacity.Check{capacity.CheckInstance(seen.Instance, goal.Offering)}, sizes(goal, seen)...)...); failed {
		return c.String()
	}
	return ""
}

// sizes compares what the guest has online with the goal, and what the Node shows with the guest.
func sizes(goal Goal, seen Observation) []capacity.Check {
	out := []capacity.Check{capacity.CheckGuestCPUs(seen.Guest, goal.Offering), capacity.CheckGuestBlocks(seen.Guest, goal.Offering)}
	if seen.Target.Role.HasNode() {
		out = append(out, capacity.CheckCapacity(seen.Guest, seen.Node))
	}
	return out
}

// foreign refuses to go on where the claim is not for this goal or this machine, where SSH or the Node's name leads to another
// machine, or where another tool is at work on the node.
func foreign(claim *Claim, goal Goal, seen Observation) (Step, bool) {
	switch {
	case claim.InstanceID != seen.Instance.ID:
		return stop(MoveClaim, capacity.LayerLock, "the claim on the Node is for another instance", claim.InstanceID, seen.Instance.ID), true
	case claim.Goal.ID != goal.Offering.ID:
		s := stop(MoveClaim, capacity.LayerLock, "the node is claimed for another goal", goal.Offering.String(), claim.Goal.String())
		s.Fault.Recover = recoverCommand(seen.Target, claim.Asked())
		return s, true
	case claim.method() != goal.Method:
		s := stop(MoveClaim, capacity.LayerLock, "the node is claimed for another method", methodName(goal.Method), methodName(claim.method()))
		s.Fault.Recover = recoverCommand(seen.Target, claim.Asked())
		return s, true
	}
	if c := checkIdentity(seen); !c.OK && !identityUnread(claim, seen) {
		return stopCheck(MoveClaim, "SSH or the Node's name leads to another machine", c), true
	}
	if c := checkMarks(seen.Node); !c.OK {
		return stopCheck(MoveClaim, "another tool works on this node", c), true
	}
	return Step{}, false
}

// guestAgrees tells whether the guest has everything that the goal gives it online.
func guestAgrees(claim *Claim, goal Goal, seen Observation) bool {
	_, failed := capacity.Failed(capacity.CheckGuest(&claim.Before.Guest, seen.Guest, goal.Offering)...)
	return !failed
}

// nextOnline decides while CloudStack says that the instance has its offering and the guest does not show it.
func nextOnline(goal Goal, claim *Claim, seen Observation) Step {
	check, _ := capacity.Failed(capacity.CheckGuest(&claim.Before.Guest, seen.Guest, goal.Offering)...)
	if restarted(claim, seen) && hardwareChanged(claim, seen) {
		return stopCheck(MoveOnline, "the guest's hardware changed after kubelet was restarted", check)
	}
	offline := seen.Guest.CPUsPresent > seen.Guest.CPUsOnline || seen.Guest.BlocksOffline > 0
	switch {
	case seen.Guest.Excess(goal.Offering):
		return stopCheck(MoveOnline, "the guest has more than the goal", check)
	case offline && goal.NoOnline:
		check.Observed += " (bringing them up is switched off)"
		return wait(MoveOnline, check)
	case offline:
		return act(ActionOnline, check.String())
	}
	return wait(MoveOnline, check)
}

func roundUp(n, unit int64) int64 {
	if unit <= 0 {
		return n
	}
	return (n + unit - 1) / unit * unit
}

// nextNode decides once instance and guest have the goal: kubelet and the Node are left.
func nextNode(goal Goal, claim *Claim, seen Observation) Step {
	if restarted(claim, seen) && hardwareChanged(claim, seen) {
		return stop(MoveVerify, capacity.LayerGuest, "the guest's hardware changed after kubelet was restarted",
			fmt.Sprintf("%d CPUs and %d memory blocks online", claim.Restart.CPUsOnline, claim.Restart.BlocksOnline),
			fmt.Sprintf("%d CPUs and %d memory blocks online", seen.Guest.CPUsOnline, seen.Guest.BlocksOnline))
	}
	if why := restartDue(claim, seen); why != "" {
		if c, failed := capacity.Failed(capacity.CheckRunning(seen.Guest), checkPeers(seen)); failed {
			return wait(MoveRestart, c)
		}
		return act(ActionRestart, why)
	}
	if s, waits := unverified(goal, claim, seen); waits {
		return s
	}
	return act(ActionRelease, "verified")
}

// unverified is the wait for the first thing that is not true yet of kubelet and the Node, if there is one.
func unverified(goal Goal, claim *Claim, seen Observation) (s Step, waits bool) {
	c, failed := capacity.Failed(verification(goal, claim, seen)...)
	if !failed {
		return Step{}, false
	}
	s = wait(MoveVerify, c)
	s.Yields = c.What == podsCheck || c.What == capacity.ExtendedCheck
	if c.What == settledCheck {
		s.Wake = goal.Settle - seen.Guest.KubeletAge()
	}
	return s, true
}

// settledCheck is the name of capacity.CheckSettled's check: the one wait that ends by time alone.
const settledCheck = "kubelet settled"

// restarted tells whether the restart that the claim announces has happened: the guest runs the same boot, and
// kubelet's InvocationID is no longer the one from before. Another boot makes the announcement void.
func restarted(claim *Claim, seen Observation) bool {
	r := claim.Restart
	return r != nil && r.BootID == seen.Guest.BootID && r.InvocationID != seen.Guest.Kubelet.InvocationID
}

// hardwareChanged tells whether CPUs or memory blocks came or went since the restart was announced.
func hardwareChanged(claim *Claim, seen Observation) bool {
	return claim.Restart.CPUsOnline != seen.Guest.CPUsOnline || claim.Restart.BlocksOnline != seen.Guest.BlocksOnline
}

// restartDue says why kubelet must be restarted, or "" if it must not: because it was already, because the present process
// found the new hardware at its start, or because that can't be told yet.
func restartDue(claim *Claim, seen Observation) string {
	r := claim.Restart
	check := capacity.CheckCapacity(seen.Guest, seen.Node)
	switch {
	case r != nil && r.BootID == seen.Guest.BootID && r.InvocationID == seen.Guest.Kubelet.InvocationID:
		return "an announced restart has not happened"
	case restarted(claim, seen), check.OK:
		return ""
	case !capacity.CheckFresh(seen.Guest, seen.Node, capacity.Freshness{}).OK:
		// The present process has not posted yet, and may well have found everything: somebody rebooted, or restarted kubelet, or we did and
		// somebody deleted the claim that said so.
		return ""
	}
	return check.String()
}

// verification lists all that must be true of kubelet and the Node before the node is given back, in the order in which it comes true.
func verification(goal Goal, claim *Claim, seen Observation) []capacity.Check {
	b := claim.Before
	return []capacity.Check{
		capacity.CheckRunning(seen.Guest),
		capacity.CheckFresh(seen.Guest, seen.Node, freshness(claim, seen)),
		checkBoot(seen),
		capacity.CheckCapacity(seen.Guest, seen.Node),
		capacity.CheckReady(seen.Node),
		capacity.CheckAllocatable(b.Capacity, b.Allocatable, seen.Node),
		patiently(goal, seen, capacity.CheckExtended(b.Allocatable, seen.Node)),
		checkKubepods(seen),
		capacity.CheckKubepodsMemory(b.Guest, b.Capacity, seen.Guest, seen.Node),
		checkPeers(seen),
		patiently(goal, seen, checkPods(claim, seen)),
		capacity.CheckSettled(seen.Guest, goal.Settle),
	}
}

// patiently is a check that holds once it has been waited for long enough: what it is about comes back by itself or not at all.
func patiently(goal Goal, seen Observation, c capacity.Check) capacity.Check {
	c.OK = c.OK || seen.Guest.KubeletAge() >= goal.patience()
	return c
}

func freshness(claim *Claim, seen Observation) capacity.Freshness {
	if !restarted(claim, seen) {
		return capacity.Freshness{}
	}
	drift := seen.Guest.BootTime().Sub(claim.Restart.BootTime).Abs()
	return capacity.Freshness{Before: claim.Restart.Heartbeat, Stepped: drift > clockStep}
}

// checkBoot tells whether the Node's status speaks of the boot that the guest is in.
func checkBoot(seen Observation) capacity.Check {
	return capacity.Check{Layer: capacity.LayerReadiness, What: "boot id in the Node's status",
		OK: seen.Node.BootID == seen.Guest.BootID, Expected: seen.Guest.BootID, Observed: seen.Node.BootID}
}

// checkKubepods tells whether pods may use every online CPU: from Kubernetes 1.32 on kubelet pins the kubepods cgroup to the CPUs
// that it found at its start. A guest where the figure can't be read (cgroup v1) passes.
func checkKubepods(seen Observation) capacity.Check {
	n := seen.Guest.KubepodsCPUs
	c := capacity.Check{Layer: capacity.LayerKubelet, What: "CPUs of the kubepods cgroup",
		OK: n == 0 || n == seen.Guest.CPUsOnline, Expected: fmt.Sprint(seen.Guest.CPUsOnline), Observed: fmt.Sprint(n)}
	if n == 0 {
		c.Observed = "not read"
	}
	return c
}

// nextEtcd decides once instance and guest of a dedicated etcd machine have the goal. Nothing is restarted: etcd does not size itself by the machine.
func nextEtcd(seen Observation) Step {
	if c, failed := capacity.Failed(others(seen)...); failed {
		return wait(MoveVerify, c)
	}
	return act(ActionRelease, "verified")
}

// checkPeers tells whether the other control-plane nodes are Ready and the API server calls itself ready, its etcd included.
func checkPeers(seen Observation) capacity.Check {
	c := capacity.Check{Layer: capacity.LayerReadiness, What: "rest of the control plane", OK: true, Expected: "ready", Observed: "ready"}
	var bad []string
	for _, p := range seen.Peers {
		if !p.Ready.True() {
			bad = append(bad, fmt.Sprintf("%s is Ready=%s", p.Name, p.Ready.Status))
		}
	}
	if seen.ControlPlane != "" {
		bad = append(bad, "the API server says "+seen.ControlPlane)
	}
	if bad != nil {
		c.OK, c.Observed = false, strings.Join(bad, ", ")
	}
	return c
}

// checkIdentity tells whether CloudStack, SSH and the Kubernetes API speak of one machine.
func checkIdentity(seen Observation) capacity.Check {
	id, guest, node := seen.Instance.ID, seen.Guest.ProductUUID, seen.Node.SystemUUID
	if !seen.Target.Role.HasNode() {
		return capacity.Check{Layer: capacity.LayerAccess, What: "machine behind SSH", OK: guest == id, Expected: id, Observed: "DMI UUID of the guest " + guest}
	}
	return capacity.Check{Layer: capacity.LayerAccess, What: "machine behind SSH and Node", OK: guest == id && node == id,
		Expected: id, Observed: fmt.Sprintf("DMI UUID of the guest %s, systemUUID of the Node %s", guest, node)}
}

// identityUnread tells whether the guest is off, or not up yet, by the cold method's own doing, and the Node at least is the right one.
func identityUnread(claim *Claim, seen Observation) bool {
	return claim.Cold != nil && seen.Guest.BootID == "" && (seen.Node.SystemUUID == seen.Instance.ID || !seen.Target.Role.HasNode())
}

// checkMarks tells whether the Node is free of other tools' marks and of a deletion.
func checkMarks(n capacity.Node) capacity.Check {
	c := capacity.Check{Layer: capacity.LayerSchedulability, What: "marks of other tools on the Node", OK: true, Expected: "none", Observed: "none"}
	var found []string
	if n.Deleting {
		found = append(found, "metadata.deletionTimestamp")
	}
	for _, m := range n.Marks {
		found = append(found, m.String())
	}
	if len(found) > 0 {
		c.OK, c.Observed = false, strings.Join(found, ", ")
	}
	return c
}
