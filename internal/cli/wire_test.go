package cli

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
)

// wired is a cluster that is reached through the real clients: CloudStack over HTTP, a Kubernetes API over TLS that only answers
// reads, an SSH server that lets nobody in. No test in this file waits for any time to pass.
type wired struct {
	*standin.Model

	owner   standin.Account
	cluster standin.Cluster
	env     map[string]string
	home    string
	pem     string // of the private key for the nodes

	mu    sync.Mutex
	asked []string // of the Kubernetes API
	about []string // the rights that were asked about there
	logIn []string // users that tried to log in to the SSH server
}

func newWired(t *testing.T) *wired {
	t.Helper()
	w := &wired{Model: standin.New(standin.Config{Seed: 1}), home: t.TempDir()}
	t.Cleanup(w.Close)
	cloud := httptest.NewServer(w.Handler())
	t.Cleanup(cloud.Close)
	w.owner = w.AddAccount(standin.Account{Name: "owner"})
	address, port := w.serveSSH(t)
	w.cluster = w.AddCluster(standin.ClusterSpec{Name: "prod", Owner: standin.Owner{Account: "owner"}, OfferingID: w.AddOffering(standin.FixedOffering("small", 2, 2048)).ID,
		PublicAddress: address, LoginUser: "core", Control: []standin.NodeSpec{{ID: idOf(1), Name: "control-1", SSHPort: port}}, Workers: []standin.NodeSpec{{ID: idOf(2), Name: "node-1", SSHPort: port}}})
	w.AddOffering(standin.FixedOffering("big", 4, 4096))
	w.serveKubernetes(t)
	key := w.writeKey(t)
	w.env = map[string]string{"HOME": w.home, "CLOUDSTACK_API_URL": cloud.URL + standin.Path, "CLOUDSTACK_API_KEY": w.owner.APIKey,
		"CLOUDSTACK_SECRET_KEY": w.owner.SecretKey, "TRUEUP_SSH_KEY": key}
	return w
}

// serveKubernetes puts a kubeconfig with canaries into CloudStack.
func (w *wired) serveKubernetes(t *testing.T) {
	t.Helper()
	api := httptest.NewUnstartedServer(http.HandlerFunc(w.answer))
	api.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // a client that goes away is no news
	api.StartTLS()
	t.Cleanup(api.Close)
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw}))
	config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
		"clusters":[{"name":"c","cluster":{"server":%q,"certificate-authority-data":%q}}],"users":[{"name":"u","user":{"token":%q}}]}`, api.URL, ca, secretToken)
	w.UpdateCluster(w.cluster.ID, func(c *standin.Cluster) { c.Kubeconfig = config })
}

func (w *wired) answer(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	w.asked = append(w.asked, r.Method+" "+r.URL.Path)
	w.mu.Unlock()
	out.Header().Set("Content-Type", "application/json")
	switch {
	case r.Header.Get("Authorization") != "Bearer "+secretToken:
		w.status(out, http.StatusUnauthorized, metav1.StatusReasonUnauthorized)
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews"):
		w.review(out, r)
	case r.Method != http.MethodGet:
		w.status(out, http.StatusForbidden, metav1.StatusReasonForbidden)
	case r.URL.Path == "/api/v1/nodes":
		list := corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}}
		for i, name := range []string{"control-1", "node-1"} {
			list.Items = append(list.Items, kubeNode(name, idOf(i+1)))
		}
		reply(out, list)
	case strings.HasSuffix(r.URL.Path, "/pods"):
		reply(out, corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}})
	default:
		w.status(out, http.StatusNotFound, metav1.StatusReasonNotFound)
	}
}

// review says no to every right that is asked about.
func (w *wired) review(out http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	var asked authorizationv1.SelfSubjectAccessReview
	if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, &asked); err != nil {
		panic(err) // a client of Kubernetes sent it
	}
	a := asked.Spec.ResourceAttributes
	w.mu.Lock()
	defer w.mu.Unlock()
	w.about = append(w.about, strings.TrimSuffix(a.Verb+" "+a.Resource+"/"+a.Subresource, "/")+" in "+a.Namespace)
	out.WriteHeader(http.StatusCreated)
	asked.TypeMeta = metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"}
	reply(out, asked)
}

func (w *wired) status(out http.ResponseWriter, code int32, reason metav1.StatusReason) {
	out.WriteHeader(int(code))
	reply(out, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: code, Reason: reason})
}

func reply(out io.Writer, document any) {
	text, err := json.Marshal(document)
	if err != nil {
		panic(err) // types of Kubernetes
	}
	_, _ = out.Write(text)
}

func kubeNode(name, id string) corev1.Node {
	size := corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("1928Mi")}
	return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid", ResourceVersion: "1"}, Status: corev1.NodeStatus{Capacity: size, Allocatable: size,
		NodeInfo: corev1.NodeSystemInfo{SystemUUID: strings.ToUpper(id)}, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
}

// serveSSH answers with a host key that nobody has on file, and notes the users who get as far as a log-in: none may.
func (w *wired) serveSSH(t *testing.T) (host string, port int) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	config := &ssh.ServerConfig{PublicKeyCallback: func(c ssh.ConnMetadata, _ ssh.PublicKey) (*ssh.Permissions, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.logIn = append(w.logIn, c.User())
		return nil, fmt.Errorf("nobody is let in")
	}}
	config.AddHostKey(signer)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	t.Cleanup(func() { _ = listener.Close(); serving.Wait() })
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { _, _, _, _ = ssh.NewServerConn(conn, config); _ = conn.Close() })
		}
	})
	address := listener.Addr().(*net.TCPAddr)
	return address.IP.String(), address.Port
}

func (w *wired) writeKey(t *testing.T) string {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(block)
	w.pem = strings.Split(string(text), "\n")[2]
	return w.file(t, "id", text, 0o600)
}

func (w *wired) file(t *testing.T, name string, content []byte, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(w.home, name)
	if err := os.WriteFile(path, content, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// trueup runs the program as it is, and looks for secrets in what it printed.
func (w *wired) trueup(t *testing.T, args string, changes ...func(*program)) *program {
	t.Helper()
	p := &program{in: strings.NewReader(""), env: maps.Clone(w.env)}
	for _, change := range changes {
		change(p)
	}
	p.code = Main(context.WithoutCancel(t.Context()), Streams{In: p.in, Out: &p.out, Err: &p.err, Version: "1.2.3", Env: func(name string) (string, bool) {
		v, ok := p.env[name]
		return v, ok
	}}, strings.Fields(args))
	for what, secret := range map[string]string{"secret key": w.owner.SecretKey, "token": secretToken, "private key": w.pem} {
		if text := p.out.String() + p.err.String(); strings.Contains(text, secret) {
			t.Errorf("the %s is in the output of trueup %s:\n%s", what, args, text)
		}
	}
	return p
}

// TestRealClients: the kubeconfig of CloudStack leads to the API server, and the port forwarding rules to the SSH server, whose unknown key
// is not believed.
func TestRealClients(t *testing.T) {
	w := newWired(t)
	p := w.trueup(t, "status prod").want(t, ExitOK).prints(t,
		"control-1  control  2/2048  2/2048    ?      2/1928  2/1928  true   yes",
		"node-1: the guest could not be read: denied: ", "as user core: its host key is unknown: saw ssh-ed25519 SHA256:", "ssh-keygen -lf", "add this line to "+w.home+"/.config/trueup/known_hosts: "+idOf(2)+" ssh-ed25519 ")
	if w.logIn != nil {
		t.Errorf("logged in as %v to a machine whose key is not known", w.logIn)
	}
	for _, r := range w.Requests() {
		if r.Mutating {
			t.Errorf("status asked CloudStack for %s", r.Command)
		}
	}
	for _, r := range w.asked {
		if !strings.HasPrefix(r, "GET ") {
			t.Errorf("status asked Kubernetes for %s", r)
		}
	}
	w.enrol(t, p.out.String())
	w.trueup(t, "status prod").want(t, ExitOK).prints(t, "the guest does not let us in; tried ssh-ed25519 SHA256:")
	w.trueup(t, "plan prod --worker big").want(t, ExitUnreachable).says(t, "nothing was changed: node-1: the guest could not be read", "authorized_keys").oneError(t)
	w.trueup(t, "scale prod --worker big --yes --ssh-user admin").want(t, ExitUnreachable).says(t, "as user admin").oneError(t)
	if len(w.logIn) == 0 || w.logIn[0] != "core" {
		t.Errorf("log-ins: %v", w.logIn)
	}
	w.trueup(t, "resume prod").want(t, ExitOK).says(t, "Nothing to resume")
}

// enrol does what the error says: it adds the lines to the file that it names.
func (w *wired) enrol(t *testing.T, text string) {
	t.Helper()
	var lines bytes.Buffer
	for line := range strings.Lines(text) {
		if _, rest, found := strings.Cut(line, "add this line to "); found {
			_, entry, _ := strings.Cut(rest, ": ")
			lines.WriteString(entry)
		}
	}
	if err := os.MkdirAll(filepath.Join(w.home, ".config", "trueup"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.file(t, ".config/trueup/known_hosts", lines.Bytes(), 0o600)
}

func TestWaysThatCannotBeUsed(t *testing.T) {
	w := newWired(t)
	open := w.file(t, "open", []byte("x"), 0o644)
	for _, r := range []struct {
		name, args string
		change     func(*program)
		code       int
		says       []string
	}{
		{"no SSH key", "status prod", with("TRUEUP_SSH_KEY", ""), ExitUsage, []string{"no SSH key", "ssh-agent", "--ssh-key"}},
		{"an SSH key that others may read", "status prod --ssh-key " + open, with("X", ""), ExitUsage, []string{"chmod 600"}},
		{"a kubeconfig that is not there", "status prod --kubeconfig /none/such", with("X", ""), ExitUsage, []string{"unusable kubeconfig /none/such"}},
		{"a context that is not there", "status prod --kube-context other --kubeconfig " + w.file(t, "kubeconfig", []byte(kubeconfigText), 0o600), with("X", ""), ExitUsage, []string{"other"}},
	} {
		t.Run(r.name, func(t *testing.T) { w.trueup(t, r.args, r.change).want(t, r.code).says(t, r.says...).oneError(t) })
	}

	t.Run("no kubeconfig in CloudStack", func(t *testing.T) {
		w.UpdateCluster(w.cluster.ID, func(c *standin.Cluster) { c.Kubeconfig = "" })
		w.trueup(t, "status prod").want(t, ExitOK).says(t, "by kubectl on a control-plane node: no kubeconfig from CloudStack, name one with --kubeconfig").
			prints(t, "node-1: the node could not be read: list nodes: ", "its host key is unknown")
		w.trueup(t, "scale prod --worker big --yes").want(t, ExitUnreachable).says(t, "nothing was changed")
		w.trueup(t, "resume prod").want(t, ExitUnreachable)
	})
	t.Run("a kubeconfig that runs a program", func(t *testing.T) {
		w.UpdateCluster(w.cluster.ID, func(c *standin.Cluster) {
			c.Kubeconfig = strings.Replace(kubeconfigText, "token: "+secretToken, "exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/touch}", 1)
		})
		w.trueup(t, "status prod").want(t, ExitOK).prints(t, "asks this machine to run a program")
	})
}
