package cloudstack

import (
	"context"
	"fmt"
	"slices"

	sdk "github.com/apache/cloudstack-go/v2/cloudstack"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// Offerings lists the compute offerings that the account may use, as CloudStack orders them.
func (c *Client) Offerings(ctx context.Context) ([]capacity.Offering, error) {
	return c.offerings(ctx, "", "")
}

// Suits tells whether CloudStack offers the change of a VM to another offering: active, with the same storage, tags that it keeps, and nothing smaller
// while it runs. It is asked about every other offering at once; the one that the VM has is not among them.
func (c *Client) Suits(ctx context.Context, instanceID, offeringID string) (bool, error) {
	list, err := c.offerings(ctx, "", instanceID)
	return slices.ContainsFunc(list, func(o capacity.Offering) bool { return o.ID == offeringID }), err
}

// Offering finds a compute offering by id or name. If there is not exactly one, the error is a *LookupError.
func (c *Client) Offering(ctx context.Context, nameOrID string) (capacity.Offering, error) {
	list, err := c.Offerings(ctx)
	if err != nil {
		return capacity.Offering{}, err
	}
	return lookup("compute offering", nameOrID, list, func(o capacity.Offering) Candidate {
		return Candidate{ID: o.ID, Name: o.Name, Note: o.Size()}
	})
}

// Present reads the offering that a machine has, by its id. rollout.ErrNotFound if it is not shown to the account.
func (c *Client) Present(ctx context.Context, id string) (capacity.Offering, error) {
	list, err := c.offerings(ctx, id, "")
	if err == nil && len(list) != 1 {
		err = fmt.Errorf("offering %s: %w", id, rollout.ErrNotFound)
	}
	if err != nil {
		return capacity.Offering{}, err
	}
	return list[0], nil
}

// offerings lists all offerings, or the one with the id, or those that a VM could change to.
func (c *Client) offerings(ctx context.Context, id, instanceID string) ([]capacity.Offering, error) {
	list, err := all(func(p page) ([]*sdk.ServiceOffering, int, error) {
		var reply *sdk.ListServiceOfferingsResponse
		_, err := c.read(ctx, "listServiceOfferings", func(cs *sdk.CloudStackClient) (err error) {
			params := cs.ServiceOffering.NewListServiceOfferingsParams()
			params.SetListall(true)
			if id != "" {
				params.SetId(id)
			}
			if instanceID != "" {
				params.SetVirtualmachineid(instanceID)
			}
			p.apply(params)
			reply, err = cs.ServiceOffering.ListServiceOfferings(params)
			return err
		})
		if err != nil {
			return nil, 0, err
		}
		return reply.ServiceOfferings, reply.Count, nil
	})
	if err != nil {
		return nil, fmt.Errorf("list compute offerings: %w", err)
	}
	out := make([]capacity.Offering, 0, len(list))
	for _, o := range list {
		out = append(out, offering(o))
	}
	return out, nil
}

func offering(o *sdk.ServiceOffering) capacity.Offering {
	return capacity.Offering{
		ID: o.Id, Name: o.Name, CPUs: o.Cpunumber, SpeedMHz: o.Cpuspeed, MemoryMiB: int64(o.Memory),
		Custom: o.Iscustomized, DynamicScaling: o.Dynamicscalingenabled,
	}
}
