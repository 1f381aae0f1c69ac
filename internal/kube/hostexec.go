package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// Exec runs a program in the node's pod, which must have been entered, to its end or that of ctx. An end with another exit status than 0 is an error with a
// method ExitStatus() int; any other error says that nobody knows what became of the program, but for rollout.ErrDenied: it was not started.
func (h *HostPods) Exec(ctx context.Context, node string, program []string, stdin io.Reader, stdout, stderr io.Writer) error {
	p, err := h.pod(node)
	if err != nil {
		return err
	}
	if err := p.take(ctx); err != nil {
		return err
	}
	name := p.name
	p.giveBack()
	if name == "" {
		return fmt.Errorf("%w: the pod on node %s is gone", rollout.ErrUnreachable, node)
	}
	// client-go would log what the returned error says anyway, and tear the live lines on stderr.
	quiet := klog.NewContext(ctx, klog.Logger{})
	err = h.stream(quiet, name, remotecommand.StreamOptions{Stdin: stdin, Stdout: stdout, Stderr: stderr}, marked(program))
	failed := err != nil && !errors.As(err, new(exec.ExitError))
	h.note(p, name, failed)
	if failed {
		return h.client.classify(ctx, call{verb: "create", resource: "pods/exec", namespace: h.o.Namespace, name: name}, err)
	}
	return err
}

// marked is the program, begun by a shell that marks the pod as used.
func marked(program []string) []string {
	return append([]string{"sh", "-c", "true >" + usedFile + `; exec "$@"`, "trueup"}, program...)
}

// note keeps how a use of the pod went: one that failed is looked at before the next.
func (h *HostPods) note(p *hostPod, name string, failed bool) {
	p.turn <- struct{}{} // held for no longer than a start may take
	defer p.giveBack()
	if p.name != name {
		return
	}
	switch {
	case !failed:
		p.used, p.failing = time.Now(), time.Time{}
	default:
		p.running = false
		if p.failing.IsZero() {
			p.failing = time.Now()
		}
	}
}

// stream runs the program by WebSocket, or by SPDY where that is refused before anything was run: by an API server before 1.29, by a proxy, or for want of the
// right to get pods/exec.
func (h *HostPods) stream(ctx context.Context, pod string, streams remotecommand.StreamOptions, program []string) error {
	at := h.execURL(pod, program)
	h.mu.Lock()
	spdyOnly := h.spdy
	h.mu.Unlock()
	if spdyOnly {
		return h.bySPDY(ctx, at, streams)
	}
	executor, err := remotecommand.NewWebSocketExecutor(h.client.exec, http.MethodGet, at.String())
	if err != nil {
		return err
	}
	err = executor.StreamWithContext(ctx, streams)
	refused, is := errors.AsType[*httpstream.UpgradeFailureError](err)
	if !is && !httpstream.IsHTTPSProxyError(err) {
		return err
	}
	if is && apierrors.IsNotFound(refused.Cause) {
		return refused.Cause
	}
	again := h.bySPDY(ctx, at, streams)
	switch {
	case again == nil, errors.As(again, new(exec.ExitError)):
		h.mu.Lock()
		h.spdy = true
		h.mu.Unlock()
		return again
	case is && errors.As(refused.Cause, new(apierrors.APIStatus)):
		return refused.Cause // SPDY's errors have no code
	}
	return errors.Join(err, again)
}

func (h *HostPods) bySPDY(ctx context.Context, at *url.URL, streams remotecommand.StreamOptions) error {
	executor, err := remotecommand.NewSPDYExecutor(h.client.exec, http.MethodPost, at)
	if err != nil {
		return err
	}
	return executor.StreamWithContext(ctx, streams)
}

// execURL is where the program is run in the pod.
func (h *HostPods) execURL(pod string, program []string) *url.URL {
	return h.client.core.RESTClient().Post().Resource("pods").Namespace(h.o.Namespace).Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: hostContainer, Command: program, Stdin: true, Stdout: true, Stderr: true}, scheme.ParameterCodec).URL()
}

// forExec is what connections for programs are opened with. They go directly to the API server, and have no bound but their context's.
func forExec(config *rest.Config) *rest.Config {
	direct := rest.CopyConfig(config)
	direct.WrapTransport = nil // the way by kubectl, which has no streams
	return direct
}
