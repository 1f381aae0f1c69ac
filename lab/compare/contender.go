package compare

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// Contender is one way to take nodes to another offering.
type Contender struct {
	// Name is a word for tables and files.
	Name string
	// What says in a line what it is.
	What    string
	command func(task) []string
}

// Programs are the programs that were built for the comparison, and the checkout's folder of contenders.
type Programs struct{ Trueup, Reconciler, Folder string }

// task is what a contender is told: where everything answers, and what is to be done. All of its addresses are relays'.
type task struct {
	programs               Programs
	cluster, offeringID    string
	cpus, mib              int
	kubeconfig             string
	controlPort            int
	nodes                  []target
	url, apiKey, secretKey string
	sshKey, knownHosts     string
	home, path             string
}

// target is a worker.
type target struct {
	name, vmID string
	port       int
}

// Contenders are those that are compared, in the order of each round.
func Contenders() []Contender {
	return []Contender{
		{"trueup", "trueup with its settle window of 15 s", func(t task) []string { return t.trueup() }},
		{"trueup-no-settle", "trueup --settle 0s", func(t task) []string { return append(t.trueup(), "--settle", "0s") }},
		{"runbook", "the usual runbook: curl, kubectl and ssh, looking every 5 s", func(t task) []string { return t.script("runbook.sh") }},
		{"runbook-tuned", "the same, tuned: kept SSH connections, kubectl wait, looking every second", func(t task) []string { return t.script("tuned.sh") }},
		{"reconciler", "the loop of CloudStack's draft reconciler", func(t task) []string { return t.reconciler() }},
	}
}

func (t task) trueup() []string {
	return []string{t.programs.Trueup, "scale", t.cluster, "--worker", t.offeringID, "--yes", "--kubeconfig", t.kubeconfig}
}

func (t task) script(name string) []string {
	return append([]string{filepath.Join(t.programs.Folder, "runbook", name), t.offeringID, strconv.Itoa(t.cpus), strconv.Itoa(t.mib)}, t.entries()...)
}

func (t task) reconciler() []string {
	return append([]string{t.programs.Reconciler, t.offeringID, strconv.Itoa(t.cpus), strconv.Itoa(t.mib), strconv.Itoa(t.controlPort)}, t.entries()...)
}

// entries are the nodes as the scripts take them.
func (t task) entries() (all []string) {
	for _, n := range t.nodes {
		all = append(all, fmt.Sprintf("%s=%s=%d", n.name, n.vmID, n.port))
	}
	return all
}

// environment is the same for all contenders.
func (t task) environment() []string {
	return []string{
		"HOME=" + t.home, "PATH=" + t.path + string(os.PathListSeparator) + os.Getenv("PATH"), "KUBECONFIG=" + t.kubeconfig,
		"CLOUDSTACK_API_URL=" + t.url, "CLOUDSTACK_API_KEY=" + t.apiKey, "CLOUDSTACK_SECRET_KEY=" + t.secretKey,
		"SSH_KEY=" + t.sshKey, "KNOWN_HOSTS=" + t.knownHosts, "TRUEUP_SSH_KEY=" + t.sshKey, "TRUEUP_KNOWN_HOSTS=" + t.knownHosts,
	}
}
