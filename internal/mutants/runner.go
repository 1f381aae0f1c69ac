package main

const (
	actFile     = "internal/rollout/act.go"
	walkFile    = "internal/rollout/walk.go"
	waitFile    = "internal/rollout/wait.go"
	observeFile = "internal/rollout/observe.go"
	runnerFile  = "internal/rollout/runner.go"
	claimMove   = "internal/rollout/move_claim.go"
	releaseMove = "internal/rollout/move_release.go"
	resizeMove  = "internal/rollout/move_resize.go"
	restartMove = "internal/rollout/move_restart.go"
)

// rolloutTests are tests of the engine on its simulated cluster, by name.
func rolloutTests(run string) suite { return suite{dir: "internal/rollout", run: run} }

// ofClaims are mutants of what a claim owns and what release gives back.
func ofClaims() []mutant {
	m := func(name, promise, file, was, becomes, tests string) mutant {
		return mutant{name: name, promise: promise, file: file, was: was, becomes: becomes, by: rolloutTests(tests)}
	}
	return []mutant{
		m("cordon without a claim", "a node is never left cordoned without a claim that says why", claimMove, "patch.Claim = &text\n\terr = w.patchNode(ctx, patch)",
			"if patch.Unschedulable == nil {\n\t\tpatch.Claim = &text\n\t}\n\terr = w.patchNode(ctx, patch)", "^TestRolloutOfThreeNodes$"),
		m("claim without a cordon", "a node is cordoned before it is resized, in the patch that writes the claim", claimMove, "patch.Unschedulable = new(true)", "patch.Unschedulable = nil", "^TestRolloutOfThreeNodes$"),
		m("patch on a newer reading", "a patch is conditional on the very reading that led to it", claimMove, "n, err := w.Nodes.Patch(ctx, patch)",
			"if now, err := w.Nodes.Node(ctx, patch.Name); err == nil {\n\t\tpatch.ResourceVersion = now.ResourceVersion\n\t}\n\tn, err := w.Nodes.Patch(ctx, patch)", "^TestThirdParties$"),
		m("amend a claim that is another run's", "a claim that another run has taken over is not written to", claimMove, "if w.claim == nil || w.claim.Tenure() != w.tenure {", "if w.claim == nil {", "^TestAmend"),
		m("own a foreign cordon", "a node that somebody else had cordoned stays cordoned", makeFile, "hasNode && !seen.Node.Unschedulable && (cold != nil || changesSize(goal, seen)),", "changesSize(goal, seen),", "^TestNewClaim|^TestForeignCordonStays$"),
		m("own a foreign scale-down mark", "the autoscaler's mark of somebody else stays", makeFile, "ScaleDown: hasNode && !seen.Node.ScaleDownDisabled,", "ScaleDown: true,", "^TestNewClaim|^TestForeignCordonStays$"),
		m("cordon for CPU speed alone", "nothing is cordoned where nothing of the kind is needed", makeFile, "hasNode && !seen.Node.Unschedulable && (cold != nil || changesSize(goal, seen)),", "!seen.Node.Unschedulable,", "^TestNewClaim|^TestSpeedAlone$"),
		m("uncordon a foreign cordon", "only what our claim cordoned is uncordoned", makeFile, "claim.Cordoned && seen.Node.Unschedulable && seen", "seen.Node.Unschedulable && seen", "^TestRelease"),
		m("uncordon without owning", "a node that somebody cordoned anew stays cordoned: managedFields show whose it is", makeFile, " && seen.Node.UnschedulableBy == FieldManager\n", "\n", "^TestRelease|^TestThirdParties$"),
		m("release keeps the cordon", "what was taken is given back", releaseMove, "patch.Unschedulable = new(false)", "patch.Unschedulable = nil", "^TestRolloutOfThreeNodes$"),
		m("release keeps the claim", "a node that is given back carries no claim", releaseMove, "patch := NodePatch{Claim: new(\"\")}", "patch := NodePatch{}", "^TestRolloutOfThreeNodes$"),
		m("take over forgets a pending job", "a job that is under way is not asked for again", makeFile, "case claim.Resize == nil, seen.Job != nil && seen.Job.Status == JobPending:", "case claim.Resize == nil:", "^TestAdopt$"),
		m("take over forgets a lost request", "a request whose reply was lost is not over before it expires", makeFile, "return claim.Resize.JobID != \"\" && claim.Fault != nil", "return claim.Fault != nil", "^TestAdopt$"),
		m("take over keeps a failed job", "a new attempt tries once more what failed", makeFile, "case claim.Resize.Refused != \"\", job != nil && job.Status == JobFailed:", "case claim.Resize.Refused != \"\", job != nil && job.Status == JobFailed && claim.Run == \"\":", "^TestAdopt$|^TestNewAttempt"),
		m("take over forgets a restart", "a takeover never restarts a kubelet again", makeFile, "if restarted(&claim, seen) && hardwareChanged(&claim, seen) {", "if restarted(&claim, seen) {", "^TestAdopt$"),
		m("read a newer version's claim", "a claim that this version can't know is not guessed at", "internal/rollout/claim.go", "if c.Version < 1 || c.Version > claimVersion {", "if c.Version < 1 {", "^TestUnreadable"),
		m("give back what was touched", "on the way out of an error, only a node on which nothing was done is given back", makeFile, "claim.Resize == nil && claim.Restart == nil && (claim", "(claim", "^TestFaults$|^TestGive"),
	}
}

// ofRunner are mutants of the loop around Next: fences, intents, unknown outcomes, ends.
func ofRunner() []mutant {
	m := func(name, promise, file, was, becomes, tests string) mutant {
		return mutant{name: name, promise: promise, file: file, was: was, becomes: becomes, by: rolloutTests(tests)}
	}
	return []mutant{
		m("skip the Lease check", "no effect without a look at the Lease just before it", actFile, "if err := w.fence(effect); err != nil {", "if err := w.fence(effect); err != nil && step.Action == ActionAdopt {", "^TestNoEffectAfterTheLeaseIsLost$"),
		m("skip the Lease check before the restart", "the look at the Lease comes before every effect", actFile, "if err := w.fence(effect); err != nil {", "if err := w.fence(effect); err != nil && step.Action != ActionRestart {", "^TestEachAction|^TestNoEffectAfterTheLeaseIsLost$"),
		m("Lease check's error ignored", "no effect after a failed read of the Lease", actFile, "if err := w.fence(effect); err != nil {", "if err := w.fence(effect); errors.Is(err, ErrLost) {", "^TestFaults$"),
		m("a lost Lease is waited for", "a runner whose Lease was lost ends", actFile, "case transient(ctx, err):\n\t\treturn w.wait(ctx, Step{Kind: KindWait, Move: step.Move, Check: capacity.Check{Layer: capacity.LayerAccess,\n\t\t\tWhat: \"reading the Lease",
			"case transient(ctx, err), errors.Is(err, ErrLost):\n\t\treturn w.wait(ctx, Step{Kind: KindWait, Move: step.Move, Check: capacity.Check{Layer: capacity.LayerAccess,\n\t\t\tWhat: \"reading the Lease", "^TestNoEffectAfterTheLeaseIsLost$"),
		m("keep a fault without the Lease", "nothing is written after the Lease was lost, not even the fault", claimMove, "if w.Lock.Check(ctx, w.tenure) != nil {\n\t\treturn\n\t}\n", "", "^TestNothingIsWritten"),
		m("give back without the Lease", "nothing is given back after the Lease was lost", waitFile, "if !nothingDone(w.claim, w.seen) || w.Lock.Check(ctx, w.tenure) != nil || w.read(", "if !nothingDone(w.claim, w.seen) || w.read(", "^TestNothingIsWritten"),
		m("resize without announcing it", "intent first: the request is in the claim before it is sent", resizeMove, "if err := w.writeClaim(ctx, resizing(*w.claim, w.seen, expires), NodePatch{}); err != nil {\n\t\treturn notDone{err}\n\t}\n", "", "^TestRolloutOfThreeNodes$|^TestLostReplies$"),
		m("restart without announcing it", "intent first: the restart is in the claim before it is done", restartMove, "if err := w.writeClaim(ctx, restarting(*w.claim, w.seen), NodePatch{}); err != nil {\n\t\treturn notDone{err}\n\t}\n", "w.claim = restarting(*w.claim, w.seen)\n\t", "^TestRolloutOfThreeNodes$|^TestLostReplies$"),
		m("resize though its intent was not written", "if the patch fails, nothing is resized", resizeMove, "NodePatch{}); err != nil {\n\t\treturn notDone{err}\n\t}\n\tjob, err", "NodePatch{}); err != nil && ctx.Err() != nil {\n\t\treturn notDone{err}\n\t}\n\tjob, err", "^TestConflictAtEveryPatch$"),
		m("unknown outcome taken for a failure in the runner", "a lost reply is followed by looking, not by a fault", actFile, "\tcase transient(ctx, err):\n\t\t// The outcome", "\tcase transient(ctx, err) && step.Action == ActionAdopt:\n\t\t// The outcome", "^TestLostReplies$"),
		m("unknown outcome taken for an answer", "the report tells an effect without a reply from one that was answered", actFile, "w.record(step, sentence, err == nil)", "w.record(step, sentence, true)", "^TestLostReplies$"),
		m("repeat an action without a pause", "no action is repeated without a pause", actFile, "if w.tried[step.Action] {", "if w.tried[step.Action] && step.Action == ActionAdopt {", "^TestActionsWithoutEffect"),
		m("a conflict ends the rollout", "a lost race means look again", actFile, "case errors.Is(err, ErrConflict):\n\t\treturn w.lostRace(ctx, step)\n", "", "^TestConflict"),
		m("claim again after the release", "views that fall apart after the release are a fault, not a loop", actFile, "if step.Action == ActionClaim && w.times(ActionRelease) > 0 {", "if step.Action == ActionClaim && w.times(ActionRelease) > 9 {", "^TestReleasedNode"),
		m("act on a reading of which a part is old", "no effect without a full look just before it", walkFile, "step.Kind != KindWait && missing != (readings{}) {", "step.Kind == KindDone && missing != (readings{}) {", "^Test(RolloutOfThreeNodes|ThirdParties|Reading)"),
		m("done on a reading of which a part is old", "a node is not called done on an old reading", walkFile, "step.Kind != KindWait && missing != (readings{}) {", "step.Kind == KindAct && missing != (readings{}) {", "^Test(RolloutOfThreeNodes|ThirdParties|Reading)"),
		m("a wait leaves everything current", "after a wait, everything is read again before an effect", waitFile, "\tw.current = readings{} // time passes: what was read is old\n", "", "^Test(ThirdParties|Reading)"),
		m("the next node after a fault", "the next node starts only after the present one is verified", runnerFile, "if err := w.run(ctx); err != nil {", "if err := w.run(ctx); err != nil && i == len(plan.Nodes)-1 {", "^TestFaults$"),
		m("an unfinished rollout counts as finished", "the goal of an unfinished rollout stays on the Lease", runnerFile, "if n.Outcome == OutcomeDone || n.claimed {", "if n.Outcome == OutcomeDone && n.claimed {", "^TestFinished$"),
		m("look at no peers", "the other control-plane nodes are part of every look", observeFile, "\tw.seen.Peers = peers\n", "", "^TestControlPlaneIs"),
		m("ask no health", "the API server's own word is part of every look", observeFile, "if w.Health == nil {", "if w.Health != nil {", "^TestControlPlaneIs"),
		m("a wait without a bound", "every wait ends", waitFile, "if left <= 0 {", "if left <= 0 && step.Check.OK {", "^TestFaults$"),
		m("a bound that starts anew", "a node that comes and goes does not start its bounds anew", walkFile, "d := w.node.Moves[m]\n", "d := time.Duration(0)\n", "^TestFlapping"),
		m("do not stop when asked", "an interrupt ends at the next safe point", actFile, "if w.stopped() && !w.down() {", "if w.stopped() && step.Action == ActionAdopt {", "^TestStopAtAnyTime$|^TestNoEffectAfterTheWish"),
		m("abort what is not healthy", "only a node that is verified healthy is given back, unless forced", "internal/rollout/abort.go", "failed && !force {", "failed && !force && c.What == \"\" {", "^TestAbort"),
		m("abort without the Lease", "no effect without a look at the Lease, also in abort", "internal/rollout/abort.go", "if err := w.Lock.Check(effect, w.tenure); err != nil {", "if err := w.Lock.Check(effect, w.tenure); err != nil && w.claim == nil {", "^TestAbort"),
		m("abort while a job is pending", "a node whose resize is under way is not given back", "internal/rollout/abort.go", "OK: w.seen.Job == nil || w.seen.Job.Status != JobPending,", "OK: w.seen.Job == nil || w.seen.Job.ID != \"\",", "^TestAbort"),
		m("give back beside a job of somebody else", "a node is not given back while a job is pending on its instance", makeFile, "if seen.Job != nil && seen.Job.Status == JobPending {", "if seen.Job != nil && seen.Job.Status == JobSucceeded {", "^TestNothingDone"),
		m("abort while a request may still arrive", "a node is not given back while a lost request can still be accepted", "internal/rollout/abort.go", "OK: w.seen.ServerTime.After(r.Expires),", "OK: w.seen.ServerTime.After(r.Asked),", "^TestAbort"),
	}
}

// ofEnds are mutants of the ends of a run that only the simulated world has the means to see.
func ofEnds() []mutant {
	m := func(name, promise, file, was, becomes, tests string) mutant {
		return mutant{name: name, promise: promise, file: file, was: was, becomes: becomes, by: suite{dir: "internal/world", run: tests}}
	}
	return []mutant{
		m("abort after one look", "after a resize that came to nothing a node is given back only after two looks", "internal/rollout/abort.go", "return unchangedFor - (g.Monotonic - (*first).Monotonic)", "return 0", "^TestAbortLooksTwice"),
		m("an Event after the Lease was lost", "a run that has lost the Lease writes nothing", waitFile, "if w.seen.Node.Name != \"\" && w.Lock.Check(ctx, w.tenure) == nil {", "if w.seen.Node.Name != \"\" {", "^TestNoEvent"),
	}
}
