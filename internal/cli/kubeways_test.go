package cli

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/internal/guest"
	"github.com/cks-trueup/trueup/internal/kube"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// doors are control-plane nodes of which some let nobody through.
type doors struct {
	closed map[string]bool // "node" or "node address"
	asked  []string
	said   error // how kubectl ends
}

func (d *doors) Dial(_ context.Context, t rollout.Target, address string) (net.Conn, error) {
	d.asked = append(d.asked, t.Name+" "+address)
	if d.closed[t.Name] || d.closed[t.Name+" "+address] {
		return nil, rollout.ErrUnreachable
	}
	conn, _ := net.Pipe()
	return conn, nil
}

func (d *doors) Kubectl(_ context.Context, t rollout.Target, _ []byte) (*guest.Answer, error) {
	d.asked = append(d.asked, t.Name)
	if d.closed[t.Name] {
		return nil, rollout.ErrUnreachable
	}
	return &guest.Answer{Reader: failingReader{d.said}}, nil
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

func plane(d *doors, names ...string) *controlPlane {
	c := &controlPlane{door: d}
	for _, name := range names {
		c.targets = append(c.targets, rollout.Target{Name: name, InstanceID: "id-" + name})
	}
	return c
}

func TestTunnelThroughControlPlane(t *testing.T) {
	const own, far = "127.0.0.1:6443", "192.0.2.1:6443"
	for name, test := range map[string]struct {
		closed []string
		busy   string
		want   []string
		lost   bool
	}{
		"its own API server":                           {want: []string{"a " + own}},
		"the kubeconfig's address":                     {closed: []string{"a " + own}, want: []string{"a " + own, "a " + far}},
		"another node":                                 {closed: []string{"a"}, want: []string{"a " + own, "a " + far, "b " + own}},
		"one is being worked on":                       {busy: "id-a", want: []string{"b " + own}},
		"only the one that is being worked on is left": {busy: "id-a", closed: []string{"b", "c"}, want: []string{"b " + own, "b " + far, "c " + own, "c " + far, "a " + own}},
		"none": {closed: []string{"a", "b", "c"}, want: []string{"a " + own, "a " + far, "b " + own, "b " + far, "c " + own, "c " + far}, lost: true},
	} {
		d := &doors{closed: map[string]bool{}}
		for _, at := range test.closed {
			d.closed[at] = true
		}
		c := plane(d, "a", "b", "c")
		c.busy = test.busy
		_, err := c.tunnel(t.Context(), far)
		if errors.Is(err, rollout.ErrUnreachable) != test.lost || !slices.Equal(d.asked, test.want) {
			t.Errorf("%s: asked %v, want %v; err = %v", name, d.asked, test.want, err)
		}
	}
}

// Before a control-plane node is worked on, connections through it are given up, if there is another one to lead through; others stay.
func TestTunnelsLeaveTheNodeUnderWork(t *testing.T) {
	ended := func(c net.Conn) bool {
		_ = c.SetReadDeadline(time.Now())
		_, err := c.Read(make([]byte, 1))
		return errors.Is(err, io.ErrClosedPipe)
	}
	for name, test := range map[string]struct {
		nodes []string
		work  string
		want  bool
	}{
		"another node can lead": {[]string{"a", "b"}, "id-a", true},
		"none else can":         {[]string{"a"}, "id-a", false},
		"another is worked on":  {[]string{"a", "b"}, "id-b", false},
		"a worker is worked on": {[]string{"a", "b"}, "id-w", false},
	} {
		c := plane(&doors{}, test.nodes...)
		conn, err := c.tunnel(t.Context(), "192.0.2.1:6443")
		if err != nil {
			t.Fatal(err)
		}
		c.workOn(rollout.Target{InstanceID: test.work})
		if got := ended(conn); got != test.want {
			t.Errorf("%s: given up %t, want %t", name, got, test.want)
		}
		if test.want != (len(c.open) == 0) {
			t.Errorf("%s: %d kept", name, len(c.open))
		}
	}
}

// What worked last comes first; what failed comes last.
func TestControlPlaneRemembers(t *testing.T) {
	d := &doors{closed: map[string]bool{"a": true}, said: io.EOF}
	c := plane(d, "a", "b", "c")
	ask := func() string {
		d.asked = nil
		out, err := c.kubectl(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.ReadAll(out)
		return strings.Join(d.asked, " ")
	}
	if got := ask(); got != "a b" {
		t.Errorf("%s", got)
	}
	if got := ask(); got != "b" {
		t.Errorf("%s", got)
	}
	d.said = &guest.CommandError{Place: "node b", Said: "The connection to the server was refused"}
	if got := ask(); got != "b" {
		t.Errorf("%s", got)
	}
	if got := ask(); got != "c" {
		t.Errorf("after a failure of b: %s", got)
	}
}

// kubectl's complaint is whole in kube's terms.
func TestKubectlComplaint(t *testing.T) {
	const said = "Error from server (Conflict): the object has been modified\nmore"
	c := plane(&doors{said: &guest.CommandError{Place: "node a", Said: said}}, "a")
	out, err := c.kubectl(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadAll(out)
	if complaint, is := errors.AsType[*kube.Complaint](err); !is || complaint.Text != said || !strings.Contains(err.Error(), "node a") {
		t.Errorf("err = %v", err)
	}
}

func TestKubeVia(t *testing.T) {
	w := newWired(t)
	w.trueup(t, "status prod --kube-via proxy").want(t, ExitUsage).says(t, `--kube-via "proxy": it is direct, tunnel or kubectl`).oneError(t)
	w.trueup(t, "verify prod --kube-via tunnel").prints(t, "tunnel: ", "its host key is unknown")
	w.trueup(t, "status prod --kube-via tunnel -o json").prints(t, `"via": "tunnel"`, `"through": "control-1"`)
	w.trueup(t, "verify prod --kube-via kubectl").prints(t, "its host key is unknown")
	if w.asked != nil {
		t.Errorf("the API server was asked directly: %v", w.asked)
	}
	w.UpdateCluster(w.cluster.ID, func(c *standin.Cluster) { c.Kubeconfig = "" })
	w.trueup(t, "status prod --kube-via direct").want(t, ExitUsage).says(t, "no kubeconfig from CloudStack, name one with --kubeconfig")
	w.trueup(t, "status prod").says(t, "Reaching the Kubernetes API by kubectl on a control-plane node: no kubeconfig from CloudStack").
		prints(t, "The Kubernetes API was asked by kubectl on control-1: no kubeconfig from CloudStack")
}
