package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/cloudstack"
	"github.com/cks-trueup/trueup/internal/preflight"
	"github.com/cks-trueup/trueup/internal/rollout"
	"github.com/cks-trueup/trueup/internal/survey"
)

// goalFlags are the flags that say what the nodes shall become.
type goalFlags struct {
	worker, control, etcd string
	offering              string
	nodes, ignore         []string
	noOnline              bool
	cold                  coldFlags
	settle                time.Duration
	looking               bool // not a flag: nothing is to be changed by this account
}

// goalFlagSet are these flags, by their names.
func goalFlagSet() *pflag.FlagSet {
	var c cobra.Command
	new(goalFlags).add(&c)
	return c.Flags()
}

func (g *goalFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&g.offering, "offering", "", "compute `offering` for workers and control-plane nodes, where --worker or --control does not say otherwise")
	c.Flags().StringSliceVar(&g.nodes, "node", nil, "only this `node`, by name or instance id; may be repeated; the only way to a node that was added by hand")
	c.Flags().StringVar(&g.worker, "worker", "", "compute `offering` for the workers, by name or id")
	c.Flags().StringVar(&g.control, "control", "", "compute `offering` for the control-plane nodes")
	c.Flags().StringVar(&g.etcd, "etcd", "", "compute `offering` for dedicated etcd nodes")
	c.Flags().StringSliceVar(&g.ignore, "ignore", nil, "go on against this failed `check`, by its name in trueup preflight; may be repeated; kept in the history")
	g.cold.add(c)
	c.Flags().BoolVar(&g.noOnline, "no-online", false, "do not bring up plugged CPUs and memory blocks in the guest, only verify that something else does")
	c.Flags().DurationVar(&g.settle, "settle", rollout.DefaultSettle, "how long the restarted kubelet must run before its node is given back")
}

// planDocument is what `plan -o json` prints.
type planDocument struct {
	header
	rollout.Plan

	Preflight []preflight.Check `json:"preflight"`
	// Record is what is changed of a cluster of which nothing runs: its machines and its record, in CloudStack alone.
	Record []recordChange `json:"record,omitempty"`
	// Request is what the plan was asked for, and Readings what it rests on: `scale --plan` asks for the same, and refuses if that has changed.
	Request  planRequest `json:"request"`
	Readings []reading   `json:"readings"`

	seen    map[string]rollout.Observation // what was planned on, by instance id
	byNode  bool                           // nodes were named, so that others of their roles are left out
	ignored []string                       // checks that the person decided to go on against
	before  func(context.Context) error    // what is done before the first node, after the question; nil if nothing is
}

func (a *app) planCommand() *cobra.Command {
	var goals goalFlags
	var output string
	c := &cobra.Command{
		Use:   "plan CLUSTER [--worker|--control|--etcd OFFERING]",
		Short: "Print what scale would do, with reasons; change nothing",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			goals.looking = true
			return a.showPlan(c.Context(), args[0], goals, func(doc planDocument) error {
				if machine(output) {
					return printDocument(a.Out, output, doc)
				}
				a.printPlan(a.Out, doc)
				return nil
			})
		},
	}
	goals.add(c)
	addOutput(c, &output, "text", "json", "yaml")
	return c
}

// showPlan plans for a cluster and shows what a person wants to see of it. A plan that may not be walked is an error all the same.
func (a *app) showPlan(ctx context.Context, cluster string, goals goalFlags, show func(planDocument) error) error {
	s, err := a.open(ctx, cluster)
	if err != nil {
		return err
	}
	defer s.close()
	doc, err := a.plan(ctx, s, goals)
	if err != nil {
		return err
	}
	if err := show(doc); err != nil {
		return err
	}
	return doc.refusal()
}

// plan surveys the cluster, checks it, plans, and keeps what the plan rests on.
func (a *app) plan(ctx context.Context, s *session, flags goalFlags) (planDocument, error) {
	doc, err := a.newPlan(ctx, s, flags)
	if err == nil {
		doc.remember(s, flags)
	}
	return doc, err
}

func (a *app) newPlan(ctx context.Context, s *session, flags goalFlags) (planDocument, error) {
	if err := checkIgnored(flags.ignore); err != nil {
		return planDocument{}, err
	}
	if err := flags.cold.check(); err != nil {
		return planDocument{}, err
	}
	offerings, err := s.offerings(ctx, flags)
	if err != nil {
		return planDocument{}, err
	}
	if preflight.NothingRuns(s.cluster.State) {
		return s.planOffline(ctx, flags, offerings)
	}
	doc, err := s.checked(ctx, scope{offerings: offerings, method: flags.cold.goal().Method})
	if err != nil {
		return planDocument{}, err
	}
	doc.Preflight = preflight.Ignore(doc.Preflight, flags.ignore)
	goals := map[rollout.Role]rollout.Goal{}
	for role, o := range offerings {
		goals[role] = flags.goal(o)
	}
	doc.Goals = goals
	if doc.refused() {
		return doc, nil // the cluster as a whole: its nodes need not be read
	}
	limits := s.readLimits(ctx) // at the same time as the rest
	nodes, rights, err := s.look(ctx, furtherRights(flags.cold.goal().Method)...)
	if err != nil {
		return planDocument{}, err
	}
	perNode, err := s.goalsByNode(nodes, goals, flags.nodes)
	if err != nil {
		return planDocument{}, err
	}
	rights.NotReady = notReady(nodes, perNode)
	checks := append(s.changes(ctx, nodes, perNode), preflight.KubernetesChecks(rights)...)
	if flags.looking {
		checks = preflight.ForLooking(checks)
	}
	doc.Preflight = append(doc.Preflight, preflight.Ignore(checks, flags.ignore)...)
	allowed := <-limits
	doc.Preflight = append(doc.Preflight, preflight.Ignore([]preflight.Check{s.withinLimits(allowed, func(vm cloudstack.VM) capacity.Offering { return perNode[vm.Instance.ID].Offering })}, flags.ignore)...)
	doc.Preflight = append(doc.Preflight, s.misplaced(ctx, nodes, perNode)...)
	doc.Preflight = append(doc.Preflight, preflight.Ignore(s.room(ctx, nodes, perNode), flags.ignore)...)
	if err := s.planFor(ctx, &doc, nodes, perNode); err != nil {
		return planDocument{}, err
	}
	doc.Goals, doc.byNode, doc.ignored = goals, len(flags.nodes) > 0, flags.ignore
	return doc, nil
}

// goalsByNode are the goals of the named nodes; without names, of all nodes that CKS made and that have a goal.
func (s *session) goalsByNode(nodes []survey.Node, goals map[rollout.Role]rollout.Goal, names []string) (map[string]rollout.Goal, error) {
	chosen, err := s.choose(nodes, names, madeByCKS)
	if err != nil {
		return nil, err
	}
	out := map[string]rollout.Goal{}
	for _, n := range chosen {
		switch g, ok := goals[n.Target.Role]; {
		case ok:
			out[n.Target.InstanceID] = g
		case len(names) > 0:
			return nil, usageErrorf("%s is of role %s, and no offering is named for that: add --%s", n.Target.Name, n.Target.Role, n.Target.Role)
		}
	}
	return out, nil
}

// take keeps the plan, and what it was made on.
func (d *planDocument) take(p rollout.Plan, members []rollout.Member) {
	d.Plan, d.seen = p, map[string]rollout.Observation{}
	for _, m := range members {
		d.seen[m.Seen.Target.InstanceID] = m.Seen
	}
}

// scope is what the checks of a cluster as a whole are for.
type scope struct {
	offerings map[rollout.Role]capacity.Offering // the goals', if any is named
	method    rollout.Method
	offline   bool // nothing runs, and CloudStack alone is changed
}

// checked is a plan without nodes yet: the checks of the cluster as a whole.
func (s *session) checked(ctx context.Context, of scope) (planDocument, error) {
	facts, err := s.cloudStack.Facts(ctx, s.cluster)
	if err != nil {
		return planDocument{}, err
	}
	cluster := s.facts(facts)
	cluster.Offline, cluster.Cold, cluster.Needed = of.offline, of.method == rollout.MethodCold, cloudstack.Needed(of.offline)
	if cluster.Cold {
		cluster.Needed = cloudstack.NeededCold()
	}
	if s.cluster.State == stateAlert {
		cluster.StoppedByUs = s.coldOpen(ctx)
	}
	doc := planDocument{header: kind("Plan"), Preflight: preflight.Checks(cluster, of.offerings)}
	doc.ClusterID, doc.ClusterName = s.cluster.ID, s.cluster.Name
	return doc, nil
}

// offerings looks up the goals' offerings.
func (s *session) offerings(ctx context.Context, flags goalFlags) (map[rollout.Role]capacity.Offering, error) {
	out := map[rollout.Role]capacity.Offering{}
	flags.worker, flags.control = first(flags.worker, flags.offering), first(flags.control, flags.offering)
	for _, g := range []struct {
		role rollout.Role
		name string
	}{{rollout.RoleWorker, flags.worker}, {rollout.RoleControl, flags.control}, {rollout.RoleEtcd, flags.etcd}} {
		if g.name == "" {
			continue
		}
		o, err := s.cloudStack.Offering(ctx, g.name)
		if err != nil {
			return nil, inputError(err)
		}
		out[g.role] = o
	}
	if len(out) == 0 {
		return nil, usageErrorf("no goal: name an offering with --offering, --worker, --control or --etcd")
	}
	return out, checkSettle(flags.settle)
}

func checkSettle(d time.Duration) error {
	if d < 0 {
		return usageErrorf("--settle %s is negative", d)
	}
	return nil
}

// members are the nodes that have a goal, and those that carry a claim. A node with a goal that can't be read in full can't be planned for.
func (s *session) members(nodes []survey.Node, goalOf func(survey.Node) *rollout.Goal) ([]rollout.Member, error) {
	if err := s.reachable(); err != nil {
		return nil, err
	}
	var members []rollout.Member
	var errs []error
	for _, n := range nodes {
		goal := goalOf(n)
		if goal == nil && n.Claim == nil {
			continue
		}
		for _, p := range n.Problems {
			if p.View == capacity.ViewGuest && n.Claim != nil && n.Claim.Cold != nil {
				continue // it is stopped, or being started
			}
			errs = append(errs, fmt.Errorf("%s: %w", n.Target.Name, p))
		}
		seen := n.Observation()
		seen.Peers = survey.Peers(nodes, n)
		members = append(members, rollout.Member{Seen: seen, Claim: n.Claim, Goal: goal})
	}
	return members, unreadable(errs)
}

// inspect looks at what is checked only before the first change, on the nodes that have a goal and are not in work yet.
func (s *session) inspect(ctx context.Context, members []rollout.Member) {
	var seen []*rollout.Observation
	for i, m := range members {
		if m.Goal != nil && m.Claim == nil {
			seen = append(seen, &members[i].Seen)
		}
	}
	survey.Inspect(ctx, s.guests, seen)
}

// unreadable is the error of nodes that can't be planned for, nil if there are none. It is one line: status lists every one. What was
// answered, but not as it must be, is a refusal; what was not answered is unreachable.
func unreadable(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	code := ExitRefused
	for _, err := range errs {
		if errors.Is(err, rollout.ErrUnreachable) || errors.Is(err, rollout.ErrDenied) {
			code = ExitUnreachable
		}
	}
	if len(errs) == 1 {
		return withCode(code, fmt.Errorf("nothing was changed: %w", errs[0]))
	}
	return withCode(code, fmt.Errorf("nothing was changed: %d views could not be read (`trueup status` lists them): %w", len(errs), errs[0]))
}

// refused reports whether the plan may not be walked.
func (d *planDocument) refused() bool { return d.refusal() != nil }

// refusal is the error of a plan that may not be walked, nil if it may. It is one line: the plan itself lists every reason.
func (d *planDocument) refusal() error {
	var reasons []string
	for _, c := range preflight.Failures(d.Preflight) {
		reasons = append(reasons, c.String())
	}
	for _, n := range d.Refused() {
		for _, r := range n.Refusals {
			reasons = append(reasons, n.Target.Name+": "+r.String())
		}
	}
	switch len(reasons) {
	case 0:
		return nil
	case 1:
		return withCode(ExitRefused, fmt.Errorf("refused, nothing was changed: %s", reasons[0]))
	}
	return withCode(ExitRefused, fmt.Errorf("refused, nothing was changed, for %d reasons (`trueup plan` lists them): %s", len(reasons), reasons[0]))
}

func (a *app) printPlan(w io.Writer, d planDocument) {
	fmt.Fprintf(w, "Plan for cluster %s%s.\n", d.ClusterName, goalText(d.Goals))
	line := func(first, format string, args ...any) {
		fmt.Fprintln(w, a.screen(w).fold(first, oneLine(fmt.Sprintf(format, args...))))
	}
	for _, c := range d.Preflight {
		switch c.Verdict {
		case preflight.Unknown:
			line("Not checked: ", "%s.", c)
		case preflight.Ignored:
			line("Ignored: ", "%s.", c)
		case preflight.Warn:
			line("Warning: ", "%s.", c)
		}
	}
	for _, c := range preflight.Failures(d.Preflight) {
		line("Refused: ", "%s.", c)
	}
	for i, r := range d.Record {
		line("", "")
		line(fmt.Sprintf("%d. ", i+1), "%s", r.Sentence)
		line("   because ", "%s", r.Why)
	}
	for i, n := range d.Nodes {
		printNodePlan(line, i+1, n)
	}
	for _, s := range d.Warnings {
		line("Warning: ", "%s", s)
	}
	if len(d.Nodes) > 0 && !d.Changes() && len(d.Refused()) == 0 {
		fmt.Fprintln(w, "\nNothing to do: all views of these nodes agree with the goal.")
	}
}

func goalText(goals map[rollout.Role]rollout.Goal) string {
	var parts []string
	for _, role := range rollout.Roles() {
		if g, ok := goals[role]; ok {
			parts = append(parts, fmt.Sprintf("%s to %s", role, g.Offering))
		}
	}
	if parts == nil {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

func printNodePlan(line func(first, format string, args ...any), number int, n rollout.NodePlan) {
	what := ""
	switch {
	case len(n.Refusals) > 0:
		what = ": refused"
	case len(n.Moves) == 0:
		what = ": nothing to do"
	case n.Resumes != "":
		what = ", goes on where run " + n.Resumes + " ended"
	}
	line("", "")
	line(fmt.Sprintf("%d. ", number), "%s (%s, now %s)%s", n.Target.Name, n.Target.Role, n.Present, what)
	for _, m := range n.Moves {
		line(fmt.Sprintf("   %-8s ", m.Move), "%s", m.Sentence)
	}
	if len(n.Moves) > 0 {
		line("   because  ", "%s", n.Moves[0].Why)
	}
	for _, r := range n.Refusals {
		line("   - ", "%s", r)
	}
	for _, r := range n.Warnings {
		line("   warning: ", "%s", r)
	}
}
