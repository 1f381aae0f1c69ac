package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/cloudstack"
	"github.com/cks-trueup/trueup/internal/guest"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// enroller is the way to guests of which no key is on file yet.
type enroller interface {
	Meet(ctx context.Context, target rollout.Target) (guest.Contact, error)
	Trust(contact guest.Contact) error
}

// enrollment is what `ssh enroll -o json` prints.
type enrollment struct {
	header

	Cluster string         `json:"cluster"`
	Nodes   []enrolledNode `json:"nodes"`
}

// enrolledNode is one node of it.
type enrolledNode struct {
	Target  rollout.Target `json:"target"`
	Address string         `json:"address,omitempty"`
	// State is known (its key was on file), enrolled, unknown (not enrolled, because the answer was no) or failed.
	State       string `json:"state"`
	Key         string `json:"key,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"`
	// Proof is what the node has shown over the connection with that key.
	Proof []capacity.Check `json:"proof,omitempty"`
	Error string           `json:"error,omitempty"`

	contact guest.Contact
	err     error
}

// The values of enrolledNode.State.
const (
	stateKnown    = "known"
	stateEnrolled = "enrolled"
	stateUnknown  = "unknown"
	stateFailed   = "failed"
)

func (a *app) sshCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "ssh",
		Short: "Host keys of the nodes",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.enrollCommand())
	return c
}

func (a *app) enrollCommand() *cobra.Command {
	var names []string
	var yes bool
	var output string
	c := &cobra.Command{
		Use:   "enroll CLUSTER",
		Short: "Put the host keys of a cluster's nodes on file, after showing them",
		Long: `Connect to every node of which no host key is on file, show the key and what
the node says of itself over that connection, ask, and put the keys on file.

What is shown proves that the machine behind the key is the right one: its DMI
UUID is the VM's id, its machine-id and boot id are those of the Node. It does
not prove that nobody sits in between and passes everything on. For that,
compare the fingerprints with the machine's console, which the line "compare"
says how to do. With --yes, where nobody looks, a key is not put on file if the
Node says something else than the machine.

A key that differs from the one on file is never replaced.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.enroll(c.Context(), args[0], names, yes, output)
		},
	}
	c.Flags().StringSliceVar(&names, "node", nil, "only this `node`, by name or instance id; may be repeated")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	addOutput(c, &output, "text", "json", "yaml")
	return c
}

func (a *app) enroll(ctx context.Context, cluster string, names []string, yes bool, output string) error {
	s, err := a.open(ctx, cluster)
	if err != nil {
		return err
	}
	defer s.close()
	ways, ok := s.guests.(enroller)
	if !ok {
		return errors.New("there are no host keys where SSH is not used")
	}
	doc := enrollment{header: kind("Enrollment"), Cluster: s.cluster.Name}
	if doc.Nodes, err = s.meet(ctx, ways, names); err != nil {
		return err
	}
	for _, n := range doc.Nodes {
		a.printContact(n)
	}
	asked := a.keep(ctx, ways, doc.Nodes, yes)
	if machine(output) {
		err = printDocument(a.Out, output, doc)
	} else {
		err = a.printEnrolled(doc.Nodes)
	}
	if err != nil {
		return err
	}
	if asked != nil {
		return asked
	}
	return failures(doc.Nodes)
}

// meet visits the chosen machines, all at once.
func (s *session) meet(ctx context.Context, ways enroller, names []string) ([]enrolledNode, error) {
	targets, err := s.targets(names)
	if err != nil {
		return nil, err
	}
	nodes := map[string]capacity.Node{}
	if s.kube != nil {
		if list, err := s.kube.Nodes(ctx); err == nil { // the proof is shorter without
			for _, n := range list {
				nodes[strings.ToLower(n.Name)] = n
			}
		}
	}
	out := make([]enrolledNode, len(targets))
	var all errgroup.Group
	for i, t := range targets {
		all.Go(func() error {
			out[i] = met(ctx, ways, t)
			if node, ok := nodes[t.Name]; ok && out[i].err == nil {
				out[i].Proof = append(out[i].Proof, proofByNode(out[i].contact.Guest, node)...)
			}
			return nil
		})
	}
	return out, all.Wait()
}

// targets are the cluster's machines, or those with these names.
func (s *session) targets(names []string) ([]rollout.Target, error) {
	all := make([]rollout.Target, len(s.cluster.VMs))
	for i, vm := range s.cluster.VMs {
		all[i] = s.targetOf(vm)
	}
	if err := s.known(all, names); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(t rollout.Target) bool { return len(names) > 0 && !isOf(t, names) }), nil
}

func (s *session) targetOf(vm cloudstack.VM) rollout.Target {
	return rollout.Target{ClusterID: s.cluster.ID, ClusterName: s.cluster.Name, Role: vm.Role, Name: strings.ToLower(vm.Instance.Name), InstanceID: vm.Instance.ID}
}

func met(ctx context.Context, ways enroller, t rollout.Target) enrolledNode {
	contact, err := ways.Meet(ctx, t)
	n := enrolledNode{Target: t, Address: contact.Endpoint.Address, State: stateUnknown, Key: contact.Key, Fingerprint: contact.Fingerprint, contact: contact}
	switch {
	case err != nil:
		n.State, n.err, n.Error = stateFailed, err, err.Error()
		return n
	case contact.Known:
		n.State = stateKnown
	}
	n.Proof = []capacity.Check{{Layer: capacity.LayerAccess, What: "DMI product UUID, by the guest", OK: true, Expected: t.InstanceID, Observed: contact.Guest.ProductUUID}}
	return n
}

// proofByNode compares the guest with what its kubelet has posted by another way. It is no condition: a kubelet that has not posted since the boot has an
// old boot id.
func proofByNode(g capacity.Guest, n capacity.Node) []capacity.Check {
	check := func(what, expected, observed string) capacity.Check {
		return capacity.Check{Layer: capacity.LayerAccess, What: what, OK: strings.EqualFold(expected, observed), Expected: expected, Observed: observed}
	}
	return []capacity.Check{
		check("systemUUID of the Node", g.ProductUUID, n.SystemUUID),
		check("machine-id of the Node", g.MachineID, n.MachineID),
		check("boot id of the Node", g.BootID, n.BootID),
	}
}

// printContact shows a new key and its proof.
func (a *app) printContact(n enrolledNode) {
	if n.State != stateUnknown {
		return
	}
	kind, _, _ := strings.Cut(n.Key, " ")
	a.say("%s (%s) at %s", n.Target.Name, n.Target.InstanceID, n.Address)
	a.say("  key      %s %s", kind, n.Fingerprint)
	for _, c := range n.Proof {
		sign := "same"
		if !c.OK {
			sign = "NOT THE SAME, expected " + c.Expected
		}
		a.say("  proof    %s: %s: %s", c.What, c.Observed, sign)
	}
	a.say("  compare  %s, on the machine's console", n.contact.Compare)
}

// keep asks, and puts the new keys on file.
func (a *app) keep(ctx context.Context, ways enroller, nodes []enrolledNode, yes bool) error {
	fresh := 0
	for _, n := range nodes {
		if n.State == stateUnknown {
			fresh++
		}
	}
	if fresh == 0 {
		return nil
	}
	if err := a.confirm(ctx, yes, fmt.Sprintf("Put %s on file in %s?", plural(fresh, "host key"), a.knownHosts())); err != nil {
		return err
	}
	for i := range nodes {
		n := &nodes[i]
		if n.State != stateUnknown {
			continue
		}
		n.State = stateEnrolled
		err := n.disproved()
		if !yes {
			err = nil // a person has seen it, and said yes
		}
		if err == nil {
			err = ways.Trust(n.contact)
		}
		if err != nil {
			n.State, n.err, n.Error = stateFailed, err, err.Error()
		}
	}
	return nil
}

// disproved is the error of a machine of which its Node says something else than the guest; nil where there is no Node to ask. A Node may be behind its
// machine for a moment after a boot, or for long if its kubelet is broken: that is for a person to judge.
func (n *enrolledNode) disproved() error {
	if c, failed := capacity.Failed(n.Proof...); failed {
		return fmt.Errorf("%w: %s: the key was not put on file: %s; find out why, or look at it yourself and answer without --yes", rollout.ErrDenied, n.Target.Name, c)
	}
	return nil
}

func (a *app) printEnrolled(nodes []enrolledNode) error {
	rows := make([][]string, 0, len(nodes))
	for _, n := range nodes {
		rows = append(rows, []string{n.Target.Name, string(n.Target.Role), n.State, orDash(n.Address), orDash(n.Fingerprint)})
	}
	return a.printTable([]column{{title: "NAME"}, {title: "ROLE"}, {title: "KEY"}, {title: "ADDRESS", spare: 1}, {title: "FINGERPRINT", spare: 2}}, rows, "")
}

// failures are those of all nodes, nil if there are none.
func failures(nodes []enrolledNode) error {
	var errs []error
	for _, n := range nodes {
		if n.err != nil {
			errs = append(errs, n.err)
		}
	}
	return withCode(ExitUnreachable, errors.Join(errs...))
}
