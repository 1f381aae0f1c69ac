package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/cloudstack"
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
	// Rollout is the unfinished rollout that is kept on the Lease, whether or not somebody is at work on it.
	Rollout *rolloutDocument `json:"rollout,omitempty"`
	// LeaseProblem is why it can't be told who holds the cluster.
	LeaseProblem string `json:"leaseProblem,omitempty"`
	// Kubernetes is the way by which the API server was asked.
	Kubernetes *wayDocument   `json:"kubernetes,omitempty"`
	Nodes      []nodeDocument `json:"nodes"`
}

type leaseDocument struct {
	Run   string    `json:"run"`
	Actor string    `json:"actor"`
	Since time.Time `json:"since"`
}

type rolloutDocument struct {
	Run     string                  `json:"run"`
	Actor   string                  `json:"actor"`
	Why     string                  `json:"why,omitempty"`
	Since   time.Time               `json:"since"`
	Command string                  `json:"command"`
	Goals   map[string]rollout.Goal `json:"goals"`
}

type nodeDocument struct {
	survey.Node

	// Arithmetic says how allocatable follows from capacity.
	Arithmetic *capacity.Arithmetic `json:"arithmetic,omitempty"`
}

func newNodeDocument(n survey.Node) nodeDocument {
	d := nodeDocument{Node: n}
	if v := n.Views.Node; v != nil {
		sum := capacity.Explain(v.Capacity, v.Allocatable)
		d.Arithmetic = &sum
	}
	return d
}

func (a *app) statusCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "status CLUSTER",
		Short: "Show the four views of every node, and where they disagree",
		Long: `Show what the cluster record, the instance, the guest and the Kubernetes Node
say about the size of every node, and which of them lags. Changes nothing.

Sizes are CPUs/MiB. The Node's memory is the guest's MemTotal, which is always
a few percent below the instance's memory: the kernel keeps the rest.`,
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
	lease := sync.OnceValues(func() (kube.Holding, error) { return s.holder(ctx) })
	go func() { _, _ = lease() }() // at the same time as the rest
	nodes, err := s.surveyBy(ctx, onceRead{s, lease})
	if err != nil {
		return statusDocument{}, err
	}
	doc := statusDocument{header: kind("ClusterStatus"), ID: s.cluster.ID, Name: s.cluster.Name, State: s.cluster.State, Type: s.cluster.Type,
		Agree: true, Nodes: []nodeDocument{}}
	for _, n := range nodes {
		doc.Nodes = append(doc.Nodes, newNodeDocument(n))
		doc.Agree = doc.Agree && n.Agrees()
	}
	doc.takeLease(lease())
	doc.Kubernetes = s.kubeWay()
	return doc, nil
}

// onceRead takes the claims of machines that are no Nodes from a reading of the Lease that is made anyway.
type onceRead struct {
	*session

	lease func() (kube.Holding, error)
}

// Claims implements survey.Kubernetes.
func (r onceRead) Claims(context.Context) (map[string]string, error) {
	if r.kube == nil {
		return nil, r.kubeErr
	}
	h, err := r.lease()
	return h.Claims, err
}

// takeLease keeps who holds the cluster and what is unfinished there.
func (d *statusDocument) takeLease(h kube.Holding, err error) {
	if err != nil {
		d.LeaseProblem = err.Error()
	}
	if h.Held() {
		d.Lease = &leaseDocument{Run: h.Run, Actor: h.State.Actor, Since: h.Since}
	}
	if r := h.State; r.Run != "" {
		d.Rollout = &rolloutDocument{Run: r.Run, Actor: r.Actor, Why: r.Why, Since: r.Since, Command: r.Command, Goals: r.Goals}
	}
}

// holder reads the Lease. A cluster whose API can't be reached at all says so at every node already.
func (s *session) holder(ctx context.Context) (kube.Holding, error) {
	if s.kube == nil {
		return kube.Holding{}, nil
	}
	return s.kube.Holder(ctx)
}

// Nodes lists the cluster's Nodes, or says why there is no way to.
func (s *session) Nodes(ctx context.Context) ([]capacity.Node, error) {
	if s.kube == nil {
		return nil, s.kubeErr
	}
	return s.kube.Nodes(ctx)
}

// Claims reads the claims on machines that are no Nodes.
func (s *session) Claims(ctx context.Context) (map[string]string, error) {
	if s.kube == nil {
		return nil, s.kubeErr
	}
	return s.kube.Claims(ctx)
}

// survey reads all four views of all nodes.
func (s *session) survey(ctx context.Context) ([]survey.Node, error) { return s.surveyBy(ctx, s) }

func (s *session) surveyBy(ctx context.Context, api survey.Kubernetes) ([]survey.Node, error) {
	c := survey.Cluster{ID: s.cluster.ID, Name: s.cluster.Name}
	for _, vm := range s.cluster.VMs {
		c.Members = append(c.Members, survey.Member{Role: vm.Role, Instance: vm.Instance, Record: s.cluster.Records[vm.Role], External: vm.External, Doubt: vm.RoleDoubt})
	}
	s.prepare(ctx)
	return survey.Read(ctx, c, s.guests, api)
}

func (a *app) printStatus(doc statusDocument, wide bool) error {
	a.printHeadline(doc)
	if len(doc.Nodes) == 0 {
		fmt.Fprintln(a.Out, "It has no nodes.")
		return nil
	}
	columns := []column{{"NAME", 0}, {"ROLE", 3}, {"RECORD", 2}, {"INSTANCE", 0}, {"GUEST", 0}, {"NODE", 0}, {"ALLOC", 1}, {"READY", 0}, {"SCHED", 0}}
	if wide {
		columns = append(columns, column{"OFFERING", 0}, column{"MEMTOTAL", 0}, column{"KUBELET", 0}, column{"INSTANCE ID", 0})
	}
	rows := make([][]string, 0, len(doc.Nodes))
	for _, n := range doc.Nodes {
		rows = append(rows, statusRow(n, wide))
	}
	var err error
	if wide {
		err = writeTable(a.Out, columns, rows)
	} else {
		err = a.printTable(columns, rows, wideHint)
	}
	if err == nil {
		a.printFindings(doc)
	}
	return err
}

func (a *app) printHeadline(doc statusDocument) {
	headline := fmt.Sprintf("Cluster %s is %s", doc.Name, doc.State)
	if doc.Type == cloudstack.TypeExternalManaged {
		headline += ", managed by another tool"
	}
	if doc.Lease != nil {
		headline += fmt.Sprintf("; held by run %s of %s since %s", doc.Lease.Run, orDash(doc.Lease.Actor), doc.Lease.Since.UTC().Format(time.RFC3339))
	}
	a.paragraph("%s. Sizes are CPUs/MiB.", headline)
	if r := doc.Rollout; r != nil && doc.Lease == nil {
		a.paragraph("A rollout is not finished: %s, run %s of %s, begun %s. Go on with `trueup resume %s`, or give it up with `trueup abort %s`.",
			r.Command, r.Run, orDash(r.Actor), r.Since.UTC().Format(time.RFC3339), doc.Name, doc.Name)
	}
	if w := doc.Kubernetes; w != nil && w.Via != kube.ViaDirect {
		a.paragraph("The Kubernetes API was asked %s.", w)
	}
	if doc.LeaseProblem != "" {
		a.paragraph("Who holds the cluster could not be read: %s.", doc.LeaseProblem)
	}
	fmt.Fprintln(a.Out)
}

// paragraph prints a text on standard output, folded where that is a terminal.
func (a *app) paragraph(format string, args ...any) {
	fmt.Fprintln(a.Out, a.screen(a.Out).fold("", oneLine(fmt.Sprintf(format, args...))))
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
	} else if !n.Target.Role.HasNode() {
		row[5], row[6], row[7], row[8] = "-", "-", etcdReady(n.Views.Guest), "-"
	}
	if wide {
		row = append(row, n.Views.Instance.OfferingName, memTotal(n.Views.Guest), kubeletAge(n.Views.Guest), n.Target.InstanceID)
	}
	return row
}

// etcdReady is what a dedicated etcd machine has in place of the Ready condition.
func etcdReady(g *capacity.Guest) string {
	if g == nil {
		return "?"
	}
	return strconv.FormatBool(capacity.CheckEtcd(*g).OK)
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
