package kube

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// kubeconfigText has two users; the second one, and the cluster, are what the tests vary.
const kubeconfigText = `apiVersion: v1
kind: Config
current-context: one
contexts:
- {name: one, context: {cluster: k, user: u}}
- {name: two, context: {cluster: k, user: other}}
clusters:
- name: k
  cluster: {server: "https://192.0.2.1:6443"CLUSTER}
users:
- name: u
  user: {token: secret-token}
- name: other
  user: {USER}
`

func kubeconfigWith(cluster, user string) string {
	if user == "" {
		user = "token: other-token"
	}
	return strings.NewReplacer("CLUSTER", cluster, "{USER}", "{"+user+"}").Replace(kubeconfigText)
}

func TestFromCloudStackRefuses(t *testing.T) {
	tests := []struct{ name, cluster, user, says string }{
		{"exec", "", "exec: {apiVersion: client.authentication.k8s.io/v1, command: touch, interactiveMode: Never}", `user "other": exec`},
		{"auth-provider", "", "auth-provider: {name: oidc}", `user "other": auth-provider`},
		{"token file", "", "tokenFile: /etc/shadow", `user "other": tokenFile`},
		{"certificate file", "", "client-certificate: /etc/shadow", `user "other": client-certificate`},
		{"key file", "", "client-key: /etc/shadow", `user "other": client-key`},
		{"CA file", ", certificate-authority: /etc/shadow", "", `cluster "k": certificate-authority`},
		{"proxy", ", proxy-url: 'http://192.0.2.9'", "", `cluster "k": proxy-url`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := FromCloudStack([]byte(kubeconfigWith(tt.cluster, tt.user)))
			if !errors.Is(err, ErrKubeconfig) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want a refusal that names %s", err, tt.says)
			}
		})
	}
}

func TestNewRefusesUnverifiedServers(t *testing.T) {
	insecure := kubeconfigWith(", insecure-skip-tls-verify: true", "")
	plain := strings.Replace(kubeconfigWith("", ""), "https://", "http://", 1)
	schemeless := strings.Replace(kubeconfigWith("", ""), "https://", "", 1)
	tests := map[string]struct{ text, says string }{
		"insecure-skip-tls-verify": {insecure, "insecure-skip-tls-verify"},
		"http":                     {plain, "https://"},
		"no scheme":                {schemeless, "https://"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			remote, err := FromCloudStack([]byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			file, err := FromFile(writeFile(t, tt.text), "")
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range []Kubeconfig{remote, file} {
				_, err := New(k, Options{})
				if !errors.Is(err, ErrKubeconfig) || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("%s: got %v, want a refusal that names %s", k.origin, err, tt.says)
				}
			}
		})
	}
}

func TestFromFileMayRunPlugins(t *testing.T) {
	text := kubeconfigWith("", "exec: {apiVersion: client.authentication.k8s.io/v1, command: some-plugin, interactiveMode: Never}")
	k, err := FromFile(writeFile(t, text), "two")
	if err != nil {
		t.Fatal(err)
	}
	config, err := k.restConfig()
	if err != nil {
		t.Fatal(err)
	}
	if config.ExecProvider == nil || config.ExecProvider.Command != "some-plugin" {
		t.Errorf("exec plugin of context two: %v, want some-plugin", config.ExecProvider)
	}
}

func TestKubeconfigErrors(t *testing.T) {
	valid := writeFile(t, kubeconfigWith("", ""))
	fromFile := func(path, context string) error {
		k, err := FromFile(path, context)
		if err != nil {
			return err
		}
		_, err = New(k, Options{})
		return err
	}
	tests := map[string]struct {
		err  error
		says string
	}{
		"missing file":    {fromFile(filepath.Join(t.TempDir(), "none"), ""), "none"},
		"unknown context": {fromFile(valid, "three"), "three"},
		"not YAML":        {fromFile(writeFile(t, "{"), ""), "kubeconfig"},
		"empty":           {fromFile(writeFile(t, ""), ""), "kubeconfig"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if !errors.Is(tt.err, ErrKubeconfig) || !strings.Contains(tt.err.Error(), tt.says) {
				t.Errorf("got %v, want a kubeconfig error that names %s", tt.err, tt.says)
			}
			if tt.err != nil && strings.Contains(tt.err.Error(), "secret-token") {
				t.Errorf("the error tells a secret: %v", tt.err)
			}
		})
	}
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
