package standin

import (
	"slices"
	"strings"
)

// listCapabilities is how an ordinary user learns of versions and of dynamic scaling.
func listCapabilities(c *call) (any, error) {
	m := c.m
	return map[string]any{"capability": map[string]any{
		"cloudstackversion":                            m.cfg.Version,
		"kubernetesserviceenabled":                     m.settingBool(SettingKubernetes, ""),
		"kubernetesclusterexperimentalfeaturesenabled": false,
		"dynamicscalingenabled":                        m.anyZoneScales(),
		"dynamicrolesenabled":                          true,
		"apilimitmax":                                  m.cfg.RateLimit,
		"apilimitinterval":                             int(m.cfg.RateInterval.Seconds()),
		"defaultuipagesize":                            20,
	}}, nil
}

// anyZoneScales is the global value of the zone setting; this model lets one zone's value stand for it.
func (m *Model) anyZoneScales() bool {
	return slices.ContainsFunc(m.zones, func(z *Zone) bool { return m.settingBool(SettingDynamicScaling, z.ID) })
}

type zoneJSON struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	NetworkType string `json:"networktype"`
	Allocation  string `json:"allocationstate"`
	Type        string `json:"type"`
}

func listZones(c *call) (any, error) {
	var out []zoneJSON
	for _, z := range c.m.zones {
		if matches(c.str("id"), z.ID) && matches(c.str("name"), z.Name) && contains(z.Name, c.str("keyword")) {
			out = append(out, zoneJSON{z.ID, z.Name, "Advanced", "Enabled", "Core"})
		}
	}
	return listReply(c, "zone", out), nil
}

type templateJSON struct {
	ID                  string `json:"id"`
	Name                string `json:"name"`
	Ready               bool   `json:"isready"`
	DynamicallyScalable bool   `json:"isdynamicallyscalable"`
	ForCKS              bool   `json:"forcks"`
	Hypervisor          string `json:"hypervisor"`
	Type                string `json:"templatetype"`
	OSType              string `json:"ostypename,omitempty"`
	Arch                string `json:"arch"`
}

func listTemplates(c *call) (any, error) {
	if c.str("templatefilter") == "all" && !c.account.Admin {
		return nil, apiErrorf(CodeParameter, "Filter all can be specified by admin only")
	}
	var out []templateJSON
	for _, t := range c.m.templates {
		if t.System && !c.account.Admin {
			continue
		}
		if matches(c.str("id"), t.ID) && matches(c.str("name"), t.Name) && contains(t.Name, c.str("keyword")) {
			out = append(out, t.json())
		}
	}
	return listReply(c, "template", out), nil
}

func (t *Template) json() templateJSON {
	kind := "USER"
	if t.System {
		kind = "SYSTEM"
	}
	return templateJSON{t.ID, t.Name, true, t.DynamicallyScalable, t.ForCKS, "KVM", kind, t.OSType, "x86_64"}
}

type configurationJSON struct {
	Name     string `json:"name"`
	Value    string `json:"value"`
	Default  string `json:"defaultvalue"`
	Scope    string `json:"scope"`
	Category string `json:"category"`
	Dynamic  bool   `json:"isdynamic"`
	Type     string `json:"type"`
}

// listConfigurations shows the global values, or with zoneid those of one zone.
func listConfigurations(c *call) (any, error) {
	zone := c.str("zoneid")
	if zone != "" && c.m.zone(zone) == nil {
		return nil, unknownID(c.command.lower(), "zoneid", zone)
	}
	var out []configurationJSON
	for _, s := range knownSettings() {
		if !matches(c.str("name"), s.name) || !contains(s.name, c.str("keyword")) || zone != "" && s.scope != "Zone" {
			continue
		}
		value := c.m.setting(s.name, zone)
		out = append(out, configurationJSON{s.name, value, s.fallback, s.scope, s.category, true, typeOf(s.fallback)})
	}
	return listReply(c, "configuration", out), nil
}

func typeOf(value string) string {
	if value == "true" || value == "false" {
		return "Boolean"
	}
	return "Number"
}

type apiJSON struct {
	Name        string              `json:"name"`
	Description string              `json:"description"`
	Async       bool                `json:"isasync"`
	Since       string              `json:"since,omitempty"`
	Related     string              `json:"related"`
	Params      []param             `json:"params"`
	Response    []map[string]string `json:"response"`
}

// listApis shows only what the role of the caller allows, so it answers what one may do.
func listApis(c *call) (any, error) {
	var out []apiJSON
	for _, cmd := range c.m.commands {
		if c.account.may(cmd) && (c.str("name") == "" || strings.EqualFold(c.str("name"), cmd.name)) {
			out = append(out, apiJSON{Name: cmd.name, Description: cmd.description, Async: cmd.async, Params: cmd.params, Response: []map[string]string{}})
		}
	}
	if len(out) == 0 && c.str("name") != "" {
		return nil, apiErrorf(CodeParameter, "API name not found: %s", c.str("name"))
	}
	slices.SortFunc(out, func(a, b apiJSON) int { return strings.Compare(a.Name, b.Name) })
	return listReply(c, "api", out), nil
}
