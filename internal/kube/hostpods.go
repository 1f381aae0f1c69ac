package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// HostPodOptions say how pods are made through which programs are run on nodes.
type HostPodOptions struct {
	// Namespace is where they are made, and Image what they are made from: it needs sh, sleep and rm, and what is run in them.
	Namespace, Image string
	// Cluster and Actor are for people: the cluster's id in CloudStack, and who made the pods.
	Cluster, Actor string

	// StartTimeout bounds the time from a pod's creation until it runs; zero is the default.
	StartTimeout time.Duration
}

// Bounds of a pod.
const (
	// defaultPodStart outlasts the pull of a small image over a slow line, and a busy node.
	defaultPodStart = 60 * time.Second
	// podIdle is after which time without use a pod ends by itself: whoever made it may have been killed. It is longer than any program
	// that is run in it may take (120 s).
	podIdle = 150 * time.Second
	// podLife is when a pod ends whatever happens. One that is near to it is not used any more.
	podLife = 30 * time.Minute
	// podPatience is how long programs may fail to start in a pod that seems to run, as while its kubelet is restarted, until it is replaced.
	podPatience = 30 * time.Second
	// podFailure is for how long the failure of a start is told again, without another try.
	podFailure = 20 * time.Second
	// podRemoval bounds the removal of all pods at the end.
	podRemoval = 15 * time.Second
)

// HostPods are privileged pods, one on each node that is asked for, through which programs are run as root in the node's namespaces. A pod is made
// when it is first needed and made anew when it is gone; Close removes all of them.
//
// One that its maker could not remove ends by itself. What has ended is removed by the next HostPods of whomever, by its labels. Those
// of others that may still be in use are left alone until Inherit.
type HostPods struct {
	client *Client
	o      HostPodOptions
	holder string // in the labels of the pods: this HostPods

	mu        sync.Mutex
	pods      map[string]*hostPod // by node
	tidied    bool                // what had ended before was removed
	made      bool                // a pod was made, or may have been
	others    []corev1.Pod        // of other holders, as they were then
	inherited bool
	closed    bool
	spdy      bool // the API server does not take WebSockets
}

// hostPod is the pod on one node.
type hostPod struct {
	node string
	turn chan struct{} // holds one token while somebody makes, looks at or removes it

	name string // empty while there is none
	uid  types.UID
	// made, used and failing are this machine's own times; failing is zero while programs can be started in it.
	made, used, failing time.Time
	running             bool // it was seen to run, and nothing has failed in it since

	failure  error // why the last one did not start
	failedAt time.Time
}

// HostPods returns a way to run programs on the cluster's nodes. It sends nothing yet. The caller must Close what it returns.
func (c *Client) HostPods(o HostPodOptions) *HostPods {
	if o.StartTimeout == 0 {
		o.StartTimeout = defaultPodStart
	}
	return &HostPods{client: c, o: o, holder: uuid.NewString(), pods: map[string]*hostPod{}}
}

// Enter makes sure that a pod runs on the node, and returns its namespace and name. rollout.ErrDenied: the cluster does not let one be made, or the node does
// not take it. rollout.ErrUnreachable: it does not run yet, or nobody answers.
func (h *HostPods) Enter(ctx context.Context, node string) (string, error) {
	p, err := h.pod(node)
	if err != nil {
		return "", err
	}
	if err := p.take(ctx); err != nil {
		return "", err
	}
	defer p.giveBack()
	if err := h.ready(ctx, p); err != nil {
		return "", fmt.Errorf("pod on node %s: %w", node, err)
	}
	return h.o.Namespace + "/" + p.name, nil
}

// pod returns the place for the node's pod.
func (h *HostPods) pod(node string) (*hostPod, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, errHostPodsClosed()
	}
	if h.pods[node] == nil {
		h.pods[node] = &hostPod{node: node, turn: make(chan struct{}, 1)}
	}
	return h.pods[node], nil
}

func errHostPodsClosed() error {
	return fmt.Errorf("%w: the pods on the nodes have been removed", rollout.ErrUnreachable)
}

func (p *hostPod) take(ctx context.Context) error {
	select {
	case p.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: waited for the pod on node %s: %w", rollout.ErrUnreachable, p.node, context.Cause(ctx))
	}
}

func (p *hostPod) giveBack() { <-p.turn }

// forget makes room for another pod.
func (p *hostPod) forget() { *p = hostPod{node: p.node, turn: p.turn} }

// ready brings about a pod that runs. It needs the pod's turn.
func (h *HostPods) ready(ctx context.Context, p *hostPod) error {
	if p.failure != nil && time.Since(p.failedAt) < podFailure {
		return p.failure
	}
	if err := h.tidy(ctx); err != nil {
		return err
	}
	switch {
	case p.name == "":
	case time.Since(p.made) > podLife-podIdle:
		if err := h.remove(ctx, p); err != nil {
			return err
		}
	case !p.running, time.Since(p.used) > podIdle/2:
		if err := h.look(ctx, p); err != nil {
			return err
		}
	}
	if p.name == "" {
		if err := h.create(ctx, p); err != nil {
			return err
		}
	}
	if !p.running {
		return h.awaitStart(ctx, p)
	}
	return nil
}

// look reads the pod anew, and forgets one that can't be used any more.
func (h *HostPods) look(ctx context.Context, p *hostPod) error {
	var seen *corev1.Pod
	what := call{verb: "get", resource: "pods", namespace: h.o.Namespace, name: p.name}
	err := h.client.read(ctx, what, func(ctx context.Context) (err error) {
		seen, err = h.client.core.Pods(h.o.Namespace).Get(ctx, p.name, metav1.GetOptions{})
		return err
	})
	switch {
	case errors.Is(err, rollout.ErrNotFound):
		p.forget()
		return nil
	case err != nil:
		return err
	}
	p.uid = seen.UID // known from here on also where the reply to its creation was lost
	running, startErr := started(seen)
	if startErr != nil || seen.DeletionTimestamp != nil || !p.failing.IsZero() && time.Since(p.failing) > podPatience {
		return h.remove(ctx, p)
	}
	p.running, p.used = running, time.Now()
	return nil
}

// remove deletes the pod and forgets it.
func (h *HostPods) remove(ctx context.Context, p *hostPod) error {
	err := h.delete(ctx, p.name, p.uid)
	if err == nil {
		p.forget()
	}
	return err
}

// delete deletes the pod of that very UID. One that is gone, or is another one by now, needs no deletion.
func (h *HostPods) delete(ctx context.Context, name string, uid types.UID) error {
	var o metav1.DeleteOptions
	if uid != "" {
		o.Preconditions = metav1.NewUIDPreconditions(string(uid))
	}
	err := h.client.once(ctx, call{verb: "delete", resource: "pods", namespace: h.o.Namespace, name: name}, func(ctx context.Context) error {
		return h.client.core.Pods(h.o.Namespace).Delete(ctx, name, o)
	})
	if errors.Is(err, rollout.ErrNotFound) || errors.Is(err, rollout.ErrConflict) {
		return nil
	}
	return err
}

// tidy removes, once, the pods that have ended, whoever made them.
func (h *HostPods) tidy(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tidied {
		return nil
	}
	found, err := h.list(ctx)
	if err != nil {
		return err
	}
	for _, pod := range found {
		switch {
		case ended(&pod):
			if err := h.delete(ctx, pod.Name, pod.UID); err != nil {
				return err
			}
		case pod.Labels[holderLabel] != h.holder:
			h.others = append(h.others, pod)
		}
	}
	h.tidied = true
	return nil
}

// list lists all pods of this kind in the namespace.
func (h *HostPods) list(ctx context.Context) ([]corev1.Pod, error) {
	var list *corev1.PodList
	err := h.client.read(ctx, call{verb: "list", resource: "pods", namespace: h.o.Namespace}, func(ctx context.Context) (err error) {
		list, err = h.client.core.Pods(h.o.Namespace).List(ctx, metav1.ListOptions{LabelSelector: hostPodSelector()})
		return err
	})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Inherit says that whoever had made pods before is at work no more, so that Close removes them: this run has held the cluster's Lease.
func (h *HostPods) Inherit() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inherited = true
}

// Close removes the pods. The error says which may be left, and how to remove them.
func (h *HostPods) Close() error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), podRemoval)
	defer cancel()
	if err := h.removeAll(ctx); err != nil {
		return fmt.Errorf("pods of this run may be left on nodes; they end by themselves within %s, and the next run removes them; to do it now: "+
			"kubectl delete pods --namespace %s --selector %s=%s: %w", podIdle, h.o.Namespace, holderLabel, h.holder, err)
	}
	return nil
}

// removeAll deletes this run's pods, those that have ended, and those that it inherits.
func (h *HostPods) removeAll(ctx context.Context) error {
	for _, p := range h.pods { // whoever makes one now must have ended, or the list would miss it
		if err := p.take(ctx); err != nil {
			return err
		}
		p.giveBack()
	}
	if !h.hasMade() {
		return nil
	}
	found, err := h.list(ctx)
	if err != nil {
		return err
	}
	var failed error
	for _, pod := range found {
		if pod.DeletionTimestamp == nil && (pod.Labels[holderLabel] == h.holder || ended(&pod) || h.inherits(pod.UID)) {
			failed = errors.Join(failed, h.delete(ctx, pod.Name, pod.UID))
		}
	}
	return failed
}

func (h *HostPods) hasMade() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.made
}

// inherits tells whether the pod is one that others had made before this run began, and use no more.
func (h *HostPods) inherits(uid types.UID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, other := range h.others {
		if h.inherited && other.UID == uid {
			return true
		}
	}
	return false
}
