// Package survey reads all four views of every node of a cluster at once, and changes nothing anywhere.
//
// Its invariant: what could not be read is said to be unreadable, with the reason, and never shown as a figure or as agreement.
package survey

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// guestTimeout bounds the reading of one guest. A probe takes well under a second; the rest is for the SSH connection.
const guestTimeout = 20 * time.Second

// Member is one virtual machine of a cluster, as CloudStack lists it.
type Member struct {
	Role     rollout.Role
	Instance capacity.Instance
	Record   capacity.Record
	// External is true for a node that was added to the cluster by hand.
	External bool
	// Doubt says why the role is not certain, empty if it is.
	Doubt string
}

// Cluster is what CloudStack knows about a cluster.
type Cluster struct {
	ID, Name string
	Members  []Member
}

// Kubernetes is what the cluster's API server knows.
type Kubernetes interface {
	// Nodes lists all Nodes of the cluster.
	Nodes(ctx context.Context) ([]capacity.Node, error)
	// Claims reads the claims on machines that are no Nodes, by instance id.
	Claims(ctx context.Context) (map[string]string, error)
}

// Node is everything that was read about one node.
type Node struct {
	Target   rollout.Target   `json:"target"`
	Views    capacity.Views   `json:"views"`
	Drifts   []capacity.Drift `json:"drift"`
	Claim    *rollout.Claim   `json:"claim,omitempty"`
	External bool             `json:"external,omitempty"`
	Problems []Problem        `json:"problems,omitempty"`
}

// Problem is a view that could not be read, or not be believed.
type Problem struct {
	View capacity.View `json:"view"`
	Text string        `json:"text"`
	Err  error         `json:"-"`
}

// Error says which view it is about, and why.
func (p Problem) Error() string {
	if p.View == capacity.ViewRecord {
		return p.Text // the record was read; what is doubtful is what it says about this machine
	}
	return fmt.Sprintf("the %s could not be read: %s", p.View, p.Text)
}

// Unwrap returns the error underneath.
func (p Problem) Unwrap() error { return p.Err }

// Agrees reports whether every view of the node was read and none lags.
func (n *Node) Agrees() bool { return len(n.Drifts) == 0 && len(n.Problems) == 0 }

// Observation returns the reading in the form in which the planner wants it.
func (n *Node) Observation() rollout.Observation {
	o := rollout.Observation{Target: n.Target, Instance: n.Views.Instance}
	if n.Views.Guest != nil {
		o.Guest = *n.Views.Guest
	}
	if n.Views.Node != nil {
		o.Node = *n.Views.Node
	}
	return o
}

// Peers returns the other control-plane nodes, if n is one: its turn depends on them. One that could not be read counts as not Ready.
func Peers(nodes []Node, n Node) []rollout.Peer {
	if n.Target.Role != rollout.RoleControl {
		return nil
	}
	var out []rollout.Peer
	for _, other := range nodes {
		if other.Target.Role != rollout.RoleControl || other.Target.InstanceID == n.Target.InstanceID {
			continue
		}
		p := rollout.Peer{Name: other.Target.Name}
		if v := other.Views.Node; v != nil {
			p.Ready = v.Ready
		}
		out = append(out, p)
	}
	return out
}

// Read reads the Nodes in one list, with them the claims on dedicated etcd machines, if there are any, and every guest at the same time. It fails only if ctx ends: what can't be read is a Problem of its node.
func Read(ctx context.Context, c Cluster, guests rollout.Guests, api Kubernetes) ([]Node, error) {
	out := c.listed()
	var g errgroup.Group
	for i := range out {
		g.Go(func() error { out[i].readGuest(ctx, guests); return nil })
	}
	nodes, err := api.Nodes(ctx)
	var claims map[string]string
	var claimsErr error
	if slices.ContainsFunc(c.Members, func(m Member) bool { return !m.Role.HasNode() }) {
		claims, claimsErr = api.Claims(ctx)
	}
	_ = g.Wait() // readers keep their errors as problems
	c.match(out, nodes, err, claims, claimsErr)
	return out, ctx.Err()
}

// Match is Read without the guests: what CloudStack lists beside what the API server has. The claims are those of machines that are no Nodes.
func Match(c Cluster, nodes []capacity.Node, claims map[string]string) []Node {
	out := c.listed()
	c.match(out, nodes, nil, claims, nil)
	return out
}

// listed are the machines as CloudStack lists them.
func (c Cluster) listed() []Node {
	out := make([]Node, len(c.Members))
	for i, m := range c.Members {
		out[i] = Node{External: m.External, Views: capacity.Views{Record: m.Record, Instance: m.Instance}, Target: rollout.Target{
			ClusterID: c.ID, ClusterName: c.Name, Role: m.Role, Name: strings.ToLower(m.Instance.Name), InstanceID: m.Instance.ID}}
		if m.External {
			out[i].Views.Record = capacity.Record{} // the record is about nodes that CKS makes
		}
	}
	return out
}

// match finds the Node of each machine, and compares its views.
func (c Cluster) match(out []Node, nodes []capacity.Node, err error, claims map[string]string, claimsErr error) {
	for i := range out {
		if out[i].Target.Role.HasNode() {
			out[i].takeNode(nodes, err)
		} else {
			out[i].takeClaim(claims[out[i].Target.InstanceID], claimsErr)
		}
		out[i].Drifts = out[i].Views.Drifts()
		if d := c.Members[i].Doubt; d != "" {
			out[i].problem(capacity.ViewRecord, fmt.Errorf("the role is not certain: %s", d))
		}
	}
}

func (n *Node) readGuest(ctx context.Context, guests rollout.Guests) {
	if !n.Views.Instance.Running() {
		n.problem(capacity.ViewGuest, fmt.Errorf("the instance is %s", n.Views.Instance.State))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, guestTimeout)
	defer cancel()
	reading, err := probe(ctx, guests, n.Target)
	if err != nil {
		n.problem(capacity.ViewGuest, err)
		return
	}
	if reading.ProductUUID != n.Target.InstanceID {
		n.problem(capacity.ViewGuest, fmt.Errorf("SSH leads to another machine: its DMI UUID is %s, expected %s; check the port forwarding rules",
			reading.ProductUUID, n.Target.InstanceID))
		return
	}
	n.Views.Guest = &reading
}

// probe reads the guest. What takes longer than ctx allows is unreachable.
func probe(ctx context.Context, guests rollout.Guests, t rollout.Target) (capacity.Guest, error) {
	guest, err := guests.Guest(ctx, t)
	if err != nil {
		return capacity.Guest{}, err
	}
	reading, err := guest.Probe(ctx)
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, rollout.ErrUnreachable) {
		err = fmt.Errorf("%w: no answer within %s", rollout.ErrUnreachable, guestTimeout)
	}
	return reading, err
}

// takeNode finds the Kubernetes Node of this machine in the list: by name, as CKS names it, and only if it says that it is this machine.
func (n *Node) takeNode(nodes []capacity.Node, err error) {
	if err != nil {
		n.problem(capacity.ViewNode, err)
		return
	}
	i := slices.IndexFunc(nodes, func(k capacity.Node) bool { return k.Name == n.Target.Name })
	if i < 0 {
		n.problem(capacity.ViewNode, fmt.Errorf("node %s: %w in the cluster's %d Nodes", n.Target.Name, rollout.ErrNotFound, len(nodes)))
		return
	}
	found := nodes[i]
	if n.Claim, err = rollout.DecodeClaim(found.Claim); err != nil {
		n.problem(capacity.ViewNode, fmt.Errorf("the claim on it: %w; use the version of trueup that wrote it", err))
	}
	if found.SystemUUID != n.Target.InstanceID {
		n.problem(capacity.ViewNode, fmt.Errorf("the Node of this name is another machine: its systemUUID is %s, expected %s", found.SystemUUID, n.Target.InstanceID))
		return
	}
	n.Views.Node = &found
}

// takeClaim keeps the claim on a dedicated etcd machine, which is kept on the Lease because there is no Node.
func (n *Node) takeClaim(text string, err error) {
	if err == nil {
		n.Claim, err = rollout.DecodeClaim(text)
	}
	if err != nil {
		n.problem(capacity.ViewNode, fmt.Errorf("the claim for it on the Lease: %w", err))
	}
}

func (n *Node) problem(v capacity.View, err error) {
	n.Problems = append(n.Problems, Problem{View: v, Text: err.Error(), Err: err})
}
