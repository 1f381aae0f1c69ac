package control

import (
	"net"
	"strconv"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// HostInGuests is the address by which guests reach the lab's host: QEMU's user network maps it to the host's loopback.
const HostInGuests = "10.0.2.2"

// kubeconfig renders a kubeconfig for a client certificate. kubeadm's name for the cluster is kept.
func (p *Plane) kubeconfig(host, user string, client pair) ([]byte, error) {
	const cluster = "kubernetes"
	context := user + "@" + cluster
	return clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{cluster: {
			Server: "https://" + net.JoinHostPort(host, strconv.Itoa(p.port)), CertificateAuthorityData: p.authority.pem}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{user: {
			ClientCertificateData: client.cert, ClientKeyData: client.key}},
		Contexts:       map[string]*clientcmdapi.Context{context: {Cluster: cluster, AuthInfo: user}},
		CurrentContext: context,
	})
}

// AdminKubeconfig gives everything; host is 127.0.0.1 or, for guests, HostInGuests.
func (p *Plane) AdminKubeconfig(host string) ([]byte, error) {
	client, err := p.authority.client("kubernetes-admin", "system:masters")
	if err != nil {
		return nil, err
	}
	return p.kubeconfig(host, "kubernetes-admin", client)
}

// UserKubeconfig is for a user who has only the rights that RBAC objects give to that name or those groups.
func (p *Plane) UserKubeconfig(name string, groups ...string) ([]byte, error) {
	client, err := p.authority.client(name, groups...)
	if err != nil {
		return nil, err
	}
	return p.kubeconfig("127.0.0.1", name, client)
}

// NodeCredentials are what a kubelet needs; PEM and YAML.
type NodeCredentials struct{ CA, Kubeconfig, ServingCert, ServingKey []byte }

// NodeCredentials makes the credentials of the kubelet of the named node at the given address.
func (p *Plane) NodeCredentials(name, address string) (NodeCredentials, error) {
	user := "system:node:" + name
	client, err := p.authority.client(user, "system:nodes")
	if err != nil {
		return NodeCredentials{}, err
	}
	serving, err := p.authority.server(user, []string{address}, name)
	if err != nil {
		return NodeCredentials{}, err
	}
	kubeconfig, err := p.kubeconfig(HostInGuests, user, client)
	return NodeCredentials{CA: p.authority.pem, Kubeconfig: kubeconfig, ServingCert: serving.cert, ServingKey: serving.key}, err
}
