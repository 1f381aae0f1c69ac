package kube

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
	podresource "k8s.io/component-helpers/resource"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// Pods reads all pods that are bound to the Node, finished ones included, in the API server's order: by namespace and name. Those that lead trueup
// itself into the node are left out: they come and go with it.
func (c *Client) Pods(ctx context.Context, node string) ([]capacity.Pod, error) {
	list, err := c.podsOn(ctx, node)
	if err != nil {
		return nil, err
	}
	pods := make([]capacity.Pod, 0, len(list))
	for i := range list {
		if !isHostPod(&list[i]) {
			pods = append(pods, convertPod(&list[i]))
		}
	}
	return pods, nil
}

// podsOn lists the pods that are bound to the Node: the API server selects them.
func (c *Client) podsOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	var list *corev1.PodList
	selector := fields.OneTermEqualSelector("spec.nodeName", node).String()
	err := c.read(ctx, call{verb: "list", resource: "pods"}, func(ctx context.Context) (err error) {
		list, err = c.core.Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: selector})
		return err
	})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func convertPod(p *corev1.Pod) capacity.Pod {
	out := capacity.Pod{UID: string(p.UID), Namespace: p.Namespace, Name: p.Name, Phase: string(p.Status.Phase), Reason: p.Status.Reason,
		Probed: probed(p), Deleting: p.DeletionTimestamp != nil, Static: p.Annotations[corev1.MirrorPodAnnotationKey] != "", LocalData: localData(p)}
	if owner := metav1.GetControllerOf(p); owner != nil {
		out.Controller = owner.Kind
	}
	requests := podresource.PodRequests(p, podresource.PodResourcesOptions{UseStatusResources: true})
	out.MilliCPU, out.Memory = requests.Cpu().MilliValue(), requests.Memory().Value()
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			out.Ready = c.Status == corev1.ConditionTrue
		}
	}
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		out.Restarts += int(s.RestartCount)
	}
	return out
}

// localData tells whether the pod has a volume whose data goes with it.
func localData(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.EmptyDir != nil })
}

// AllPods reads the pods of all Nodes, by the Node's name. A pod that is bound to none is left out.
func (c *Client) AllPods(ctx context.Context) (map[string][]capacity.Pod, error) {
	var pods []corev1.Pod
	err := c.read(ctx, call{verb: "list", resource: "pods"}, func(ctx context.Context) error {
		pods = nil
		return pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return c.core.Pods(metav1.NamespaceAll).List(ctx, o)
		}).EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
			if pod, is := o.(*corev1.Pod); is {
				pods = append(pods, *pod)
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	out := map[string][]capacity.Pod{}
	for i := range pods {
		if node := pods[i].Spec.NodeName; node != "" {
			out[node] = append(out[node], convertPod(&pods[i]))
		}
	}
	return out, nil
}

// probed tells whether a container has a readiness probe. Of init containers only those that go on running may have one.
func probed(p *corev1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(p.Spec.InitContainers, p.Spec.Containers), func(c corev1.Container) bool { return c.ReadinessProbe != nil })
}
