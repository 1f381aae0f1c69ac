package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// The labels of the pods, by which they are found and left out of what is said about a node's pods.
const (
	nameLabel      = "app.kubernetes.io/name"
	componentLabel = "app.kubernetes.io/component"
	managerLabel   = "app.kubernetes.io/managed-by"
	clusterLabel   = rollout.Prefix + "/cluster"
	holderLabel    = rollout.Prefix + "/holder"
	actorNote      = rollout.Prefix + "/actor"

	hostPodName      = "trueup"
	hostPodComponent = "guest"
	hostContainer    = "host"
)

// hostPodSelector selects all pods of this kind.
func hostPodSelector() string {
	return labels.Set{nameLabel: hostPodName, componentLabel: hostPodComponent}.String()
}

// isHostPod tells whether the pod is one through which trueup, of whomever, runs programs on a node.
func isHostPod(p *corev1.Pod) bool {
	return p.Labels[nameLabel] == hostPodName && p.Labels[componentLabel] == hostPodComponent
}

// usedFile is made in the pod at each use.
const usedFile = "/dev/shm/trueup-used"

// idleScript is what the pod's container runs: it ends after podLife, or podIdle after the last use. Numbers are rounds of 5 s.
func idleScript() string {
	const round = 5 * time.Second
	return fmt.Sprintf("n=0; idle=0; while [ $n -lt %d ] && [ $idle -lt %d ]; do sleep %d; n=$((n+1)); idle=$((idle+1)); "+
		"if [ -e %s ]; then rm -f %[4]s; idle=0; fi; done", podLife/round, podIdle/round, round/time.Second, usedFile)
}

// manifest is the pod for the node. It is bound to the node here, so that neither a scheduler, a cordon nor a taint keeps it away, and it
// uses the node's network, so that it needs no network plugin. Without a service account's token it can do nothing in the cluster.
func (h *HostPods) manifest(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: h.o.Namespace,
			Labels:      map[string]string{nameLabel: hostPodName, componentLabel: hostPodComponent, managerLabel: hostPodName, clusterLabel: h.o.Cluster, holderLabel: h.holder},
			Annotations: map[string]string{actorNote: h.o.Actor}},
		Spec: corev1.PodSpec{
			NodeName: node, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			HostPID: true, HostNetwork: true, DNSPolicy: corev1.DNSDefault,
			RestartPolicy: corev1.RestartPolicyNever, ActiveDeadlineSeconds: new(int64(podLife / time.Second)), TerminationGracePeriodSeconds: new(int64(1)),
			AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
			Containers: []corev1.Container{{
				Name: hostContainer, Image: h.o.Image, ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{"sh", "-c", idleScript()},
				SecurityContext: &corev1.SecurityContext{Privileged: new(true), RunAsUser: new(int64(0)), RunAsGroup: new(int64(0)), RunAsNonRoot: new(false), ReadOnlyRootFilesystem: new(true)},
			}},
		},
	}
}

// create makes the pod. Its name is chosen here, so that one whose reply was lost is found again.
func (h *HostPods) create(ctx context.Context, p *hostPod) error {
	if !h.willMake() {
		return errHostPodsClosed()
	}
	p.forget()
	p.name, p.made, p.used = "trueup-guest-"+uuid.NewString()[:13], time.Now(), time.Now()
	var made *corev1.Pod
	err := h.client.once(ctx, call{verb: "create", resource: "pods", namespace: h.o.Namespace, name: p.name}, func(ctx context.Context) (err error) {
		made, err = h.client.core.Pods(h.o.Namespace).Create(ctx, h.manifest(p.name, p.node), metav1.CreateOptions{FieldManager: rollout.FieldManager})
		return err
	})
	switch {
	case err == nil:
		p.uid = made.UID
	case !errors.Is(err, rollout.ErrUnreachable) && ctx.Err() == nil:
		err = h.notMade(ctx, p, err)
		p.forget()
	}
	return err
}

// willMake notes that a pod may exist from now on, unless they are being removed already.
func (h *HostPods) willMake() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.made = h.made || !h.closed
	return !h.closed
}

// notMade says why the API server did not take the pod. A right that is missing is told by the request's own error; whoever has the right was refused by
// admission: Pod Security, a quota, a webhook.
func (h *HostPods) notMade(ctx context.Context, p *hostPod, err error) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || apierrors.IsUnauthorized(err) {
		return err
	}
	if apierrors.IsForbidden(err) {
		may, asked := h.client.allowed(ctx, Right{Verb: "create", Resource: "pods", Namespace: h.o.Namespace})
		if asked != nil || !may {
			return err
		}
	}
	return fmt.Errorf("%w: the cluster does not take a privileged pod for node %s in namespace %s: %s; let it (Pod Security level privileged, quota, policies), name another namespace with --guest-namespace, or use SSH",
		rollout.ErrDenied, p.node, h.o.Namespace, status.Status().Message)
}

// ended tells whether nothing runs in the pod any more: as after a reboot of its node, when the container's reason is "Unknown". A container that has ended is
// not started again, whatever the phase still says.
func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed ||
		slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Terminated != nil })
}

// started tells whether the pod's container runs. An error means that it never will.
func started(p *corev1.Pod) (bool, error) {
	if ended(p) {
		return false, fmt.Errorf("%w: it ended: %s", rollout.ErrDenied, evidence(p))
	}
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Running != nil {
			return true, nil
		}
		if w := c.State.Waiting; w != nil && hopeless(w.Reason) {
			return false, fmt.Errorf("%w: it can't start: %s", rollout.ErrDenied, evidence(p))
		}
	}
	return false, nil
}

// hopeless tells whether kubelet will not get over a reason for which a container waits (pkg/kubelet/images and pkg/kubelet/container).
func hopeless(reason string) bool {
	return reason == "InvalidImageName" || reason == "ErrImageNeverPull"
}

// evidence is what kubelet says about the pod.
func evidence(p *corev1.Pod) string {
	said := []string{strings.ToLower(string(p.Status.Phase)) + explained(p.Status.Reason, p.Status.Message)}
	for _, c := range p.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			said = append(said, "container waiting"+explained(w.Reason, w.Message))
		}
		if t := c.State.Terminated; t != nil {
			said = append(said, fmt.Sprintf("container ended with exit status %d%s", t.ExitCode, explained(t.Reason, t.Message)))
		}
	}
	if p.Status.StartTime == nil && !ended(p) {
		said = append(said, "kubelet has not taken it up")
	}
	return strings.Join(said, "; ")
}

func explained(reason, message string) string {
	switch {
	case reason == "" && message == "":
		return ""
	case reason == "" || message == "":
		return ": " + reason + message
	}
	return ": " + reason + ": " + message
}

// awaitStart watches the pod until its container runs. One that has not started within StartTimeout is removed; where ctx ends before, the next caller
// goes on waiting for it.
func (h *HostPods) awaitStart(ctx context.Context, p *hostPod) error {
	bound, cancel := context.WithDeadline(ctx, p.made.Add(h.o.StartTimeout))
	defer cancel()
	seen := "nothing was seen of it"
	err := h.watchStart(bound, p, &seen)
	switch {
	case err == nil:
		p.running, p.used = true, time.Now()
		return nil
	case bound.Err() == nil: // known to be hopeless
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %s does not run yet: %s: %w", rollout.ErrUnreachable, p.name, seen, context.Cause(ctx))
	default:
		err = fmt.Errorf("%w: %s did not start within %s: %s; it is made from %s: name an image that the node has, or can pull, with --guest-image",
			rollout.ErrUnreachable, p.name, h.o.StartTimeout, seen, h.o.Image)
	}
	removed := h.remove(ctx, p)
	p.failure, p.failedAt = err, time.Now()
	return errors.Join(err, removed)
}

// watchStart returns nil once the container runs, and an error if it never will or ctx ends. seen is what was last seen.
func (h *HostPods) watchStart(ctx context.Context, p *hostPod, seen *string) error {
	pause := watchBackoff()
	for {
		w, err := h.watch(ctx, p.name)
		if err == nil {
			var over bool
			over, err = follow(ctx, w, p, seen)
			w.Stop()
			if over {
				return err
			}
		}
		if errors.Is(err, rollout.ErrDenied) {
			return err
		}
		if err != nil {
			*seen = err.Error()
		}
		if !sleep(ctx, pause.Step()) {
			return ctx.Err()
		}
	}
}

// watch starts a watch of the pod at its present state.
func (h *HostPods) watch(ctx context.Context, name string) (watch.Interface, error) {
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	return h.client.openWatch(ctx, call{verb: "watch", resource: "pods", namespace: h.o.Namespace, name: name}, func(stream context.Context) (watch.Interface, error) {
		return h.client.core.Pods(h.o.Namespace).Watch(stream, metav1.ListOptions{FieldSelector: selector})
	})
}

// follow reads the watch until it shows the end of the wait: then over is true, and the error nil if the container runs.
func follow(ctx context.Context, w watch.Interface, p *hostPod, seen *string) (over bool, err error) {
	for {
		select {
		case <-ctx.Done():
			return true, ctx.Err()
		case event, open := <-w.ResultChan():
			pod, isPod := event.Object.(*corev1.Pod)
			switch {
			case !open || !isPod:
				return false, nil
			case event.Type == watch.Deleted, pod.DeletionTimestamp != nil:
				return true, fmt.Errorf("%w: %s was deleted by somebody else", rollout.ErrUnreachable, p.name)
			}
			p.uid, *seen = pod.UID, evidence(pod)
			if running, err := started(pod); running || err != nil {
				return true, err
			}
		}
	}
}
