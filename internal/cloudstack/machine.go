package cloudstack

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// anyProject as projectid asks for what belongs to any project; without a projectid CloudStack lists nothing that does.
const anyProject = "-1"

// loginDetail is the VM detail with the SSH user, where it is not "cloud".
const loginDetail = "controlNodeLoginUser"

// machine is a virtual machine as CloudStack sends it, in the parts that trueup uses. The SDK's struct lacks the marks of
// external and etcd nodes, and would fail as a whole if one of its hundred other fields came in another type.
type machine struct {
	ID                  string         `json:"id"`
	Name                string         `json:"name"`
	State               string         `json:"state"`
	Hypervisor          string         `json:"hypervisor"`
	ZoneID              string         `json:"zoneid"`
	TemplateID          string         `json:"templateid"`
	OfferingID          string         `json:"serviceofferingid"`
	OfferingName        string         `json:"serviceofferingname"`
	CPUs                number         `json:"cpunumber"`
	SpeedMHz            number         `json:"cpuspeed"`
	MemoryMiB           number         `json:"memory"`
	DynamicallyScalable bool           `json:"isdynamicallyscalable"`
	Details             map[string]any `json:"details"`
	NICs                []nic          `json:"nic"`
	JobID               string         `json:"jobid"`
	JobStatus           number         `json:"jobstatus"`
	// The marks are in the cluster's list only. Nil: this CloudStack version does not know the mark.
	External *bool `json:"isexternalnode"`
	Etcd     *bool `json:"isetcdnode"`
}

type nic struct {
	NetworkID string `json:"networkid"`
	Address   string `json:"ipaddress"`
	Default   bool   `json:"isdefault"`
}

func (m machine) instance() capacity.Instance {
	user, _ := m.Details[loginDetail].(string)
	return capacity.Instance{
		ID: m.ID, Name: m.Name, State: m.State,
		OfferingID: m.OfferingID, OfferingName: m.OfferingName,
		CPUs: int(m.CPUs), SpeedMHz: int(m.SpeedMHz), MemoryMiB: int64(m.MemoryMiB),
		DynamicallyScalable: m.DynamicallyScalable,
		TemplateID:          m.TemplateID, ZoneID: m.ZoneID, LoginUser: user,
	}
}

// pendingJob is the id of the job that CloudStack is working on for this machine, else empty.
func (m machine) pendingJob() string {
	if rollout.JobStatus(m.JobStatus) == rollout.JobPending {
		return m.JobID
	}
	return ""
}

// address is the machine's address in the network, else on its default NIC, else on any.
func (m machine) address(networkID string) string {
	for _, fits := range []func(nic) bool{
		func(n nic) bool { return n.NetworkID == networkID },
		func(n nic) bool { return n.Default },
		func(nic) bool { return true },
	} {
		if i := slices.IndexFunc(m.NICs, func(n nic) bool { return n.Address != "" && fits(n) }); i >= 0 {
			return m.NICs[i].Address
		}
	}
	return ""
}

// Instance reads the VM, CloudStack's clock, and the id of a job that is pending on it. An unknown id is rollout.ErrNotFound.
func (c *Client) Instance(ctx context.Context, instanceID string) (rollout.InstanceReading, error) {
	m, served, err := c.machine(ctx, instanceID)
	if err != nil {
		return rollout.InstanceReading{}, err
	}
	return rollout.InstanceReading{Instance: m.instance(), ServerTime: served, PendingJobID: m.pendingJob()}, nil
}

// machine looks for the VM outside of projects, then within. It returns CloudStack's clock with it.
func (c *Client) machine(ctx context.Context, id string) (machine, time.Time, error) {
	for _, project := range []string{"", anyProject} {
		list, served, err := c.machines(ctx, []string{id}, project)
		if unknownID(err) {
			break
		}
		if err != nil {
			return machine{}, time.Time{}, fmt.Errorf("read instance %s: %w", id, err)
		}
		if len(list) == 1 && served.IsZero() {
			return machine{}, served, fmt.Errorf("the answer of %s has no Date header, which is CloudStack's clock to trueup; a proxy in between must let it through", c.host)
		}
		if len(list) == 1 {
			return list[0], served, nil
		}
	}
	return machine{}, time.Time{}, fmt.Errorf("instance %s: %w in CloudStack, or not visible to this account", id, rollout.ErrNotFound)
}

// machines lists the VMs with these ids, in no promised order.
func (c *Client) machines(ctx context.Context, ids []string, projectID string) (list []machine, served time.Time, err error) {
	list, err = all(func(p page) ([]machine, int, error) {
		params := map[string]string{"ids": strings.Join(ids, ","), "listall": "true"}
		if len(ids) == 1 {
			params = map[string]string{"id": ids[0], "listall": "true"}
		}
		if projectID != "" {
			params["projectid"] = projectID
		}
		p.set(params)
		var reply struct {
			Count int       `json:"count"`
			List  []machine `json:"virtualmachine"`
		}
		var err error
		served, err = c.get(ctx, "listVirtualMachines", params, &reply)
		return reply.List, reply.Count, err
	})
	return list, served, err
}

// number is a count that CloudStack sends as a number, as text, or, where it has none, as empty text.
type number int64

// UnmarshalJSON accepts all three forms.
func (n *number) UnmarshalJSON(text []byte) error {
	trimmed := strings.Trim(string(text), `"`)
	if trimmed == "" || trimmed == "null" {
		*n = 0
		return nil
	}
	var value int64
	if err := json.Unmarshal([]byte(trimmed), &value); err != nil {
		return err
	}
	*n = number(value)
	return nil
}
