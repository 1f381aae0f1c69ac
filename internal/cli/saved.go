package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// planRequest is what a plan was asked for, with ids in the place of names: who walks a saved plan asks for the same.
type planRequest struct {
	Worker  string `json:"worker,omitempty"` // ids of offerings
	Control string `json:"control,omitempty"`
	Etcd    string `json:"etcd,omitempty"`
	// Nodes are instance ids, empty where no nodes were named.
	Nodes    []string `json:"nodes,omitempty"`
	Ignore   []string `json:"ignore,omitempty"`
	NoOnline bool     `json:"noOnline,omitempty"`
	// Method and what follows are those of the cold method; empty for the live one.
	Method       string   `json:"method,omitempty"`
	DeletePods   []string `json:"deletePods,omitempty"`
	AcceptOutage bool     `json:"acceptOutage,omitempty"`
	Settle       string   `json:"settle"` // as time.Duration prints it
}

// reading is what a plan rests on, of the cluster or of one machine: facts by their names, as people read them.
type reading struct {
	// Of is "cluster" or the machine's name.
	Of    string            `json:"of"`
	Facts map[string]string `json:"facts"`
}

// ofCluster is the name under which the facts of the cluster as a whole stand.
const ofCluster = "cluster"

// remember keeps what the plan was asked for and what it rests on.
func (d *planDocument) remember(s *session, flags goalFlags) {
	d.Request = planRequest{Ignore: flags.ignore, NoOnline: flags.noOnline, Settle: flags.settle.String(),
		Method: string(flags.cold.goal().Method), DeletePods: flags.cold.deletePods, AcceptOutage: flags.cold.acceptOutage}
	for role, into := range map[rollout.Role]*string{rollout.RoleWorker: &d.Request.Worker, rollout.RoleControl: &d.Request.Control, rollout.RoleEtcd: &d.Request.Etcd} {
		*into = d.Goals[role].Offering.ID
	}
	if len(flags.nodes) > 0 {
		for _, n := range d.Nodes {
			d.Request.Nodes = append(d.Request.Nodes, n.Target.InstanceID)
		}
	}
	d.Readings = []reading{{ofCluster, s.clusterFacts(d.Goals)}}
	if len(d.seen) == 0 {
		for _, vm := range s.cluster.VMs {
			if _, ok := d.Goals[vm.Role]; ok {
				d.Readings = append(d.Readings, reading{strings.ToLower(vm.Instance.Name), instanceFacts(vm.Instance)})
			}
		}
		return
	}
	for _, n := range d.Nodes {
		d.Readings = append(d.Readings, reading{n.Target.Name, machineFacts(d.seen[n.Target.InstanceID], n)})
	}
}

// clusterFacts are CloudStack's state of the cluster, and its record of the roles that have a goal.
func (s *session) clusterFacts(goals map[rollout.Role]rollout.Goal) map[string]string {
	facts := map[string]string{"state": s.cluster.State, "type": s.cluster.Type}
	for role, goal := range goals {
		facts["record of "+string(role)] = s.cluster.Records[role].Offering.ID
		o := goal.Offering // an offering's id stays, its flags and speed can be changed
		facts["goal of "+string(role)] = fmt.Sprintf("%s, %d MHz, custom %t, dynamic scaling %t", o, o.SpeedMHz, o.Custom, o.DynamicScaling)
	}
	return facts
}

// instanceFacts are CloudStack's of one machine.
func instanceFacts(i capacity.Instance) map[string]string {
	return map[string]string{"instance": i.ID, "instance state": i.State, "instance offering": i.OfferingID, "instance size": i.Size(),
		"instance dynamically scalable": strconv.FormatBool(i.DynamicallyScalable)}
}

// machineFacts are those of one machine on which the plan for it rests. What changes by itself (clocks, heartbeats, resource versions, MemTotal
// beside a balloon) and what a rollout looks at anew before each effect (which kubelet process runs) is not among them.
func machineFacts(seen rollout.Observation, n rollout.NodePlan) map[string]string {
	facts, g := instanceFacts(seen.Instance), seen.Guest
	maps.Copy(facts, map[string]string{
		"guest boot":         g.BootID,
		"guest CPUs":         fmt.Sprintf("%d online, %d plugged, %d possible", g.CPUsOnline, g.CPUsPresent, g.CPUsPossible),
		"guest memory":       fmt.Sprintf("%d blocks online, %d offline, of %d bytes", g.BlocksOnline, g.BlocksOffline, g.BlockSize),
		"kubelet's policies": fmt.Sprintf("CPU manager %s, memory manager %s", orDash(g.CPUManagerPolicy), orDash(g.MemoryManagerPolicy)),
		"claim of run":       orDash(n.Resumes),
		"moves":              movesOf(n),
		"warnings":           warningsOf(n),
	})
	if seen.Target.Role.HasNode() {
		maps.Copy(facts, nodeFacts(seen.Node))
	}
	return facts
}

func nodeFacts(n capacity.Node) map[string]string {
	marks := make([]string, 0, len(n.Marks))
	for _, m := range n.Marks {
		marks = append(marks, m.String())
	}
	return map[string]string{"node": n.UID, "node Ready": n.Ready.Status, "kubelet": orDash(n.KubeletVersion), "node CPUs": strconv.FormatInt(n.CPUs(), 10) + "m", "node cordoned": strconv.FormatBool(n.Unschedulable),
		"node control plane": strconv.FormatBool(n.ControlPlane), "node deleted": strconv.FormatBool(n.Deleting), "foreign marks": list(marks)}
}

// movesOf names the moves that are planned: the plan in short.
func movesOf(n rollout.NodePlan) string {
	moves := make([]string, 0, len(n.Moves)+1)
	for _, m := range n.Moves {
		moves = append(moves, string(m.Move))
	}
	if len(n.Refusals) > 0 {
		moves = append(moves, "refused")
	}
	return list(moves)
}

// warningsOf names what the plan warns of: who approved it has seen that, and nothing more.
func warningsOf(n rollout.NodePlan) string {
	names := make([]string, 0, len(n.Warnings))
	for _, r := range n.Warnings {
		names = append(names, r.Name)
	}
	return list(names)
}

func list(words []string) string {
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}

// changesBetween lists every fact that differs, and everything that only one side has, in the order of the readings.
func changesBetween(then, now []reading) (out []string) {
	facts := func(readings []reading, of string) map[string]string {
		i := slices.IndexFunc(readings, func(r reading) bool { return r.Of == of })
		if i < 0 {
			return nil
		}
		return readings[i].Facts
	}
	for _, r := range then {
		is := facts(now, r.Of)
		if is == nil {
			out = append(out, r.Of+": was part of the plan, is not any more")
			continue
		}
		for _, what := range slices.Sorted(maps.Keys(r.Facts)) {
			if is[what] != r.Facts[what] {
				out = append(out, fmt.Sprintf("%s: %s: then %s, now %s", r.Of, what, orDash(r.Facts[what]), orDash(is[what])))
			}
		}
	}
	for _, r := range now {
		if facts(then, r.Of) == nil {
			out = append(out, r.Of+": was not part of the plan, is now")
		}
	}
	if order(then) != order(now) && out == nil {
		out = append(out, fmt.Sprintf("order of the nodes: then %s, now %s", order(then), order(now)))
	}
	return out
}

func order(readings []reading) string {
	var names []string
	for _, r := range readings {
		if r.Of != ofCluster {
			names = append(names, r.Of)
		}
	}
	return list(names)
}

// savedPlan is a plan that was printed by `plan -o json` or `-o yaml`.
type savedPlan struct {
	planDocument

	file string
}

// maxSavedPlan bounds the file, in bytes: a plan has about 3 KiB a node.
const maxSavedPlan = 16 << 20

// readPlan reads a saved plan, from standard input if the name is "-". What it does not know it refuses: a field that another version added may
// change what the plan means.
func (a *app) readPlan(name string) (savedPlan, error) {
	from, label := a.In, "standard input"
	if name != "-" {
		file, err := os.Open(name) //nolint:gosec // the person names it
		if err != nil {
			return savedPlan{}, usageErrorf("--plan: %w", err)
		}
		defer func() { _ = file.Close() }()
		from, label = file, name
	}
	text, err := io.ReadAll(io.LimitReader(from, maxSavedPlan+1))
	if err != nil {
		return savedPlan{}, usageErrorf("--plan: %s: %w", label, err)
	}
	saved := savedPlan{file: label}
	if err := saved.decode(text); err != nil {
		return savedPlan{}, usageErrorf("--plan: %s is no plan of `trueup plan -o json` of this version: %w; plan again", label, err)
	}
	return saved, nil
}

func (p *savedPlan) decode(text []byte) error {
	if len(text) > maxSavedPlan {
		return fmt.Errorf("it has more than %d MiB", maxSavedPlan>>20)
	}
	asJSON, err := yaml.YAMLToJSONStrict(text) // JSON is YAML
	if err != nil {
		return err
	}
	in := json.NewDecoder(bytes.NewReader(asJSON))
	in.DisallowUnknownFields()
	if err := in.Decode(&p.planDocument); err != nil {
		return err
	}
	switch {
	case p.header != kind("Plan"):
		return fmt.Errorf("it is %s %s, expected %s %s", orDash(p.APIVersion), orDash(p.Kind), apiVersion, "Plan")
	case p.ClusterID == "" || len(p.Readings) == 0:
		return errors.New("it names no cluster, or no readings")
	}
	return nil
}

// flags are those that ask for the same plan.
func (p *savedPlan) flags() (goalFlags, error) {
	r := p.Request
	settle, err := time.ParseDuration(r.Settle)
	if err != nil {
		err = usageErrorf("--plan: %s: settle: %w", p.file, err)
	}
	return goalFlags{worker: r.Worker, control: r.Control, etcd: r.Etcd, nodes: r.Nodes, ignore: r.Ignore, noOnline: r.NoOnline, settle: settle,
		cold: coldFlags{method: first(r.Method, methodLive), deletePods: r.DeletePods, acceptOutage: r.AcceptOutage}}, err
}

// expectSame refuses a plan that is made anew if what the saved one rests on holds no longer.
func (p *savedPlan) expectSame(now planDocument) error {
	changed := changesBetween(p.Readings, now.Readings)
	if changed == nil {
		return nil
	}
	return withCode(ExitRefused, &staleError{cluster: p.ClusterName, file: p.file, changes: changed})
}

// staleError says that a saved plan's ground has changed.
type staleError struct {
	cluster, file string
	changes       []string
}

// Error is one line; printError lists the changes below it.
func (e *staleError) Error() string {
	return fmt.Sprintf("refused, nothing was changed: what the plan in %s rests on holds no longer; plan again with `trueup plan %s`", e.file, e.cluster)
}

// check refuses flags and arguments beside --plan that say what a plan says.
func (p *savedPlan) check(c *cobra.Command, args []string) error {
	var named []string
	goals := goalFlagSet()
	c.Flags().Visit(func(f *pflag.Flag) {
		if goals.Lookup(f.Name) != nil {
			named = append(named, "--"+f.Name)
		}
	})
	switch {
	case named != nil:
		return usageErrorf("%s beside --plan: the plan says that already; leave it out, or plan anew", strings.Join(named, ", "))
	case len(args) == 1 && args[0] != p.ClusterID && args[0] != p.ClusterName:
		return usageErrorf("--plan: %s is a plan for cluster %s (%s), not for %s", p.file, p.ClusterName, p.ClusterID, args[0])
	}
	return nil
}
