package cli

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cks-trueup/trueup/internal/preflight"
	"github.com/cks-trueup/trueup/internal/rollout"
)

func (a *app) scaleCommand() *cobra.Command {
	var f scaleFlags
	c := &cobra.Command{
		Use:   "scale CLUSTER [--worker|--control|--etcd OFFERING]",
		Short: "Take the nodes to another offering, one at a time",
		Long: `Take the nodes of a running cluster to a bigger offering, one at a time:
cordon, resize live through CloudStack, bring up and verify CPUs and memory in
the guest, restart kubelet once, verify the Node, give schedulability back.
The next node starts only after the present one is verified. Nothing is
drained or evicted.

With --method cold each node is drained by evictions instead, its instance
stopped, given its offering and started, and the Node verified. That shrinks
too, and works where nothing can be scaled live.

The same command again goes on where an earlier run ended, whatever ended it.
The first interrupt stops at the next safe point, a second one at once; both
can be resumed.

Of a Stopped or Created cluster nothing runs: the offerings are changed in
CloudStack, in its record too, and nothing is cordoned or restarted.

With --plan exactly a plan is carried out that trueup plan -o json has printed
before. Everything is read anew; if what the plan rests on holds no longer,
nothing is changed and the difference is shown.`,
		Example: `  trueup scale prod --worker large
  trueup plan prod --worker large -o json > plan.json
  trueup scale --plan plan.json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if f.plan != "" {
				return a.scaleSaved(c, args, f)
			}
			if len(args) == 0 {
				return usageErrorf("no cluster is named; see `%s --help`", c.CommandPath())
			}
			return a.scale(c.Context(), args[0], f, nil)
		},
	}
	f.goals.add(c)
	f.run.add(c)
	c.Flags().StringVar(&f.plan, "plan", "", "carry out the plan in this `file`, which trueup plan -o json has printed; - is standard input")
	c.Flags().BoolVar(&f.start, "start", false, "start a Stopped cluster after the change, and verify every node")
	c.Flags().DurationVar(&f.wait, "wait", 0, "how long to wait for CloudStack to finish what it does with the cluster (Scaling, Alert, ...)")
	return c
}

// scaleFlags are what scale takes.
type scaleFlags struct {
	goals goalFlags
	run   runFlags
	plan  string // file of a saved plan
	wait  time.Duration
	start bool
}

// scaleSaved carries out a saved plan.
func (a *app) scaleSaved(c *cobra.Command, args []string, f scaleFlags) (err error) {
	if f.plan == "-" && !f.run.yes {
		return usageErrorf("--plan - reads the plan where an answer would be read: add --yes, or name a file")
	}
	saved, err := a.readPlan(f.plan)
	if err != nil {
		return err
	}
	if err := saved.check(c, args); err != nil {
		return err
	}
	if f.goals, err = saved.flags(); err != nil {
		return err
	}
	return a.scale(c.Context(), saved.ClusterID, f, &saved)
}

// scale plans and carries the plan out; if one was saved, only if the new one rests on the same.
func (a *app) scale(ctx context.Context, cluster string, f scaleFlags, saved *savedPlan) error {
	if err := f.run.check(); err != nil {
		return err
	}
	s, err := a.open(ctx, cluster)
	if err != nil {
		return err
	}
	defer s.close()
	if err := a.awaitSettled(ctx, s, f.wait); err != nil {
		return err
	}
	doc, err := a.plan(ctx, s, f.goals)
	if err != nil {
		return err
	}
	if saved != nil {
		if err := saved.expectSame(doc); err != nil {
			return err
		}
	}
	if preflight.NothingRuns(s.cluster.State) {
		return a.changeOffline(ctx, s, doc, f.run, f.start)
	}
	return a.carryOut(ctx, s, doc, f.run, "scale")
}

// carryOut shows the plan, asks, and walks it.
func (a *app) carryOut(ctx context.Context, s *session, doc planDocument, run runFlags, command string) error {
	a.printPlan(a.Err, doc)
	if err := doc.refusal(); err != nil {
		return err
	}
	continues, err := s.continues(ctx, doc.Plan)
	if err != nil {
		return err
	}
	if !doc.Changes() && continues == "" {
		return a.printReport(run.output, s.cluster.Name, unchanged(doc), nil)
	}
	if doc.Changes() {
		question := fmt.Sprintf("Change %s of %s now?", plural(changing(doc.Plan), "node"), doc.ClusterName)
		if isCold(doc.Plan) {
			question = coldQuestion(doc.Plan)
		}
		if err := a.confirm(ctx, run.yes, question); err != nil {
			return err
		}
	}
	if err = a.perform(ctx, s, run, doc.job(command, continues)); err == nil && isCold(doc.Plan) {
		return a.awaitRunning(ctx, s)
	}
	return err
}

// job is the walk of the plan.
func (d *planDocument) job(command, continues string) job {
	return job{notes: d.notes(), command: command, continues: continues, plan: d.Plan, byNode: d.byNode,
		do: func(ctx context.Context, r *rollout.Runner) (rollout.Report, error) {
			if d.before != nil {
				if err := d.before(ctx); err != nil {
					return rollout.Report{Run: r.Run}, err
				}
			}
			return r.Walk(ctx, d.Plan)
		}}
}

// notes are what the history keeps of the plan itself.
func (d *planDocument) notes() []string {
	if len(d.ignored) == 0 {
		return nil
	}
	return []string{"checks ignored: " + strings.Join(d.ignored, ", ")}
}

// unchanged is the report of a plan with nothing to do.
func unchanged(doc planDocument) rollout.Report {
	var r rollout.Report
	for _, n := range doc.Nodes {
		report := rollout.NodeReport{Target: n.Target, Goal: n.Goal, Outcome: rollout.OutcomeUnchanged}
		if seen, ok := doc.seen[n.Target.InstanceID]; ok {
			report.Final = &seen
		}
		r.Nodes = append(r.Nodes, report)
	}
	return r
}

// confirm asks the person, unless --yes was given. An interrupt is an answer too.
func (a *app) confirm(ctx context.Context, yes bool, question string) error {
	if yes {
		return nil
	}
	fmt.Fprintf(a.Err, "\n%s Only \"yes\" goes on: ", question)
	type reply struct {
		text string
		err  error
	}
	read := make(chan reply, 1)
	go func() {
		text, err := bufio.NewReader(a.In).ReadString('\n')
		read <- reply{text, err}
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(a.Err)
		return ctx.Err()
	case r := <-read:
		if strings.TrimSpace(r.text) == "yes" {
			return nil
		}
		if r.err != nil {
			fmt.Fprintln(a.Err)
			return usageErrorf("nothing was changed: there was no answer to read; use --yes where nobody can answer")
		}
		return usageErrorf("nothing was changed: the answer was not \"yes\"")
	}
}

func changing(p rollout.Plan) (n int) {
	for _, np := range p.Nodes {
		if len(np.Moves) > 0 {
			n++
		}
	}
	return n
}

func (a *app) progress(plan rollout.Plan) progress {
	if a.screen(a.Err).is {
		fmt.Fprintln(a.Err)
		return newLiveProgress(a.Err, plan, func() screen { return a.screen(a.Err) }, a.clock.Now)
	}
	return newPlainProgress(a.Err, a.clock.Now())
}

// userAtHost is who runs this, for people.
func (a *app) userAtHost() string {
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
