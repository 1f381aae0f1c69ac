package kube

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// ErrKubeconfig means that a kubeconfig can't be used, or is refused.
var ErrKubeconfig = errors.New("unusable kubeconfig")

// Kubeconfig says how to reach one cluster. It holds credentials and is never printed.
type Kubeconfig struct {
	config  clientcmdapi.Config
	context string
	origin  string // for messages
}

// FromFile reads a kubeconfig that the user named. An empty context is the file's current one. Such a file
// may run a credential plugin and name other files, as with kubectl.
func FromFile(path, context string) (Kubeconfig, error) {
	rules := clientcmd.ClientConfigLoadingRules{ExplicitPath: path}
	config, err := rules.Load()
	if err != nil {
		return Kubeconfig{}, fmt.Errorf("%w %s: %w", ErrKubeconfig, path, err)
	}
	return Kubeconfig{config: *config, context: context, origin: "kubeconfig " + path}, nil
}

// FromCloudStack reads the kubeconfig that getKubernetesClusterConfig returned. It is data from another machine, so it may not
// make this one run a program, read a file or go through a proxy: a kubeconfig that asks for any of them is refused.
func FromCloudStack(data []byte) (Kubeconfig, error) {
	const origin = "kubeconfig from CloudStack"
	config, err := clientcmd.Load(data)
	if err != nil {
		return Kubeconfig{}, fmt.Errorf("%w: %s: %w", ErrKubeconfig, origin, err)
	}
	if found := reachesOut(config); len(found) > 0 {
		return Kubeconfig{}, fmt.Errorf("%w: the %s asks this machine to run a program, read files or use a proxy: %s; "+
			"if you trust it, save it to a file and name that with --kubeconfig", ErrKubeconfig, origin, strings.Join(found, ", "))
	}
	return Kubeconfig{config: *config, origin: origin}, nil
}

// reachesOut lists the settings by which a kubeconfig uses more of this machine than its network, in any of its
// entries: which one is used is up to the same data.
func reachesOut(config *clientcmdapi.Config) []string {
	var found []string
	note := func(set bool, kind, name, field string) {
		if set {
			found = append(found, fmt.Sprintf("%s %q: %s", kind, name, field))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(config.AuthInfos)) {
		user := config.AuthInfos[name]
		note(user.Exec != nil, "user", name, "exec")
		note(user.AuthProvider != nil, "user", name, "auth-provider")
		note(user.TokenFile != "", "user", name, "tokenFile")
		note(user.ClientCertificate != "", "user", name, "client-certificate")
		note(user.ClientKey != "", "user", name, "client-key")
	}
	for _, name := range slices.Sorted(maps.Keys(config.Clusters)) {
		cluster := config.Clusters[name]
		note(cluster.CertificateAuthority != "", "cluster", name, "certificate-authority")
		note(cluster.ProxyURL != "", "cluster", name, "proxy-url")
	}
	return found
}

// restConfig resolves the context and refuses what would leave the API server unverified.
func (k Kubeconfig) restConfig() (*rest.Config, error) {
	config, err := clientcmd.NewNonInteractiveClientConfig(k.config, k.context, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrKubeconfig, k.origin, err)
	}
	if config.Insecure {
		return nil, fmt.Errorf("%w: %s sets insecure-skip-tls-verify: trueup always verifies the API server; "+
			"put the cluster's CA into certificate-authority-data instead", ErrKubeconfig, k.origin)
	}
	if !rest.IsConfigTransportTLS(*config) {
		return nil, fmt.Errorf("%w: %s: the server %q is not an https:// address", ErrKubeconfig, k.origin, config.Host)
	}
	return config, nil
}
