package main

const (
	patchFile   = "internal/kube/patch.go"
	leaseFile   = "internal/kube/lease.go"
	lockFile    = "internal/kube/lock.go"
	acquireFile = "internal/kube/acquire.go"
	evictFile   = "internal/kube/evict.go"
	restartFile = "internal/guest/scripts/restart.sh"
	probeFile   = "internal/guest/scripts/probe.sh"
	inspectFile = "internal/guest/scripts/inspect.sh"
	jobsFile    = "internal/cloudstack/jobs.go"

	hostPodsFile = "internal/kube/hostpods.go"
)

// ofLease are mutants of the Kubernetes port: preconditions and the Lease, against a real API server.
func ofLease() []mutant {
	m := func(name, promise, file, was, becomes, tests string) mutant {
		return mutant{name: name, promise: promise, file: file, was: was, becomes: becomes, by: suite{dir: "internal/kube", run: tests}}
	}
	return []mutant{
		m("patch without resourceVersion", "a write to a Node that has changed since the look is refused by the API server", patchFile, "metadata := map[string]any{\"uid\": p.UID, \"resourceVersion\": p.ResourceVersion}", "metadata := map[string]any{\"uid\": p.UID, \"labels\": nil}", "^TestClaimConflictsWithAnyChange$"),
		m("patch without uid", "a write to another Node of the same name is refused by the API server", patchFile, "metadata := map[string]any{\"uid\": p.UID, \"resourceVersion\": p.ResourceVersion}", "metadata := map[string]any{\"labels\": nil, \"resourceVersion\": p.ResourceVersion}", "^TestPatchRefusesAnotherNode|^TestEncodePatch$"),
		m("patch a Lease without resourceVersion", "two contenders for the Lease have one winner", leaseFile, "metadata := map[string]any{\"uid\": seen.UID, \"resourceVersion\": seen.ResourceVersion}", "metadata := map[string]any{\"uid\": seen.UID}", "^TestTakeoverLoses|^TestTwoContenders"),
		m("write under another name", "every write carries the field manager trueup, by which a cordon is known as ours", patchFile, "metav1.PatchOptions{FieldManager: rollout.FieldManager}", "metav1.PatchOptions{FieldManager: \"kubectl\"}", "^TestClaimCordonRelease$|^TestCordonOwner"),
		m("any owner of the cordon is us", "a cordon that another manager owns as well is theirs", "internal/kube/node.go", "if entry.Manager != rollout.FieldManager {", "if entry.Manager == \"\" {", "^TestUnschedulableOwner$"),
		m("takeover without waiting", "a Lease is taken over only after it was seen unchanged for its duration", acquireFile, "return lookedAt.Sub(a.first.at) >= graceOf(lease), nil", "return lookedAt.Sub(a.first.at) >= 0, nil", "^TestDeadHolder|^TestLiveHolder"),
		m("takeover without the effect's deadline", "whoever takes over waits until the last effect of the holder has ended", acquireFile, "return duration + EffectDeadline", "return duration", "^TestDeadHolder|^TestLeaseTimes"),
		m("take over a holder that lives", "a Lease that changes is held", acquireFile, "case lease.ResourceVersion != a.first.resourceVersion:\n\t\treturn false, heldError(lease)\n", "", "^TestLiveHolder"),
		m("transitions not incremented", "a tenure's number never comes back", acquireFile, "\"leaseTransitions\": tenureOf(seen).Transitions + 1,", "\"leaseTransitions\": tenureOf(seen).Transitions,", "^TestTransitions|^TestLeaseLife$"),
		m("a tenure is its run", "a tenure is its run and its number", leaseFile, "case now == tenure:", "case now.Run == tenure.Run:", "^TestShowing$"),
		m("release state while unfinished", "the goal of an unfinished rollout stays on the Lease for resume", lockFile, "if finished {", "if finished || tenure.Run != \"\" {", "^TestUnfinishedRollout"),
		m("write over an open rollout", "a rollout that is open is not written over by another one", acquireFile, "run != \"\" && run != a.continues && run != a.run", "run != \"\" && run == a.continues && run != a.run", "^TestUnfinishedRollout"),
		m("a read that failed shows the Lease", "no effect after a failed read of the Lease", lockFile, "if err := l.client.stillShows(ctx, tenure); err != nil {", "if err := l.client.stillShows(ctx, tenure); errors.Is(err, rollout.ErrLost) {", "^TestNoEffectAfterAFailedRead$"),
		m("a sleeper does not renew", "a laptop that wakes from sleep renews before it does anything", lockFile, "<= LeaseDuration {\n", "<= 1000*LeaseDuration {\n", "^TestSleeper"),
		m("sleep does not show", "time asleep counts", lockFile, "return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))", "return to.Sub(from)", "^TestElapsed"),
		m("nobody renews", "a Lease is renewed while it is held", lockFile, "err := c.renew(ctx, t)\n", "err := ctx.Err()\n", "^Test(LeaseLife|LiveHolder|RenewalIsTried)"),
		m("an eviction of whoever has the name", "an eviction is of the very pod that was seen", evictFile, "DeleteOptions: of(pod)}", "DeleteOptions: &metav1.DeleteOptions{}}", "^TestEvict$"),
		m("a budget is an overload", "what a disruption budget holds is waited for", evictFile, "c.Type == policyv1.DisruptionBudgetCause", "c.Type != policyv1.DisruptionBudgetCause", "^TestEvict$"),
		m("an overload is a budget", "no pod is deleted past a budget that does not hold it", "internal/kube/kubectl.go", "if said[2] == heldByBudget {", "if said[2] != \"\" {", "^TestEvictOfAnOverloadedServer$"),
		m("two budgets are an outage", "a pod that can't be evicted is named", evictFile, "s.Reason == metav1.StatusReasonUnknown", "s.Reason == metav1.StatusReasonInternalError", "^TestEvictOfTwoBudgets$"),
		m("wait inside of an eviction", "a new budget is told of at once", evictFile, "MaxRetries(0)", "MaxRetries(9)", "^TestEvictUnderANewBudget$"),
		m("a pod of ours is one of the node's", "the pods by which trueup enters nodes are no part of what is compared", "internal/kube/pods.go", "if !isHostPod(&list[i]) {", "if list[i].Name != \"\" {", "^TestHostPod$"),
		m("a pod that has ended is entered", "a pod that has ended is removed, and another one made", hostPodsFile, "if startErr != nil || seen.DeletionTimestamp", "if startErr != nil && !ended(seen) || seen.DeletionTimestamp", "^TestHostPodOutlives"),
		m("pods are left", "the pods by which nodes are entered are removed at the end", hostPodsFile, "pod.Labels[holderLabel] == h.holder || ended(&pod)", "ended(&pod)", "^TestHostPod$"),
		m("everybody's pods are removed", "a pod that somebody else may be using is left alone", hostPodsFile, "if h.inherited && other.UID == uid {", "if other.UID == uid {", "^TestHostPodsLeftBehind$"),
		m("a later pod is inherited", "who came later is at work", hostPodsFile, "if h.inherited && other.UID == uid {", "if h.inherited && other.UID != \"\" {", "^TestHostPodsLeftBehind$"),
		m("a pod that nobody uses stays", "a pod that was left behind ends by itself", "internal/kube/hostpod.go", "[ $n -lt %d ] && [ $idle -lt %d ]", "[ $n -lt %d ] && [ $n -lt 1%d ]", "^TestHostPodEndsByItself$"),
	}
}

// ofGuest are mutants of the scripts that run in guests, against a real SSH server.
func ofGuest() []mutant {
	m := func(name, promise, file, was, becomes, tests string) mutant {
		return mutant{name: name, promise: promise, file: file, was: was, becomes: becomes, by: suite{dir: "internal/guest", run: tests}}
	}
	return []mutant{
		m("restart without comparing in the guest", "a kubelet whose InvocationID has changed is not restarted", restartFile, "[ \"$actual\" = \"$wanted\" ] || answer not-ours\n", "", "^TestRestart"),
		m("compare before the lock", "two restart scripts never run at once", restartFile, "1) answer busy ;;\n", "1) ;;\n", "^TestRestart"),
		m("restart however late", "a command that was held up on its way does not restart kubelet", restartFile, "-le \"$window\" ] || answer expired", "-ge 0 ] || answer expired", "^TestRestart"),
		m("restart for half an id", "an id that did not arrive whole restarts nothing", restartFile, "[ \"${#wanted}\" -eq 32 ] || answer garbled\n", "", "^TestRestart"),
		m("a lost connection ends the restart half-way", "a lost connection must not end the restart half-way", restartFile, "trap \"\" HUP INT PIPE TERM\n", "", "^TestRestart"),
		m("not ours taken for issued", "the report says whether we restarted", "internal/guest/answers.go", "return rollout.RestartNotOurs, nil", "return rollout.RestartIssued, nil", "^TestRestart"),
		m("count CPUs that are present in the guest", "only CPUs that are online count", probeFile, "value cpu_online /sys/devices/system/cpu/online", "value cpu_online /sys/devices/system/cpu/present", "^TestProbe"),
		m("count CPU directories", "only CPUs that are online count", probeFile, "value cpu_online /sys/devices/system/cpu/online",
			"n=-1\nfor dir in /sys/devices/system/cpu/cpu[0-9]*; do n=$((n + 1)); done\nprintf \"cpu_online=0-%s\\n\" \"$n\"", "^TestProbe"),
		m("ask nproc", "what trueup itself may use says nothing about the guest", probeFile, "value cpu_online /sys/devices/system/cpu/online", "printf \"cpu_online=0-%s\\n\" \"$(($(nproc) - 1))\"", "^TestProbe"),
		m("every block is online", "only memory blocks that are online count", probeFile, "if [ \"$state\" = online ]; then", "if [ -n \"$state\" ]; then", "^TestProbe"),
		m("the clock before the unit", "the start of the process is never computed later than it was", probeFile, "systemctl show kubelet.service -p ActiveState,SubState,InvocationID,MainPID,ExecMainStartTimestampMonotonic,NRestarts || exit\n", "systemctl show kubelet.service -p ActiveState,SubState,InvocationID,MainPID,NRestarts || exit\necho ExecMainStartTimestampMonotonic=0\n", "^TestProbe"),
		m("every slot is free", "a slot that a DIMM is in is taken", "internal/guest/inspect.go", "i.DIMMsPlugged += int(status & 1)\n", "_ = status\n", "^TestInspect"),
		m("the log of this boot is whole", "where the kernel has overwritten its log, the journal is asked", inspectFile, "\tolder=$(journalctl -k -b -q --no-pager -o short-monotonic 2>/dev/null | telling)\n", "\tolder=\n", "^TestInspect"),
		m("kubelet's arguments are not followed", "the configuration is the one that kubelet was started with", inspectFile, "\"--config \"*) config=$word ;;\n", "", "^TestInspect"),
		m("flags do not win", "kubelet's flags win over its files", "internal/guest/kubelet_config.go", "\toverrule(&c, arguments)\n", "", "^TestInspect"),
		m("half a configuration", "a configuration that is longer than what is read counts as not read", "internal/guest/kubelet_config.go", "if len(content) > configLimit {", "if len(content) > 1<<30 {", "^TestInspect"),
		m("systemd's word is not heard", "a unit that systemd has not reloaded is told of", inspectFile, "NeedDaemonReload=*) printf \"reload=%s\\n\" \"$item\" ;;", "NeedDaemonReload=*) echo reload=no ;;", "^TestInspect"),
		m("online what the kernel refuses, silently", "what the kernel refused is told", "internal/guest/scripts/online.sh", "printf \"%s\" \"$failures\"\n", "", "^TestOnline"),
		m("online memory in one pass", "a block may need its neighbour first", "internal/guest/scripts/online.sh", "[ \"$raised\" -gt 0 ] || break", "break", "^TestOnline"),
		m("the end of a pod is an answer", "after the end of its pod nobody knows what became of a command", "internal/guest/command.go", "case o.place.pod != \"\" && exit.ExitStatus() == exitKilled:", "case o.place.pod == \"\" && exit.ExitStatus() == exitKilled:", "^TestPod"),
		m("not denied but lost", "what is not allowed is not tried again", "internal/guest/command.go", "case errors.Is(err, rollout.ErrDenied): // not started", "case errors.Is(err, errOver):", "^TestPodErrors$"),
	}
}

// ofCloudStack are mutants of the CloudStack port, against the stand-in.
func ofCloudStack() []mutant {
	m := func(name, promise, file, was, becomes, tests string) mutant {
		return mutant{name: name, promise: promise, file: file, was: was, becomes: becomes, by: suite{dir: "internal/cloudstack", run: tests}}
	}
	return []mutant{
		m("send a change twice", "a change is sent once: what may have had an effect is repeated only after looking", "internal/cloudstack/exchange.go", "\t\treq = signed\n\t}\n\treturn x.once(req)", "\t\treq = signed\n\t}\n\treturn x.repeat(req)", "^TestChangesAreSentOnce$"),
		m("a request that lives for a quarter of an hour", "a lost request expires when its claim says so", "internal/cloudstack/sign.go", "form.Set(\"expires\", expires.UTC().Format(time.RFC3339))\n", "", "^TestResizeExpires|^TestResign"),
		m("a job that never expires", "no request that starts a job is sent without an expiry", jobsFile, "if expires.IsZero() {", "if expires.IsZero() && command == \"\" {", "^TestNoJobWithoutAnExpiry$"),
		m("a stop by force", "CloudStack never calls a machine stopped that it can't reach because trueup asked for it", "internal/cloudstack/power.go", "\"stopVirtualMachine\", expires, map[string]string{\"id\": instanceID}", "\"stopVirtualMachine\", expires, map[string]string{\"id\": instanceID, \"forced\": \"true\"}", "^TestStopAndStart$"),
		m("a throttle taken for a refusal", "a throttled request may be sent later", jobsFile, " || answer.Code == codeThrottled", "", "^TestResizeRefused$"),
		m("a cancelled job has failed", "a job cancelled by a management restart may still be at work", jobsFile, "out.Cancelled = strings.Contains(strings.ToLower(out.Text), cancelledByRestart)\n", "", "^Test(JobResults|FailedJob)"),
		m("another VM's job", "a job of another VM is not ours", jobsFile, "j.InstanceID == instanceID && j.resize()", "j.resize()", "^TestFindJob"),
		m("another kind of job", "only a resize is a resize", jobsFile, "j.InstanceID == instanceID && j.resize()", "j.InstanceID == instanceID", "^TestFindJob"),
		m("the eldest job", "of several jobs, the youngest is looked at", jobsFile, ".After(parseTime(than.Created))", ".Before(parseTime(than.Created))", "^TestFindJob"),
	}
}
