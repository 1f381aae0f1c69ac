package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/watch"

	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/lab/control"
	"github.com/cks-trueup/trueup/lab/guest"
)

// connect makes the administrator's client and kubeconfig.
func (l *Lab) connect() error {
	config, err := l.Plane.RESTConfig()
	if err != nil {
		return err
	}
	if l.Kube, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	kubeconfig, err := l.Plane.AdminKubeconfig("127.0.0.1")
	if err != nil {
		return err
	}
	return os.WriteFile(l.KubeconfigPath(), kubeconfig, 0o600)
}

// KubeconfigPath is the administrator's kubeconfig, for use on this machine.
func (l *Lab) KubeconfigPath() string { return filepath.Join(l.Options.Dir, "kubeconfig") }

// SSHKeyPath is the private key for guest.User on all guests.
func (l *Lab) SSHKeyPath() string { return l.login.keyPath() }

// KnownHostsPath is a known_hosts file whose host names are VM ids.
func (l *Lab) KnownHostsPath() string { return l.login.knownHostsPath() }

// startGuests boots all guests at once. Names are those that CKS gives: cluster, role, index.
func (l *Lab) startGuests(ctx context.Context) error {
	for index := range l.Options.Control + l.Options.Workers {
		isControl := index < l.Options.Control
		name := fmt.Sprintf("%s-control-%d", l.Options.Name, index+1)
		if !isControl {
			name = fmt.Sprintf("%s-node-%d", l.Options.Name, index-l.Options.Control+1)
		}
		node, err := l.startGuest(ctx, name, index, isControl)
		if err != nil {
			return err
		}
		l.Nodes = append(l.Nodes, node)
	}
	for index := range l.Options.Etcd {
		name := fmt.Sprintf("%s-etcd-%d", l.Options.Name, index+1)
		started, err := l.startEtcd(ctx, name, len(l.Nodes)+index)
		if err != nil {
			return err
		}
		l.Etcd = append(l.Etcd, started)
	}
	return nil
}

func (l *Lab) startEtcd(ctx context.Context, name string, index int) (*guest.Guest, error) {
	spec := guest.Spec{
		Name: name, VMID: uuid.NewString(), Index: index, ImageDir: l.Options.Artifacts.Image, Etcd: true,
		Size: size(standin.Boot{VCPUs: etcdVCPUs, MemoryMiB: etcdMemoryMiB, Scalable: true}),
	}
	var programs guest.Etcd
	for path, body := range map[string]*[]byte{"etcd": &programs.Server, "etcdctl": &programs.Client} {
		var err error
		if *body, err = os.ReadFile(filepath.Join(l.Options.Artifacts.Kubernetes, path)); err != nil {
			return nil, err
		}
	}
	return l.boot(ctx, spec, func(identity *guest.Identity, keys guest.Keys) ([]byte, error) {
		return guest.EtcdSeed(spec, identity, keys, programs)
	})
}

// boot starts a guest with an identity of its own.
func (l *Lab) boot(ctx context.Context, spec guest.Spec, seed func(*guest.Identity, guest.Keys) ([]byte, error)) (*guest.Guest, error) {
	identity, err := guest.NewIdentity()
	if err != nil {
		return nil, err
	}
	body, err := seed(identity, guest.Keys{User: l.login.public, Admin: l.login.admin.PublicKey()})
	if err != nil {
		return nil, err
	}
	return guest.Start(ctx, l.starter, filepath.Join(l.Options.Dir, "guests", spec.Name),
		guest.Boot{Spec: spec, Identity: identity, Admin: l.login.admin, Seed: body})
}

func (l *Lab) startGuest(ctx context.Context, name string, index int, isControl bool) (*Node, error) {
	spec := guest.Spec{
		Name: name, VMID: uuid.NewString(), Index: index, ImageDir: l.Options.Artifacts.Image,
		Size: size(standin.Boot{VCPUs: l.Options.VCPUs, MemoryMiB: l.Options.MemoryMiB, Scalable: true}),
	}
	kubelet, err := l.kubelet(spec, isControl)
	if err != nil {
		return nil, err
	}
	started, err := l.boot(ctx, spec, func(identity *guest.Identity, keys guest.Keys) ([]byte, error) {
		return guest.Seed(spec, identity, keys, kubelet)
	})
	if err == nil {
		l.Plane.Reach(net.JoinHostPort(spec.Address(), strconv.Itoa(guest.KubeletPort)), started.KubeletPort)
	}
	return &Node{Guest: started, Control: isControl}, err
}

func (l *Lab) kubelet(spec guest.Spec, isControl bool) (guest.Kubelet, error) {
	credentials, err := l.Plane.NodeCredentials(spec.Name, spec.Address())
	if err != nil {
		return guest.Kubelet{}, err
	}
	kubelet := guest.Kubelet{
		CA: credentials.CA, Kubeconfig: credentials.Kubeconfig,
		ServingCert: credentials.ServingCert, ServingKey: credentials.ServingKey,
		StatusFrequency: l.Options.Status,
	}
	if isControl {
		kubelet.AdminKubeconfig, err = l.Plane.AdminKubeconfig(control.HostInGuests)
	}
	return kubelet, err
}

// waitReady waits, by a watch, until the Node is there and Ready, and marks control nodes as kubeadm does.
func (l *Lab) waitReady(ctx context.Context, node *Node) error {
	if err := l.waitNode(ctx, node, func(*corev1.Node) bool { return true }); err != nil {
		return err
	}
	if err := l.markRole(ctx, node); err != nil {
		return err
	}
	if err := l.waitNode(ctx, node, NodeReady); err != nil {
		return err
	}
	l.progress.sayf("%s: Node is Ready", node.Name())
	return nil
}

func (l *Lab) waitNode(ctx context.Context, node *Node, met func(*corev1.Node) bool) error {
	// A guest that ends needs no more waiting, and one that hangs is reset.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go node.Guard(ctx)
	go func() {
		select {
		case <-node.Process.Done():
			cancel(node.Process.Err())
		case <-ctx.Done():
		}
	}()
	only := fields.OneTermEqualSelector(metav1.ObjectNameField, node.Name())
	source := cache.NewListWatchFromClient(l.Kube.CoreV1().RESTClient(), "nodes", "", only)
	_, err := watch.UntilWithSync(ctx, source, &corev1.Node{}, nil, func(event apiwatch.Event) (bool, error) {
		seen, ok := event.Object.(*corev1.Node)
		return ok && event.Type != apiwatch.Deleted && met(seen), nil
	})
	if err != nil {
		return fmt.Errorf("guest %s: no Ready Node: %w; the end of its console:\n%s", node.Name(), errors.Join(context.Cause(ctx), err), node.LastWords())
	}
	return nil
}

// NodeReady tells whether the Node is Ready.
func NodeReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// markRole gives a control node kubeadm's label and taint; a worker gets nothing, as in CKS.
func (l *Lab) markRole(ctx context.Context, node *Node) error {
	if !node.Control {
		return nil
	}
	const role = "node-role.kubernetes.io/control-plane"
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:""}},"spec":{"taints":[{"key":%q,"effect":"NoSchedule"}]}}`, role, role)
	_, err := l.Kube.CoreV1().Nodes().Patch(ctx, node.Name(), types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}
