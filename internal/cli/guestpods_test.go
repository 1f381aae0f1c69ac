package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/internal/kube"
)

// With --guest-via pod nothing goes over SSH: the nodes are asked for through the Kubernetes API alone, in the namespace that is named.
func TestGuestViaPod(t *testing.T) {
	w := newWired(t)
	delete(w.env, "TRUEUP_SSH_KEY") // none is needed
	for args, namespace := range map[string]string{"--guest-via pod": "kube-system", "--guest-via pod --guest-namespace tools": "tools", "": "ops"} {
		w.asked = nil
		change := with("X", "")
		if args == "" {
			change = func(p *program) { p.env["TRUEUP_GUEST_VIA"], p.env["TRUEUP_GUEST_NAMESPACE"] = "pod", "ops" }
		}
		w.trueup(t, "status prod "+args, change).want(t, ExitOK).prints(t, "node-1: the guest could not be read: node node-1 (VM "+idOf(2)+"): pod on node node-1: create pods/trueup-guest-",
			" in "+namespace+": denied: this account lacks the verb \"create\" on \"pods\"", "node-1     worker   2/2048  2/2048    ?      2/1928")
		if want := "POST /api/v1/namespaces/" + namespace + "/pods"; !slices.Contains(w.asked, want) {
			t.Errorf("%q: asked %v, want %s", args, w.asked, want)
		}
	}
	w.trueup(t, "ssh enroll prod --guest-via pod").says(t, "there are no host keys where SSH is not used")
	w.trueup(t, "scale prod --worker big --yes --guest-via pod").want(t, ExitUnreachable).says(t, "nothing was changed: node-1: the guest could not be read").oneError(t)
	if w.logIn != nil {
		t.Errorf("log-ins by SSH: %v", w.logIn)
	}

	w.UpdateCluster(w.cluster.ID, func(c *standin.Cluster) { c.Kubeconfig = "" })
	w.trueup(t, "status prod --guest-via pod").want(t, ExitOK).prints(t, "a pod needs the Kubernetes API: no kubeconfig from CloudStack")
}

func TestGuestViaFlags(t *testing.T) {
	w := newWired(t)
	for args, says := range map[string]string{
		"--guest-via tunnel":                 `--guest-via "tunnel": it is ssh or pod`,
		"--guest-image x":                    "are for --guest-via pod",
		"--guest-namespace x":                "are for --guest-via pod",
		"--guest-via pod --kube-via tunnel":  "--kube-via tunnel goes over SSH",
		"--guest-via pod --kube-via kubectl": "--kube-via kubectl goes over SSH",
	} {
		w.trueup(t, "status prod "+args).want(t, ExitUsage).says(t, says).oneError(t)
	}
	w.trueup(t, "rights rbac --guest-via tunnel").want(t, ExitUsage)
	if w.logIn != nil || w.asked != nil {
		t.Errorf("log-ins %v, asked of Kubernetes %v", w.logIn, w.asked)
	}
	// A variable that names an image is no mistake where pods are not used.
	w.trueup(t, "status prod", with("TRUEUP_GUEST_IMAGE", "x")).want(t, ExitOK)
}

// Preflight asks about the rights of the pods where those are the way, in their namespace, and not elsewhere.
func TestPreflightAsksForPodRights(t *testing.T) {
	w := newWired(t)
	for args, want := range map[string]bool{"--guest-via pod --guest-namespace tools": true, "": false} {
		w.about = nil
		w.trueup(t, "preflight prod --worker big "+args).want(t, ExitUnreachable) // no guest can be read
		for _, r := range kube.HostPodRights("tools") {
			if got := slices.Contains(w.about, r.Verb+" "+r.Resource+" in tools"); got != want {
				t.Errorf("%q: asked about %v: %t, want %t; asked about %v", args, r, got, want, w.about)
			}
		}
	}
}

// The rights of the pods are printed where they are asked for, and nowhere else.
func TestRightsRBACForPods(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		for args, namespace := range map[string]string{"--guest-via pod": "kube-system", "--guest-via pod --guest-namespace tools --look-only": "tools"} {
			look := strings.Contains(args, "look")
			want, err := kube.RBAC(kube.Subjects{ServiceAccounts: []string{defaultAccount}}, !look, "1.2.3", kube.HostPodRights(namespace)...)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.trueup(t, "rights rbac "+args, bare).want(t, ExitOK).out.String(); got != string(want) || !strings.Contains(got, "pods/exec") || !strings.Contains(got, "namespace: "+namespace) {
				t.Errorf("%s prints:\n%s", args, got)
			}
		}
		if got := s.trueup(t, "rights rbac", bare).out.String(); strings.Contains(got, "pods/exec") {
			t.Errorf("without the way by pods:\n%s", got)
		}
	})
}
