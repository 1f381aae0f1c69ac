package main

const (
	nextFile     = "internal/rollout/next.go"
	resizeFile   = "internal/rollout/next_resize.go"
	refuseFile   = "internal/rollout/refuse.go"
	planFile     = "internal/rollout/plan.go"
	makeFile     = "internal/rollout/make_claim.go"
	capacityFile = "internal/capacity/agree.go"
)

// theTable is the table of Next and the walk of its input space: what is wrong with Next must show there.
func theTable() suite { return suite{dir: "internal/rollout", run: "^TestNext"} }

// inNext is a mutant of the file that holds Next.
func inNext(name, promise, was, becomes string) mutant {
	return mutant{name: name, promise: promise, file: nextFile, was: was, becomes: becomes, by: theTable()}
}

// ofNext are mutants of the pure function: which step comes next.
func ofNext() []mutant {
	m := inNext
	return []mutant{
		m("change an offering that is kept", "healing changes no offering",
			"if goal.Keep && !seen.Instance.AtOffering(goal.Offering) {", "if goal.Keep && claim != nil && !seen.Instance.AtOffering(goal.Offering) {"),
		m("change an offering that is kept on a claimed node", "healing changes no offering",
			"if goal.Keep && !seen.Instance.AtOffering(goal.Offering) {", "if goal.Keep && claim == nil && !seen.Instance.AtOffering(goal.Offering) {"),
		m("swap restart and online", "kubelet is restarted only after every plugged CPU and memory block is online",
			"case !guestAgrees(claim, goal, seen):\n\t\treturn nextOnline(goal, claim, seen)",
			"case !guestAgrees(claim, goal, seen):\n\t\tif !restarted(claim, seen) {\n\t\t\treturn act(ActionRestart, \"swapped\")\n\t\t}\n\t\treturn nextOnline(goal, claim, seen)"),
		m("believe CloudStack about the guest", "no success from a CloudStack record alone: the guest is read",
			"case !guestAgrees(claim, goal, seen):", "case !guestAgrees(claim, goal, seen) && !seen.Instance.AtOffering(goal.Offering):"),
		m("believe a job that succeeded", "no success from a CloudStack record alone: the instance is read",
			"case !seen.Instance.AtOffering(goal.Offering):", "case !seen.Instance.AtOffering(goal.Offering) && (seen.Job == nil || seen.Job.Status != JobSucceeded):"),
		m("go on under an earlier run's claim", "a claim of another tenure is taken over before anything else is done",
			"if claim.Tenure() != tenure {", "if claim.Run != tenure.Run {"),
		m("never take a claim over", "a claim of another run is taken over before anything else is done",
			"if claim.Tenure() != tenure {", "if claim.Transitions != tenure.Transitions && claim.Run == tenure.Run {"),
		m("claim whatever is refused", "a node is not started on while anything speaks against it",
			"if refused := Refusals(goal, seen); len(refused) > 0 {\n\t\t\treturn stopRefused(MoveClaim, refused[0])\n\t\t}\n", ""),
		m("done on another machine", "SSH, Node and instance must be one machine, also where nothing is to be done",
			"if refused := failing(identityRefusals(seen)); len(refused) > 0 {", "if refused := failing(identityRefusals(seen)); len(refused) > 4 {"),
		m("done with a balloon inflated", "all memory blocks online is not enough: MemTotal must be plausible",
			"if c := capacity.CheckMemTotal(nil, seen.Guest, goal.Offering); !c.OK {", "if c := capacity.CheckMemTotal(nil, seen.Guest, goal.Offering); !c.OK && seen.Guest.MemTotal == 0 {"),
		m("done while not Ready", "a node is not called done while it is not Ready",
			"capacity.CheckRunning(seen.Guest), capacity.CheckReady(seen.Node),\n", "capacity.CheckRunning(seen.Guest),\n"),
		m("done without the Node", "a node is done only when the Node shows what the guest has",
			"if seen.Target.Role.HasNode() {\n\t\tout = append(out, capacity.CheckCapacity(", "if !seen.Target.Role.HasNode() {\n\t\tout = append(out, capacity.CheckCapacity("),
		m("done without the guest's CPUs", "a node is done only when the guest has its CPUs online",
			"out := []capacity.Check{capacity.CheckGuestCPUs(seen.Guest, goal.Offering), capacity.CheckGuestBlocks(", "out := []capacity.Check{capacity.CheckGuestBlocks("),
		m("follow a claim for another instance", "a claim for another instance is never acted on",
			"case claim.InstanceID != seen.Instance.ID:", "case claim.InstanceID == \"\":"),
		m("follow a claim for another goal", "a changed goal is refused while the first one is open",
			"case claim.Goal.ID != goal.Offering.ID:", "case claim.Goal.ID == \"\":"),
		m("skip the identity check", "nothing is done on a machine that is not the instance",
			"if c := checkIdentity(seen); !c.OK && !identityUnread(claim, seen) {", "if c := checkIdentity(seen); !c.OK && seen.Guest.ProductUUID == \"\" {"),
		m("identity without the guest", "SSH must lead to the instance", "OK: guest == id && node == id,", "OK: node == id,"),
		m("identity without the Node", "the Node must be the instance", "OK: guest == id && node == id,", "OK: guest == id,"),
		m("go on beside another tool", "marks of other tools stop the rollout in every look, not in the first alone",
			"if c := checkMarks(seen.Node); !c.OK {\n\t\treturn stopCheck(MoveClaim", "if c := checkMarks(seen.Node); !c.OK && claim.Resize == nil {\n\t\treturn stopCheck(MoveClaim"),
		m("ignore a deletion", "nothing is done to a Node that is being deleted", "if n.Deleting {", "if n.Deleting && len(n.Marks) > 0 {"),
		m("bring up too much", "a guest with more than the goal is a fault, and nothing of it is brought up",
			"case seen.Guest.Excess(goal.Offering):", "case seen.Guest.Excess(goal.Offering) && !offline:"),
		m("bring up although it is switched off", "what the operator switched off is not done", "case offline && goal.NoOnline:", "case offline && goal.NoOnline && seen.Guest.CPUsPresent == 0:"),
		m("online memory alone", "offline CPUs are brought up", "offline := seen.Guest.CPUsPresent > seen.Guest.CPUsOnline || seen.Guest.BlocksOffline > 0", "offline := seen.Guest.BlocksOffline > 0"),
		m("online CPUs alone", "offline memory blocks are brought up", "offline := seen.Guest.CPUsPresent > seen.Guest.CPUsOnline || seen.Guest.BlocksOffline > 0", "offline := seen.Guest.CPUsPresent > seen.Guest.CPUsOnline"),
		m("wait after late hardware", "hardware that comes after the restart is a fault, told at once",
			"check, _ := capacity.Failed(capacity.CheckGuest(&claim.Before.Guest, seen.Guest, goal.Offering)...)\n\tif restarted(claim, seen) && hardwareChanged(claim, seen) {",
			"check, _ := capacity.Failed(capacity.CheckGuest(&claim.Before.Guest, seen.Guest, goal.Offering)...)\n\tif restarted(claim, seen) && hardwareChanged(claim, seen) && seen.Guest.CPUsOnline == 0 {"),
		m("release after late hardware", "a kubelet that was restarted before the hardware was complete does not count",
			"func nextNode(goal Goal, claim *Claim, seen Observation) Step {\n\tif restarted(claim, seen) && hardwareChanged(claim, seen) {",
			"func nextNode(goal Goal, claim *Claim, seen Observation) Step {\n\tif restarted(claim, seen) && claim.Restart.CPUsOnline != seen.Guest.CPUsOnline {"),
		m("restart a kubelet that crash-loops", "kubelet is restarted only while it runs",
			"capacity.Failed(capacity.CheckRunning(seen.Guest), checkPeers(seen)); failed {", "capacity.Failed(checkPeers(seen)); failed {"),
		m("restart while a peer is down", "a control-plane node's kubelet is restarted only while the others are well",
			"capacity.Failed(capacity.CheckRunning(seen.Guest), checkPeers(seen)); failed {", "capacity.Failed(capacity.CheckRunning(seen.Guest)); failed {"),
		m("restart without comparing InvocationIDs", "a kubelet that was restarted is not restarted again",
			"case r != nil && r.BootID == seen.Guest.BootID && r.InvocationID == seen.Guest.Kubelet.InvocationID:", "case r != nil && r.BootID == seen.Guest.BootID:"),
		m("restart again while the Node lags", "kubelet is restarted once, however long its status takes",
			"case restarted(claim, seen), check.OK:", "case check.OK:"),
		m("forget an announced restart", "a restart that was announced and did not happen is done",
			"case r != nil && r.BootID == seen.Guest.BootID && r.InvocationID == seen.Guest.Kubelet.InvocationID:", "case r != nil && r.BootID == \"\":"),
		m("announced means happened", "a restart counts only when the InvocationID has changed",
			"return r != nil && r.BootID == seen.Guest.BootID && r.InvocationID != seen.Guest.Kubelet.InvocationID", "return r != nil && r.BootID == seen.Guest.BootID"),
		m("ignore the boot id of a restart that happened", "another boot makes the announcement void",
			"return r != nil && r.BootID == seen.Guest.BootID && r.InvocationID != seen.Guest.Kubelet.InvocationID", "return r != nil && r.InvocationID != seen.Guest.Kubelet.InvocationID"),
		m("restart over a restart of somebody else", "a kubelet that somebody restarted may have found everything: wait for its status",
			"case !capacity.CheckFresh(seen.Guest, seen.Node, capacity.Freshness{}).OK:", "case capacity.CheckFresh(seen.Guest, seen.Node, capacity.Freshness{}).OK:"),
		m("a status from before the process tells all", "a kubelet that has not posted since its start is not restarted: the claim that said why may be gone",
			"case !capacity.CheckFresh(seen.Guest, seen.Node, capacity.Freshness{}).OK:", "case restarted(claim, seen):"),
	}
}

// ofEtcd are mutants of Next for dedicated etcd machines.
func ofEtcd() []mutant {
	m := inNext
	return []mutant{
		m("etcd is never looked at again", "an etcd machine is given back only when every member is healthy",
			"capacity.Failed(others(seen)...)", "capacity.Failed(checkPeers(seen))"),
		m("etcd is given back behind an ill API server", "an etcd machine is given back only when the API server calls its etcd well",
			"capacity.Failed(others(seen)...)", "capacity.Failed(capacity.CheckEtcd(seen.Guest))"),
		m("done with an ill etcd", "an etcd machine is not called done while a member is ill",
			"if c := capacity.CheckEtcd(seen.Guest); !c.OK {", "if c := capacity.CheckEtcd(seen.Guest); !c.OK && seen.Guest.Etcd == nil {"),
		m("restart a kubelet that is not there", "on an etcd machine nothing is restarted",
			"case !seen.Target.Role.HasNode():\n\t\treturn nextEtcd(seen)", "case !seen.Target.Role.HasNode() && seen.Guest.Etcd == nil:\n\t\treturn nextEtcd(seen)"),
	}
}

// ofResize are mutants of Next while the instance has not got its offering.
func ofResize() []mutant {
	m := func(name, promise, was, becomes string) mutant {
		return mutant{name: name, promise: promise, file: resizeFile, was: was, becomes: becomes, by: theTable()}
	}
	return []mutant{
		m("resend before the expiry", "a request whose reply was lost is sent again only when it can't be accepted any more",
			"case seen.ServerTime.After(intent.Expires):", "case seen.ServerTime.After(intent.Asked):"),
		m("resend at the expiry", "CloudStack's clock is cut to the second: at the expiry is not after it",
			"case seen.ServerTime.After(intent.Expires):", "case !seen.ServerTime.Before(intent.Expires):"),
		m("never resend", "a request that never arrived is sent again once it has expired",
			"case seen.ServerTime.After(intent.Expires):", "case seen.ServerTime.After(intent.Expires.Add(time.Minute)):"),
		m("accept an older job as ours", "a job that was there before the request is not its job",
			"\tcase intent.JobID == \"\" && job.Created.Before(intent.Asked.Truncate(time.Second)):\n\t\treturn nil\n", ""),
		m("lose a job of the same second", "a job made in the second of the request is its job",
			"job.Created.Before(intent.Asked.Truncate(time.Second))", "job.Created.Before(intent.Asked)"),
		m("accept another job than the named one", "the job that the claim names is the only one that counts",
			"\tcase intent.JobID != \"\" && intent.JobID != job.ID:\n\t\treturn nil\n", ""),
		m("unknown outcome taken for a failure", "a job that CloudStack does not know has not failed",
			"case intent.JobID != \"\":\n\t\treturn nextJob(", "case intent.JobID != \"\" && job == nil:\n\t\treturn nextFailed(goal, claim, seen, \"unknown\", \"unknown\")\n\tcase intent.JobID != \"\":\n\t\treturn nextJob("),
		m("unknown outcome taken for nothing", "a job that CloudStack does not know may have been done: it is not asked for again",
			"case intent.JobID != \"\":\n\t\treturn nextJob(", "case intent.JobID != \"\" && job == nil:\n\t\treturn nextRequest(seen, atGoal, \"unknown\")\n\tcase intent.JobID != \"\":\n\t\treturn nextJob("),
		m("retry a failed job in the same attempt", "a job that failed ends the attempt: what failed once is not repeated unseen",
			"return nextFailedJob(goal, claim, seen, job)", "return nextRequest(seen, atGoal, \"again\")"),
		m("retry a refused request in the same attempt", "a request that was refused ends the attempt",
			"return nextFailed(goal, claim, seen, \"CloudStack refused the offering change\", intent.Refused)", "return nextRequest(seen, atGoal, \"again\")"),
		m("leave a found job unnamed", "a job that was found again is kept in the claim before anything else",
			"return act(ActionNoteJob, \"found job \"+job.ID+\" again, the reply to the request was lost\")", "return nextJob(intent, job, atGoal)"),
		m("resize beside another job", "at most one job is at work on an instance",
			"case seen.Job != nil && seen.Job.Status == JobPending:", "case seen.Job != nil && seen.Job.Status == JobPending && !seen.Instance.Running():"),
		m("resize while migrating", "only a running instance is resized", "case !seen.Instance.Running():", "case seen.Instance.State == \"\":"),
		m("resize while a peer is down", "a control-plane node is resized only while the others are well",
			"if c, failed := capacity.Failed(others(seen)...); failed {", "if c, failed := capacity.Failed(others(seen)...); failed && seen.Instance.State == \"\" {"),
		m("resize while an etcd member is ill", "an etcd machine is resized only while every member is healthy",
			"return []capacity.Check{capacity.CheckEtcd(seen.Guest), checkPeers(seen)}", "return []capacity.Check{checkPeers(seen)}"),
		m("a job that was given up has failed", "a job cancelled by a management restart may still be at work: the node stays cordoned",
			"if !job.Cancelled {", "if !job.Cancelled || job.ID != \"\" {"),
		m("give back after a partial attach", "a node is given back after a failure only if nothing was changed",
			"case !c.OK:", "case !c.OK && c.Layer != capacity.LayerGuest:"),
		m("give back an unhealthy node", "a node is given back after a failure only if it is Ready",
			"checkCapacityAsBefore(b, seen.Node), capacity.CheckRunning(g), capacity.CheckReady(seen.Node)}", "checkCapacityAsBefore(b, seen.Node), capacity.CheckRunning(g)}"),
		m("give back with another capacity", "a node is given back after a failure only if its Node shows what it showed before",
			"[]capacity.Check{c, checkCapacityAsBefore(b, seen.Node), capacity.CheckRunning(g)", "[]capacity.Check{c, capacity.CheckRunning(g)"),
		m("give back after one reading", "nothing changed means two readings half a minute apart",
			"case seen.Guest.Monotonic-first.Monotonic < unchangedFor:", "case seen.Guest.Monotonic < first.Monotonic:"),
		m("give back across a reboot", "the two readings are of one boot",
			"case first == nil || first.BootID != seen.Guest.BootID:", "case first == nil:"),
		m("give back without the reason", "a rollout that gives a node back ends with the fault that made it",
			"s.Fault = failed.Fault\n", ""),
	}
}

// ofVerification are mutants of what must be true before a node is given back.
func ofVerification() []mutant {
	m := inNext
	return []mutant{
		m("verify without a running kubelet", "a node is given back only while its kubelet runs", "\t\tcapacity.CheckRunning(seen.Guest),\n\t\tcapacity.CheckFresh(", "\t\tcapacity.CheckFresh("),
		m("trust a stale Ready", "the status must be posted by the restarted kubelet", "\t\tcapacity.CheckFresh(seen.Guest, seen.Node, freshness(claim, seen)),\n", ""),
		m("ignore the boot id of the Node", "the status must speak of the boot that the guest is in", "\t\tcheckBoot(seen),\n", ""),
		m("verify without capacity", "a node is given back only when the Node shows what the guest has", "\t\tcheckBoot(seen),\n\t\tcapacity.CheckCapacity(seen.Guest, seen.Node),\n", "\t\tcheckBoot(seen),\n"),
		m("verify without Ready", "a node is given back only when it is Ready", "\t\tcapacity.CheckReady(seen.Node),\n\t\tcapacity.CheckAllocatable(b", "\t\tcapacity.CheckAllocatable(b"),
		m("verify without allocatable", "allocatable must have grown with the capacity", "\t\tcapacity.CheckAllocatable(b.Capacity, b.Allocatable, seen.Node),\n", ""),
		m("verify allocatable against now", "allocatable is compared with what it was before the claim", "capacity.CheckAllocatable(b.Capacity, b.Allocatable, seen.Node),", "capacity.CheckAllocatable(seen.Node.Capacity, seen.Node.Allocatable, seen.Node),"),
		m("verify without extended resources", "devices must be back before pods come", "\t\tpatiently(goal, seen, capacity.CheckExtended(b.Allocatable, seen.Node)),\n", ""),
		m("verify without kubepods", "pods must be allowed to use every CPU", "\t\tcheckKubepods(seen),\n", ""),
		m("verify without the pods' memory limit", "pods must be allowed to use the memory that was added", "\t\tcapacity.CheckKubepodsMemory(b.Guest, b.Capacity, seen.Guest, seen.Node),\n", ""),
		m("verify the pods' memory limit against nothing", "the limit that was left over from before is found even where it is above allocatable", "capacity.CheckKubepodsMemory(b.Guest, b.Capacity,", "capacity.CheckKubepodsMemory(capacity.Guest{}, b.Capacity,"),
		m("verify without peers", "the rest of the control plane must be well before the next node's turn", "\t\tcheckPeers(seen),\n\t\tpatiently(goal, seen, checkPods", "\t\tpatiently(goal, seen, checkPods"),
		m("verify without settling", "the restarted kubelet must have run for a while", "\t\tcapacity.CheckSettled(seen.Guest, goal.Settle),\n", ""),
		m("heartbeat from before the restart", "the heartbeat must differ from the one before the restart", "capacity.Freshness{Before: claim.Restart.Heartbeat, Stepped: drift > clockStep}", "capacity.Freshness{Stepped: drift > clockStep}"),
		m("never see a stepped clock", "a guest whose clock was stepped is still verified", "Stepped: drift > clockStep}", "Stepped: drift > 2*time.Hour}"),
		m("every clock is stepped", "stamps of a clock that was not stepped are compared", "Stepped: drift > clockStep}", "Stepped: drift >= clockStep}"),
		m("a peer's unknown state is well", "a control-plane node whose state is unknown is not Ready", "if !p.Ready.True() {", "if p.Ready.Status == \"False\" {"),
		m("the API server's own word is ignored", "a control-plane node is touched only while the API server's etcd is well", "if seen.ControlPlane != \"\" {", "if seen.ControlPlane != \"\" && bad != nil {"),
		m("kubepods of cgroup v1", "a guest that does not tell the CPUs of its pods is not held up", "OK: n == 0 || n == seen.Guest.CPUsOnline,", "OK: n == seen.Guest.CPUsOnline,"),
	}
}

// ofInspection are mutants of what is checked once, before the first change of a rollout.
func ofInspection() []mutant {
	m := func(name, promise, was, becomes string) mutant {
		return mutant{name: name, promise: promise, file: "internal/rollout/inspect.go", was: was, becomes: becomes, by: suite{dir: "internal/rollout", run: "^TestInspectionChecks$"}}
	}
	waits := m("a static policy that waits in the configuration", "kubelet's restart would apply its configuration: refused before", "dynamic(cpu) && dynamic(c.CPUManagerPolicy)", "dynamic(cpu)")
	waits.file = refuseFile
	return []mutant{
		waits,
		m("the last slot is as good as none", "a machine with a free slot can grow", "case i.DIMMsPlugged >= i.DIMMSlots:", "case i.DIMMsPlugged >= i.DIMMSlots-1:"),
		m("a machine without slots", "a machine that was started without slots is refused before", "case i.DIMMSlots == 0:", "case i.DIMMSlots == 0 && i.DIMMsPlugged > 0:"),
		m("a refused DIMM is nothing but a warning", "after a DIMM that the kernel refused it refuses every later one: refused before", "r.Warning = plugs(goal, seen) == 0", "r.Warning = true"),
		m("an overwritten log tells of nothing", "what is not known is never taken for passed", "if r.Check.OK && !known {", "if r.Check.OK && !known && r.Warning {"),
		m("page structs without room", "a growth whose page structs don't fit is refused before", "r.Warning = needed <= i.MemAvailable && ", "r.Warning = "),
		m("any multiple of the boot memory", "memory that the kernel can't manage is refused before", " && plugged <= tooMuchPerBoot*booted", ""),
		m("restart what is not kubelet's", "a kubelet inside another service is refused", "len(i.OtherKubelets) == 0, ", "len(i.OtherKubelets) >= 0, "),
		m("pending configuration", "what a restart would apply is told before", "changed := k.ChangedSince(seen.Guest.KubeletStart())", "changed := k.ChangedSince(seen.Guest.Clock)"),
	}
}

// ofRefusals are mutants of what speaks against a node before anything is done to it.
func ofRefusals() []mutant {
	m := func(name, promise, was, becomes string) mutant {
		return mutant{name: name, promise: promise, file: refuseFile, was: was, becomes: becomes, by: suite{dir: "internal/rollout", run: "^TestRefusals$|^TestNext(Unclaimed|Peers)$"}}
	}
	smaller := func(m mutant) mutant { m.file = "internal/capacity/capacity.go"; return m }
	return []mutant{
		m("claim without looking at marks", "a node that another tool works on is not claimed", "{preflight(marks.What, marks.OK, marks", "{preflight(marks.What, marks.OK || seen.Node.Unschedulable == false, marks"),
		m("claim while not Ready", "only a healthy node is started on", "{preflight(ready.What, ready.OK, ready", "{preflight(ready.What, ready.OK || seen.Node.Ready.Status != \"\", ready"),
		m("believe the list about the role", "a node whose label and CloudStack's list disagree about its role is not begun on", "preflight(\"role of the node\", label == seen.Target.Role,", "preflight(\"role of the node\", label != \"\","),
		m("ignore what the promises rest on", "only checks that the promises don't rest on can be ignored", "slices.Contains(g.Ignore, name) && Ignorable(name)", "slices.Contains(g.Ignore, name)"),
		m("claim while a peer is down", "a control-plane node is not claimed while another one is away", "all = append(all, peerRefusals(seen)...)\n", ""),
		m("take on a static CPU manager", "kubelet with a static policy does not come back after a growth: refused",
			"dynamic(cpu) && dynamic(c.CPUManagerPolicy)", "dynamic(c.CPUManagerPolicy)"),
		m("take on a static memory manager", "the same for the memory manager", "dynamic(memory) && dynamic(c.MemoryManagerPolicy)", "dynamic(c.MemoryManagerPolicy)"),
		m("a warning refuses", "what a person should merely know is no reason to refuse", "return !c.Warning && !goal.Ignores(c.Name)", "return !goal.Ignores(c.Name)"),
		m("grow by half a block", "the kernel refuses a DIMM that is no multiple of its blocks: refused before", "g.BlockSize > 0 && growth%g.BlockSize == 0", "g.BlockSize > 0"),
		m("more CPUs than the guest can have", "a count that this boot can never reach is refused before", "g.CPUsPossible >= goal.CPUs,", "g.CPUsPossible >= goal.CPUs-1,"),
		smaller(m("shrink a running instance", "CloudStack lets a running instance only grow: refused before", "o.MemoryMiB < i.MemoryMiB || ", "")),
		m("take on a VM without dynamic scaling", "a VM that CloudStack can't scale live is refused before", "{preflight(\"dynamic scaling of the instance\", i.DynamicallyScalable,", "{preflight(\"dynamic scaling of the instance\", i.DynamicallyScalable || goal.DynamicScaling,"),
		m("take on a cloned machine-id", "Node and guest must be one machine", "n.MachineID == g.MachineID, g.MachineID", "n.MachineID != \"\", g.MachineID"),
		m("take on a Node of another boot", "the Node's status must be of the boot that the guest is in", "n.BootID == g.BootID, g.BootID", "n.BootID != \"\", g.BootID"),
	}
}

// ofPlans are mutants of the order of nodes.
func ofPlans() []mutant {
	m := func(name, promise, was, becomes, tests string) mutant {
		return mutant{name: name, promise: promise, file: planFile, was: was, becomes: becomes, by: suite{dir: "internal/rollout", run: tests}}
	}
	return []mutant{
		m("control plane before workers", "workers come first: what goes wrong goes wrong on them", "\t\t\treturn 2\n", "\t\t\treturn 1\n", "^TestPlans$|^TestRolloutOfThreeNodes$"),
		m("claimed node not first", "what was begun is finished before anything else is begun", "case m.Claim != nil:\n\t\t\treturn 0", "case m.Claim != nil && m.Claim.Run == \"\":\n\t\t\treturn 0", "^TestPlans$|^TestClaimedNodeComesFirst$"),
		m("leave a claimed node out", "a rollout that leaves out a claimed node is refused", "\t\tcase m.Claim != nil:\n\t\t\tp.Nodes = append(p.Nodes, unfinished(m))\n", "", "^TestPlans$|^TestClaimedNodeComesFirst$"),
		m("plan without refusals", "every reason not to start on a node is in the plan", "np.Refusals, np.Warnings = Refusals(goal, m.Seen), Warnings(goal, m.Seen)", "np.Warnings = Warnings(goal, m.Seen)", "^TestPlan"),
	}
}

// ofCapacity are mutants of when two views agree.
func ofCapacity() []mutant {
	m := func(name, promise, was, becomes string) mutant {
		return mutant{name: name, promise: promise, file: capacityFile, was: was, becomes: becomes, by: suite{dir: "internal/capacity", run: "."}}
	}
	at := func(file string, m mutant) mutant { m.file = "internal/capacity/" + file; return m }
	return []mutant{
		m("MemTotal within 2 % of the goal", "a healthy guest of 4 GiB, which is 4 % short by nature, is no fault", "return max(configured*8/100, 512*MiB)", "return configured * 2 / 100"),
		m("MemTotal without its growth", "growth is measured against the reading before, of the same boot", "if before != nil && before.BootID == g.BootID {", "if before != nil && before.BootID == g.BootID && before.MemTotal == 0 {"),
		m("MemTotal across a reboot", "a reading of another boot is not compared: a reboot lowers MemTotal", "if before != nil && before.BootID == g.BootID {", "if before != nil {"),
		m("MemTotal without page structs", "a DIMM that holds its own page structs counts as grown", "growth - growth/memmapShare - memTotalSlack", "growth - memTotalSlack"),
		m("sign of the lower bound of MemTotal", "4 MiB of slack are allowed below", "growth - growth/memmapShare - memTotalSlack", "growth - growth/memmapShare + memTotalSlack"),
		m("sign of the upper bound of MemTotal", "4 MiB of slack are allowed above", "high = before.MemTotal + growth + memTotalSlack", "high = before.MemTotal + growth - memTotalSlack"),
		m("sign of the capacity's tolerance", "the Node's memory equals MemTotal within 16 MiB, both ways", "-capacitySlack <= diff && diff <= capacitySlack", "-capacitySlack <= diff || diff <= capacitySlack"),
		m("any capacity below the guest's", "a Node that shows less memory than the guest has lags", "-capacitySlack <= diff && diff <= capacitySlack", "diff <= capacitySlack"),
		m("two views that were not read agree", "a check never passes on a figure that was not read", "read := g.CPUsOnline > 0 && g.MemTotal > 0", "read := g.CPUsOnline >= 0 && g.MemTotal >= 0"),
		m("count CPUs that are present", "only CPUs that are online count", "OK:       g.CPUsOnline == goal.CPUs,", "OK:       g.CPUsPresent == goal.CPUs,"),
		m("enough CPUs are enough", "the count of CPUs is exact", "OK:       g.CPUsOnline == goal.CPUs,", "OK:       g.CPUsOnline >= goal.CPUs,"),
		m("count blocks that are offline", "only memory blocks that are online count", "int64(g.BlocksOnline) == want", "int64(g.BlocksOnline+g.BlocksOffline) == want"),
		m("heartbeat equality dropped", "the status from before the restart is no proof", "!beat.Equal(f.Before) && ", ""),
		m("heartbeat against the start dropped", "a status from before the start of the process is no proof", "(f.Stepped || !beat.Before(start))", "(f.Stepped || !start.IsZero())"),
		m("a status without a clock", "a heartbeat can't be compared without the guest's clock", "!g.Clock.IsZero() && !beat.IsZero() && ", "!beat.IsZero() && "),
		at("guest.go", m("floor of the start dropped", "heartbeats are cut to the second, so the start is too", "return g.Clock.Add(g.Kubelet.Start - g.Monotonic).Truncate(time.Second)", "return g.Clock.Add(g.Kubelet.Start - g.Monotonic)")),
		at("guest.go", m("a kubelet between two starts runs", "active and running, with a process: nothing less", "u.ActiveState == \"active\" && u.SubState == \"running\" && u.MainPID > 0", "u.ActiveState == \"active\" || u.SubState == \"running\" || u.MainPID > 0")),
		at("guest.go", m("excess of what is offline", "what is plugged and offline is more than the goal, too", "g.CPUsPresent > o.CPUs || g.CPUsOnline > o.CPUs", "g.CPUsOnline > o.CPUs")),
		m("settled by running alone", "the process must have run for the settle time", "OK:       g.Kubelet.Running() && g.KubeletAge() >= settle,", "OK:       g.Kubelet.Running(),"),
		at("capacity.go", m("an instance is its offering's id", "the instance must show CPU count and memory, too", "i.OfferingID == o.ID && i.CPUs == o.CPUs && i.MemoryMiB == o.MemoryMiB", "i.OfferingID == o.ID && i.CPUs == o.CPUs")),
		at("kubepods.go", m("memory limit of before of a kubelet that knew", "a limit that already belongs to the new capacity is no leftover", "limit <= bytes(capacityBefore, \"memory\") && ", "")),
		at("kubepods.go", m("memory limit left over", "pods held to the memory from before are found", "case limit+pageSize <= bytes(n.Allocatable, \"memory\"):", "case limit < 0:")),
		at("kubepods.go", m("memory limit of cgroup v1", "a guest that does not tell the memory of its pods is not held up", "case limit <= 0:\n", "case limit < 0:\n")),
		at("allocatable.go", m("allocatable above capacity", "allocatable above the capacity is a fault", "if have.Cmp(total) > 0 {", "if have.Cmp(total) > 0 && total.IsZero() {")),
		at("allocatable.go", m("allocatable did not follow", "a capacity that grew must give more to pods", "if grew(capacityBefore, n.Capacity, name) && !grew(allocatableBefore, n.Allocatable, name) {", "if grew(capacityBefore, n.Capacity, name) && !grew(nil, n.Allocatable, name) {")),
		at("allocatable.go", m("allocatable of CPU alone", "memory is looked at, too", "range []string{\"cpu\", \"memory\"}", "range []string{\"cpu\"}")),
		at("allocatable.go", m("extended resources may be fewer", "every device must be back", "if now.Cmp(before) < 0 {", "if now.Cmp(before) < 0 && !before.IsZero() && now.Sign() < 0 {")),
	}
}
