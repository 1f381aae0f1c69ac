package kube

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// apiServer is the real API server and etcd that all tests of the package share.
var apiServer *envtest.Environment

// soon bounds what happens in milliseconds on an idle machine. A test that waits that long has failed.
const soon = 30 * time.Second

func TestMain(m *testing.M) { os.Exit(runWithAPIServer(m)) }

func runWithAPIServer(m *testing.M) int {
	assets, err := buildAssets()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	apiServer = &envtest.Environment{BinaryAssetsDirectory: assets}
	arguments := apiServer.ControlPlane.GetAPIServer().Configure()
	arguments.Set("authorization-mode", "Node", "RBAC")
	arguments.Set("enable-admission-plugins", "NodeRestriction")
	if _, err := apiServer.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "start kube-apiserver and etcd:", err)
		return 1
	}
	defer func() {
		if err := apiServer.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop kube-apiserver and etcd:", err)
		}
	}()
	if err := prepareLeastUser(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "grant what `trueup rights rbac` prints:", err)
		return 1
	}
	return m.Run()
}

// buildAssets returns the folder with kube-apiserver, etcd and kubectl. On a machine that never built them it takes minutes:
// the Makefile runs the script first.
func buildAssets() (string, error) {
	var stdout bytes.Buffer
	build := exec.Command("../../lab/kubernetes/build.sh")
	build.Stdout, build.Stderr = &stdout, os.Stderr
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("build kube-apiserver and etcd: %w", err)
	}
	return strings.TrimSpace(stdout.String()), nil
}

// admin is a client that trueup has no part in: the tests' own eyes and hands.
func admin(t *testing.T) kubernetes.Interface {
	t.Helper()
	c, err := kubernetes.NewForConfig(apiServer.Config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func kubeconfigOf(t *testing.T, name string, groups ...string) []byte {
	t.Helper()
	user, err := apiServer.AddUser(envtest.User{Name: name, Groups: groups}, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := user.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func clientAs(t *testing.T, o Options, user string, groups ...string) *Client {
	t.Helper()
	return clientOf(t, o, kubeconfigOf(t, user, groups...))
}

// clientOf is a client with this kubeconfig, by the way that is being tested.
func clientOf(t *testing.T, o Options, kubeconfig []byte) *Client {
	t.Helper()
	k, err := FromCloudStack(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if through != nil {
		through(&o, kubeconfig)
	}
	c, err := New(k, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// newClient returns a client with exactly the rights that `trueup rights rbac` gives: so each test shows that they are enough.
func newClient(t *testing.T, o Options) *Client {
	t.Helper()
	return clientAs(t, o, leastUser)
}

// kubectl runs the real kubectl and returns what it printed.
func kubectl(t *testing.T, arguments ...string) string {
	t.Helper()
	text, err := runKubectl(arguments...)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func runKubectl(arguments ...string) (string, error) {
	user, err := apiServer.AddUser(envtest.User{Name: "someone", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return "", err
	}
	command, err := user.Kubectl()
	if err != nil {
		return "", err
	}
	stdout, stderr, err := command.Run(arguments...)
	if err != nil {
		text, _ := io.ReadAll(stderr)
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(arguments, " "), err, text)
	}
	text, err := io.ReadAll(stdout)
	return string(text), err
}

// makeNode creates a Node that is removed at the end of the test.
func makeNode(t *testing.T, edit ...func(*corev1.Node)) string {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-"}}
	for _, e := range edit {
		e(node)
	}
	nodes := admin(t).CoreV1().Nodes()
	created, err := nodes.Create(t.Context(), node, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := nodes.Delete(context.Background(), created.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("remove the test's Node: %v", err)
		}
	})
	return created.Name
}

func readNode(t *testing.T, c *Client, name string) capacity.Node {
	t.Helper()
	node, err := c.Node(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return node
}

func patchFor(n capacity.Node) rollout.NodePatch {
	return rollout.NodePatch{Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion}
}

// onWire puts a hook between the client and the network. The hook answers, or passes the request on. The requests are counted.
func onWire(c *Client, hook func(request *http.Request, pass http.RoundTripper) (*http.Response, error)) *atomic.Int32 {
	w := &wire{inner: c.http.Transport, hook: hook}
	c.http.Transport = w
	return &w.count
}

type wire struct {
	count atomic.Int32
	inner http.RoundTripper
	hook  func(*http.Request, http.RoundTripper) (*http.Response, error)
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.count.Add(1)
	return w.hook(r, w.inner)
}

// WrappedRoundTripper lets apimachinery find the transport below.
func (w *wire) WrappedRoundTripper() http.RoundTripper { return w.inner }

// statusAnswer is an API server's answer with nothing but a code.
func statusAnswer(r *http.Request, code int) *http.Response {
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d}`, code)
	return &http.Response{
		StatusCode: code, Request: r, ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(strings.NewReader(body)),
	}
}

// receive takes a value from the channel or fails the test.
func receive[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(soon):
		t.Fatalf("%s: nothing within %s", what, soon)
		panic("unreachable")
	}
}
