package kube

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/cks-trueup/trueup/internal/rollout"
)

const manifest = "../../packaging/rbac.yaml"

const serviceAccount = "system:serviceaccount:kube-system:trueup"

// right is one verb on one resource in one namespace; an empty namespace is the whole cluster.
type right struct{ namespace, group, resource, name, verb string }

func (r right) String() string {
	return strings.TrimSpace(r.verb + " " + r.resource + " " + r.namespace)
}

// grantedRights reads every right out of the manifest.
func grantedRights(t *testing.T) []right {
	t.Helper()
	data, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	var rights []right
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return rights
		}
		if err != nil {
			t.Fatal(err)
		}
		var role rbacv1.Role // a ClusterRole has the same rules
		if err := yaml.Unmarshal(document, &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			rights = append(rights, rightsOf(role.Namespace, rule)...)
		}
	}
}

func rightsOf(namespace string, rule rbacv1.PolicyRule) []right {
	var rights []right
	name := ""
	if len(rule.ResourceNames) > 0 {
		name = rule.ResourceNames[0]
	}
	for _, verb := range rule.Verbs {
		rights = append(rights, right{namespace, rule.APIGroups[0], rule.Resources[0], name, verb})
	}
	return rights
}

// exercises is one use of the port for each right.
func exercises(node string) map[string]func(context.Context, *Client) error {
	return map[string]func(context.Context, *Client) error{
		"get nodes":   func(ctx context.Context, c *Client) error { _, err := c.Node(ctx, node); return err },
		"list nodes":  func(ctx context.Context, c *Client) error { _, err := c.Nodes(ctx); return err },
		"list pods":   func(ctx context.Context, c *Client) error { _, err := c.Pods(ctx, node); return err },
		"watch nodes": func(ctx context.Context, c *Client) error { _, err := c.Watch(ctx, node); return err },
		"patch nodes": func(ctx context.Context, c *Client) error {
			// A resourceVersion of the past is refused as a conflict, but only after authorisation.
			_, err := c.Patch(ctx, rollout.NodePatch{Name: node, UID: "u", ResourceVersion: "1", Claim: new("c")})
			if errors.Is(err, rollout.ErrConflict) {
				return nil
			}
			return err
		},
		"get leases kube-system":    func(ctx context.Context, c *Client) error { _, err := c.Holder(ctx); return err },
		"create leases kube-system": acquireAndForget, // without a Lease
		"patch leases kube-system":  acquireAndForget, // of a free Lease
		"create events default": func(ctx context.Context, c *Client) error {
			return c.Record(ctx, rollout.NodeEvent{NodeName: node, NodeUID: "u", Reason: "Test", Message: "m"})
		},
	}
}

func acquireAndForget(ctx context.Context, c *Client) error {
	l := c.Lock()
	_, err := l.Acquire(ctx, rollout.LeaseState{Run: "run-rbac"})
	if err == nil {
		l.held.end()
	}
	return err
}

// The manifest's service account can do the whole of a rollout, with the Node and RBAC authorisers of a real cluster.
func TestManifestIsEnough(t *testing.T) {
	noLease(t)
	kubectl(t, "apply", "-f", manifest)
	awaitRights(t, serviceAccount, grantedRights(t))
	clock := newHandClock()
	c := clientAs(t, Options{Clock: clock}, serviceAccount)
	name := makeNode(t)

	lock := c.Lock()
	tenure, err := lock.Acquire(t.Context(), rollout.LeaseState{Run: "run-rbac"})
	if err != nil {
		t.Fatal(err)
	}
	clock.step(t)
	clock.settle(t)
	if got := rawLease(t).Spec.RenewTime; !got.Time.Equal(clock.Now()) {
		t.Errorf("not renewed: %s", got)
	}
	if err := lock.Check(t.Context(), tenure); err != nil {
		t.Error(err)
	}
	if _, err := c.Nodes(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := c.Watch(t.Context(), name); err != nil {
		t.Error(err)
	}
	if _, err := c.Pods(t.Context(), name); err != nil {
		t.Error(err)
	}
	n := patched(t, c, name, func(p *rollout.NodePatch) { p.Claim, p.Unschedulable = new("claim"), new(true) })
	if err := c.Record(t.Context(), rollout.NodeEvent{NodeName: name, NodeUID: n.UID, Reason: "Test", Message: "m"}); err != nil {
		t.Error(err)
	}
	patched(t, c, name, func(p *rollout.NodePatch) { p.Claim, p.Unschedulable = new(""), new(false) })
	if err := lock.Release(t.Context(), tenure, true); err != nil {
		t.Error(err)
	}
	if err := c.Record(t.Context(), rollout.NodeEvent{NodeName: name, NodeUID: n.UID, Reason: "Test", Message: "m"}); err != nil {
		t.Error(err)
	}
}

// Every right of the manifest is needed: without it, exactly its use is denied, by name.
func TestEachRightIsNeeded(t *testing.T) {
	node := makeNode(t)
	granted := grantedRights(t)
	uses := exercises(node)
	if len(granted) != len(uses) {
		t.Fatalf("the manifest grants %d rights, the tests know %d", len(granted), len(uses))
	}
	for i, missing := range granted {
		t.Run("without "+missing.String(), func(t *testing.T) {
			noLease(t)
			if missing.verb == "patch" && missing.resource == "leases" {
				freeLease(t)
			}
			user := fmt.Sprintf("least-%d", i)
			rest := slices.Delete(slices.Clone(granted), i, i+1)
			grant(t, user, rest)
			awaitRights(t, user, rest)
			use, known := uses[missing.String()]
			if !known {
				t.Fatalf("no test uses %s", missing)
			}
			err := use(t.Context(), clientAs(t, Options{}, user))
			checkSentinel(t, err, rollout.ErrDenied)
			for _, want := range []string{missing.verb, missing.resource, "docs/rbac.md"} {
				if err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("%v does not name %s", err, want)
				}
			}
			for _, other := range []string{"get nodes", "list nodes", "watch nodes", "patch nodes", "list pods", "create events default"} {
				if other == missing.String() {
					continue
				}
				if err := uses[other](t.Context(), clientAs(t, Options{}, user)); err != nil {
					t.Errorf("without %s, %s fails: %v", missing, other, err)
				}
			}
		})
	}
}

// freeLease leaves a Lease that nobody holds.
func freeLease(t *testing.T) {
	t.Helper()
	l := newClient(t, Options{}).Lock()
	tenure, err := l.Acquire(t.Context(), rollout.LeaseState{Run: "run-before"})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Release(t.Context(), tenure, true); err != nil {
		t.Fatal(err)
	}
}

// grant gives the user the rights, by one role in each namespace.
func grant(t *testing.T, user string, rights []right) {
	t.Helper()
	rbac := admin(t).RbacV1()
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
	rules := map[string][]rbacv1.PolicyRule{}
	for _, r := range rights {
		rule := rbacv1.PolicyRule{APIGroups: []string{r.group}, Resources: []string{r.resource}, Verbs: []string{r.verb}}
		if r.name != "" {
			rule.ResourceNames = []string{r.name}
		}
		rules[r.namespace] = append(rules[r.namespace], rule)
	}
	for namespace, rules := range rules {
		meta := metav1.ObjectMeta{Name: user, Namespace: namespace}
		var err error
		if namespace == "" {
			_, err = rbac.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
			fatal(t, err)
			ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user}
			_, err = rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}, metav1.CreateOptions{})
		} else {
			_, err = rbac.Roles(namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
			fatal(t, err)
			ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user}
			_, err = rbac.RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}, metav1.CreateOptions{})
		}
		fatal(t, err)
	}
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// awaitRights waits until the API server's RBAC cache has the new roles; there is nothing to watch for that but its answers.
func awaitRights(t *testing.T, user string, rights []right) {
	t.Helper()
	reviews := admin(t).AuthorizationV1().SubjectAccessReviews()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(soon)
	for _, r := range rights {
		for allowed := false; !allowed; {
			review, err := reviews.Create(t.Context(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: user,
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: r.namespace, Verb: r.verb, Group: r.group, Resource: r.resource, Name: r.name,
				},
			}}, metav1.CreateOptions{})
			fatal(t, err)
			if allowed = review.Status.Allowed; allowed {
				break
			}
			select {
			case <-tick.C:
			case <-deadline:
				t.Fatalf("%s has no right to %s", user, r)
			}
		}
	}
}
