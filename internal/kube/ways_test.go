package kube

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/cks-trueup/trueup/internal/guest"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// doorways are control-plane nodes for tests: OpenSSH's own server, one process per connection, in a mount namespace in which /etc, /opt and /root are the
// test's, with the real kubectl where CKS has it. It needs root.
type doorways struct {
	t    *testing.T
	tree string
	ssh  *guest.SSH

	mu    sync.Mutex
	nodes map[string]net.Listener // by instance id
	procs []*exec.Cmd
	log   syncedLog
	done  sync.WaitGroup
}

// syncedLog is what several sshds say.
type syncedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *syncedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// adminConf is where the guest's kubectl finds its kubeconfig.
const adminConf = "etc/kubernetes/admin.conf"

func newDoorways(t *testing.T, kubeconfig []byte, ids ...string) *doorways {
	t.Helper()
	d := &doorways{t: t, tree: t.TempDir(), nodes: map[string]net.Listener{}}
	hostKey, hostPEM := newSSHKey(t)
	userKey, userPEM := newSSHKey(t)
	for path, content := range map[string]string{
		"etc/passwd": "root:*:0:0::/root:/bin/sh\nsshd:*:990:65534::/run/sshd:/bin/false\n", "etc/group": "root:x:0:\nnogroup:x:65534:\n",
		adminConf: string(kubeconfig), "root/.empty": "", "run/sshd/.empty": "", "ssh/host": string(hostPEM), "ssh/authorized": string(ssh.MarshalAuthorizedKey(userKey.PublicKey())), "ssh/user": string(userPEM),
	} {
		d.write(path, content)
	}
	d.write("ssh/config", strings.Join([]string{"HostKey " + d.path("ssh/host"), "AuthorizedKeysFile " + d.path("ssh/authorized"), "AuthenticationMethods publickey",
		"StrictModes no", "UsePAM no", "PermitRootLogin yes", "PidFile none"}, "\n")+"\n")
	d.link("opt/bin/kubectl", filepath.Join(apiServer.BinaryAssetsDirectory, "kubectl"))
	endpoints, known := guest.Endpoints{}, ""
	for _, id := range ids {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		d.nodes[id] = listener
		go d.serve(listener)
		endpoints[id] = guest.Endpoint{Address: listener.Addr().String(), User: "root"}
		known += id + " " + string(ssh.MarshalAuthorizedKey(hostKey.PublicKey()))
	}
	d.write("ssh/known_hosts", known)
	var err error
	d.ssh, err = guest.New(guest.Config{Resolve: endpoints.Resolve, KnownHosts: d.path("ssh/known_hosts"), KeyFile: d.path("ssh/user")})
	must(t, err)
	t.Cleanup(d.stop)
	return d
}

func (d *doorways) path(name string) string { return filepath.Join(d.tree, name) }

func (d *doorways) write(name, content string) {
	d.t.Helper()
	must(d.t, os.MkdirAll(filepath.Dir(d.path(name)), 0o755))
	must(d.t, os.WriteFile(d.path(name), []byte(content), 0o600))
	if strings.HasPrefix(name, "etc/") {
		must(d.t, os.Chmod(d.path(name), 0o644))
	}
}

// link puts a program there without a copy of it: kubectl has 50 MB.
func (d *doorways) link(name, program string) {
	d.t.Helper()
	must(d.t, os.MkdirAll(filepath.Dir(d.path(name)), 0o755))
	must(d.t, os.Symlink(program, d.path(name)))
}

func (d *doorways) serve(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		d.accept(conn.(*net.TCPConn))
	}
}

func (d *doorways) accept(conn *net.TCPConn) {
	file, err := conn.File()
	_ = conn.Close()
	if err != nil {
		d.t.Error(err)
		return
	}
	defer func() { _ = file.Close() }()
	const enter = `mount --make-rprivate / && for dir in etc opt root run; do mount --bind "$1/$dir" "/$dir" || exit; done; exec /usr/sbin/sshd -i -e -f "$1/ssh/config"`
	cmd := exec.Command("unshare", "-m", "sh", "-c", enter, "enter", d.tree)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = file, file, &d.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		d.t.Errorf("start sshd (it needs root and openssh-server): %v", err)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.procs = append(d.procs, cmd)
	d.done.Go(func() { _ = cmd.Wait() })
}

// kill ends every sshd, and the node with this id for good.
func (d *doorways) kill(id string) {
	_ = d.nodes[id].Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, cmd := range d.procs {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
}

func (d *doorways) stop() {
	_ = d.ssh.Close()
	for id := range d.nodes {
		d.kill(id)
	}
	d.done.Wait()
	if d.t.Failed() {
		d.t.Logf("sshd said:\n%s", &d.log.text)
	}
}

// tunnel and kubectl go through the node.
func (d *doorways) tunnel(id string) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		return d.ssh.Dial(ctx, rollout.Target{Name: id, InstanceID: id, Role: rollout.RoleControl}, address)
	}
}

func (d *doorways) kubectl(id string) Kubectl {
	return func(ctx context.Context, request []byte) (io.ReadCloser, error) {
		answer, err := d.ssh.Kubectl(ctx, rollout.Target{Name: id, InstanceID: id, Role: rollout.RoleControl}, request)
		if err != nil {
			return nil, err
		}
		return complaining{answer}, nil
	}
}

// complaining hands kubectl's complaint on in this package's terms.
type complaining struct{ *guest.Answer }

func (c complaining) Read(p []byte) (int, error) {
	n, err := c.Answer.Read(p)
	if failed := (*guest.CommandError)(nil); errors.As(err, &failed) {
		return n, &Complaint{Text: failed.Said}
	}
	return n, err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newSSHKey(t *testing.T) (ssh.Signer, []byte) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	block, err := ssh.MarshalPrivateKey(private, "")
	must(t, err)
	signer, err := ssh.NewSignerFromKey(private)
	must(t, err)
	return signer, pem.EncodeToMemory(block)
}

// through is the way that clientAs makes its clients use, with this kubeconfig. Only TestEveryWay sets it.
var through func(o *Options, kubeconfig []byte)

// replace puts another file in the place of one, in one step: a kubectl that is running reads either.
func (d *doorways) replace(name, content string) {
	d.t.Helper()
	d.write(name+".new", content)
	must(d.t, os.Rename(d.path(name+".new"), d.path(name)))
}

// TestEveryWay runs the tests of the API server by every way to it besides the direct one, by which they run on their own.
func TestEveryWay(t *testing.T) {
	tests := map[string]func(*testing.T){
		"claims conflict with any change": TestClaimConflictsWithAnyChange, "another Node of the same name": TestPatchRefusesAnotherNodeOfTheSameName,
		"claim, cordon, release": TestClaimCordonRelease, "patches leave the rest alone": TestPatchLeavesTheRestAlone, "owner of the cordon": TestCordonOwnerFollowsTheLastChange,
		"marks": TestMarksOnARealNode, "deletion": TestDeletionShows, "all Nodes": TestNodesListsAll, "Events": TestEventShowsInKubectlDescribe, "ready": TestControlPlaneIsReady,
		"life of the Lease": TestLeaseLife, "takeover": TestDeadHolderIsTakenOver, "late renewal": TestTakeoverLosesAgainstALateRenewal, "no Lease": TestNobodyHoldsALeaseThatIsNotThere,
		"evictions": TestEvict, "two budgets": TestEvictOfTwoBudgets, "a new budget": TestEvictUnderANewBudget, "deletion of pods": TestDeletePastABudget, "shelf": TestShelf, "watch": TestWatchWakesOnChanges,
		"rights to look": TestRightsToLook, "enough rights": TestManifestIsEnough, "the right to evict": TestEvictNeedsItsRight,
		"missing rights": TestMissing, "errors": TestErrorsOfTheServer, "credentials": TestUnknownCredentialsAreDenied, "nobody answers": TestNobodyAnswers,
	}
	for way, set := range map[Via]func(d *doorways, o *Options, kubeconfig []byte){
		ViaTunnel: func(d *doorways, o *Options, _ []byte) { o.Ways = Ways{Only: ViaTunnel, Tunnel: d.tunnel("c1")} },
		// Whoever has kubectl on the node is who the kubeconfig there says. The last client's is there.
		ViaKubectl: func(d *doorways, o *Options, kubeconfig []byte) {
			d.replace(adminConf, string(kubeconfig))
			o.Ways = Ways{Only: ViaKubectl, Kubectl: d.kubectl("c1")}
		},
	} {
		t.Run(string(way), func(t *testing.T) {
			d := newDoorways(t, kubeconfigOf(t, "kubernetes-admin", "system:masters"), "c1")
			through = func(o *Options, kubeconfig []byte) { set(d, o, kubeconfig) }
			defer func() { through = nil }()
			for name, test := range tests {
				t.Run(name, test)
			}
			if way == ViaTunnel { // by kubectl its many watches use up the sessions of one node: this sshd, without privilege separation, ends none of them early
				t.Run("each right", TestEachRightIsNeeded)
			}
		})
	}
}

// nowhereAt makes the direct way fail as a network does.
func nowhereAt(context.Context, string, string) (net.Conn, error) {
	return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
}

// TestFirstWayThatWorks: a later way is used where the earlier ones lead nowhere, and is told of once.
func TestFirstWayThatWorks(t *testing.T) {
	kubeconfig := kubeconfigOf(t, "kubernetes-admin", "system:masters")
	d := newDoorways(t, kubeconfig, "c1")
	lost := func(context.Context, string) (net.Conn, error) {
		return nil, fmt.Errorf("%w: forwarding is not allowed", rollout.ErrUnreachable)
	}
	for name, test := range map[string]struct {
		dial func(context.Context, string, string) (net.Conn, error)
		ways Ways
		want []Via
	}{
		"direct":             {new(net.Dialer).DialContext, Ways{Tunnel: d.tunnel("c1"), Kubectl: d.kubectl("c1")}, nil},
		"tunnel":             {nowhereAt, Ways{Tunnel: d.tunnel("c1"), Kubectl: d.kubectl("c1")}, []Via{ViaTunnel}},
		"kubectl":            {nowhereAt, Ways{Tunnel: lost, Kubectl: d.kubectl("c1")}, []Via{ViaKubectl}},
		"kubectl, no tunnel": {nowhereAt, Ways{Kubectl: d.kubectl("c1")}, []Via{ViaKubectl}},
	} {
		t.Run(name, func(t *testing.T) {
			var told []Via
			test.ways.Tell = func(way Via, _ error) { told = append(told, way) }
			k, err := FromCloudStack(kubeconfig)
			must(t, err)
			c, err := New(k, Options{Dial: test.dial, Ways: test.ways})
			must(t, err)
			defer c.Close()
			node := makeNode(t)
			for range 2 {
				_, err = c.Node(t.Context(), node)
				must(t, err)
			}
			got := readNode(t, c, node)
			claim := "{}"
			_, err = c.Patch(t.Context(), rollout.NodePatch{Name: node, UID: got.UID, ResourceVersion: got.ResourceVersion, Claim: &claim})
			must(t, err)
			if fmt.Sprint(told) != fmt.Sprint(test.want) {
				t.Errorf("told of %v, want %v", told, test.want)
			}
		})
	}
}

// TestNoWay: what all ways said is in the error, and that is unreachable.
func TestNoWay(t *testing.T) {
	lost := func(context.Context, string) (net.Conn, error) {
		return nil, fmt.Errorf("%w: no sshd", rollout.ErrUnreachable)
	}
	k, err := FromCloudStack(kubeconfigOf(t, "kubernetes-admin", "system:masters"))
	must(t, err)
	c, err := New(k, Options{Dial: nowhereAt, Ways: Ways{Tunnel: lost, Kubectl: func(context.Context, []byte) (io.ReadCloser, error) { return nil, errors.New("no kubectl") }}})
	must(t, err)
	_, err = c.Node(t.Context(), "n")
	if !errors.Is(err, rollout.ErrUnreachable) {
		t.Errorf("err = %v, want ErrUnreachable", err)
	}
	for _, part := range []string{"direct: ", "connection refused", "tunnel: ", "no sshd", "kubectl: no kubectl"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q lacks %q", err, part)
		}
	}
}

// TestDeniedIsNoReasonToGoAround: who says no by one way is not asked by another.
func TestDeniedIsNoReasonToGoAround(t *testing.T) {
	d := newDoorways(t, kubeconfigOf(t, "kubernetes-admin", "system:masters"), "c1")
	c := clientAs(t, Options{Ways: Ways{Tunnel: d.tunnel("c1"), Kubectl: d.kubectl("c1"), Tell: func(Via, error) { t.Error("another way was used") }}}, "nobody")
	if _, err := c.Node(t.Context(), "n"); !errors.Is(err, rollout.ErrDenied) {
		t.Errorf("err = %v, want ErrDenied", err)
	}
}

// TestWayThatBreaks: the sshd of the node that carries the way dies in the middle; another one carries it then.
func TestWayThatBreaks(t *testing.T) {
	kubeconfig := kubeconfigOf(t, "kubernetes-admin", "system:masters")
	for name, ways := range map[string]func(d *doorways, id *string) Ways{
		"tunnel": func(d *doorways, id *string) Ways {
			return Ways{Only: ViaTunnel, Tunnel: func(ctx context.Context, address string) (net.Conn, error) { return d.tunnel(*id)(ctx, address) }}
		},
		"kubectl": func(d *doorways, id *string) Ways {
			return Ways{Only: ViaKubectl, Kubectl: func(ctx context.Context, request []byte) (io.ReadCloser, error) { return d.kubectl(*id)(ctx, request) }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDoorways(t, kubeconfig, "c1", "c2")
			id := "c1"
			k, err := FromCloudStack(kubeconfig)
			must(t, err)
			c, err := New(k, Options{Ways: ways(d, &id)})
			must(t, err)
			defer c.Close()
			node := makeNode(t)
			woken, err := c.Watch(t.Context(), node)
			must(t, err)
			receive(t, woken, "wake-up for the present state")
			id = "c2"
			d.kill("c1")
			receive(t, woken, "wake-up by a watch that was made anew")
			_, err = c.Node(t.Context(), node)
			must(t, err)
		})
	}
}

// TestKubectlRequest: what can't be handed on plainly is not handed on at all.
func TestKubectlRequest(t *testing.T) {
	for _, bad := range []string{"/api/v1/nodes/a;b", "/api/v1/nodes/$(id)", "/api/v1/nodes/a b", "/api/v1/nodes/a\nb", "relative"} {
		if plainPath.MatchString(bad) {
			t.Errorf("%q is taken for a path", bad)
		}
	}
	for _, bad := range []string{"-o", "a/b", "A", "", "a b", "a\n"} {
		if plainWord.MatchString(bad) {
			t.Errorf("%q is taken for a word", bad)
		}
	}
}
