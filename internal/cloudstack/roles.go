package cloudstack

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// maxIDs keeps the URL of a read by ids below 4 kB, which every proxy lets through.
const maxIDs = 50

// vms reads the cluster's machines in full and says what each is for.
func (c *Client) vms(ctx context.Context, record clusterRecord) ([]VM, error) {
	full := map[string]machine{}
	for chunk := range slices.Chunk(ids(record.VMs), maxIDs) {
		list, err := c.visible(ctx, chunk, record.ProjectID)
		if err != nil {
			return nil, fmt.Errorf("list its instances: %w", err)
		}
		for _, m := range list {
			full[m.ID] = m
		}
	}
	roles := assignRoles(record)
	out := make([]VM, 0, len(record.VMs))
	for i, thin := range record.VMs {
		vm := VM{Role: roles[i].role, RoleDoubt: roles[i].doubt, External: isTrue(thin.External), Address: thin.address(record.NetworkID)}
		vm.Instance = capacity.Instance{ID: thin.ID, Name: thin.Name, State: thin.State, ZoneID: thin.ZoneID}
		if m, ok := full[thin.ID]; ok {
			vm.Instance = m.instance()
			vm.Address, vm.Hypervisor = m.address(record.NetworkID), m.Hypervisor
		}
		out = append(out, vm)
	}
	return out, nil
}

// visible lists the machines that exist. CloudStack refuses a list of ids as a whole if one of them is gone.
func (c *Client) visible(ctx context.Context, ids []string, projectID string) ([]machine, error) {
	list, _, err := c.machines(ctx, ids, projectID)
	if !unknownID(err) {
		return list, err
	}
	for _, id := range ids {
		one, _, err := c.machines(ctx, []string{id}, projectID)
		if err != nil && !unknownID(err) {
			return nil, err
		}
		list = append(list, one...)
	}
	return list, nil
}

func ids(machines []machine) []string {
	out := make([]string, 0, len(machines))
	for _, m := range machines {
		out = append(out, m.ID)
	}
	return out
}

// cksName is the end of the names that CKS gives: PREFIX-control-HEX, PREFIX-node-HEX, PREFIX-etcd-N-HEX. It is anchored at
// the end because the prefix is the cluster's name, which may contain such a word itself.
var cksName = regexp.MustCompile(`-(control|node|etcd)(?:-[0-9]+)?-[0-9a-fA-F]+$`)

func roleByName(name string) (rollout.Role, bool) {
	match := cksName.FindStringSubmatch(name)
	if match == nil {
		return "", false
	}
	return map[string]rollout.Role{"control": rollout.RoleControl, "node": rollout.RoleWorker, "etcd": rollout.RoleEtcd}[match[1]], true
}

// assignment is a machine's role and why it may be wrong.
type assignment struct {
	role  rollout.Role
	doubt string
}

// assignRoles tells the roles, in the order of the record's machines.
//
// CloudStack marks external nodes (always workers) and dedicated etcd. It does not mark control nodes: they are the first
// of the others, and CKS names them so. Position decides, as it does in CloudStack itself; a name that differs is a doubt.
func assignRoles(record clusterRecord) []assignment {
	out := make([]assignment, len(record.VMs))
	control := record.controlNodes()
	for i, m := range record.VMs {
		out[i] = record.assign(m, control > 0)
		if out[i].role == rollout.RoleControl {
			control--
		}
	}
	if record.Type == TypeExternalManaged {
		for i := range out {
			out[i].doubt = "CloudStack does not say the roles in an ExternalManaged cluster"
		}
	}
	return out
}

// assign tells one machine's role; controlLeft says that the record counts more control nodes than were seen before it.
func (r clusterRecord) assign(m machine, controlLeft bool) assignment {
	named, hasName := roleByName(m.Name)
	etcd := isTrue(m.Etcd) || m.Etcd == nil && r.Etcd > 0 && named == rollout.RoleEtcd
	switch {
	case isTrue(m.External):
		return assignment{role: rollout.RoleWorker}
	case etcd && r.Etcd == 0:
		return assignment{rollout.RoleEtcd, "CloudStack marks it as etcd, but its cluster record counts no etcd nodes"}
	case etcd && hasName && named != rollout.RoleEtcd:
		return assignment{rollout.RoleEtcd, fmt.Sprintf("CloudStack marks it as etcd, but its name says %s", named)}
	case etcd:
		return assignment{role: rollout.RoleEtcd}
	}
	role := rollout.RoleWorker
	if controlLeft {
		role = rollout.RoleControl
	}
	if hasName && named != role {
		return assignment{role, fmt.Sprintf("its position in the cluster says %s, but its name says %s", role, named)}
	}
	return assignment{role: role}
}

func isTrue(mark *bool) bool { return mark != nil && *mark }
