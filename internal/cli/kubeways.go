package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/cks-trueup/trueup/internal/guest"
	"github.com/cks-trueup/trueup/internal/kube"
	"github.com/cks-trueup/trueup/internal/preflight"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// doorway is the way into guests by which the API server can be reached as well.
type doorway interface {
	Dial(ctx context.Context, target rollout.Target, address string) (net.Conn, error)
	Kubectl(ctx context.Context, target rollout.Target, request []byte) (*guest.Answer, error)
}

// kubeWays are the ways to the API server that --kube-via allows: through the control-plane nodes, where there are any.
func (a *app) kubeWays(s *session) (kube.Ways, error) {
	w := kube.Ways{Only: kube.Via(a.access.kubeVia), Tell: func(way kube.Via, why error) {
		s.way.note(way, why)
		a.tellWay(way, why)
	}}
	s.way.note(cmp.Or(w.Only, kube.ViaDirect), nil)
	switch w.Only {
	case "", kube.ViaDirect, kube.ViaTunnel, kube.ViaKubectl:
	default:
		return w, usageErrorf("--kube-via %q: it is %s, %s or %s", a.access.kubeVia, kube.ViaDirect, kube.ViaTunnel, kube.ViaKubectl)
	}
	if a.viaPod() {
		if w.Only == kube.ViaTunnel || w.Only == kube.ViaKubectl {
			return w, usageErrorf("--kube-via %s goes over SSH, and --guest-via pod is for nodes without it: the Kubernetes API must be reached directly", w.Only)
		}
		w.Only = kube.ViaDirect
	}
	door, ok := s.guests.(doorway)
	if !ok || w.Only == kube.ViaDirect || preflight.NothingRuns(s.cluster.State) {
		return w, nil
	}
	s.control = &controlPlane{door: door}
	for _, vm := range s.cluster.VMs {
		if vm.Role == rollout.RoleControl {
			s.control.targets = append(s.control.targets, s.targetOf(vm))
		}
	}
	if len(s.control.targets) > 0 {
		w.Tunnel, w.Kubectl = s.control.tunnel, s.control.kubectl
	}
	return w, nil
}

// usedWay is the way to the API server that is in use.
type usedWay struct {
	mu  sync.Mutex
	via kube.Via
	why error
}

func (u *usedWay) note(via kube.Via, why error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.via, u.why = via, why
}

// wayDocument is how the API server was asked.
type wayDocument struct {
	Via kube.Via `json:"via"` // direct, tunnel or kubectl
	// Through is the control-plane node that the way leads through; empty for direct.
	Through string `json:"through,omitempty"`
	// Why says why the ways before it were not taken.
	Why string `json:"why,omitempty"`
}

// String prints the way for people.
func (w *wayDocument) String() string {
	how := map[kube.Via]string{kube.ViaDirect: "directly, at the kubeconfig's address", kube.ViaTunnel: "through an SSH tunnel to " + w.Through, kube.ViaKubectl: "by kubectl on " + w.Through}[w.Via]
	if w.Why != "" {
		how += ": " + w.Why
	}
	return how
}

// kubeWay is the way that is in use, nil if there is none.
func (s *session) kubeWay() *wayDocument {
	if s.kube == nil {
		return nil
	}
	s.way.mu.Lock()
	defer s.way.mu.Unlock()
	w := &wayDocument{Via: cmp.Or(s.way.via, kube.ViaDirect)}
	if w.Via != kube.ViaDirect && s.control != nil {
		w.Through = s.control.present()
	}
	if s.way.why != nil {
		w.Why = oneLine(s.way.why.Error())
	}
	return w
}

// tellWay says once that the API server is reached in another way than by its own address.
func (a *app) tellWay(way kube.Via, why error) {
	how := map[kube.Via]string{kube.ViaTunnel: "through an SSH tunnel to a control-plane node", kube.ViaKubectl: "by kubectl on a control-plane node"}[way]
	a.say("Reaching the Kubernetes API %s: %s", how, oneLine(why.Error()))
}

// controlPlane leads to the API server through the control-plane nodes, one after the other: the one that worked last first, and the one that is being
// worked on last.
type controlPlane struct {
	door    doorway
	targets []rollout.Target

	mu   sync.Mutex
	best int    // the place in targets of the one to try first
	busy string // instance id of the machine that is being worked on
	open map[*tunnelled]bool
}

// tunnelled is an open connection to the API server through a control-plane node.
type tunnelled struct {
	net.Conn

	through string // instance id
	of      *controlPlane
}

// Close implements net.Conn.
func (t *tunnelled) Close() error {
	t.of.mu.Lock()
	delete(t.of.open, t)
	t.of.mu.Unlock()
	return t.Conn.Close()
}

// present is the name of the node that the way leads through now.
func (c *controlPlane) present() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.targets[c.best].Name
}

// apiPort is where kubeadm's API server listens on each control-plane node, as CKS sets it up.
const apiPort = "6443"

// tunnel opens a connection to the API server from a control-plane node: to its own one or, where it has none, to the address of the kubeconfig.
func (c *controlPlane) tunnel(ctx context.Context, address string) (conn net.Conn, err error) {
	err = c.each(ctx, func(t rollout.Target) (err error) {
		if conn, err = c.door.Dial(ctx, t, net.JoinHostPort("127.0.0.1", apiPort)); err != nil {
			conn, err = c.door.Dial(ctx, t, address)
		}
		if err == nil {
			conn = c.keep(conn, t)
		}
		return err
	})
	return conn, err
}

// keep notes an open connection, so that it can be given up when its node is worked on.
func (c *controlPlane) keep(conn net.Conn, through rollout.Target) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[*tunnelled]bool{}
	}
	t := &tunnelled{conn, through.InstanceID, c}
	c.open[t] = true
	return t
}

// kubectl hands the request to kubectl on a control-plane node. After a failure the next request goes to another one.
func (c *controlPlane) kubectl(ctx context.Context, request []byte) (io.ReadCloser, error) {
	var out io.ReadCloser
	err := c.each(ctx, func(t rollout.Target) error {
		answer, err := c.door.Kubectl(ctx, t, request)
		if err == nil {
			out = &kubectlAnswer{answer, func() { c.leave(t) }}
		}
		return err
	})
	return out, err
}

// each tries the control-plane nodes until one works. Nothing was begun on one that does not.
func (c *controlPlane) each(ctx context.Context, try func(rollout.Target) error) error {
	var failed error
	for _, i := range c.order() {
		err := try(c.targets[i])
		if err == nil {
			c.mu.Lock()
			c.best = i
			c.mu.Unlock()
			return nil
		}
		failed = errors.Join(failed, err)
		if ctx.Err() != nil {
			break
		}
	}
	return failed
}

func (c *controlPlane) order() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	var first, last []int
	for n := range c.targets {
		i := (c.best + n) % len(c.targets)
		if c.targets[i].InstanceID == c.busy {
			last = append(last, i)
			continue
		}
		first = append(first, i)
	}
	return append(first, last...)
}

// leave makes the node the last choice, after a failure there.
func (c *controlPlane) leave(t rollout.Target) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.targets[c.best].InstanceID == t.InstanceID {
		c.best = (c.best + 1) % len(c.targets)
	}
}

// workOn notes which machine is being worked on, so that new connections avoid it. Those that lead through it are given up before anything is done
// to it, if there is another node to lead through: what is under way on them is asked again by the next one, or looked at.
func (c *controlPlane) workOn(t rollout.Target) {
	if c == nil {
		return
	}
	c.mu.Lock()
	var through []*tunnelled
	if c.busy != t.InstanceID && len(c.targets) > 1 {
		for open := range c.open {
			if open.through == t.InstanceID {
				through = append(through, open)
			}
		}
	}
	c.busy = t.InstanceID
	c.mu.Unlock()
	for _, open := range through {
		_ = open.Close()
	}
}

// kubectlAnswer is what kubectl prints, with its complaint in kube's terms.
type kubectlAnswer struct {
	*guest.Answer

	failed func()
}

// Read implements io.Reader.
func (k *kubectlAnswer) Read(p []byte) (int, error) {
	n, err := k.Answer.Read(p)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	k.failed()
	if command, is := errors.AsType[*guest.CommandError](err); is {
		return n, fmt.Errorf("%s: %w", command.Place, &kube.Complaint{Text: command.Said})
	}
	return n, err
}
