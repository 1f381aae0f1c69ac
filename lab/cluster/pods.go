package cluster

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/watch"
)

const (
	// PodNamespace is where the lab's own pods are.
	PodNamespace = "default"
	// PodDeployment is the name of their Deployment.
	PodDeployment = "pause"
	podImage      = "lab.local/pause:1" // in every guest's image
	// podsTimeout is twelve times what four pods took at a load of 16 on two cores (49 s).
	podsTimeout = 10 * time.Minute
)

// startPods runs a Deployment of real pods and waits until all are available.
func (l *Lab) startPods(ctx context.Context) error {
	if l.Options.Pods == 0 {
		return nil
	}
	l.progress.sayf("%d pods", l.Options.Pods)
	ctx, cancel := context.WithTimeout(ctx, podsTimeout)
	defer cancel()
	if _, err := l.Kube.AppsV1().Deployments(PodNamespace).Create(ctx, pauseDeployment(l.Options.Pods), metav1.CreateOptions{}); err != nil {
		return err
	}
	only := fields.OneTermEqualSelector(metav1.ObjectNameField, PodDeployment)
	source := cache.NewListWatchFromClient(l.Kube.AppsV1().RESTClient(), "deployments", PodNamespace, only)
	_, err := watch.UntilWithSync(ctx, source, &appsv1.Deployment{}, nil, func(event apiwatch.Event) (bool, error) {
		seen, ok := event.Object.(*appsv1.Deployment)
		return ok && seen.Status.AvailableReplicas == *seen.Spec.Replicas, nil
	})
	if err != nil {
		return fmt.Errorf("lab: %d pods did not all become available: %w", l.Options.Pods, err)
	}
	l.progress.sayf("all pods run")
	return nil
}

// pauseDeployment spreads its pods over the workers, one more on each before a second on any; control nodes are tolerated, not preferred.
func pauseDeployment(replicas int) *appsv1.Deployment {
	labels := map[string]string{"app": PodDeployment}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: PodDeployment, Namespace: PodNamespace},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(replicas)), //nolint:gosec // Options.complete bounds it
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{{
						Name: "pause", Image: podImage, ImagePullPolicy: corev1.PullNever,
						Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
							corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("8Mi")}},
					}},
					TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
						MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
						LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
					}},
					Tolerations: []corev1.Toleration{{Key: "node-role.kubernetes.io/control-plane", Operator: corev1.TolerationOpExists}},
				},
			},
		},
	}
}
