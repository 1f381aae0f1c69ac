package main

// ofCold are mutants of the cold method: what stands between a node and a stop, between a stop and a start, and between a start and the end.
func ofCold() []mutant {
	const next, moves, plan = "internal/rollout/next_cold.go", "internal/rollout/move_cold.go", "internal/rollout/plan.go"
	m := func(name, promise, file, was, becomes string) mutant {
		return mutant{name: name, promise: promise, file: file, was: was, becomes: becomes, by: suite{dir: "internal/rollout", run: "Cold"}}
	}
	world := func(name, promise, file, was, becomes, run string) mutant {
		return mutant{name: name, promise: promise, file: file, was: was, becomes: becomes, by: suite{dir: "internal/world", run: run}}
	}
	return []mutant{
		m("stop without a drain", "no instance is stopped with a pod on it that could run elsewhere", next, "if s, left := nextDrain(seen); left {", "if s, left := nextDrain(seen); left && s.Kind == KindWait {"),
		m("stop with pods that end", "a pod that is ending has not left yet", next, "case len(fresh)+len(ending)+len(held) == 0:", "case len(fresh)+len(held) == 0:"),
		m("stop with pods that are held", "a disruption budget is respected", next, "case len(fresh)+len(ending)+len(held) == 0:", "case len(fresh)+len(ending) == 0:"),
		m("stop with pods that are not known", "what is not known is not gone", next, "if seen.Pods != nil && seen.Pods.Unknown != \"\" {", "if seen.Pods != nil && seen.Pods.Unknown == \"denied, always\" {"),
		m("evict what belongs to the node", "DaemonSets' and static pods stay", next, "case p.Stays(), p.Finished():", "case p.Finished():"),
		m("stop beside other members", "a control-plane node is stopped only while the others are well", next, "if c, failed := capacity.Failed(others(seen)...); failed {\n\t\treturn wait(MoveStop, c)\n\t}\n", ""),
		m("start before the offering", "an instance is not started before it has its offering", next, "case !seen.Instance.AtOffering(wanted.Offering):\n\t\treturn nextColdResize", "case !seen.Instance.AtOffering(wanted.Offering) && claim.Resize == nil && claim.Cold.PastBoot != \"\":\n\t\treturn nextColdResize"),
		m("start while a stop may still arrive", "a lost stop request can't stop an instance that was started since", next, "!doubt.IsZero() && !seen.ServerTime.After(doubt) {", "!doubt.IsZero() && seen.ServerTime.Before(doubt.Add(-72*time.Hour)) {"),
		m("forget the earlier doubt", "a lost stop request is remembered by the run that takes over", "internal/rollout/make_claim.go", "cold.Doubt, cold.Power = cold.doubt(), nil", "cold.Power = nil"),
		m("ask twice for a stop", "a request without a reply is sent again only once it has expired", next, "case seen.ServerTime.After(p.Expires):\n\t\treturn Step{}, false", "case seen.ServerTime.After(p.Asked):\n\t\treturn Step{}, false"),
		m("work beside another job", "nothing is asked of CloudStack while it is at work on the instance", next, "seen.Job.Status == JobPending && !toNote(wanted, claim, seen):", "seen.Job.Status == JobPending && seen.Job.Code != 0:"),
		m("believe in a boot that is the old one", "a node is verified in another boot than the one that was stopped", next, "another := cold.Ended != \"\" && !unread && seen.Guest.BootID != cold.Ended", "another := !unread"),
		m("release what the guest does not have", "the guest of the new boot is read", next, "case !guestAgrees(claim, goal, seen):\n\t\treturn nextOnline(goal, claim, seen)", "case !guestAgrees(claim, goal, seen) && seen.Guest.BootID == \"\":\n\t\treturn nextOnline(goal, claim, seen)"),
		m("release without a look at the Node", "the Node is verified by a status of the new boot's kubelet", next, "if s, waits := unverified(goal, claim, seen); waits {", "if s, waits := unverified(goal, claim, seen); waits && s.Check.OK {"),
		m("call a refusal a success", "a node that was given back as it was is not done", next, "why := claim.refused()\n\tif why == \"\" {", "why := claim.refused()\n\tif why == \"\" || why != \"\" {"),
		m("go on with a stopped API alone", "the only control-plane node is not stopped unless that is accepted", "internal/rollout/refuse_cold.go", "!alone(seen) || goal.AcceptOutage", "!alone(seen) || goal.Method == MethodCold"),
		m("drain bare pods", "a pod that nothing replaces is not evicted unless that is accepted", "internal/rollout/refuse_cold.go", "bare == nil, \"none\"", "true, \"none\""),
		m("drain local data", "a pod's local data is not deleted unless that is accepted", "internal/rollout/refuse_cold.go", "local == nil, \"none\"", "true, \"none\""),
		m("prepare what is prepared", "a boot that is over is not ended again", "internal/rollout/next.go", "if goal.PastBoot != \"\" && goal.PastBoot == seen.Guest.BootID {", "if goal.PastBoot != \"\" {"),
		world("delete pods that nobody named", "a budget is passed only for a pod that the person named", moves, "&& slices.Contains(w.goal.DeletePods, p.String()) {", "&& !slices.Contains(w.goal.DeletePods, p.String()) {", "^TestColdD"),
		world("stop when asked while a node is down", "a node that was stopped is brought back before a rollout ends", "internal/rollout/act.go", "if w.stopped() && !w.down() {", "if w.stopped() {", "^TestColdInterrupted"),
		world("refuse the peers of a stopped node", "what an unfinished rollout has stopped does not stand in the way of finishing it", plan, "range ordered(excused(members)) {", "range ordered(members) {", "^TestColdCrash"),
		world("need the Lease in the outage", "who accepts the outage gets the node back", "internal/rollout/outage.go", "if err != nil && transient(ctx, err) && !w.seen.Instance.Running() {", "if err != nil && transient(ctx, err) && w.tenure.Run == \"\" {", "^TestColdOnly"),
		world("need the claim in the outage", "what was announced with the stop is done although the claim can't be written", "internal/rollout/move_claim.go", "if err != nil && w.outage() && transient(ctx, err) {", "if err != nil && w.outage() && w.tenure.Run == \"\" {", "^TestColdOnly"),
		world("restart kubelet of a new boot", "a kubelet that was started with its machine is not restarted", next, "\tdefault:\n\t\tif s, waits := unverified(goal, claim, seen); waits {\n\t\t\treturn s\n\t\t}\n", "\tdefault:\n\t\tif s := nextNode(goal, claim, seen); s.Action != ActionRelease {\n\t\t\treturn s\n\t\t}\n\t\tif claim.Restart == nil && claim.refused() == \"\" {\n\t\t\treturn act(ActionRestart, \"mutant\")\n\t\t}\n", "^TestColdShrink"),
	}
}

// ofSSH are mutants of what makes sure that SSH leads to the right machine, and that nothing but trueup's own scripts runs there.
func ofSSH() []mutant {
	m := func(name, promise, file, was, becomes, tests string) mutant {
		return mutant{name: name, promise: promise, file: file, was: was, becomes: becomes, by: suite{dir: "internal/guest", run: tests}}
	}
	const hosts, enroll, command = "internal/guest/hostkeys.go", "internal/guest/enroll.go", "internal/guest/command.go"
	return []mutant{
		m("believe a revoked key", "a key that is marked as revoked is never believed", hosts, "if !revoked && slices.ContainsFunc(k.known, same) {", "if slices.ContainsFunc(k.known, same) {", "Host|Enroll|Meet|Key"),
		m("believe another machine's key", "a key is believed for the very machine it is on file for", hosts, "return strings.EqualFold(host, k.vmID)", "return host != \"\"", "Host|Enroll|Meet|Key"),
		m("replace a key", "a key that differs from the one on file is never replaced", hosts, "if k.acceptNew && !revoked && len(k.known) == 0 {", "if k.acceptNew && !revoked {", "Host|Enroll|Meet|Key|Accept"),
		m("accept a revoked key as new", "a revoked key is not taken for a new one", hosts, "if k.acceptNew && !revoked && len(k.known) == 0 {", "if k.acceptNew && len(k.known) == 0 {", "Host|Enroll|Meet|Key|Accept"),
		m("skip a line that is not understood", "a line that may revoke a key is never skipped", hosts, "\tif err != nil {\n\t\treturn err\n\t}\n\tswitch {", "\tif err != nil {\n\t\treturn nil\n\t}\n\tswitch {", "Host|Enroll|Meet|Key|Accept"),
		m("trust whoever answers", "the machine behind a new key proves that it is the instance", enroll, "if err == nil && !strings.EqualFold(seen.ProductUUID, client.place.target.InstanceID) {", "if err == nil && seen.ProductUUID == \"\" {", "Enroll|Meet|Accept|Ways|Prove"),
		m("overwrite who was faster", "a key that somebody put on file meanwhile stays", enroll, "if err := now.check(key); err != nil || now.accepted == nil {", "if err := now.check(key); err == nil && now.accepted == nil {", "Enroll|Meet|Accept|Record|Trust"),
		m("run whatever arrives", "only the script whose checksum stands in the command line is run", command, "test$IFS\"$1\"$IFS=$IFS\"%x\"||exit$IFS\"%d\";eval", "test$IFS\"$1\"$IFS=$IFS\"%x\"||test$IFS\"%d\";eval", "Sudoers|Loader|Command|Script"),
	}
}
