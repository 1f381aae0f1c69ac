package main

// ofPods are mutants of what is told of a node's pods and devices after kubelet's restart, and of how long they are waited for.
func ofPods() []mutant {
	in := func(file, name, promise, was, becomes string) mutant {
		return mutant{name: name, promise: promise, file: file, was: was, becomes: becomes, by: suite{dir: "internal/rollout", run: "Pods|Yield|TestReleaseWarnings|^TestNextVerif"}}
	}
	pods, observe := "internal/rollout/pods.go", "internal/rollout/observe.go"
	abort := mutant{name: "give up without a look at the pods", promise: "whoever gives a rollout up is told of the pods", file: "internal/rollout/abort.go",
		was: "\tif w.claim.Restart != nil {\n\t\tw.readPods(effect)\n\t}\n", becomes: "", by: suite{dir: "internal/world", run: "^TestAbortNamesRejectedPods$"}}
	return []mutant{
		abort,
		in(nextFile, "verify without pods", "the next node waits until probed pods are ready again", "\t\tpatiently(goal, seen, checkPods(claim, seen)),\n", ""),
		in(nextFile, "wait for pods for ever", "what does not come back is not waited for longer than the bound", "c.OK = c.OK || seen.Guest.KubeletAge() >= goal.patience()", "c.OK = c.OK || goal.patience() < 0"),
		in(nextFile, "a fault for pods", "a wait for pods ends in a warning", "s.Yields = c.What == podsCheck || c.What", "s.Yields = c.What"),
		in(nextFile, "a fault for devices", "a wait for devices ends in a warning", "s.Yields = c.What == podsCheck || c.What == capacity.ExtendedCheck", "s.Yields = c.What == podsCheck"),
		in("internal/rollout/wait.go", "the move's bound makes a fault of pods", "a wait for pods ends in a warning, also at the bound of its move", "if left <= 0 && step.Yields {", "if left <= 0 && step.Yields && w.stopped() {"),
		in(pods, "wait for pods of a new kubelet", "a kubelet that keeps readiness needs no wait", "if capacity.KeepsReadiness(seen.Node.KubeletVersion) {", "if capacity.KeepsReadiness(seen.Node.KubeletVersion) && claim == nil {"),
		in(pods, "wait for pods without a probe", "only pods that lost their readiness to the restart are waited for", "if now != nil && (cold || now.Probed) && notReadyAgain(", "if now != nil && notReadyAgain("),
		in(pods, "wait for pods that were not ready", "only pods that lost their readiness to the restart are waited for", "return before.Ready && !now.Ready && !now.Finished()", "return !now.Ready && !now.Finished()"),
		in(pods, "wait for pods that go", "a pod that is being deleted is not waited for", "!now.Finished() && !now.Deleting", "!now.Finished()"),
		in(pods, "tell of old failures of pods", "only new failures are named", "case p.Finished(), p.Deleting:", "case p.Deleting:"),
		in(pods, "keep all pods in the claim", "the claim stays small", "case len(kept.Pods) == mostKeptPods:", "case len(kept.Pods) == 2*mostKeptPods:"),
		in(observe, "announce the restart without pods", "the claim holds the pods of just before the restart", "case ActionRestart, ActionDrain, ActionStop:", "case ActionDrain, ActionStop:"),
		in(observe, "release without a look at the pods", "the pods are compared before the node is given back", "return w.claim.Restart != nil || w.claim.Cold != nil", "return w.claim.Cold != nil"),
	}
}
