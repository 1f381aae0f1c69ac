package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/kube"
	"github.com/cks-trueup/trueup/internal/rollout"
	"github.com/cks-trueup/trueup/internal/survey"
)

// statusDocument is what `status -o json` prints.
type statusDocument struct {
	header
	ID    string `json:"id"`
	Name  string `json:"name"`
	State string `json:"state"`
	Type  string `json:"type"`
	// Agree is true if every view of every node was read and none lags.
	Agree bool           `json:"agree"`
	Lease *leaseDocument `json:"lease,omitempty"`
	Nodes []nodeDocument `json:"nodes"`
}

type leaseDocument struct {
	Run   string    `json:"run"`
	Actor string    `json:"actor"`
	Since time.Time `json:"since"`
}

type nodeDocument struct {
	survey.Node
	// Arithmetic says how allocatable follows from capacity.
	Arithmetic *capacity.Arithmetic `json:"arithmetic,omitempty"`
}

func (a *app) statusCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "status CLUSTER",
		Short: "Show the four views of every node, and where they disagree",
		Long: `Show what the cluster record, the instance, the guest and the Kubernetes Node say about
the size of every node, and which of them lags. Changes nothing.

Sizes are CPUs/MiB. The Node's memory is the guest's MemTotal, which is always a few
percent below the instance's memory: the kernel keeps the rest.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := a.open(c.Context(), args[0])
			if err != nil {
				return err
			}
			defer s.close()
			doc, err := a.status(c.Context(), s)
			if err != nil {
				return err
			}
			if machine(output) {
				return printDocument(a.Out, output, doc)
			}
			return a.printStatus(doc, output == "wide")
		},
	}
	addOutput(c, &output, "table", "wide", "json", "yaml")
	return c
}

func (a *app) status(ctx context.Context, s *session) (statusDocument, error) {
	holder := make(chan kube.Holding, 1)
	go func() { holder <- s.holder(ctx) }()
	nodes, err := s.survey(ctx)
	if err != nil {
		return statusDocument{}, err
	}
	doc := statusDocument{header: kind("ClusterStatus"), ID: s.cluster.ID, Name: s.cluster.Name, State: s.cluster.State, Type: s.cluster.Type, Agree: true}
	for _, n := range nodes {
		d := nodeDocument{Node: n}
		if v := n.Views.Node; v != nil {
			sum := capacity.Explain(v.Capacity, v.Allocatable)
			d.Arithmetic = &sum
		}
		doc.Nodes = append(doc.Nodes, d)
		doc.Agree = doc.Agree && n.Agrees()
	}
	if h := <-holder; h.Held() {
		doc.Lease = &leaseDocument{Run: h.Run, Actor: h.State.Actor, Since: h.Since}
	}
	return doc, nil
}

// holder reads the Lease, best effort: a cluster whose API can't be read says so at every node already.
func (s *session) holder(ctx context.Context) kube.Holding {
	if s.kube == nil {
		return kube.Holding{}
	}
	h, err := s.kube.Holder(ctx)
	if err != nil {
		return kube.Holding{}
	}
	return h
}

// Nodes lists the cluster's Nodes, or says why there is no way to.
func (s *session) Nodes(ctx context.Context) ([]capacity.Node, error) {
	if s.kube == nil {
		return nil, s.kubeErr
	}
	return s.kube.Nodes(ctx)
}

// survey reads all four views of all nodes.
func (s *session) survey(ctx context.Context) ([]survey.Node, error) {
	c := survey.Cluster{ID: s.cluster.ID, Name: s.cluster.Name}
	for _, vm := range s.cluster.VMs {
		c.Members = append(c.Members, survey.Member{Role: vm.Role, Instance: vm.Instance, Record: s.cluster.Records[vm.Role], External: vm.External, Doubt: vm.RoleDoubt})
	}
	return survey.Read(ctx, c, s.guests, s)
}

func (a *app) printStatus(doc statusDocument, wide bool) error {
	fmt.Fprintf(a.Out, "Cluster %s is %s", doc.Name, doc.State)
	if doc.Type == "ExternalManaged" {
		fmt.Fprint(a.Out, ", managed by another tool")
	}
	if doc.Lease != nil {
		fmt.Fprintf(a.Out, "; held by run %s of %s since %s", doc.Lease.Run, orDash(doc.Lease.Actor), doc.Lease.Since.UTC().Format(time.RFC3339))
	}
	fmt.Fprint(a.Out, ". Sizes are CPUs/MiB.\n\n")
	heading := []string{"NODE", "ROLE", "RECORD", "INSTANCE", "GUEST", "NODE", "ALLOC", "READY", "SCHED"}
	if wide {
		heading = append(heading, "OFFERING", "MEMTOTAL", "KUBELET", "INSTANCE ID")
	}
	var rows [][]string
	for _, n := range doc.Nodes {
		rows = append(rows, statusRow(n, wide))
	}
	if err := printTable(a.Out, heading, rows); err != nil {
		return err
	}
	a.printDrift(doc)
	return nil
}

func statusRow(n nodeDocument, wide bool) []string {
	row := []string{n.Target.Name, string(n.Target.Role), orDash(short(n.Views.Record.Offering.CPUs, n.Views.Record.Offering.MemoryMiB)),
		short(n.Views.Instance.CPUs, n.Views.Instance.MemoryMiB), "?", "?", "?", "?", "?"}
	if g := n.Views.Guest; g != nil {
		row[4] = short(g.CPUsOnline, g.MemoryOnline()/capacity.MiB)
	}
	if v := n.Views.Node; v != nil {
		row[5], row[6] = quantities(v.Capacity), quantities(v.Allocatable)
		row[7], row[8] = strings.ToLower(orDash(v.Ready.Status)), yesNo(!v.Unschedulable)
	} else if n.Target.Role == rollout.RoleEtcd {
		row[5], row[6], row[7], row[8] = "-", "-", "-", "-"
	}
	if wide {
		row = append(row, n.Views.Instance.OfferingName, memTotal(n.Views.Guest), kubeletAge(n.Views.Guest), n.Target.InstanceID)
	}
	return row
}

func short(cpus int, mib int64) string {
	if cpus == 0 && mib == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", cpus, mib)
}

// quantities prints CPU and memory as Kubernetes has them: "4/3990", "3920m/3890".
func quantities(r capacity.Resources) string {
	cpu, memory := r["cpu"], r["memory"]
	return fmt.Sprintf("%s/%d", cpu.String(), memory.Value()/capacity.MiB)
}

func memTotal(g *capacity.Guest) string {
	if g == nil {
		return "?"
	}
	return fmt.Sprintf("%dKi", g.MemTotal/1024)
}

func kubeletAge(g *capacity.Guest) string {
	if g == nil {
		return "?"
	}
	return fmt.Sprintf("%s %s", g.Kubelet.SubState, g.KubeletAge().Truncate(time.Second))
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// printDrift says in words, below the table, what lags, what could not be read, and what is claimed.
func (a *app) printDrift(doc statusDocument) {
	fmt.Fprintln(a.Out)
	if doc.Agree {
		fmt.Fprintln(a.Out, "All four views of every node agree.")
	}
	for _, n := range doc.Nodes {
		for _, d := range n.Drifts {
			fmt.Fprintf(a.Out, "%s: the %s lags: %s.\n", n.Target.Name, d.View, d.Why)
		}
		for _, p := range n.Problems {
			fmt.Fprintf(a.Out, "%s: the %s could not be read: %s.\n", n.Target.Name, p.View, p.Text)
		}
		if c := n.Claim; c != nil {
			fmt.Fprintf(a.Out, "%s: claimed by run %s of %s since %s for %s%s.\n", n.Target.Name, c.Run, orDash(c.Actor),
				c.Since.UTC().Format(time.RFC3339), c.Goal, phaseText(c))
		}
	}
}

func phaseText(c *rollout.Claim) string {
	if c.Fault == nil {
		return ""
	}
	return ", stopped: " + c.Fault.Error()
}
