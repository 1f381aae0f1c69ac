package kube

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/cks-trueup/trueup/internal/rollout"
)

const serviceAccount = "system:serviceaccount:kube-system:trueup"

// manifest is what `trueup rights rbac` prints.
func manifest(t *testing.T, to Subjects, changes bool) []byte {
	t.Helper()
	text, err := RBAC(to, changes, "1.2.3")
	fatal(t, err)
	return text
}

// leastUser is who all tests of the package are: a user with what the manifest gives, and nothing else.
const leastUser = "trueup"

// prepareLeastUser gives the user the manifest's rights.
func prepareLeastUser(ctx context.Context) error {
	text, err := RBAC(Subjects{Users: []string{leastUser}}, true, "1.2.3")
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "rbac")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "rbac.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	if _, err := runKubectl("apply", "--validate=strict", "-f", file); err != nil {
		return err
	}
	as, err := kubernetes.NewForConfig(apiServer.Config)
	if err != nil {
		return err
	}
	return haveRights(ctx, as, leastUser, Rights())
}

// object is any object of the manifest.
type object struct {
	metav1.TypeMeta
	metav1.ObjectMeta `json:"metadata"`

	Rules    []rbacv1.PolicyRule
	Subjects []rbacv1.Subject
	RoleRef  rbacv1.RoleRef
}

// objects reads the manifest as the API server does: strictly.
func objects(t *testing.T, manifest []byte) (out []object) {
	t.Helper()
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return out
		}
		fatal(t, err)
		var o object
		fatal(t, yaml.UnmarshalStrict(document, &o))
		out = append(out, o)
	}
}

// granted are the rights that the manifest gives by its roles.
func granted(t *testing.T, manifest []byte) (rights []string) {
	t.Helper()
	for _, o := range objects(t, manifest) {
		for _, rule := range o.Rules {
			if len(rule.APIGroups) != 1 || len(rule.Resources) != 1 || len(rule.ResourceNames) > 1 || rule.NonResourceURLs != nil {
				t.Errorf("%+v", rule)
			}
			for _, verb := range rule.Verbs {
				r := Right{Verb: verb, Group: rule.APIGroups[0], Resource: rule.Resources[0], Namespace: o.Namespace}
				if rule.ResourceNames != nil {
					r.Name = rule.ResourceNames[0]
				}
				rights = append(rights, described(r))
			}
		}
	}
	slices.Sort(rights)
	return rights
}

func described(r Right) string { return fmt.Sprintf("%s (group %q)", r, r.Group) }

// wanted are the rights of the list, or those of them that look.
func wanted(changes bool) (rights []Right) {
	return slices.DeleteFunc(Rights(), func(r Right) bool { return !changes && !r.Looks })
}

// The manifest gives exactly the rights of the list, to exactly the subjects, each role by its binding.
func TestManifest(t *testing.T) {
	for name, changes := range map[string]bool{"trueup": true, "trueup-look": false} {
		text := manifest(t, Subjects{Users: []string{"ann"}, Groups: []string{"ops: \"night\""}, ServiceAccounts: []string{"tools/scaler"}}, changes)
		var want []string
		for _, r := range wanted(changes) {
			want = append(want, described(r))
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, granted(t, text)); diff != "" {
			t.Errorf("%s (-list +manifest):\n%s", name, diff)
		}
		roles, bindings := map[string]bool{}, map[string]bool{}
		for _, o := range objects(t, text) {
			key := strings.TrimSuffix(o.Kind, "Binding") + " " + o.Namespace
			switch {
			case o.Kind == "ServiceAccount":
				if o.APIVersion != "v1" || o.Namespace != "tools" || o.Name != "scaler" {
					t.Errorf("%+v", o)
				}
			case strings.HasSuffix(o.Kind, "Binding"):
				bindings[key] = true
				if o.RoleRef.Kind+" "+o.Namespace != key || o.RoleRef.Name != name || o.Name != name {
					t.Errorf("%+v", o)
				}
				const group = "rbac.authorization.k8s.io"
				if diff := cmp.Diff([]rbacv1.Subject{{Kind: "User", APIGroup: group, Name: "ann"}, {Kind: "Group", APIGroup: group, Name: "ops: \"night\""},
					{Kind: "ServiceAccount", Namespace: "tools", Name: "scaler"}}, o.Subjects); diff != "" {
					t.Error(diff)
				}
			default:
				roles[key] = true
			}
		}
		if diff := cmp.Diff(roles, bindings); diff != "" || len(roles) < 2 {
			t.Errorf("roles and bindings: %s", diff)
		}
		if !strings.HasPrefix(string(text), "# What trueup 1.2.3 needs ") {
			t.Errorf("it does not name its version: %.60s", text)
		}
	}
}

func TestManifestRefusesSubjects(t *testing.T) {
	for _, to := range []Subjects{{}, {Users: []string{""}}, {Groups: []string{""}}, {ServiceAccounts: []string{"trueup"}}, {ServiceAccounts: []string{"a/b/c"}},
		{ServiceAccounts: []string{"/trueup"}}, {ServiceAccounts: []string{"kube-system/"}}, {ServiceAccounts: []string{"Kube/true up"}}} {
		if text, err := RBAC(to, true, "1.2.3"); err == nil {
			t.Errorf("%+v: %s", to, text)
		}
	}
}

// Every request that the client can make is one of the list, or one that every user may make, and the list has no other.
func TestRightsAreTheRequests(t *testing.T) {
	requests := requestsInCode(t)
	for _, open := range []string{"get /readyz", "create selfsubjectaccessreviews"} {
		if !requests[open] {
			t.Errorf("%s is not requested", open)
		}
		delete(requests, open)
	}
	requests["get pods/exec"] = true // the same as create by another method: a refusal is told as that of create
	listed := map[string]bool{}
	for _, r := range slices.Concat(Rights(), HostPodRights("n"), ColdRights()) {
		listed[r.Verb+" "+r.Resource] = true
		if r.For == "" || r.Without == "" {
			t.Errorf("%s is not explained", r)
		}
	}
	if diff := cmp.Diff(requests, listed); diff != "" {
		t.Errorf("requests (-code +Rights):\n%s", diff)
	}
}

// requestsInCode finds what requests are called in the package: every request has a call, by which its errors name it.
func requestsInCode(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("*.go")
	fatal(t, err)
	requests := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || name == "rights.go" {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		fatal(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				if kind, is := n.Type.(*ast.Ident); is && kind.Name == "call" {
					if verb := literal(field(n, "verb")); verb != "" { // else leaseCall's own
						requests[verb+" "+literal(field(n, "resource"))] = true
					}
				}
			case *ast.CallExpr:
				if f, is := n.Fun.(*ast.Ident); is && f.Name == "leaseCall" {
					requests[literal(n.Args[0])+" leases"] = true
				}
			}
			return true
		})
	}
	return requests
}

func field(l *ast.CompositeLit, name string) ast.Expr {
	for _, e := range l.Elts {
		if pair, is := e.(*ast.KeyValueExpr); is && pair.Key.(*ast.Ident).Name == name {
			return pair.Value
		}
	}
	return nil
}

func literal(e ast.Expr) string {
	if l, is := e.(*ast.BasicLit); is {
		return strings.Trim(l.Value, `"`)
	}
	return ""
}

// docs/rbac.md has one row for each right, in the order of the list.
func TestRightsAreExplained(t *testing.T) {
	var rows strings.Builder
	for _, r := range Rights() {
		where, look := "cluster", "no"
		if r.Namespace != "" {
			where = r.Namespace
		}
		if r.Name != "" {
			where += ", only `" + r.Name + "`"
		}
		if r.Looks {
			look = "yes"
		}
		fmt.Fprintf(&rows, "| %s %s | %s | %s | %s | %s |\n", r.Verb, r.Resource, where, look, r.For, r.Without)
	}
	text, err := os.ReadFile("../../docs/rbac.md")
	fatal(t, err)
	if !strings.Contains(string(text), "|---|---|---|---|---|\n"+rows.String()+"\n") {
		t.Errorf("docs/rbac.md must have these rows and no others:\n%s", rows.String())
	}
}

// So have the tables of what the way by pods needs, and the cold method.
func TestFurtherRightsAreExplained(t *testing.T) {
	text, err := os.ReadFile("../../docs/rbac.md")
	fatal(t, err)
	for _, rights := range [][]Right{HostPodRights("n"), ColdRights()} {
		var rows strings.Builder
		for _, r := range rights {
			fmt.Fprintf(&rows, "| %s %s | %s | %s |\n", r.Verb, r.Resource, r.For, r.Without)
		}
		if !strings.Contains(string(text), "|---|---|---|\n"+rows.String()+"\n") {
			t.Errorf("docs/rbac.md must have these rows and no others:\n%s", rows.String())
		}
	}
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
		"get leases":    func(ctx context.Context, c *Client) error { _, err := c.Holder(ctx); return err },
		"create leases": acquireAndForget, // without a Lease
		"patch leases":  acquireAndForget, // of a free Lease
		"create events": func(ctx context.Context, c *Client) error {
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
	file := filepath.Join(t.TempDir(), "rbac.yaml")
	fatal(t, os.WriteFile(file, manifest(t, Subjects{Users: []string{leastUser}, ServiceAccounts: []string{"kube-system/trueup"}}, true), 0o600))
	kubectl(t, "apply", "--validate=strict", "-f", file)
	awaitRights(t, serviceAccount, Rights())
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
	rights, uses := Rights(), exercises(node)
	if len(rights) != len(uses) {
		t.Fatalf("there are %d rights, the tests know %d", len(rights), len(uses))
	}
	for i, missing := range rights {
		t.Run("without "+missing.String(), func(t *testing.T) {
			noLease(t)
			if missing.Verb == "patch" && missing.Resource == "leases" {
				freeLease(t)
			}
			user := fmt.Sprintf("least-%d", i)
			rest := slices.Delete(slices.Clone(rights), i, i+1)
			grant(t, user, rest)
			awaitRights(t, user, rest)
			use, known := uses[missing.Verb+" "+missing.Resource]
			if !known {
				t.Fatalf("no test uses %s", missing)
			}
			err := use(t.Context(), clientAs(t, Options{}, user))
			checkSentinel(t, err, rollout.ErrDenied)
			for _, want := range []string{missing.Verb, missing.Resource, "docs/rbac.md"} {
				if err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("%v does not name %s", err, want)
				}
			}
			for _, other := range []string{"get nodes", "list nodes", "watch nodes", "patch nodes", "list pods", "create events"} {
				if other == missing.Verb+" "+missing.Resource {
					continue
				}
				if err := uses[other](t.Context(), clientAs(t, Options{}, user)); err != nil {
					t.Errorf("without %s, %s fails: %v", missing, other, err)
				}
			}
		})
	}
}

// With the rights to look, all that is needed to show a cluster can be read, and nothing can be written.
func TestRightsToLook(t *testing.T) {
	freeLease(t)
	node := makeNode(t)
	grant(t, "looker", wanted(false))
	awaitRights(t, "looker", wanted(false))
	c := clientAs(t, Options{}, "looker")
	for name, use := range map[string]func(context.Context) error{
		"Nodes":        func(ctx context.Context) error { _, err := c.Nodes(ctx); return err },
		"Holder":       func(ctx context.Context) error { _, err := c.Holder(ctx); return err },
		"Claims":       func(ctx context.Context) error { _, err := c.Claims(ctx); return err },
		"ControlPlane": func(ctx context.Context) error { _, err := c.ControlPlane(ctx); return err },
	} {
		if err := use(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, use := range exercises(node) {
		if verb, _, _ := strings.Cut(name, " "); verb == "patch" || verb == "create" && name != "create leases" {
			checkSentinel(t, use(t.Context(), c), rollout.ErrDenied)
		}
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

// grant gives the user the rights, by one role in each namespace, until the test ends.
func grant(t *testing.T, user string, rights []Right) {
	t.Helper()
	rbac := admin(t).RbacV1()
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
	rules := map[string][]rbacv1.PolicyRule{}
	for _, r := range rights {
		rule := rbacv1.PolicyRule{APIGroups: []string{r.Group}, Resources: []string{r.Resource}, Verbs: []string{r.Verb}}
		if r.Name != "" {
			rule.ResourceNames = []string{r.Name}
		}
		rules[r.Namespace] = append(rules[r.Namespace], rule)
	}
	t.Cleanup(func() {
		for namespace := range rules { // a role that some test has never made is no matter
			_ = rbac.ClusterRoles().Delete(context.Background(), user, metav1.DeleteOptions{})
			_ = rbac.ClusterRoleBindings().Delete(context.Background(), user, metav1.DeleteOptions{})
			_ = rbac.Roles(namespace).Delete(context.Background(), user, metav1.DeleteOptions{})
			_ = rbac.RoleBindings(namespace).Delete(context.Background(), user, metav1.DeleteOptions{})
		}
	})
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

// awaitRights waits until the API server's RBAC cache has the new roles.
func awaitRights(t *testing.T, user string, rights []Right) {
	t.Helper()
	fatal(t, haveRights(t.Context(), admin(t), user, rights))
}

// haveRights waits for the rights; there is nothing to watch for them but the API server's answers.
func haveRights(ctx context.Context, as kubernetes.Interface, user string, rights []Right) error {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	for _, r := range rights {
		for allowed := false; !allowed; {
			review, err := as.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User:               user,
				ResourceAttributes: r.attributes(),
			}}, metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("%s has no right to %s: %w", user, r, err)
			}
			if allowed = review.Status.Allowed; !allowed {
				sleep(ctx, 10*time.Millisecond)
			}
		}
	}
	return nil
}
