package cli

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/kube"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// reportDocument is what `scale -o json` prints at the end.
type reportDocument struct {
	header
	Cluster string `json:"cluster"`
	rollout.Report
	Error string         `json:"error,omitempty"`
	Fault *rollout.Fault `json:"fault,omitempty"`
}

type scaleFlags struct {
	goals  goalFlags
	yes    bool
	why    string
	output string
	limits rollout.Limits
}

func (a *app) scaleCommand() *cobra.Command {
	f := scaleFlags{limits: rollout.DefaultLimits()}
	c := &cobra.Command{
		Use:   "scale CLUSTER --worker OFFERING [--control OFFERING]",
		Short: "Take the nodes of a running cluster to a bigger offering, one at a time",
		Long: `Take the nodes of a running cluster to a bigger offering, one at a time: cordon, resize
live through CloudStack, bring up and verify CPUs and memory in the guest, restart kubelet
once, verify the Node, give schedulability back. The next node starts only after the present
one is verified. Nothing is drained or evicted.

The same command again goes on where an earlier run ended, whatever ended it. The first
interrupt stops at the next safe point, a second one at once; both can be resumed.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.scale(c.Context(), args[0], f) },
	}
	f.goals.add(c)
	flags := c.Flags()
	flags.BoolVarP(&f.yes, "yes", "y", false, "do not ask before the start")
	flags.StringVar(&f.why, "why", "", "`reason`, kept in the claims and shown to whoever asks")
	flags.DurationVar(&f.limits.Access, "access-timeout", f.limits.Access, "how long reads may fail in a row")
	flags.DurationVar(&f.limits.Resize, "resize-timeout", f.limits.Resize, "bound of one offering change in CloudStack")
	flags.DurationVar(&f.limits.Online, "online-timeout", f.limits.Online, "bound until the guest shows its new hardware")
	flags.DurationVar(&f.limits.Verify, "verify-timeout", f.limits.Verify, "bound until the Node is verified after the restart")
	addOutput(c, &f.output, "text", "json", "yaml")
	return c
}

func (a *app) scale(ctx context.Context, cluster string, f scaleFlags) error {
	if err := checkLimits(f.limits); err != nil {
		return err
	}
	s, err := a.open(ctx, cluster)
	if err != nil {
		return err
	}
	defer s.close()
	doc, err := a.plan(ctx, s, f.goals)
	if err != nil {
		return err
	}
	printPlan(a.Err, doc)
	if err := doc.refusal(); err != nil {
		return err
	}
	if !doc.Changes() {
		return a.printReport(f.output, cluster, unchanged(doc.Plan), nil)
	}
	if err := a.confirm(f.yes, doc); err != nil {
		return err
	}
	report, err := a.walk(ctx, s, doc.Plan, f)
	if e := a.printReport(f.output, doc.ClusterName, report, err); e != nil && err == nil {
		return e
	}
	return withCode(rolloutCode(report, err), err)
}

func checkLimits(l rollout.Limits) error {
	for name, d := range map[string]time.Duration{"--access-timeout": l.Access, "--resize-timeout": l.Resize, "--online-timeout": l.Online, "--verify-timeout": l.Verify} {
		if d <= 0 {
			return usageErrorf("%s %s: it must be longer than nothing", name, d)
		}
	}
	return nil
}

// unchanged is the report of a plan with nothing to do.
func unchanged(p rollout.Plan) rollout.Report {
	var r rollout.Report
	for _, n := range p.Nodes {
		r.Nodes = append(r.Nodes, rollout.NodeReport{Target: n.Target, Goal: n.Goal, Outcome: rollout.OutcomeUnchanged})
	}
	return r
}

// confirm asks the person, unless --yes was given.
func (a *app) confirm(yes bool, doc planDocument) error {
	if yes {
		return nil
	}
	fmt.Fprintf(a.Err, "\nScale %s of %s now? Only \"yes\" goes on: ", plural(changing(doc.Plan), "node"), doc.ClusterName)
	answer, err := bufio.NewReader(a.In).ReadString('\n')
	if strings.TrimSpace(answer) == "yes" {
		return nil
	}
	if err != nil {
		return usageErrorf("nothing was changed: there was no answer to read; use --yes where nobody can answer")
	}
	return usageErrorf("nothing was changed: the answer was not \"yes\"")
}

func changing(p rollout.Plan) (n int) {
	for _, np := range p.Nodes {
		if len(np.Moves) > 0 {
			n++
		}
	}
	return n
}

func (a *app) walk(ctx context.Context, s *session, plan rollout.Plan, f scaleFlags) (rollout.Report, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := make(chan struct{})
	go a.watchInterrupts(ctx, cancel, stop)
	shown := a.progress(plan)
	defer shown.Close()
	f.limits.Effect = kube.EffectDeadline
	r := &rollout.Runner{CloudStack: s.cloudStack, Guests: s.guests, Nodes: s.kube, Lock: s.kube.Lock(), Clock: a.clock,
		Limits: f.limits, Run: uuid.NewString(), Watcher: shown.Event, Stop: stop,
		Author: rollout.Author{Actor: a.actor(), Why: f.why, Since: a.clock.Now().UTC()}}
	return r.Walk(ctx, plan)
}

func (a *app) progress(plan rollout.Plan) progress {
	if is, _ := terminal(a.Err); is {
		fmt.Fprintln(a.Err)
		return newLiveProgress(a.Err, plan, func() int { _, w := terminal(a.Err); return w }, a.clock.Now)
	}
	return newPlainProgress(a.Err, a.clock.Now())
}

// watchInterrupts turns the first interrupt into a stop at the next safe point, and the second into an end at once.
func (a *app) watchInterrupts(ctx context.Context, cancel context.CancelFunc, stop chan<- struct{}) {
	select {
	case <-a.Interrupts:
		fmt.Fprintln(a.Err, "\nStopping at the next safe point; interrupt again to end at once. Either can be resumed by the same command.")
		close(stop)
	case <-ctx.Done():
		return
	}
	select {
	case <-a.Interrupts:
		cancel()
	case <-ctx.Done():
	}
}

// actor is who runs this, for people: user@host.
func (a *app) actor() string {
	name := first(a.env("SUDO_USER"), a.env("USER"))
	if u, err := user.Current(); name == "" && err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		return name
	}
	return name + "@" + host
}

func (a *app) printReport(format, cluster string, r rollout.Report, err error) error {
	if format == "json" || format == "yaml" {
		doc := reportDocument{header: kind("RolloutReport"), Cluster: cluster, Report: r}
		if err != nil {
			doc.Error = err.Error()
		}
		for _, n := range r.Nodes {
			if n.Fault != nil {
				doc.Fault = n.Fault
			}
		}
		return printDocument(a.Out, format, doc)
	}
	fmt.Fprintln(a.Out)
	var rows [][]string
	for _, n := range r.Nodes {
		rows = append(rows, reportRow(n))
	}
	if e := printTable(a.Out, []string{"NODE", "ROLE", "OUTCOME", "TOOK", "INSTANCE", "GUEST", "NODE", "SCHED"}, rows); e != nil {
		return e
	}
	for _, n := range r.Nodes {
		a.printNotes(n)
	}
	return nil
}

func reportRow(n rollout.NodeReport) []string {
	row := []string{n.Target.Name, string(n.Target.Role), string(n.Outcome), "-", "-", "-", "-", "-"}
	if n.Took > 0 {
		row[3] = fmt.Sprintf("%.1fs", n.Took.Seconds())
	}
	if f := n.Final; f != nil && f.Instance.ID != "" && f.Node.Name != "" {
		row[4] = short(f.Instance.CPUs, f.Instance.MemoryMiB)
		row[5], row[6] = short(f.Guest.CPUsOnline, f.Guest.MemoryOnline()/capacity.MiB), quantities(f.Node.Capacity)
		row[7] = yesNo(!f.Node.Unschedulable)
	}
	return row
}

// printNotes says what a person should know about a node besides its outcome.
func (a *app) printNotes(n rollout.NodeReport) {
	for _, s := range n.Unneeded {
		fmt.Fprintf(a.Out, "%s: not needed: %s.\n", n.Target.Name, s)
	}
	for _, s := range n.Unplanned {
		fmt.Fprintf(a.Out, "%s: not planned: %s.\n", n.Target.Name, s)
	}
	for _, s := range n.Warnings {
		fmt.Fprintf(a.Out, "%s: note: %s.\n", n.Target.Name, s)
	}
}
