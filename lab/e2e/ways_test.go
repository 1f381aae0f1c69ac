package e2e

import (
	"strings"
	"testing"

	"github.com/cks-trueup/trueup/lab/control"
)

// testWays: the address in the kubeconfig is the one that guests have for this machine, and leads nowhere from here. The API server is reached through the
// control node all the same: through a tunnel, and by kubectl there, once that node's sudoers file allows it.
func testWays(t *testing.T, f *fixture) {
	kubeconfig, err := f.Plane.AdminKubeconfig(control.HostInGuests)
	if err != nil {
		t.Fatal(err)
	}
	far := "--kubeconfig=" + f.file(t, "far-kubeconfig", string(kubeconfig))
	f.trueup(t, 0, "verify", f.Options.Name, far).expectSays(t, "Reaching the Kubernetes API through an SSH tunnel to a control-plane node: direct: ")
	growth{mib: 128, roles: []string{"worker"}, flags: []string{settle, far, "--kube-via=tunnel"}}.test(t, f)

	before, asked := f.read(t), f.changes(t)
	f.trueup(t, 8, "verify", f.Options.Name, "--kube-via=kubectl").expectSays(t, "sudo there does not let cloud run the kubectl command")
	node := f.ofRole("control")[0]
	inside(t, node, `sed -i.was 's/^#\(cloud \)/\1/' /etc/sudoers.d/cloud && rm /etc/sudoers.d/cloud.was`)
	defer inside(t, node, `sed -i 's/^cloud \(.*trueup-kubectl\)$/#cloud \1/' /etc/sudoers.d/cloud`)
	f.trueup(t, 0, "verify", f.Options.Name, "--kube-via=kubectl")
	f.expectNoChanges(t, asked)
	f.expectUntouched(t, before)
}

// expectSays checks what was printed, on either stream: notes about a reading go with the document, errors to standard error.
func (r *run) expectSays(t *testing.T, part string) {
	t.Helper()
	if text := r.stdout.String() + r.stderr.String(); !strings.Contains(text, part) {
		t.Errorf("%s does not say %q:\n%s", r, part, text)
	}
}
