package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/cks-trueup/trueup/internal/cloudstack"
	"github.com/cks-trueup/trueup/internal/doctor"
	"github.com/cks-trueup/trueup/internal/guest"
	"github.com/cks-trueup/trueup/internal/preflight"
	"github.com/cks-trueup/trueup/internal/rollout"
	"github.com/cks-trueup/trueup/internal/survey"
)

// examination is what `doctor -o json` prints.
type examination struct {
	header

	Clusters []examined `json:"clusters"`
}

// examined is one cluster.
type examined struct {
	ID      string         `json:"id"`
	Name    string         `json:"name"`
	State   string         `json:"state"`
	Verdict doctor.Verdict `json:"verdict"`
	// Findings are about the cluster as a whole.
	Findings []doctor.Finding `json:"findings,omitempty"`
	Nodes    []doctor.Node    `json:"nodes,omitempty"`
}

func (a *app) doctorCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "doctor [CLUSTER]",
		Short: "Say what each cluster needs before it can be scaled live",
		Long: `Look at one cluster, or at all that the account can see, and say of every node
whether it can be scaled live now, and if not, what it needs: a stop and start
(prepare), an administrator or the cold method (cold), a reconciliation
(drifting), the end of a rollout (unfinished), or first of all to be reached
(unreachable). Each finding comes with a command. Changes nothing.

Exit code 0: all can be scaled live; 3: something is to be done; 8: something
can't be read.`,
		Example: `  trueup doctor
  trueup doctor prod -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.doctor(c.Context(), args, output) },
	}
	addOutput(c, &output, "text", "json", "yaml")
	return c
}

func (a *app) doctor(ctx context.Context, args []string, output string) error {
	doc := examination{header: kind("Examination")}
	if len(args) == 1 {
		s, err := a.open(ctx, args[0])
		if err != nil {
			return err
		}
		defer s.close()
		doc.Clusters = []examined{s.examine(ctx)}
		return a.diagnose(doc, output)
	}
	client, err := a.cloudStack()
	if err != nil {
		return err
	}
	defer client.Close()
	clusters, err := client.Clusters(ctx, cloudstack.ClusterFilter{})
	if err != nil {
		return err
	}
	doc.Clusters = make([]examined, len(clusters))
	var g errgroup.Group
	g.SetLimit(mostClusters)
	for i, c := range clusters {
		g.Go(func() error { doc.Clusters[i] = a.examineOne(ctx, c); return nil })
	}
	_ = g.Wait() // what can't be read is a finding of its cluster
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return a.diagnose(doc, output)
}

// mostClusters is how many clusters are examined at once.
const mostClusters = 4

// examineOne opens a cluster and looks at it. One that can't be opened hides no other.
func (a *app) examineOne(ctx context.Context, c cloudstack.Cluster) examined {
	s, err := a.open(ctx, c.ID)
	if err != nil {
		return examined{ID: c.ID, Name: c.Name, State: c.State, Verdict: doctor.Unreachable,
			Findings: []doctor.Finding{{Verdict: doctor.Unreachable, Text: oneLine(err.Error()), Remedy: "trueup status " + c.Name}}}
	}
	defer s.close()
	return s.examine(ctx)
}

// examine looks at the cluster as a whole, and then at its nodes.
func (s *session) examine(ctx context.Context) examined {
	e := examined{ID: s.cluster.ID, Name: s.cluster.Name, State: s.cluster.State, Verdict: doctor.Live}
	find := func(v doctor.Verdict, text, remedy string) examined {
		e.Verdict, e.Findings = v, append(e.Findings, doctor.Finding{Verdict: v, Text: text, Remedy: remedy})
		return e
	}
	switch {
	case s.cluster.Type == cloudstack.TypeExternalManaged:
		return find(doctor.NotManaged, "another tool made it: CloudStack neither scales it nor keeps a kubeconfig for it", "")
	case preflight.NothingRuns(s.cluster.State):
		remedy := "trueup scale " + s.cluster.Name + " --worker OFFERING"
		if s.cluster.State == "Stopped" {
			remedy += " --start"
		}
		return find(doctor.NotRunning, "its offerings can be changed as it is, without a restart or a cordon", remedy)
	}
	if err := s.reachable(); err != nil {
		find(doctor.Unreachable, oneLine(err.Error()), "trueup status "+s.cluster.Name+" --kube-via tunnel")
	}
	nodes, err := s.survey(ctx)
	if err != nil {
		return find(doctor.Unreachable, oneLine(err.Error()), "trueup status "+s.cluster.Name)
	}
	e.Nodes = s.judge(ctx, nodes)
	if e.Verdict == doctor.Live {
		e.Verdict = doctor.Worst(e.Nodes)
	}
	return e
}

// judge inspects what could be read, asks CloudStack what stands in the way of each kind of machine, and judges every node.
func (s *session) judge(ctx context.Context, nodes []survey.Node) []doctor.Node {
	seen := make([]rollout.Observation, len(nodes))
	var readable []*rollout.Observation
	for i, n := range nodes {
		if seen[i] = n.Observation(); len(n.Problems) == 0 {
			readable = append(readable, &seen[i])
		}
	}
	survey.Inspect(ctx, s.guests, readable)
	obstacles := s.obstacles(ctx, nodes)
	out := make([]doctor.Node, len(nodes))
	for i, n := range nodes {
		f := doctor.Facts{Target: n.Target, Drifts: n.Drifts, Claimed: n.Claim != nil, Obstacles: obstacles[kindOf(n)]}
		for _, p := range n.Problems {
			f.Unread = append(f.Unread, oneLine(p.Error()))
			if key, is := errors.AsType[*guest.HostKeyError](p.Err); is && len(key.Want) == 0 {
				f.Enroll = true
			}
		}
		if len(n.Problems) == 0 {
			f.Unprepared = rollout.Unprepared(seen[i])
		}
		out[i] = doctor.Judge(f)
	}
	return out
}

// machineKind is what the obstacles depend on.
type machineKind struct{ template, offering string }

func kindOf(n survey.Node) machineKind {
	return machineKind{n.Views.Instance.TemplateID, n.Views.Instance.OfferingID}
}

// obstacles asks once for each kind of machine. What can't be read is no obstacle.
func (s *session) obstacles(ctx context.Context, nodes []survey.Node) map[machineKind][]string {
	found, asked := map[machineKind][]string{}, map[machineKind]bool{}
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(mostInstances)
	for _, n := range nodes {
		k := kindOf(n)
		if asked[k] {
			continue
		}
		asked[k] = true
		g.Go(func() error {
			list, err := s.cloudStack.MarkObstacles(ctx, n.Target.InstanceID)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				found[k] = list
			}
			return nil
		})
	}
	_ = g.Wait()
	return found
}

// diagnose prints what was found, and gives it its exit code.
func (a *app) diagnose(doc examination, output string) error {
	var err error
	if machine(output) {
		err = printDocument(a.Out, output, doc)
	} else {
		err = a.printDiagnosis(doc)
	}
	if err != nil {
		return err
	}
	return doc.verdict()
}

// verdict is the error of an examination after which something is to be done, nil if nothing is.
func (d *examination) verdict() error {
	todo, unread := 0, 0
	for _, c := range d.Clusters {
		switch c.Verdict {
		case doctor.Live, doctor.NotManaged, doctor.NotRunning:
		case doctor.Unreachable:
			unread++
		default:
			todo++
		}
	}
	switch {
	case unread > 0:
		return withCode(ExitUnreachable, fmt.Errorf("%s can't be read in full", plural(unread, "cluster")))
	case todo > 0:
		return withCode(ExitDrift, fmt.Errorf("%s can't be scaled live as they are, or do not agree", plural(todo, "cluster")))
	}
	return nil
}

func (a *app) printDiagnosis(doc examination) error {
	if len(doc.Clusters) == 0 {
		fmt.Fprintln(a.Err, "No CKS cluster is visible to this account.")
		return nil
	}
	var rows [][]string
	for _, c := range doc.Clusters {
		rows = append(rows, []string{c.Name, c.State, "-", "-", string(c.Verdict)})
		for _, n := range c.Nodes {
			rows = append(rows, []string{c.Name, "", n.Name, string(n.Role), string(n.Verdict)})
		}
	}
	err := a.printTable([]column{{"CLUSTER", 0}, {"STATE", 1}, {"NODE", 0}, {"ROLE", 2}, {"VERDICT", 0}}, rows, "")
	if err != nil {
		return err
	}
	fmt.Fprintln(a.Out)
	for _, c := range doc.Clusters {
		a.printFound(c.Name, c.Findings)
		for _, n := range c.Nodes {
			a.printFound(c.Name+", "+n.Name, n.Findings)
		}
	}
	return nil
}

// printFound prints the findings; the same remedy stands once, below all that it mends.
func (a *app) printFound(of string, findings []doctor.Finding) {
	for i, f := range findings {
		a.paragraph("%s: %s: %s.", of, f.Verdict, f.Text)
		if f.Remedy != "" && (i+1 == len(findings) || findings[i+1].Remedy != f.Remedy) {
			fmt.Fprintf(a.Out, "    %s\n", f.Remedy) // not folded: it is to be copied
		}
	}
}
