package kube

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// maxEventMessage is the API's NoteLengthLimit for events, in bytes.
const maxEventMessage = 1024

// Record writes an Event about the Node. kubectl describe node shows events whose involved object has the Node's UID, as
// controllers write them, or its name in place of the UID, as kubelet does; the UID tells a Node from its successor.
func (c *Client) Record(ctx context.Context, event rollout.NodeEvent) error {
	what := call{verb: "create", resource: "events", namespace: metav1.NamespaceDefault}
	object := c.event(event)
	return c.once(ctx, what, func(ctx context.Context) error {
		_, err := c.core.Events(metav1.NamespaceDefault).Create(ctx, object, metav1.CreateOptions{FieldManager: rollout.FieldManager})
		return err
	})
}

func (c *Client) event(e rollout.NodeEvent) *corev1.Event {
	kind := corev1.EventTypeNormal
	if e.Warning {
		kind = corev1.EventTypeWarning
	}
	now := metav1.NewTime(c.clock.Now())
	return &corev1.Event{
		// Events about objects without a namespace live in "default": the API server demands it.
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: e.NodeName + "."},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Node", Name: e.NodeName, UID: types.UID(e.NodeUID),
		},
		Type: kind, Reason: e.Reason, Message: cut(e.Message, maxEventMessage),
		Source:              corev1.EventSource{Component: rollout.FieldManager},
		ReportingController: rollout.FieldManager,
		FirstTimestamp:      now, LastTimestamp: now, Count: 1,
	}
}

// cut shortens text to at most limit bytes without splitting a character.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "")
}
