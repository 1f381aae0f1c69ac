package kube

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// Right is leave to use one verb on one kind of object.
type Right struct {
	Verb, Group, Resource string

	// Namespace is where; empty means the whole cluster. Name is that of the one object; empty means all.
	Namespace, Name string
	// Looks: commands that change nothing need it, too. Optional: nothing fails without it.
	Looks, Optional bool
	// For says what it is needed for, and Without what happens where it is missing.
	For, Without string
}

// String names the right as errors name the request.
func (r Right) String() string {
	return call{verb: r.Verb, resource: r.Resource, namespace: r.Namespace, name: r.Name}.String()
}

// Rights are all rights that the client needs, none is there in vain: both is tested against a real API server. What every user may do in
// every cluster is not among them: /readyz (ClusterRole system:public-info-viewer), and to ask about its own rights (system:basic-user).
func Rights() []Right {
	const coordination = "coordination.k8s.io"
	const stops = "`scale` fails before the first change"
	return []Right{
		{Verb: "get", Resource: "nodes", For: "capacity, readiness, marks of other tools and the claim, again before each change", Without: stops},
		{Verb: "list", Resource: "nodes", Looks: true, For: "all nodes at once", Without: "`status`, `plan` and all others fail"},
		{Verb: "watch", Resource: "nodes", For: "a move ends as soon as the Node shows it", Without: stops},
		{Verb: "patch", Resource: "nodes", For: "the claim, cordon, uncordon, the cluster autoscaler's scale-down-disabled mark", Without: stops},
		{Verb: "list", Resource: "pods", Optional: true, For: "what became of a node's pods when its kubelet was restarted",
			Without: "nothing fails: the summary says that it is not known, and no pod is waited for"},
		{Verb: "get", Group: coordination, Resource: "leases", Namespace: LeaseNamespace, Name: LeaseName, Looks: true,
			For: "check the Lease before each effect; `status` shows who holds it; the claims on dedicated etcd machines", Without: stops + "; `status` does not know whether a rollout is under way"},
		// Kubernetes can't limit create to a name: it is authorised before the object is read.
		{Verb: "create", Group: coordination, Resource: "leases", Namespace: LeaseNamespace, For: "the first rollout on a cluster makes the Lease", Without: "the first `scale` fails before the first change"},
		{Verb: "patch", Group: coordination, Resource: "leases", Namespace: LeaseNamespace, Name: LeaseName,
			For: "hold, renew and give back the Lease; keep the claims on dedicated etcd machines", Without: stops},
		{Verb: "create", Resource: "events", Namespace: metav1.NamespaceDefault, Optional: true, For: "a line in `kubectl describe node` for each move", Without: "nothing is lost but that line"},
	}
}

// HostPodRights are the rights that HostPods need beside Rights, in the namespace where the pods are made. Whoever has them there, where privileged pods are
// admitted, is root on every node.
func HostPodRights(namespace string) []Right {
	const stops = "no guest can be read: `status` shows none, `plan` and `scale` fail before the first change"
	return []Right{
		{Verb: "create", Resource: "pods", Namespace: namespace, Looks: true, For: "the pod on a node", Without: stops},
		{Verb: "get", Resource: "pods", Namespace: namespace, Looks: true, For: "whether it still runs", Without: "a pod that is gone is not noticed, and " + stops},
		{Verb: "list", Resource: "pods", Namespace: namespace, Looks: true, For: "what earlier runs have left, and what is to be removed at the end", Without: stops},
		{Verb: "watch", Resource: "pods", Namespace: namespace, Looks: true, For: "its start", Without: stops},
		{Verb: "delete", Resource: "pods", Namespace: namespace, Looks: true, For: "its removal", Without: "the pods end by themselves, and stay as finished ones"},
		{Verb: "create", Resource: "pods/exec", Namespace: namespace, Looks: true, For: "the scripts", Without: stops},
		{Verb: "get", Resource: "pods/exec", Namespace: namespace, Looks: true, Optional: true, For: "the same by WebSocket", Without: "nothing fails: SPDY is used, after a request that is refused"},
	}
}

// Subjects are who gets the rights.
type Subjects struct {
	Users, Groups []string
	// ServiceAccounts are NAMESPACE/NAME. They are made as well.
	ServiceAccounts []string
}

// RBAC returns the manifest that gives the subjects the rights of this version of the program, in YAML for kubectl apply. Without changes, only
// those of the commands that change nothing. further are rights beside Rights.
func RBAC(to Subjects, changes bool, version string, further ...Right) ([]byte, error) {
	name, what := "trueup", "needs in the cluster that it scales"
	if !changes {
		name, what = "trueup-look", "needs in a cluster to show what is there, without changing anything"
	}
	subjects, accounts, err := to.resolve()
	if err != nil {
		return nil, err
	}
	objects := slices.Concat(accounts, roles(name, subjects, changes, further))
	var b bytes.Buffer
	fmt.Fprintf(&b, "# What trueup %s %s, and nothing else. Written by `trueup rights rbac`; docs/rbac.md explains each line.\n", version, what)
	for i, object := range objects {
		text, err := yaml.Marshal(object)
		if err != nil {
			return nil, fmt.Errorf("write the manifest: %w", err)
		}
		if i > 0 {
			b.WriteString("---\n")
		}
		b.Write(text)
	}
	return b.Bytes(), nil
}

// resolve returns the subjects as RBAC names them, and the service accounts that are to be made.
func (s Subjects) resolve() (subjects []rbacv1.Subject, accounts []any, err error) {
	for _, name := range s.Users {
		subjects = append(subjects, rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name})
	}
	for _, name := range s.Groups {
		subjects = append(subjects, rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: name})
	}
	for _, account := range s.ServiceAccounts {
		namespace, name, _ := strings.Cut(account, "/")
		if validation.IsDNS1123Label(namespace) != nil || validation.IsDNS1123Subdomain(name) != nil {
			return nil, nil, fmt.Errorf("%q is no service account: expected NAMESPACE/NAME, like kube-system/trueup", account)
		}
		subjects = append(subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name})
		accounts = append(accounts, corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: rbacv1.ServiceAccountKind},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
	}
	for _, s := range subjects {
		if s.Name == "" {
			return nil, nil, fmt.Errorf("a %s without a name", strings.ToLower(s.Kind))
		}
	}
	if subjects == nil {
		return nil, nil, fmt.Errorf("nobody to give the rights to")
	}
	return subjects, accounts, nil
}

// roles are a role and its binding for the cluster, and for each namespace.
func roles(name string, subjects []rbacv1.Subject, changes bool, further []Right) (out []any) {
	var namespaces []string
	rules := map[string][]rbacv1.PolicyRule{}
	for _, r := range slices.Concat(Rights(), further) {
		if !changes && !r.Looks {
			continue
		}
		if rules[r.Namespace] == nil {
			namespaces = append(namespaces, r.Namespace)
		}
		rules[r.Namespace] = addRule(rules[r.Namespace], r)
	}
	for _, namespace := range namespaces {
		kind, binding := "Role", "RoleBinding"
		if namespace == "" {
			kind, binding = "ClusterRole", "ClusterRoleBinding"
		}
		meta := metav1.ObjectMeta{Name: name, Namespace: namespace}
		// A ClusterRole and its binding have the same fields as a Role and its binding, of those that are set here.
		out = append(out,
			rbacv1.Role{TypeMeta: typeOf(kind), ObjectMeta: meta, Rules: rules[namespace]},
			rbacv1.RoleBinding{TypeMeta: typeOf(binding), ObjectMeta: meta, Subjects: subjects,
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}})
	}
	return out
}

func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

// addRule adds the right to the rule for the same objects, or as a rule of its own.
func addRule(rules []rbacv1.PolicyRule, r Right) []rbacv1.PolicyRule {
	rule := rbacv1.PolicyRule{APIGroups: []string{r.Group}, Resources: []string{r.Resource}, Verbs: []string{r.Verb}}
	if r.Name != "" {
		rule.ResourceNames = []string{r.Name}
	}
	for i, have := range rules {
		if slices.Equal(have.APIGroups, rule.APIGroups) && slices.Equal(have.Resources, rule.Resources) && slices.Equal(have.ResourceNames, rule.ResourceNames) {
			rules[i].Verbs = append(rules[i].Verbs, r.Verb)
			return rules
		}
	}
	return append(rules, rule)
}
