package kube

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// kubelet stands in for the part of a kubelet that the API server hands exec requests to. It runs the programs on this machine.
type kubelet struct {
	t      *testing.T
	server *httptest.Server
	conns  *tracked
	node   string
	used   string // in place of usedFile

	mu   sync.Mutex
	ran  [][]string
	down bool // it answers nobody
}

// newKubelet makes a Node whose kubelet is the stand-in.
func newKubelet(t *testing.T) *kubelet {
	t.Helper()
	k := &kubelet{t: t, used: filepath.Join(t.TempDir(), "used")}
	k.server = httptest.NewUnstartedServer(k)
	k.conns = &tracked{Listener: k.server.Listener}
	k.server.Listener = k.conns
	k.server.StartTLS()
	t.Cleanup(k.server.Close)
	k.node = makeNode(t)
	_, port, err := net.SplitHostPort(k.server.Listener.Addr().String())
	fatal(t, err)
	number, err := strconv.ParseInt(port, 10, 32)
	fatal(t, err)
	nodes := admin(t).CoreV1().Nodes()
	node, err := nodes.Get(t.Context(), k.node, metav1.GetOptions{})
	fatal(t, err)
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(number)
	_, err = nodes.UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
	fatal(t, err)
	return k
}

// ServeHTTP takes /exec/NAMESPACE/POD/CONTAINER by SPDY, which is how the API server comes.
func (k *kubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	down := k.down
	k.mu.Unlock()
	if down || !strings.HasPrefix(r.URL.Path, "/exec/") {
		http.Error(w, "container not found", http.StatusInternalServerError)
		return
	}
	if _, err := httpstream.Handshake(r, w, []string{remotecommand.StreamProtocolV5Name, remotecommand.StreamProtocolV4Name}); err != nil {
		return
	}
	streams := make(chan httpstream.Stream, 4)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		streams <- s
		return nil
	})
	if conn == nil {
		return
	}
	defer func() { _ = conn.Close() }()
	by := map[string]httpstream.Stream{}
	for range 4 {
		s := receive(k.t, streams, "the streams of an exec")
		by[s.Headers().Get(corev1.StreamType)] = s
	}
	program := r.URL.Query()["command"]
	k.mu.Lock()
	k.ran = append(k.ran, program)
	k.mu.Unlock()
	k.run(program, by)
}

// run runs the program, and tells how it ended as container runtimes do.
func (k *kubelet) run(program []string, streams map[string]httpstream.Stream) {
	program = slices.Clone(program)
	for i := range program {
		program[i] = strings.ReplaceAll(program[i], usedFile, k.used)
	}
	cmd := exec.Command(program[0], program[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = streams[corev1.StreamTypeStdout], streams[corev1.StreamTypeStderr], time.Second
	stdin, err := cmd.StdinPipe()
	if err != nil {
		k.t.Error(err)
		return
	}
	go func() {
		_, _ = io.Copy(stdin, streams[corev1.StreamTypeStdin])
		_ = stdin.Close()
	}()
	status := metav1.Status{Status: metav1.StatusSuccess}
	exit := (*exec.ExitError)(nil)
	if err := cmd.Run(); errors.As(err, &exit) {
		status = metav1.Status{Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason, Details: &metav1.StatusDetails{
			Causes: []metav1.StatusCause{{Type: remotecommand.ExitCodeCauseType, Message: strconv.Itoa(exit.ExitCode())}}}}
	} else if err != nil {
		status = metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError, Message: err.Error()}
	}
	text, err := json.Marshal(status)
	if err != nil {
		k.t.Error(err)
	}
	_, _ = streams[corev1.StreamTypeError].Write(text)
}

// stop makes the kubelet answer nobody, or answer again.
func (k *kubelet) stop(down bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.down = down
}

// marked tells whether the pod was marked as used, and takes the mark away.
func (k *kubelet) marked() bool { return os.Remove(k.used) == nil }

// tracked keeps the connections that it accepts, to break them.
type tracked struct {
	net.Listener

	mu    sync.Mutex
	conns []net.Conn
}

// Accept implements net.Listener.
func (l *tracked) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.conns = append(l.conns, conn)
	}
	return conn, err
}

// breakAll ends all connections without a word.
func (l *tracked) breakAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.conns {
		_ = conn.Close()
	}
}
