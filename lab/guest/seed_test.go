package guest

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"
	"sigs.k8s.io/yaml"
)

func seedFiles(t *testing.T, kubelet Kubelet) map[string]*tar.Header {
	t.Helper()
	headers, _ := unpackSeed(t, kubelet)
	return headers
}

func unpackSeed(t *testing.T, kubelet Kubelet) (map[string]*tar.Header, map[string][]byte) {
	t.Helper()
	identity, err := NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := Seed(Spec{Name: "lab-node-1", Index: 3}, identity, Keys{User: identity.HostKey, Admin: identity.HostKey}, kubelet)
	if err != nil {
		t.Fatal(err)
	}
	headers, bodies := map[string]*tar.Header{}, map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(seed)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return headers, bodies
		}
		if err != nil {
			t.Fatal(err)
		}
		headers[header.Name] = header
		if bodies[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSeedKeepsSecretsFromOthers(t *testing.T) {
	headers := seedFiles(t, Kubelet{AdminKubeconfig: []byte("admin")})
	for _, path := range []string{
		"etc/ssh/ssh_host_ed25519_key", "etc/kubernetes/kubelet.conf", "etc/kubernetes/admin.conf", "root/.kube/config",
		"var/lib/kubelet/pki/kubelet.key", "home/cloud/.ssh/authorized_keys", "root/.ssh/authorized_keys",
	} {
		if header := headers[path]; header == nil || header.Mode != 0o600 {
			t.Errorf("%s: %+v, want mode 0600", path, header)
		}
	}
}

func TestSeedGivesAdminRightsToControlNodesOnly(t *testing.T) {
	headers := seedFiles(t, Kubelet{})
	for _, path := range []string{"etc/kubernetes/admin.conf", "root/.kube/config"} {
		if headers[path] != nil {
			t.Errorf("a worker's seed has %s", path)
		}
	}
}

func TestSeedKubeletConfig(t *testing.T) {
	_, bodies := unpackSeed(t, Kubelet{StatusFrequency: 2 * time.Second})
	var config struct{ NodeStatusUpdateFrequency, CgroupDriver string }
	if err := yaml.UnmarshalStrict(bodies["var/lib/kubelet/config.yaml"], &map[string]any{}); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(bodies["var/lib/kubelet/config.yaml"], &config); err != nil {
		t.Fatal(err)
	}
	if config.NodeStatusUpdateFrequency != "2s" || config.CgroupDriver != "systemd" {
		t.Errorf("kubelet configuration: %+v", config)
	}
	want := "KUBELET_EXTRA_ARGS=--hostname-override=lab-node-1 --node-ip=10.0.2.19\n"
	if diff := cmp.Diff(want, string(bodies["etc/default/kubelet"])); diff != "" {
		t.Errorf("/etc/default/kubelet (-want +got):\n%s", diff)
	}
}

func TestIdentityKeyFitsItsPublicHalf(t *testing.T) {
	identity, err := NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	private, err := ssh.ParsePrivateKey(identity.hostKey)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(identity.HostKey.Marshal(), private.PublicKey().Marshal()); diff != "" {
		t.Errorf("host key (-public half +of the private half):\n%s", diff)
	}
}

// The lab's key is for root alone, and the login user may sudo only what the product needs.
func TestSeedGivesTheLoginUserOnlyWhatTrueupNeeds(t *testing.T) {
	headers, bodies := unpackSeed(t, Kubelet{})
	rules := string(bodies["etc/sudoers.d/cloud"])
	if headers["etc/sudoers.d/cloud"].Mode != 0o440 || strings.Contains(rules, "NOPASSWD:ALL") || !strings.Contains(rules, "trueup-restart") {
		t.Errorf("mode %o:\n%s", headers["etc/sudoers.d/cloud"].Mode, rules)
	}
}
