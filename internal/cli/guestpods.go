package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/cks-trueup/trueup/internal/guest"
	"github.com/cks-trueup/trueup/internal/kube"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// The ways into guests.
const (
	guestViaSSH = "ssh"
	guestViaPod = "pod"
)

const (
	// defaultGuestImage is small and has sh, sleep, rm and nsenter. A registry is asked only where the node has no image of that name.
	defaultGuestImage = "docker.io/library/busybox:stable"
	// defaultGuestNamespace admits privileged pods in a cluster that kubeadm made.
	defaultGuestNamespace = "kube-system"
)

func (a *app) guestVia() string {
	return first(a.access.guestVia, a.env("TRUEUP_GUEST_VIA"), guestViaSSH)
}
func (a *app) viaPod() bool { return a.guestVia() == guestViaPod }

func (a *app) guestNamespace() string {
	return first(a.access.guestNamespace, a.env("TRUEUP_GUEST_NAMESPACE"), defaultGuestNamespace)
}

// checkGuestVia refuses what is no way, and flags that say nothing on the way that is used.
func (a *app) checkGuestVia() error {
	switch via := a.guestVia(); {
	case via != guestViaSSH && via != guestViaPod:
		return usageErrorf("--guest-via %q: it is %s or %s", via, guestViaSSH, guestViaPod)
	case via == guestViaSSH && a.access.guestImage+a.access.guestNamespace != "":
		return usageErrorf("--guest-image and --guest-namespace are for --guest-via %s", guestViaPod)
	}
	return nil
}

// waysIn are the ways into the guests of a cluster, by SSH or by pods.
func (a *app) waysIn(s *session) (guests, error) {
	if err := a.checkGuestVia(); err != nil {
		return nil, err
	}
	if !a.viaPod() {
		return a.sshGuests(s)
	}
	host := &sessionHost{session: s, options: kube.HostPodOptions{Namespace: a.guestNamespace(), Cluster: s.cluster.ID, Actor: a.actor(),
		Image: first(a.access.guestImage, a.env("TRUEUP_GUEST_IMAGE"), defaultGuestImage)}}
	return podGuests{guest.NewPods(host, guest.Timeouts{}), host, a}, nil
}

// podRights are the rights in Kubernetes that the way by pods needs; none where it is not used.
func (a *app) podRights() ([]kube.Right, error) {
	if err := a.checkGuestVia(); err != nil || !a.viaPod() {
		return nil, err
	}
	return kube.HostPodRights(a.guestNamespace()), nil
}

// podGuests are guests that are reached by pods.
type podGuests struct {
	*guest.Pods

	host *sessionHost
	app  *app
}

// Close removes the pods, and tells of those that it could not remove.
func (p podGuests) Close() error {
	err := p.Pods.Close()
	if err != nil {
		p.app.say("trueup: %s", oneLine(err.Error()))
	}
	return err
}

// prepare makes the pods by which the running machines are read, where that is the way: a start may take longer than a reading may.
func (s *session) prepare(ctx context.Context) {
	pods, ok := s.guests.(podGuests)
	if !ok {
		return
	}
	var targets []rollout.Target
	for _, vm := range s.cluster.VMs {
		if vm.Instance.Running() {
			targets = append(targets, s.targetOf(vm))
		}
	}
	pods.Prepare(ctx, targets)
}

// inherit lets the end of this run remove pods of a run before it that was killed, if this one has held the cluster's Lease.
func (s *session) inherit(outcome error) {
	pods, ok := s.guests.(podGuests)
	fault, isFault := errors.AsType[*rollout.Fault](outcome)
	if ok && (outcome == nil || isFault && fault.Node != "") {
		pods.host.inherit()
	}
}

// sessionHost runs programs on the nodes of the session's cluster, through its way to Kubernetes, which is opened after it.
type sessionHost struct {
	session *session
	options kube.HostPodOptions

	once sync.Once
	pods *kube.HostPods
}

// podMaker is a way to Kubernetes by which programs can be run in pods.
type podMaker interface {
	HostPods(o kube.HostPodOptions) *kube.HostPods
}

// open returns the pods, or why there is no way to have any.
func (h *sessionHost) open() (*kube.HostPods, error) {
	h.once.Do(func() {
		if maker, ok := h.session.kube.(podMaker); ok {
			h.pods = maker.HostPods(h.options)
		}
	})
	if h.pods == nil {
		return nil, fmt.Errorf("%w: a pod needs the Kubernetes API: %w", rollout.ErrUnreachable, h.session.kubeErr)
	}
	return h.pods, nil
}

func (h *sessionHost) inherit() {
	if pods, err := h.open(); err == nil {
		pods.Inherit()
	}
}

// Enter implements guest.Host.
func (h *sessionHost) Enter(ctx context.Context, node string) (string, error) {
	pods, err := h.open()
	if err != nil {
		return "", err
	}
	return pods.Enter(ctx, node)
}

// Exec implements guest.Host.
func (h *sessionHost) Exec(ctx context.Context, node string, program []string, stdin io.Reader, stdout, stderr io.Writer) error {
	pods, err := h.open()
	if err != nil {
		return err
	}
	return pods.Exec(ctx, node, program, stdin, stdout, stderr)
}

// Close implements guest.Host.
func (h *sessionHost) Close() error {
	pods, err := h.open()
	if err != nil {
		return nil //nolint:nilerr // none was made
	}
	return pods.Close()
}
