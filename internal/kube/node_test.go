package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

func TestClaimConflictsWithAnyChange(t *testing.T) {
	c := newClient(t, Options{})
	name := makeNode(t)
	seen := readNode(t, c, name)
	kubectl(t, "label", "node", name, "example.org/touched=yes")

	patch := patchFor(seen)
	patch.Claim, patch.Unschedulable = new("claim"), new(true)
	if _, err := c.Patch(t.Context(), patch); !errors.Is(err, rollout.ErrConflict) {
		t.Fatalf("patch on an old resourceVersion: %v, want ErrConflict", err)
	}
	now := readNode(t, c, name)
	if now.Claim != "" || now.Unschedulable {
		t.Errorf("a lost race wrote something: %+v", now)
	}
}

func TestPatchRefusesAnotherNodeOfTheSameName(t *testing.T) {
	c := newClient(t, Options{})
	patch := patchFor(readNode(t, c, makeNode(t)))
	patch.UID, patch.Claim = "00000000-0000-0000-0000-000000000000", new("claim")
	if _, err := c.Patch(t.Context(), patch); !errors.Is(err, rollout.ErrConflict) {
		t.Errorf("patch with another uid: %v, want ErrConflict", err)
	}
}

func TestClaimCordonRelease(t *testing.T) {
	c := newClient(t, Options{})
	name := makeNode(t, func(n *corev1.Node) {
		n.Labels = map[string]string{"example.org/keep": "label"}
		n.Annotations = map[string]string{"example.org/keep": "annotation"}
		n.Spec.Taints = []corev1.Taint{{Key: "example.org/keep", Effect: corev1.TaintEffectNoSchedule}}
	})
	before := rawNode(t, name)

	claim := patchFor(readNode(t, c, name))
	claim.Claim, claim.Unschedulable, claim.ScaleDownDisabled = new("claim"), new(true), new(true)
	claimed, err := c.Patch(t.Context(), claim)
	if err != nil {
		t.Fatal(err)
	}
	if !claimed.Unschedulable || claimed.UnschedulableBy != rollout.FieldManager || claimed.Claim != "claim" || !claimed.ScaleDownDisabled {
		t.Errorf("after the claim: %+v", claimed)
	}
	if diff := cmp.Diff(claimed, readNode(t, c, name)); diff != "" {
		t.Errorf("Patch's answer (-) is not what a read shows (+):\n%s", diff)
	}

	release := patchFor(claimed)
	release.Claim, release.Unschedulable, release.ScaleDownDisabled = new(""), new(false), new(false)
	released, err := c.Patch(t.Context(), release)
	if err != nil {
		t.Fatal(err)
	}
	if released.Unschedulable || released.UnschedulableBy != "" || released.Claim != "" || released.ScaleDownDisabled {
		t.Errorf("after the release: %+v", released)
	}
	after := rawNode(t, name)
	after.ResourceVersion, after.ManagedFields = before.ResourceVersion, before.ManagedFields
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("claim and release left something behind (-before +after):\n%s", diff)
	}
}

func TestPatchLeavesTheRestAlone(t *testing.T) {
	c := newClient(t, Options{})
	name := makeNode(t)
	kubectl(t, "cordon", name)
	patch := patchFor(readNode(t, c, name))
	patch.Claim = new("claim")
	got, err := c.Patch(t.Context(), patch)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Unschedulable || got.UnschedulableBy == rollout.FieldManager || got.ScaleDownDisabled {
		t.Errorf("a patch of the claim alone changed schedulability or the scale-down mark: %+v", got)
	}
}

// The owner of spec.unschedulable is what tells our cordon from one that somebody made after lifting ours.
func TestCordonOwnerFollowsTheLastChange(t *testing.T) {
	c := newClient(t, Options{})
	name := makeNode(t)
	cordon := patchFor(readNode(t, c, name))
	cordon.Claim, cordon.Unschedulable = new("claim"), new(true)
	if _, err := c.Patch(t.Context(), cordon); err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		verb  string
		owner string
	}{
		{"cordon", rollout.FieldManager}, // of a cordoned node: kubectl writes nothing
		{"uncordon", ""},
		{"cordon", "kubectl"},
	}
	for _, step := range steps {
		kubectl(t, step.verb, name)
		got := readNode(t, c, name)
		if got.UnschedulableBy != step.owner {
			t.Errorf("after kubectl %s: owner %q, want %q", step.verb, got.UnschedulableBy, step.owner)
		}
		if got.Claim != "claim" {
			t.Errorf("after kubectl %s the claim is gone", step.verb)
		}
	}
}

// Kubelets change the Node all the time. Whoever reads again and decides again gets through.
func TestPatchesAmongKubeletPosts(t *testing.T) {
	c := newClient(t, Options{})
	name := makeNode(t)
	posts, stop := postStatus(t, name)

	receive(t, posts, "first post of the kubelet")
	patched(t, c, name, func(p *rollout.NodePatch) { p.Claim, p.Unschedulable = new("claim"), new(true) })
	receive(t, posts, "a post between claim and intent")
	patched(t, c, name, func(p *rollout.NodePatch) { p.Claim = new("claim with intent") })
	if got := readNode(t, c, name); !got.Unschedulable || got.Claim != "claim with intent" || got.UnschedulableBy != rollout.FieldManager {
		t.Errorf("claimed and cordoned: %+v", got)
	}
	receive(t, posts, "a post between intent and release")
	patched(t, c, name, func(p *rollout.NodePatch) { p.Claim, p.Unschedulable = new(""), new(false) })
	stop()
	got := readNode(t, c, name)
	if got.Unschedulable || got.Claim != "" {
		t.Errorf("released: %+v", got)
	}
	if !got.Ready.True() || got.Ready.Heartbeat.IsZero() {
		t.Errorf("our patches lost the kubelet's status: %+v", got.Ready)
	}
}

// patched reads and patches until no kubelet was faster, as the runner does, a bounded number of times.
func patched(t *testing.T, c *Client, name string, edit func(*rollout.NodePatch)) capacity.Node {
	t.Helper()
	const bound = 50
	for range bound {
		patch := patchFor(readNode(t, c, name))
		edit(&patch)
		node, err := c.Patch(t.Context(), patch)
		if err == nil {
			return node
		}
		if !errors.Is(err, rollout.ErrConflict) {
			t.Fatal(err)
		}
	}
	t.Fatalf("%d tries lost against the kubelet", bound)
	panic("unreachable")
}

// postStatus is a kubelet, with a kubelet's rights, that posts a changed status every few milliseconds until stopped.
func postStatus(t *testing.T, name string) (posts <-chan struct{}, stop func()) {
	t.Helper()
	kubelet := clientAs(t, Options{}, "system:node:"+name, "system:nodes")
	ctx, cancel := context.WithCancel(t.Context())
	posted, done := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for n := 1; ; n++ {
			body := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","message":"post %d","lastHeartbeatTime":%q}]}}`,
				n, time.Unix(int64(n), 0).UTC().Format(time.RFC3339))
			_, err := kubelet.core.Nodes().Patch(ctx, name, types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{}, "status")
			if ctx.Err() != nil {
				done <- nil
				return
			}
			if err != nil {
				done <- err
				return
			}
			wake(posted)
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}()
	return posted, func() {
		cancel()
		if err := receive(t, done, "end of the kubelet's posts"); err != nil {
			t.Errorf("the kubelet could not post: %v", err)
		}
	}
}

func TestMarksOnARealNode(t *testing.T) {
	c := newClient(t, Options{})
	name := makeNode(t)
	kubectl(t, "taint", "node", name, "ToBeDeletedByClusterAutoscaler=1700000000:NoSchedule")
	kubectl(t, "annotate", "node", name, "talos.dev/cordoned=true")
	want := []capacity.Mark{{Tool: "cluster autoscaler", Key: "ToBeDeletedByClusterAutoscaler"}, {Tool: "Talos", Key: "talos.dev/cordoned"}}
	if diff := cmp.Diff(want, readNode(t, c, name).Marks); diff != "" {
		t.Errorf("marks (-want +got):\n%s", diff)
	}
}

func TestDeletionShows(t *testing.T) {
	c := newClient(t, Options{})
	name := makeNode(t, func(n *corev1.Node) { n.Finalizers = []string{"example.org/wait"} })
	kubectl(t, "delete", "node", name, "--wait=false")
	if !readNode(t, c, name).Deleting {
		t.Error("a Node with a deletionTimestamp does not show as being deleted")
	}
	kubectl(t, "patch", "node", name, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	if _, err := c.Node(t.Context(), name); !errors.Is(err, rollout.ErrNotFound) {
		t.Errorf("a Node that is gone: %v, want ErrNotFound", err)
	}
}

func TestNodesListsAll(t *testing.T) {
	c := newClient(t, Options{})
	want := map[string]bool{makeNode(t): true, makeNode(t): true}
	nodes, err := c.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if want[n.Name] {
			if diff := cmp.Diff(readNode(t, c, n.Name), n); diff != "" {
				t.Errorf("listed Node differs from the one read (-read +listed):\n%s", diff)
			}
		}
		delete(want, n.Name)
	}
	if len(want) > 0 {
		t.Errorf("not listed: %v", want)
	}
}

func TestEventShowsInKubectlDescribe(t *testing.T) {
	c := newClient(t, Options{})
	n := readNode(t, c, makeNode(t))
	long := "CloudStack refused the offering: " + strings.Repeat("ä", maxEventMessage)
	for _, e := range []rollout.NodeEvent{
		{NodeName: n.Name, NodeUID: n.UID, Reason: "TrueupResize", Message: "2 CPU / 4096 MiB to 4 CPU / 8192 MiB"},
		{NodeName: n.Name, NodeUID: n.UID, Reason: "TrueupFault", Message: long, Warning: true},
	} {
		if err := c.Record(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	described := kubectl(t, "describe", "node", n.Name)
	for _, want := range []string{"TrueupResize", "2 CPU / 4096 MiB to 4 CPU / 8192 MiB", "Warning", "TrueupFault", rollout.FieldManager} {
		if !strings.Contains(described, want) {
			t.Errorf("kubectl describe node does not show %q:\n%s", want, described)
		}
	}
}

func TestCutKeepsWholeCharacters(t *testing.T) {
	for _, tt := range []struct{ text, want string }{{"abc", "abc"}, {"abcde", "abcd"}, {"abcä", "abc"}, {"ääää", "ää"}} {
		if got := cut(tt.text, 4); got != tt.want {
			t.Errorf("cut(%q, 4) = %q, want %q", tt.text, got, tt.want)
		}
	}
}

func rawNode(t *testing.T, name string) *corev1.Node {
	t.Helper()
	n, err := admin(t).CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
