package cloudstack

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	sdk "github.com/apache/cloudstack-go/v2/cloudstack"
)

// Truth is what is known about a yes-or-no question. Its zero value is Unknown: what could not be read is never a "no".
type Truth int

// The truths.
const (
	Unknown Truth = iota
	Yes
	No
)

// String prints the truth.
func (t Truth) String() string { return [...]string{"unknown", "yes", "no"}[t] }

func truth(b bool) Truth {
	if b {
		return Yes
	}
	return No
}

// Fact is a Truth and where it comes from: the command and field that were read, or why they could not be.
type Fact struct {
	Truth  Truth
	Source string
}

// Facts is what preflight asks CloudStack before a rollout. It is best effort: each fact says for itself whether it is known.
type Facts struct {
	// Version is CloudStack's version, empty if it could not be read.
	Version string
	// DynamicScaling: the zone allows to scale running VMs (enable.dynamic.scale.vm).
	DynamicScaling Fact
	// Templates holds, by template id of the cluster's VMs, the template's isdynamicallyscalable flag.
	Templates map[string]Fact
	// Permitted holds, by command of Commands, whether the account may use it.
	Permitted map[string]Fact
}

// Facts reads what preflight wants to know. Its only error is the end of ctx.
func (c *Client) Facts(ctx context.Context, cluster Cluster) (Facts, error) {
	var facts Facts
	var permitted map[string]Fact
	var reads sync.WaitGroup
	reads.Go(func() { facts = c.conditions(ctx, cluster) })
	reads.Go(func() { permitted = c.permitted(ctx) })
	reads.Wait()
	facts.Permitted = permitted
	return facts, ctx.Err()
}

// conditions reads what live scaling depends on: all of Facts but what is permitted.
func (c *Client) conditions(ctx context.Context, cluster Cluster) Facts {
	var facts Facts
	var general, zone Fact
	var reads sync.WaitGroup
	reads.Go(func() { facts.Version, general = c.capabilities(ctx) })
	reads.Go(func() { zone = c.zoneScaling(ctx, cluster.ZoneID) })
	reads.Go(func() { facts.Templates = c.templateFlags(ctx, cluster) })
	reads.Wait()
	facts.DynamicScaling = general
	if zone.Truth != Unknown {
		facts.DynamicScaling = zone
	}
	return facts
}

// capabilities reads the version, and whether dynamic scaling is allowed in general; a zone may differ from it.
func (c *Client) capabilities(ctx context.Context) (string, Fact) {
	var reply *sdk.ListCapabilitiesResponse
	_, err := c.read(ctx, "listCapabilities", func(cs *sdk.CloudStackClient) (err error) {
		reply, err = cs.Configuration.ListCapabilities(cs.Configuration.NewListCapabilitiesParams())
		return err
	})
	if err != nil {
		return "", Fact{Source: err.Error()}
	}
	if reply.Capabilities == nil {
		return "", Fact{Source: "listCapabilities answered nothing"}
	}
	return reply.Capabilities.Cloudstackversion, Fact{
		Truth:  truth(reply.Capabilities.Dynamicscalingenabled),
		Source: "listCapabilities dynamicscalingenabled (of all zones; a zone may differ)",
	}
}

// zoneScaling reads the zone's own setting, which only administrators may.
func (c *Client) zoneScaling(ctx context.Context, zoneID string) Fact {
	const setting = "enable.dynamic.scale.vm"
	if zoneID == "" {
		return Fact{Source: "the cluster names no zone"}
	}
	var reply *sdk.ListConfigurationsResponse
	_, err := c.read(ctx, "listConfigurations", func(cs *sdk.CloudStackClient) (err error) {
		params := cs.Configuration.NewListConfigurationsParams()
		params.SetName(setting)
		params.SetZoneid(zoneID)
		reply, err = cs.Configuration.ListConfigurations(params)
		return err
	})
	if err != nil {
		return Fact{Source: err.Error()}
	}
	for _, found := range reply.Configurations {
		if found.Name == setting {
			return Fact{Truth: truth(strings.EqualFold(found.Value, "true")), Source: fmt.Sprintf("listConfigurations %s of zone %s", setting, zoneID)}
		}
	}
	return Fact{Source: "listConfigurations has no " + setting}
}

// templateFlags reads the flag of each template that the cluster's VMs were made from. CKS' own template is of type SYSTEM:
// only administrators see it, with the filter "all".
func (c *Client) templateFlags(ctx context.Context, cluster Cluster) map[string]Fact {
	out := map[string]Fact{}
	for _, vm := range cluster.VMs {
		if id := vm.Instance.TemplateID; id != "" {
			out[id] = Fact{Source: "listTemplates does not show this template to the account"}
		}
	}
	for id := range out {
		fact, found := c.templateFlag(ctx, id, "executable")
		if !found && fact.Source == "" {
			// Ordinary accounts are refused this filter, which tells nothing new: the template is not shown to them.
			if system, shown := c.templateFlag(ctx, id, "all"); shown {
				fact = system
			}
		}
		if fact.Source != "" {
			out[id] = fact
		}
	}
	return out
}

func (c *Client) templateFlag(ctx context.Context, id, filter string) (fact Fact, found bool) {
	var reply *sdk.ListTemplatesResponse
	_, err := c.read(ctx, "listTemplates", func(cs *sdk.CloudStackClient) (err error) {
		params := cs.Template.NewListTemplatesParams(filter)
		params.SetId(id)
		params.SetListall(true)
		reply, err = cs.Template.ListTemplates(params)
		return err
	})
	if err != nil {
		return Fact{Source: err.Error()}, false
	}
	if len(reply.Templates) == 0 {
		return Fact{}, false
	}
	return Fact{Truth: truth(reply.Templates[0].Isdynamicallyscalable), Source: "listTemplates isdynamicallyscalable"}, true
}

// permitted asks which commands the account's role allows: listApis names only those.
func (c *Client) permitted(ctx context.Context) map[string]Fact {
	out := make(map[string]Fact, len(Commands()))
	var reply *sdk.ListApisResponse
	_, err := c.read(ctx, "listApis", func(cs *sdk.CloudStackClient) (err error) {
		reply, err = cs.APIDiscovery.ListApis(cs.APIDiscovery.NewListApisParams())
		return err
	})
	for _, command := range Commands() {
		if err != nil {
			out[command.Name] = Fact{Source: err.Error()}
			continue
		}
		listed := slices.ContainsFunc(reply.Apis, func(api *sdk.Api) bool { return strings.EqualFold(api.Name, command.Name) })
		out[command.Name] = Fact{Truth: truth(listed), Source: "listApis"}
	}
	return out
}
