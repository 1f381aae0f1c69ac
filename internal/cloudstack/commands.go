package cloudstack

import (
	"fmt"
	"strings"
)

// Command is a command of CloudStack's API that this package sends.
type Command struct {
	Name string
	// For says what it is needed for, without commas or quotes: the import of roles in CloudStack's web interface splits its file at each comma.
	For string
	// Live and Offline: a change of a running cluster, or of a Created or Stopped one, is not begun without it.
	Live, Offline bool
	// Cold: the method that stops machines is not begun without it, and no other needs it.
	Cold bool
	// Admin: it shows more than belongs to the account, so that a role of least rights has not got it.
	Admin bool
}

// Commands are all commands that this package sends, by name; it sends no other. A test holds both.
func Commands() []Command {
	return []Command{
		{Name: "getKubernetesClusterConfig", For: "the kubeconfig; not needed with --kubeconfig"},
		{Name: "listAccounts", For: "whether the limits of the account leave room"},
		{Name: "listApis", For: "the check of these permissions"},
		{Name: "listAsyncJobs", For: "finds a job whose reply was lost"},
		{Name: "listCapabilities", For: "version and clock of CloudStack; whether zones allow live scaling", Offline: true},
		{Name: "listConfigurations", For: "whether this zone allows live scaling", Admin: true},
		{Name: "listKubernetesClusters", For: "the clusters and their machines", Live: true, Offline: true},
		{Name: "listPortForwardingRules", For: "where sshd of each node answers"},
		{Name: "listProjects", For: "the same for a cluster in a project"},
		{Name: "listServiceOfferings", For: "the offerings", Live: true, Offline: true},
		{Name: "listTemplates", For: "whether the templates of the machines allow live scaling"},
		{Name: "listVirtualMachines", For: "offerings and states of the machines", Live: true, Offline: true},
		{Name: "queryAsyncJobResult", For: "the outcome of a job", Live: true, Offline: true},
		{Name: "scaleKubernetesCluster", For: "changes a Created or Stopped cluster", Offline: true},
		{Name: "scaleVirtualMachine", For: "resizes a machine of a running cluster", Live: true},
		{Name: "startKubernetesCluster", For: "starts a Stopped cluster: scale --start"},
		{Name: "startVirtualMachine", For: "only --method cold and prepare: starts a machine again", Cold: true},
		{Name: "stopVirtualMachine", For: "only --method cold and prepare: stops a drained machine", Cold: true},
		{Name: "updateVirtualMachine", For: "only prepare: marks a machine as fit for live scaling"},
	}
}

// Needed are the names of the commands without which no change is begun of a running cluster, or, offline, of a Created or Stopped one.
func Needed(offline bool) (names []string) {
	for _, c := range Commands() {
		if offline && c.Offline || !offline && c.Live {
			names = append(names, c.Name)
		}
	}
	return names
}

// NeededCold are the names of the commands without which the cold method is not begun: those for a running cluster, and those that it alone needs.
func NeededCold() (names []string) {
	for _, c := range Commands() {
		if c.Live || c.Cold {
			names = append(names, c.Name)
		}
	}
	return names
}

// rule is a rule of a role. CloudStack takes the first that matches.
type rule struct{ name, permission, description string }

// roleRules allow what a role of least rights has, and deny everything else. The last rule is not implied: what no rule of a role
// matches, CloudStack still allows if the command itself is marked for the role's type (DynamicRoleBasedAPIAccessChecker).
func roleRules() (rules []rule) {
	for _, c := range Commands() {
		if !c.Admin {
			rules = append(rules, rule{c.Name, "allow", c.For})
		}
	}
	return append(rules, rule{"*", "deny", "nothing else"})
}

// RoleCSV returns the rules of a role of least rights as the file that CloudStack's web interface imports (Roles: Import Role).
func RoleCSV() string {
	var b strings.Builder
	b.WriteString("rule,permission,description\n")
	for _, r := range roleRules() {
		fmt.Fprintf(&b, "%s,%s,%s\n", r.name, r.permission, r.description)
	}
	return b.String()
}

// RoleCalls returns the same as calls of CloudMonkey for a shell, in the order in which CloudStack shall keep the rules.
func RoleCalls(version string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# The API commands that trueup %s uses, for an account of its own; anew after each upgrade of trueup.\n", version)
	b.WriteString("# Make the role first and put its id into ROLE:\n#   cmk create role name=trueup type=User\n: \"${ROLE:?the id of the role}\"\n")
	for _, r := range roleRules() {
		fmt.Fprintf(&b, "cmk create rolepermission roleid=\"$ROLE\" permission=%s rule='%s' description=\"%s\"\n", r.permission, r.name, r.description)
	}
	return b.String()
}
