package cloudstack

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	sdk "github.com/apache/cloudstack-go/v2/cloudstack"
)

// sshPort is the port of sshd in every CKS node.
const sshPort = 22

// Endpoint is where a VM's sshd answers.
type Endpoint struct {
	Host string
	Port int
	// Via says how it was found: "port forwarding" or "own address".
	Via string
}

// The values of Endpoint.Via.
const (
	ViaForwarding = "port forwarding"
	ViaAddress    = "own address"
)

// Address is host:port, as net.Dial takes it.
func (e Endpoint) Address() string { return net.JoinHostPort(e.Host, strconv.Itoa(e.Port)) }

// Way is how a VM's sshd is to be reached.
type Way struct {
	// Kind is ViaForwarding or ViaAddress; empty means the former where there is a rule, else the latter.
	Kind string
	// Port is that of sshd at a VM's own address; 0 means 22. Rules are those to private port 22 in any case: CKS makes no others.
	Port int
}

// Endpoints says where sshd of each of the cluster's VMs answers, by instance id: through the port forwarding rule of the
// VM, or at the VM's own address. Ports are never computed: CloudStack numbers them anew at each change of
// the cluster's size. A VM that has what the way needs is in the map, another is not.
func (c *Client) Endpoints(ctx context.Context, cluster Cluster, way Way) (map[string]Endpoint, error) {
	out := make(map[string]Endpoint, len(cluster.VMs))
	for _, vm := range cluster.VMs {
		if vm.Address != "" && way.Kind != ViaForwarding {
			out[vm.Instance.ID] = Endpoint{Host: vm.Address, Port: cmp.Or(way.Port, sshPort), Via: ViaAddress}
		}
	}
	if way.Kind == ViaAddress {
		return out, nil
	}
	rules, err := c.forwardingRules(ctx, cluster)
	if err != nil {
		return nil, fmt.Errorf("SSH endpoints of cluster %s: %w", cluster.Name, err)
	}
	forwarded := map[string]bool{}
	for _, rule := range rules {
		endpoint, ok := forwardedSSH(rule)
		if id := rule.Virtualmachineid; ok && !forwarded[id] && member(cluster, id) {
			forwarded[id] = true
			out[id] = endpoint
		}
	}
	return out, nil
}

func member(cluster Cluster, id string) bool {
	for _, vm := range cluster.VMs {
		if vm.Instance.ID == id {
			return true
		}
	}
	return false
}

// forwardedSSH returns the endpoint of a rule that is in force and leads to port 22.
func forwardedSSH(rule *sdk.PortForwardingRule) (Endpoint, bool) {
	port, err := strconv.Atoi(rule.Publicport)
	if err != nil || rule.Privateport != strconv.Itoa(sshPort) || rule.State != "Active" || rule.Ipaddress == "" {
		return Endpoint{}, false
	}
	if rule.Protocol != "" && !strings.EqualFold(rule.Protocol, "tcp") {
		return Endpoint{}, false
	}
	return Endpoint{Host: rule.Ipaddress, Port: port, Via: ViaForwarding}, true
}

func (c *Client) forwardingRules(ctx context.Context, cluster Cluster) ([]*sdk.PortForwardingRule, error) {
	return all(func(p page) ([]*sdk.PortForwardingRule, int, error) {
		var reply *sdk.ListPortForwardingRulesResponse
		_, err := c.read(ctx, "listPortForwardingRules", func(cs *sdk.CloudStackClient) (err error) {
			params := cs.Firewall.NewListPortForwardingRulesParams()
			params.SetListall(true)
			if cluster.NetworkID != "" {
				params.SetNetworkid(cluster.NetworkID)
			}
			if cluster.ProjectID != "" {
				params.SetProjectid(cluster.ProjectID)
			}
			p.apply(params)
			reply, err = cs.Firewall.ListPortForwardingRules(params)
			return err
		})
		if err != nil {
			return nil, 0, err
		}
		return reply.PortForwardingRules, reply.Count, nil
	})
}
