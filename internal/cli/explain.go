package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
	"github.com/cks-trueup/trueup/internal/survey"
)

// explainDocument is what `explain -o json` prints.
type explainDocument struct {
	header

	Cluster string `json:"cluster"`
	nodeDocument

	// Kubernetes is the way by which the API server was asked.
	Kubernetes *wayDocument `json:"kubernetes,omitempty"`

	// Checks are those that `verify` makes, met or not.
	Checks []capacity.Check `json:"checks"`
	// Goal is what the node shall have: its claim's goal, else what its instance has.
	Goal capacity.Offering `json:"goal"`
	// Next is what would be done to get there; empty where nothing is to be done, or where it can't be told.
	Next     []rollout.PlannedMove `json:"next,omitempty"`
	Refusals []rollout.Refusal     `json:"refusals,omitempty"`
	// Warnings are what a person should know before a change; none refuses it.
	Warnings []rollout.Refusal `json:"warnings,omitempty"`
	// Inspection is what is looked at only before a change; none of a node that is in work already.
	Inspection *capacity.Inspection `json:"inspection,omitempty"`
}

func (a *app) explainCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "explain CLUSTER NODE",
		Short: "Show all that is known about one node, and what would be done next",
		Long: `Show the four views of one node in full: who it is in each system, how
allocatable follows from capacity, kubelet's process, the claim if there is
one, every check, and what trueup would do next and why. Changes nothing.`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := a.open(c.Context(), args[0])
			if err != nil {
				return err
			}
			defer s.close()
			doc, err := s.explain(c.Context(), args[1])
			if err != nil {
				return err
			}
			if machine(output) {
				return printDocument(a.Out, output, doc)
			}
			a.printExplained(doc)
			return nil
		},
	}
	addOutput(c, &output, "text", "json", "yaml")
	return c
}

// explain reads the cluster, and puts together what it says about one node.
func (s *session) explain(ctx context.Context, name string) (explainDocument, error) {
	nodes, err := s.survey(ctx)
	if err != nil {
		return explainDocument{}, err
	}
	chosen, err := s.choose(nodes, []string{name}, madeByCKS)
	if err != nil {
		return explainDocument{}, err
	}
	n := chosen[0]
	doc := explainDocument{header: kind("NodeExplanation"), Cluster: s.cluster.Name, nodeDocument: newNodeDocument(n), Goal: n.Views.Instance.Present(), Checks: verified(n).Checks}
	doc.Kubernetes = s.kubeWay()
	if n.Claim != nil {
		doc.Goal = n.Claim.Goal
	}
	if len(n.Problems) == 0 {
		s.foresee(ctx, &doc, nodes, n)
	}
	return doc, nil
}

// foresee asks the planner about the node alone.
func (s *session) foresee(ctx context.Context, doc *explainDocument, nodes []survey.Node, n survey.Node) {
	goal := rollout.Goal{Offering: doc.Goal, Settle: rollout.DefaultSettle}
	if n.Claim != nil {
		goal = n.Claim.Asked()
	}
	members := []rollout.Member{{Seen: n.Observation(), Claim: n.Claim, Goal: &goal}}
	members[0].Seen.Peers = survey.Peers(nodes, n)
	s.inspect(ctx, members)
	seen := members[0].Seen
	plan := rollout.NewPlan(s.cluster.ID, s.cluster.Name, nil, members).Nodes[0]
	doc.Next, doc.Refusals, doc.Inspection = plan.Moves, plan.Refusals, seen.Inspection
	if n.Claim == nil {
		doc.Warnings = rollout.Warnings(goal, seen)
	}
}

func (a *app) printExplained(d explainDocument) {
	fmt.Fprintf(a.Out, "%s (%s) of cluster %s\n\n", d.Target.Name, d.Target.Role, d.Cluster)
	line := func(topic, format string, args ...any) {
		fmt.Fprintln(a.Out, a.screen(a.Out).fold(fmt.Sprintf("%-12s ", topic), oneLine(fmt.Sprintf(format, args...))))
	}
	i := d.Views.Instance
	line("record", "%s", orDash(d.Views.Record.Offering.String()))
	line("instance", "%s, %s, %s, dynamically scalable: %s", i.OfferingName, i.Size(), i.State, yesNo(i.DynamicallyScalable))
	line("", "id %s", i.ID)
	explainGuest(line, d.Views.Guest)
	explainNode(line, d)
	if d.Kubernetes != nil {
		line("kubernetes", "asked %s", d.Kubernetes)
	}
	for _, p := range d.Problems {
		line("unread", "%s", p.Error())
	}
	explainClaim(line, d.Claim)
	for _, c := range d.Checks {
		if c.OK {
			line("ok", "%s: %s", c.What, c.Observed)
		} else {
			line("NOT MET", "%s", c)
		}
	}
	explainInspection(line, d.Inspection)
	for _, r := range d.Warnings {
		line("warning", "%s", r)
	}
	explainNext(line, d)
}

func explainInspection(line func(topic, format string, args ...any), i *capacity.Inspection) {
	if i == nil || i.Unread != "" {
		return // the latter is a warning
	}
	line("hotplug", "%d of %d slots for DIMMs taken; booted with %s MiB, %d MiB available now; DIMMs and CPUs that the kernel refused in this boot: %d",
		i.DIMMsPlugged, i.DIMMSlots, orUnknown(i.Kernel.BootMemory/capacity.MiB), i.MemAvailable/capacity.MiB, len(i.Kernel.MemoryRefused)+len(i.Kernel.CPUsRefused))
	if k := i.Kubelet; k.Unread == "" {
		line("config", "%s: CPU manager %s, memory manager %s", k.Path, first(k.CPUManagerPolicy, "none"), first(k.MemoryManagerPolicy, "None"))
	}
}

func orUnknown(mib int64) string {
	if mib <= 0 {
		return "unknown"
	}
	return strconv.FormatInt(mib, 10)
}

func explainGuest(line func(topic, format string, args ...any), g *capacity.Guest) {
	if g == nil {
		return
	}
	blocks := g.BlocksOnline + g.BlocksOffline
	line("guest", "%d of %d CPUs online (this boot can have %d); %d of %d memory blocks of %d MiB online, %d MiB; MemTotal %d KiB",
		g.CPUsOnline, g.CPUsPresent, g.CPUsPossible, g.BlocksOnline, blocks, g.BlockSize/capacity.MiB, g.MemoryOnline()/capacity.MiB, g.MemTotal/1024)
	line("", "DMI UUID %s, machine-id %s, boot id %s", g.ProductUUID, g.MachineID, g.BootID)
	if g.Etcd != nil {
		line("etcd", "%s", capacity.CheckEtcd(*g).Observed)
		return
	}
	line("kubelet", "%s, started %s (runs for %s), InvocationID %s", g.Kubelet, g.KubeletStart().UTC().Format(time.RFC3339), g.KubeletAge().Truncate(time.Second), orDash(g.Kubelet.InvocationID))
}

func explainNode(line func(topic, format string, args ...any), d explainDocument) {
	n := d.Views.Node
	if n == nil {
		return
	}
	schedulable := "schedulable"
	if n.Unschedulable {
		schedulable = "cordoned by " + orDash(n.UnschedulableBy)
	}
	line("node", "Ready=%s, last heartbeat %s, %s; systemUUID %s, machine-id %s, boot id %s", n.Ready.Status, n.Ready.Heartbeat.UTC().Format(time.RFC3339), schedulable, n.SystemUUID, n.MachineID, n.BootID)
	cpu, memory := n.Allocatable["cpu"], n.Allocatable["memory"]
	line("allocatable", "CPU: %dm capacity - %dm kubeReserved and systemReserved = %dm", n.CPUs(), d.Arithmetic.CPUReserved, cpu.MilliValue())
	line("", "memory: %d KiB capacity - %d KiB huge pages - %d KiB kubeReserved, systemReserved and eviction threshold = %d KiB",
		n.Memory()/1024, d.Arithmetic.HugePages/1024, d.Arithmetic.MemoryReserved/1024, memory.Value()/1024)
}

func explainClaim(line func(topic, format string, args ...any), c *rollout.Claim) {
	if c == nil {
		line("claim", "none")
		return
	}
	line("claim", "run %s of %s since %s, to %s; the cordon is its own: %s", c.Run, orDash(c.Actor), c.Since.UTC().Format(time.RFC3339), c.Goal, yesNo(c.Cordoned))
	if r := c.Resize; r != nil {
		line("", "resize asked for %s, job %s", r.Asked.UTC().Format(time.RFC3339), orDash(r.JobID))
	}
	if r := c.Restart; r != nil {
		line("", "restart announced of the kubelet with InvocationID %s, pid %d", r.InvocationID, r.MainPID)
	}
	if c.Fault != nil {
		line("", "stopped, phase %s: %s", c.Phase, c.Fault.Error())
	}
}

func explainNext(line func(topic, format string, args ...any), d explainDocument) {
	switch {
	case len(d.Problems) > 0:
		line("next", "can't be told while a view is not read")
	case len(d.Refusals) > 0:
		for _, r := range d.Refusals {
			line("refused", "%s", r)
		}
	case len(d.Next) == 0:
		line("next", "nothing: the node has %s, and all views agree", d.Goal)
	default:
		for i, m := range d.Next {
			line(map[bool]string{true: "next"}[i == 0], "%s: %s", m.Move, m.Sentence)
		}
		line("because", "%s", d.Next[0].Why)
	}
}
