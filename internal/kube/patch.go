package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// Patch applies the patch in one request that the API server refuses with a conflict if the Node has changed since
// patch.ResourceVersion or is another Node of the same name. It is sent once: after ErrUnreachable the caller looks.
func (c *Client) Patch(ctx context.Context, patch rollout.NodePatch) (capacity.Node, error) {
	what := call{verb: "patch", resource: "nodes", name: patch.Name}
	body, err := encodePatch(patch)
	if err != nil {
		return capacity.Node{}, fmt.Errorf("%s: %w", what, err)
	}
	var node *corev1.Node
	err = c.once(ctx, what, func(ctx context.Context) (err error) {
		node, err = c.core.Nodes().Patch(ctx, patch.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: rollout.FieldManager})
		return err
	})
	if err != nil {
		return capacity.Node{}, err
	}
	return convertNode(node), nil
}

// encodePatch returns the JSON merge patch: the two preconditions and what was asked for, nothing else.
func encodePatch(p rollout.NodePatch) ([]byte, error) {
	if p.Name == "" || p.UID == "" || p.ResourceVersion == "" {
		return nil, errors.New("a patch needs the name, uid and resourceVersion of the Node that it was decided on")
	}
	metadata := map[string]any{"uid": p.UID, "resourceVersion": p.ResourceVersion}
	if annotations := patchAnnotations(p); len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	body := map[string]any{"metadata": metadata}
	if p.Unschedulable != nil {
		body["spec"] = map[string]any{"unschedulable": trueOrNull(*p.Unschedulable)}
	}
	if len(metadata) == 2 && len(body) == 1 {
		return nil, errors.New("a patch that changes nothing")
	}
	return json.Marshal(body)
}

func patchAnnotations(p rollout.NodePatch) map[string]any {
	annotations := map[string]any{}
	if p.Claim != nil {
		annotations[rollout.ClaimAnnotation] = textOrNull(*p.Claim)
	}
	if p.ScaleDownDisabled != nil {
		text := ""
		if *p.ScaleDownDisabled {
			text = "true"
		}
		annotations[scaleDownDisabled] = textOrNull(text)
	}
	return annotations
}

// trueOrNull clears a field with null, as kubectl uncordon does: absent is the API's way to say schedulable.
func trueOrNull(b bool) any {
	if b {
		return true
	}
	return nil
}

func textOrNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}
