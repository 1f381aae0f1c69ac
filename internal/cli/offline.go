package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/cloudstack"
	"github.com/cks-trueup/trueup/internal/preflight"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// recordChange is what becomes of one role of a cluster of which nothing runs.
type recordChange struct {
	Role     rollout.Role      `json:"role"`
	Offering capacity.Offering `json:"offering"`
	Sentence string            `json:"sentence"`
	Why      string            `json:"why"`
	// Machines are the instances that do not have the offering yet, by id.
	Machines []string `json:"machines,omitempty"`
}

// planOffline plans for a cluster of which nothing runs.
func (s *session) planOffline(ctx context.Context, flags goalFlags, offerings map[rollout.Role]capacity.Offering) (planDocument, error) {
	if len(flags.nodes) > 0 {
		return planDocument{}, usageErrorf("cluster %s is %s: CloudStack changes all nodes of a role then; leave out --node", s.cluster.Name, s.cluster.State)
	}
	doc, err := s.checked(ctx, scope{offerings: offerings, offline: true})
	if err != nil {
		return doc, err
	}
	doc.Preflight = append(doc.Preflight, s.withinLimits(<-s.readLimits(ctx), func(vm cloudstack.VM) capacity.Offering { return offerings[vm.Role] }))
	doc.Preflight, doc.ignored = preflight.Ignore(doc.Preflight, flags.ignore), flags.ignore
	doc.Goals = map[rollout.Role]rollout.Goal{}
	for _, role := range []rollout.Role{rollout.RoleControl, rollout.RoleEtcd, rollout.RoleWorker} {
		o, ok := offerings[role]
		if !ok {
			continue
		}
		doc.Goals[role] = rollout.Goal{Offering: o, Settle: flags.settle, Ignore: flags.ignore}
		if change := s.recordChange(role, o); change.Why != "" && !doc.refused() {
			doc.Record = append(doc.Record, change)
		}
	}
	return doc, nil
}

// recordChange compares one role with its goal. Why is empty if it is there.
func (s *session) recordChange(role rollout.Role, goal capacity.Offering) recordChange {
	change := recordChange{Role: role, Offering: goal}
	record, was := s.cluster.Records[role].Offering, ""
	for _, vm := range s.cluster.VMs {
		if vm.Role == role && !vm.External && !vm.Instance.AtOffering(goal) {
			change.Machines, was = append(change.Machines, vm.Instance.ID), vm.Instance.OfferingName
		}
	}
	switch {
	case len(change.Machines) > 0:
		change.Why = fmt.Sprintf("%s: expected %s, observed %s", plural(len(change.Machines), "machine"), goal, was)
	case record.ID != goal.ID:
		change.Why = fmt.Sprintf("the cluster record: expected %s, observed %s", goal, record)
	}
	what := fmt.Sprintf("change the cluster record: %s nodes get %s", role, goal)
	if s.cluster.State == "Stopped" {
		what = fmt.Sprintf("change the %s nodes, and the cluster record, to %s", role, goal)
	}
	change.Sentence = what + " (scaleKubernetesCluster); nothing runs, so nothing is cordoned or restarted"
	return change
}

// changeOffline carries out a plan for a cluster of which nothing runs, and starts it if that was asked for.
func (a *app) changeOffline(ctx context.Context, s *session, doc planDocument, run runFlags, start bool) error {
	a.printPlan(a.Err, doc)
	if err := doc.refusal(); err != nil {
		return err
	}
	start = start && s.cluster.State == "Stopped"
	if len(doc.Record) == 0 && !start {
		return a.nothing(run.output, s, "Nothing to do: the record and the machines have these offerings.")
	}
	if err := s.noJobs(ctx); err != nil {
		return err
	}
	question := fmt.Sprintf("Change %s now?", doc.ClusterName)
	if start {
		question = fmt.Sprintf("Change and start %s now?", doc.ClusterName)
	}
	if err := a.confirm(ctx, run.yes, question); err != nil {
		return err
	}
	change := &offlineChange{app: a, session: s, doc: doc, limits: run.limits}
	keep := a.keeper(s, job{run: a.newRun(), command: "scale", actor: a.actor(), why: run.why, notes: doc.notes()})
	keep.begin(doc.Plan)
	a.begun()
	err := change.perform(ctx, start)
	report := rollout.Report{Run: keep.proto.Run, Effects: change.effects, Nodes: []rollout.NodeReport{}}
	keep.end(report, err)
	return a.conclude(run.output, s, report, err)
}

// noJobs refuses to begin while CloudStack is at work on one of the machines.
func (s *session) noJobs(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(mostInstances)
	for _, vm := range s.cluster.VMs {
		g.Go(func() error {
			reading, err := s.cloudStack.Instance(ctx, vm.Instance.ID)
			if err == nil && reading.PendingJobID != "" {
				err = withCode(ExitRefused, fmt.Errorf("refused, nothing was changed: job %s is pending on %s: try again when it has ended", reading.PendingJobID, vm.Instance.Name))
			}
			return err
		})
	}
	return g.Wait()
}

// mostInstances is how many instances are read from CloudStack at once.
const mostInstances = 8

// offlineChange is one change of a cluster of which nothing runs.
type offlineChange struct {
	*app

	session *session
	doc     planDocument
	limits  rollout.Limits
	effects []rollout.Effect
}

func (c *offlineChange) perform(ctx context.Context, start bool) error {
	s := c.session
	if len(c.doc.Record) > 0 {
		if err := c.changeRoles(ctx); err != nil {
			return err
		}
		c.say("Changed.")
	}
	if !start {
		if s.cluster.State == "Stopped" {
			c.say("Nothing of %s runs, so nothing could be verified: `trueup verify %s` after its start looks at every node.", s.cluster.Name, s.cluster.Name)
		}
		return nil
	}
	err := c.job(ctx, "start the cluster (startKubernetesCluster)", func() (string, error) { return s.cloudStack.StartCluster(ctx, s.cluster.ID) })
	if err != nil {
		return err
	}
	return c.verifyStarted(ctx)
}

// changeRoles asks for all roles at once. In CloudStack the first machine of a role decides whether the role is changed at all, so what it left
// out is changed machine by machine.
func (c *offlineChange) changeRoles(ctx context.Context) error {
	s, offerings := c.session, map[rollout.Role]string{}
	for _, r := range c.doc.Record {
		offerings[r.Role] = r.Offering.ID
	}
	if err := c.job(ctx, "change the offerings (scaleKubernetesCluster)", func() (string, error) { return s.cloudStack.ScaleCluster(ctx, s.cluster.ID, offerings) }); err != nil {
		return err
	}
	for _, r := range c.doc.Record {
		for _, id := range r.Machines {
			if err := c.changeMachine(ctx, id, r.Offering); err != nil {
				return err
			}
		}
	}
	return nil
}

// changeMachine changes the offering of a stopped machine that does not have it yet.
func (c *offlineChange) changeMachine(ctx context.Context, id string, goal capacity.Offering) error {
	cs := c.session.cloudStack
	reading, err := cs.Instance(ctx, id)
	if err != nil || reading.Instance.AtOffering(goal) {
		return err
	}
	return c.job(ctx, fmt.Sprintf("change the offering of %s, which CloudStack left out (scaleVirtualMachine)", reading.Instance.Name), func() (string, error) {
		return cs.Resize(ctx, id, goal.ID, reading.ServerTime.Add(c.limits.Request))
	})
}

// job starts a job and waits for its end, within the bound of a resize. A job that outlasts it, or an interrupt, goes on in CloudStack.
func (c *offlineChange) job(ctx context.Context, what string, start func() (string, error)) error {
	s := c.session
	fault := func(summary, observed string, cause error) error {
		return &rollout.Fault{Layer: capacity.LayerCloudStack, Cluster: s.cluster.Name, Move: rollout.MoveResize, Summary: summary, Expected: what, Observed: observed, Cause: cause,
			Since: c.clock.Now(), Recover: "look at the cluster's state with `trueup clusters`, then run the same command again"}
	}
	c.say("%s: %s …", s.cluster.Name, what)
	id, err := start()
	switch {
	case errors.Is(err, rollout.ErrUnreachable), ctx.Err() != nil:
		c.effects = append(c.effects, rollout.Effect{At: c.clock.Now(), Node: s.cluster.Name, Action: rollout.ActionResize, Text: what, Unanswered: true})
		return fault("CloudStack gave no answer, so it may have begun or not", "no reply", err)
	case err != nil:
		return fault("CloudStack did not begin", "no job", err)
	}
	c.effects = append(c.effects, rollout.Effect{At: c.clock.Now(), Node: s.cluster.Name, Action: rollout.ActionResize, Text: what + ", job " + id})
	began, pause := c.clock.Now(), time.Second
	for c.clock.Now().Sub(began) < c.limits.Resize {
		job, err := s.cloudStack.Job(ctx, id)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("%s: interrupted; job %s goes on in CloudStack: %w", s.cluster.Name, id, ctx.Err())
		case err != nil && !errors.Is(err, rollout.ErrUnreachable):
			return fault("what became of the job can't be read", "job "+id, err)
		case err == nil && job.Status == rollout.JobSucceeded:
			return nil
		case err == nil && job.Status == rollout.JobFailed:
			return fault("CloudStack failed the change", fmt.Sprintf("job %s failed with code %d: %s", id, job.Code, job.Text), nil)
		}
		if err := c.rest(ctx, pause); err != nil {
			return fmt.Errorf("%s: interrupted; job %s goes on in CloudStack: %w", s.cluster.Name, id, err)
		}
		pause = min(2*pause, mostAwait)
	}
	return fault(fmt.Sprintf("the job has not ended within %s", c.limits.Resize), "job "+id+" pending", nil)
}

// verifyStarted looks at every node until all agree, within the bound of a verification: machines boot, kubelets register. kubelet was started
// with everything that the machine has, so it is not restarted.
func (c *offlineChange) verifyStarted(ctx context.Context) error {
	s, began, pause := c.session, c.clock.Now(), firstAwait
	for {
		doc, err := c.lookStarted(ctx)
		if err == nil && doc.Agree {
			c.printVerified(doc)
			return nil
		}
		if ctx.Err() == nil && c.clock.Now().Sub(began) >= c.limits.Verify {
			if err == nil {
				c.printVerified(doc)
				err = doc.verdict()
			}
			return fmt.Errorf("%s was started, and is not verified within %s; look again with `trueup verify %s`: %w", s.cluster.Name, c.limits.Verify, s.cluster.Name, err)
		}
		if err := c.rest(ctx, pause); err != nil {
			return fmt.Errorf("%s was started, and is not verified: `trueup verify %s`: %w", s.cluster.Name, s.cluster.Name, err)
		}
		pause = min(2*pause, mostAwait)
	}
}

// lookStarted reads the cluster anew, and checks all of its nodes.
func (c *offlineChange) lookStarted(ctx context.Context) (verifyDocument, error) {
	if err := c.readAgain(ctx, c.session); err != nil {
		return verifyDocument{}, err
	}
	nodes, err := c.session.survey(ctx)
	return c.session.verification(nodes), err
}
