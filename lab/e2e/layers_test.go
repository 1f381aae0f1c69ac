package e2e

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cks-trueup/trueup/lab/cluster"
	"github.com/cks-trueup/trueup/lab/guest"
)

// claimAnnotation is documented in docs; a change of it would orphan claims on real Nodes.
const claimAnnotation = "cks-trueup.github.io/claim"

// layers is one node as each layer itself shows it.
type layers struct {
	QEMU       guest.Hardware
	OfferingID string // in CloudStack
	Guest      inGuest
	Node       inKubernetes
}

// inGuest is read in the guest.
type inGuest struct {
	CPUsOnline, CPUsPresent string // as sysfs has them: 0-3
	Processors              int    // in /proc/cpuinfo
	PodCPUs                 string // of the cgroup of all pods
	BlockMiB                int
	BlocksOnline            int
	BlocksOther             int
	MemTotalKiB             int
	BootID                  string
	PausePIDs               string        // of all containers of the lab's pods, with their sandboxes
	KubeletID               string        // systemd's InvocationID
	KubeletStart            time.Duration // since boot
	KubeletStarts           []string      // InvocationIDs of all starts in this boot, from the journal
	Online                  []guest.Arrival
}

// inKubernetes is read from the API server.
type inKubernetes struct {
	CPU, AllocatableCPU             int64 // whole CPUs
	MemoryKiB, AllocatableMemoryKiB int64
	Ready, Unschedulable, Claimed   bool
	BootID                          string
}

// read reads all nodes of the lab, all at once.
func (f *fixture) read(t testing.TB) map[string]layers {
	t.Helper()
	f.untilPodsAreGone(t)
	found := make([]layers, len(f.Nodes))
	group, ctx := errgroup.WithContext(t.Context())
	for i, node := range f.Nodes {
		group.Go(func() (err error) {
			found[i], err = f.readLayers(ctx, node)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	all := map[string]layers{}
	for i, node := range f.Nodes {
		all[node.Name()] = found[i]
	}
	return all
}

func (f *fixture) readLayers(ctx context.Context, node *cluster.Node) (layers, error) {
	hardware, hardwareErr := node.Hardware(ctx)
	vm, _ := f.Cloud.Model.VM(node.VMID())
	inside, guestErr := readGuest(ctx, node)
	object, nodeErr := f.Kube.CoreV1().Nodes().Get(ctx, node.Name(), metav1.GetOptions{})
	if err := errors.Join(hardwareErr, guestErr, nodeErr); err != nil {
		return layers{}, err
	}
	return layers{QEMU: hardware, OfferingID: vm.OfferingID, Guest: inside, Node: shown(object)}, nil
}

// guestScript prints key=value lines.
const guestScript = `
echo online=$(cat /sys/devices/system/cpu/online)
echo present=$(cat /sys/devices/system/cpu/present)
echo processors=$(grep -c ^processor /proc/cpuinfo)
echo pods=$(cat /sys/fs/cgroup/kubepods.slice/cpuset.cpus.effective)
echo block=$(cat /sys/devices/system/memory/block_size_bytes)
echo blocks=$(cat /sys/devices/system/memory/memory*/state | grep -cx online)
echo other=$(cat /sys/devices/system/memory/memory*/state | grep -cvx online)
echo total=$(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo)
echo boot=$(cat /proc/sys/kernel/random/boot_id)
echo pause=$(pgrep -d, -f '^/pause')
echo kubelet=$(systemctl show --property=InvocationID --value kubelet)
echo start=$(systemctl show --property=ExecMainStartTimestampMonotonic --value kubelet)
cat ` + guest.HotplugLog + "\n"

func readGuest(ctx context.Context, node *cluster.Node) (inGuest, error) {
	out, err := node.Run(ctx, guestScript)
	if err != nil {
		return inGuest{}, err
	}
	g, err := parseGuest(out)
	if err != nil {
		return g, fmt.Errorf("%s: %w", node.Name(), err)
	}
	g.KubeletStarts, err = node.UnitStarts(ctx, "kubelet.service")
	return g, err
}

func parseGuest(out string) (inGuest, error) {
	values := map[string]string{}
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[key] = value
	}
	var failed error
	number := func(key string, base int) int {
		n, err := strconv.ParseInt(values[key], base, 64)
		failed = errors.Join(failed, err)
		return int(n)
	}
	g := inGuest{
		CPUsOnline: values["online"], CPUsPresent: values["present"], Processors: number("processors", 10), PodCPUs: values["pods"],
		BlockMiB: number("block", 16) >> 20, BlocksOnline: number("blocks", 10), BlocksOther: number("other", 10),
		MemTotalKiB: number("total", 10), BootID: values["boot"], PausePIDs: values["pause"], KubeletID: values["kubelet"],
		KubeletStart: time.Duration(number("start", 10)) * time.Microsecond,
	}
	g.Online = guest.Arrivals(out)
	return g, failed
}

func inside(t testing.TB, node *cluster.Node, command string) string {
	t.Helper()
	out, err := node.Run(t.Context(), command)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

func recordHotplug(t testing.TB, node *cluster.Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), eventuallyTimeout)
	defer cancel()
	if err := node.RecordHotplug(ctx); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) readNode(t testing.TB, name string) inKubernetes {
	t.Helper()
	node, err := f.Kube.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return shown(node)
}

func shown(node *corev1.Node) inKubernetes {
	return inKubernetes{
		CPU: node.Status.Capacity.Cpu().Value(), AllocatableCPU: node.Status.Allocatable.Cpu().Value(),
		MemoryKiB: node.Status.Capacity.Memory().Value() >> 10, AllocatableMemoryKiB: node.Status.Allocatable.Memory().Value() >> 10,
		Ready: cluster.NodeReady(node), Unschedulable: node.Spec.Unschedulable, Claimed: node.Annotations[claimAnnotation] != "",
		BootID: node.Status.NodeInfo.BootID,
	}
}

// pods returns each pod of the lab with all that a restart, a recreation or a move would change.
func (f *fixture) pods(t testing.TB) map[string]string {
	t.Helper()
	list, err := f.Kube.CoreV1().Pods(cluster.PodNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, pod := range list.Items {
		text := fmt.Sprintf("%s %s on %s", pod.UID, pod.Status.Phase, pod.Spec.NodeName)
		for _, c := range pod.Status.ContainerStatuses {
			text += fmt.Sprintf(", %s restarts=%d ready=%t", c.ContainerID, c.RestartCount, c.Ready)
		}
		all[pod.Name] = text
	}
	if len(all) != f.Options.Pods {
		t.Fatalf("%d pods, want %d: %v", len(all), f.Options.Pods, all)
	}
	return all
}

// expectLeaseFree: nobody holds the Lease that keeps two rollouts apart, and no rollout is unfinished.
func (f *fixture) expectLeaseFree(t testing.TB) {
	t.Helper()
	if left := f.expectLeaseUnheld(t); len(left) > 0 {
		t.Errorf("the Lease has annotations %v, want none", left)
	}
}

// expectUnfinished: nobody holds the Lease, and the rollout that was stopped on its way hangs on it for whoever resumes.
func (f *fixture) expectUnfinished(t testing.TB) {
	t.Helper()
	if left := f.expectLeaseUnheld(t); left["cks-trueup.github.io/rollout"] == "" {
		t.Errorf("the Lease has annotations %v, want the unfinished rollout among them", left)
	}
}

// expectLeaseUnheld returns the annotations of a Lease that nobody holds.
func (f *fixture) expectLeaseUnheld(t testing.TB) map[string]string {
	t.Helper()
	lease, err := f.Kube.CoordinationV1().Leases("kube-system").Get(t.Context(), "trueup", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if holder := lease.Spec.HolderIdentity; holder != nil && *holder != "" {
		t.Errorf("the Lease is held by %q, want nobody", *holder)
	}
	return lease.Annotations
}
