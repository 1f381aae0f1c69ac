package cloudstack

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// Obstacle is one of the conditions under which CloudStack makes a machine fit for live scaling, where it is not fulfilled or could not be read.
// Only an administrator of CloudStack can change it.
type Obstacle struct {
	// What is in the way, for example: template T is not dynamically scalable.
	What string
	// Known: it was read that the condition is not fulfilled. Else it could not be read, for the reason in Source.
	Known  bool
	Source string
	// Calls are what an administrator has to call, for CloudMonkey in a shell; empty where no call helps.
	Calls []string
	// Note says what is to know beside the calls; empty where there is nothing.
	Note string
}

// String says it to a person, and ends with the call, if there is one.
func (o Obstacle) String() string {
	text := fmt.Sprintf("%s (%s).", o.What, o.Source)
	if o.Note != "" {
		text += " " + o.Note
	}
	if len(o.Calls) > 0 {
		text += " An administrator of CloudStack changes it with: " + strings.Join(o.Calls, "; ")
	}
	return text
}

// MarkObstacles says what stands in the way of SetDynamicallyScalable for the machine, a sentence each that ends with the call of an administrator
// that mends it. What the account can't read is no obstacle: the call itself tells. rollout.ErrNotFound if there is no such machine.
func (c *Client) MarkObstacles(ctx context.Context, instanceID string) ([]string, error) {
	reading, err := c.Instance(ctx, instanceID)
	if err != nil {
		return nil, err
	}
	vm := reading.Instance
	facts := c.conditions(ctx, Cluster{ZoneID: vm.ZoneID, VMs: []VM{{Instance: vm}}})
	var offering capacity.Offering
	if list, err := c.offerings(ctx, vm.OfferingID, ""); err == nil && len(list) == 1 {
		offering = list[0]
	}
	var known []string
	for _, o := range facts.Obstacles(vm, offering) {
		if o.Known {
			known = append(known, o.String())
		}
	}
	return known, ctx.Err()
}

// Obstacles are the conditions that a machine with the offering does not fulfil, or of which it is not known: those of updateVirtualMachine, in
// the order in which CloudStack checks them (UserVmManagerImpl.validateDynamicScaling), and then what CloudStack's version asks of the offering
// when it starts the machine (KVMGuru, before 4.23). Without any, SetDynamicallyScalable and a stop and start make the machine fit.
func (f Facts) Obstacles(vm capacity.Instance, offering capacity.Offering) []Obstacle {
	var found []Obstacle
	for _, o := range []Obstacle{f.template(vm), offeringFlag(vm, offering), f.zone(vm), f.fixedOffering(offering)} {
		if o.What != "" {
			found = append(found, o)
		}
	}
	return found
}

func (f Facts) template(vm capacity.Instance) Obstacle {
	flag := f.Templates[vm.TemplateID]
	if flag.Truth == Yes {
		return Obstacle{}
	}
	return Obstacle{
		What:  said(flag, "template "+vm.TemplateID, "is not dynamically scalable", "is dynamically scalable"),
		Known: flag.Truth == No, Source: flag.Source,
		Calls: []string{"cmk update template id=" + rollout.Word(vm.TemplateID) + " isdynamicallyscalable=true"},
		Note: "The template that CKS brings along is a system template; whether CloudStack takes the call for one is not known. Else: register a template of " +
			"your own with isdynamicallyscalable=true and forcks=true, and make new clusters from it.",
	}
}

func offeringFlag(vm capacity.Instance, o capacity.Offering) Obstacle {
	switch {
	case o.ID == "":
		return Obstacle{What: "whether offering " + vm.OfferingName + " has dynamic scaling enabled is not known", Source: "listServiceOfferings does not show it to this account"}
	case o.DynamicScaling:
		return Obstacle{}
	}
	size := fmt.Sprintf("cpunumber=%d cpuspeed=%d memory=%d", o.CPUs, o.SpeedMHz, o.MemoryMiB)
	if o.Custom {
		size = "customized=true"
	}
	name := rollout.Word(o.Name + "-dynamic")
	return Obstacle{
		What: "offering " + o.Name + " does not have dynamic scaling enabled", Known: true, Source: "listServiceOfferings dynamicscalingenabled",
		Calls: []string{"cmk create serviceoffering name=" + name + " displaytext=" + name + " " + size + " dynamicscalingenabled=true"},
		Note:  "CloudStack does not change this of an offering that exists: make another one, and bring the machines to it by the cold method. Give it the storage and host tags of the old one.",
	}
}

func (f Facts) zone(vm capacity.Instance) Obstacle {
	if f.DynamicScaling.Truth == Yes {
		return Obstacle{}
	}
	return Obstacle{
		What:  said(f.DynamicScaling, "zone "+vm.ZoneID, "does not allow dynamic scaling (enable.dynamic.scale.vm)", "allows dynamic scaling (enable.dynamic.scale.vm)"),
		Known: f.DynamicScaling.Truth == No, Source: f.DynamicScaling.Source,
		Calls: []string{"cmk update configuration name=enable.dynamic.scale.vm value=true zoneid=" + rollout.Word(vm.ZoneID)},
	}
}

func said(f Fact, subject, no, yes string) string {
	if f.Truth == No {
		return subject + " " + no
	}
	return fmt.Sprintf("whether %s %s is not known", subject, yes)
}

// oldVersion matches the versions that scale no machine of a fixed offering while it runs: those before 4.23.
var oldVersion = regexp.MustCompile(`^4\.(\d|1\d|2[0-2])(\.|$)`)

func (f Facts) fixedOffering(o capacity.Offering) Obstacle {
	if o.Custom || o.ID == "" || !oldVersion.MatchString(f.Version) {
		return Obstacle{}
	}
	return Obstacle{
		What:  fmt.Sprintf("CloudStack %s gives a machine of a fixed offering (%s) no room to grow while it runs", f.Version, o.Name),
		Known: true, Source: "listCapabilities cloudstackversion",
		Note: "CloudStack 4.23 is the first that does. Until then machines change their size by the cold method.",
	}
}
