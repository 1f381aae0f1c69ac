package standin

import "strings"

// command is one API command. param.Required is checked before run.
type command struct {
	name, description string
	class             string // the Java class, as jobs show it
	async, admin      bool
	params            []param
	run               func(*call) (any, error)
}

// param is a parameter of a command, as listApis shows it.
type param struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Required bool   `json:"required"`
}

func (c command) lower() string { return strings.ToLower(c.name) }

// commandTable returns the commands of the model by their name in lower case.
func commandTable() map[string]command {
	table := map[string]command{}
	for _, list := range [][]command{readCommands(), changeCommands()} {
		for _, c := range list {
			table[c.lower()] = c
		}
	}
	return table
}

func readCommands() []command {
	return []command{
		{name: "listAccounts", description: "Lists accounts and provides detailed account information for listed accounts", params: listParams("id", "name", "domainid", "listall"), run: listAccounts},
		{name: "listProjects", description: "Lists projects and provides detailed information for listed projects", params: listParams("id", "name", "listall"), run: listProjects},
		{name: "listApis", description: "lists all available apis on the server, provided by the Api Discovery plugin", params: optional("name"), run: listApis},
		{name: "listAsyncJobs", description: "Lists all pending asynchronous jobs for the account.", params: listParams("startdate"), run: listAsyncJobs},
		{name: "listCapabilities", description: "Lists capabilities", run: listCapabilities},
		{name: "listConfigurations", description: "Lists all configurations.", admin: true, params: listParams("name", "category", "zoneid", "clusterid", "accountid"), run: listConfigurations},
		{name: "listKubernetesClusters", description: "Lists Kubernetes clusters", params: listParams("id", "name", "state", "clustertype", "projectid", "listall"), run: listKubernetesClusters},
		{name: "listKubernetesSupportedVersions", description: "Lists supported Kubernetes version", params: listParams("id", "zoneid"), run: listKubernetesVersions},
		{name: "getKubernetesClusterConfig", description: "Get Kubernetes cluster config", params: optional("id"), run: getKubernetesClusterConfig},
		{name: "listNetworks", description: "Lists all available networks.", params: listParams("id", "type", "zoneid", "vpcid", "projectid", "listall"), run: listNetworks},
		{name: "listPortForwardingRules", description: "Lists all port forwarding rules for an IP address.", params: listParams("id", "ipaddressid", "networkid", "projectid", "listall"), run: listPortForwardingRules},
		{name: "listPublicIpAddresses", description: "Lists all public ip addresses", params: listParams("id", "ipaddress", "associatednetworkid", "vpcid", "issourcenat", "zoneid", "projectid", "listall"), run: listPublicIPAddresses},
		{name: "listServiceOfferings", description: "Lists all available service offerings.", params: listParams("id", "name", "virtualmachineid", "state", "zoneid"), run: listServiceOfferings},
		{name: "listTemplates", description: "List all public, private, and privileged templates.", params: append(required("templatefilter"), listParams("id", "name", "zoneid")...), run: listTemplates},
		{name: "listVirtualMachines", description: "List the virtual machines owned by the account.", params: listParams("id", "ids", "name", "state", "zoneid", "hostid", "networkid", "projectid", "listall"), run: listVirtualMachines},
		{name: "listZones", description: "Lists zones", params: listParams("id", "name", "available"), run: listZones},
		{name: "queryAsyncJobResult", description: "Retrieves the current status of asynchronous job.", params: required("jobid"), run: queryAsyncJobResult},
	}
}

func changeCommands() []command {
	return append(vmChangeCommands(), []command{
		{
			name: "scaleKubernetesCluster", description: "Scales a created, running or stopped Kubernetes cluster", async: true,
			class:  "org.apache.cloudstack.api.command.user.kubernetes.cluster.ScaleKubernetesClusterCmd",
			params: append(required("id"), optional("serviceofferingid", "nodeofferings", "size", "nodeids", "autoscalingenabled", "minsize", "maxsize")...),
			run:    scaleKubernetesCluster,
		},
		{
			name: "startKubernetesCluster", description: "Starts a stopped Kubernetes cluster", async: true,
			class:  "org.apache.cloudstack.api.command.user.kubernetes.cluster.StartKubernetesClusterCmd",
			params: required("id"), run: startKubernetesCluster,
		},
		{
			name: "stopKubernetesCluster", description: "Stops a running Kubernetes cluster", async: true,
			class:  "org.apache.cloudstack.api.command.user.kubernetes.cluster.StopKubernetesClusterCmd",
			params: required("id"), run: stopKubernetesCluster,
		},
	}...)
}

func vmChangeCommands() []command {
	return []command{
		{
			name: "scaleVirtualMachine", description: "Scales the virtual machine to a new service offering.", async: true,
			class:  "org.apache.cloudstack.api.command.user.vm.ScaleVMCmd",
			params: append(required("id", "serviceofferingid"), optional("details", "miniops", "maxiops", "automigrate", "shrinkok")...),
			run:    scaleVirtualMachine,
		},
		{
			name: "startVirtualMachine", description: "Starts  an Instance.", async: true,
			class:  "org.apache.cloudstack.api.command.user.vm.StartVMCmd",
			params: append(required("id"), optional("hostid", "considerlasthost")...), run: startVirtualMachine,
		},
		{
			name: "stopVirtualMachine", description: "Stops  an Instance.", async: true,
			class:  "org.apache.cloudstack.api.command.user.vm.StopVMCmd",
			params: append(required("id"), optional("forced")...), run: stopVirtualMachine,
		},
		{
			name: "updateVirtualMachine", description: "Updates properties of an Instance.",
			class:  "org.apache.cloudstack.api.command.user.vm.UpdateVMCmd",
			params: append(required("id"), optional("isdynamicallyscalable")...), run: updateVirtualMachine,
		},
	}
}

func required(names ...string) []param { return params(true, names) }
func optional(names ...string) []param { return params(false, names) }

func params(required bool, names []string) []param {
	out := make([]param, 0, len(names))
	for _, name := range names {
		out = append(out, param{Name: name, Type: "string", Required: required})
	}
	return out
}

// listParams are the given ones and those of every list.
func listParams(names ...string) []param {
	return append(optional(names...), optional("keyword", "page", "pagesize")...)
}
