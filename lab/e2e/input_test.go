package e2e

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/lab/guest"
)

// badInput is one thing that is wrong before anything is changed.
type badInput struct {
	name    string
	cluster string   // default: the lab's
	args    []string // after the cluster
	env     []string // beats the fixture's
	code    int      // as docs/cli.md has it: 2 input, 4 refused, 8 no access
	says    []string // parts of the error's one line: the thing that is wrong, and what to do
}

func testBadInput(t *testing.T, f *fixture) {
	before, asked := f.read(t), f.changes(t)
	for _, bad := range slices.Concat(f.badNames(t), f.badOfferings(t), f.badAccess(t)) {
		t.Run(bad.name, func(t *testing.T) { bad.test(t, f) })
	}
	t.Run("cluster not Running", func(t *testing.T) { testNotRunning(t, f) })
	f.expectNoChanges(t, asked)
	f.expectUntouched(t, before)
}

// test runs scale, whose standard error is that one line, after the plan if there is one.
func (b badInput) test(t *testing.T, f *fixture) {
	args := append([]string{"scale", cmp.Or(b.cluster, f.Options.Name), "--yes"}, b.args...)
	r := f.beginWith(t, b.env, args...).wait()
	if r.code != b.code {
		t.Errorf("%s: exit code %d, want %d", r, r.code, b.code)
	}
	text := strings.TrimSuffix(r.stderr.String(), "\n")
	lines := strings.Split(text, "\n")
	line := lines[len(lines)-1]
	if planned := strings.HasPrefix(text, "Plan for cluster "); !strings.HasPrefix(line, "trueup: ") || (!planned && len(lines) != 1) {
		t.Errorf("%s: standard error does not end with one line that begins with \"trueup: \":\n%s", r, text)
	}
	for _, part := range b.says {
		if !strings.Contains(line, part) {
			t.Errorf("%s: the error does not say %q:\n%s", r, part, line)
		}
	}
}

// badNames name what is not there, or not one thing.
func (f *fixture) badNames(t testing.TB) []badInput {
	model := f.Cloud.Model
	twins := []standin.Offering{model.AddOffering(standin.FixedOffering("twin", 4, 4096)), model.AddOffering(standin.FixedOffering("twin", 6, 4096))}
	large := []string{"--worker", "large"}
	return []badInput{
		{name: "unknown cluster", cluster: "lap", args: large, code: 2, says: []string{`"lap"`, "there are: lab ("}},
		{name: "unknown offering", args: []string{"--worker", "larg"}, code: 2, says: []string{`"larg"`, "there are: large ("}},
		{name: "ambiguous offering", args: []string{"--worker", "twin"}, code: 2, says: []string{`"twin"`, twins[0].ID, twins[1].ID, "give the id"}},
		{name: "unknown profile", args: append(large, "--profile", "prod", "--cmk-config", f.cmkConfig(t)), code: 2, says: []string{`"prod"`, "staging"}},
		{name: "no goal", code: 2, says: []string{"--worker"}},
		{name: "unknown flag", args: []string{"--wroker", "large"}, code: 2, says: []string{"--wroker", "--help"}},
		{name: "no credentials", args: large, env: []string{"CLOUDSTACK_API_KEY="}, code: 2, says: []string{"CLOUDSTACK_API_KEY"}},
	}
}

// cmkConfig is a CloudMonkey configuration with one profile, staging.
func (f *fixture) cmkConfig(t testing.TB) string {
	t.Helper()
	return f.file(t, "cmk-config", "profile = staging\n\n[staging]\nurl = "+f.Cloud.URL+"\napikey = key\nsecretkey = secret\n")
}

// badOfferings are there, but no live scale of this cluster can lead to them.
func (f *fixture) badOfferings(t testing.TB) []badInput {
	now, add := f.offeringOf(t, f.ofRole("worker")[0]), f.Cloud.Model.AddOffering
	add(standin.FixedOffering("smaller", now.CPUs, now.MemoryMiB-512))
	add(standin.FixedOffering("odd", now.CPUs, now.MemoryMiB+1000))
	add(standin.FixedOffering("wide", f.Nodes[0].Spec().MaxVCPUs+1, now.MemoryMiB))
	rigid := standin.FixedOffering("rigid", now.CPUs+1, now.MemoryMiB)
	rigid.DynamicScaling = false
	add(rigid)
	return []badInput{
		{name: "smaller offering", args: []string{"--worker", "smaller"}, code: 4, says: []string{"size of the offering", "only grow"}},
		{name: "growth that is no multiple of the memory block", args: []string{"--worker", "odd"}, code: 4, says: []string{"1000 MiB", "128 MiB", "multiple"}},
		{name: "more CPUs than the guest can have", args: []string{"--worker", "wide"}, code: 4, says: []string{"at least 9, observed 8", "boot"}},
		{name: "offering without dynamic scaling", args: []string{"--worker", "rigid"}, code: 4, says: []string{"dynamic scaling"}},
		{name: "custom offering", args: []string{"--worker", "custom"}, code: 4, says: []string{"custom", "fixed"}},
		{name: "no etcd nodes", args: []string{"--etcd", "large"}, code: 4, says: []string{"no dedicated etcd nodes", "--etcd"}},
	}
}

// badAccess is a way that is closed.
func (f *fixture) badAccess(t testing.TB) []badInput {
	large := []string{"--worker", "large"}
	reads := []string{
		"listCapabilities", "listZones", "listKubernetesClusters", "getKubernetesClusterConfig", "listVirtualMachines", "listServiceOfferings",
		"listNetworks", "listPublicIpAddresses", "listPortForwardingRules", "listTemplates", "listApis", "queryAsyncJobResult",
	}
	return []badInput{
		{name: "wrong secret key", args: large, env: []string{"CLOUDSTACK_SECRET_KEY=wrong"}, code: 8, says: []string{"401", "secret key"}},
		{name: "nobody answers", args: large, env: []string{"CLOUDSTACK_API_URL=http://127.0.0.1:1/client/api"}, code: 8, says: []string{"127.0.0.1:1"}},
		{name: "role that may not scale", args: large, env: f.account("looker", reads...), code: 4, says: []string{"not allowed: scaleVirtualMachine", "administrator"}},
		{name: "role that may not list clusters", args: large, env: f.account("stranger", "listApis"), code: 8, says: []string{"432", "listKubernetesClusters"}},
		{name: "host keys of other machines", args: append(large, "--known-hosts", f.foreignKnownHosts(t)), code: 8, says: []string{"host key", "ssh-keygen -lf"}},
		{name: "unknown host keys", args: append(large, "--known-hosts", filepath.Join(f.home, "none")), code: 8, says: []string{"host key is unknown", "ssh-keygen -lf"}},
		{name: "SSH key that the nodes do not know", args: append(large, "--ssh-key", f.foreignKey(t)), code: 8, says: []string{"does not let us in", "authorized_keys"}},
	}
}

// account adds an account that sees all clusters and may use these commands alone, and returns the environment of whoever has its keys.
func (f *fixture) account(name string, commands ...string) []string {
	a := f.Cloud.Model.AddAccount(standin.Account{Name: name, Admin: true, Commands: commands})
	return []string{"CLOUDSTACK_API_KEY=" + a.APIKey, "CLOUDSTACK_SECRET_KEY=" + a.SecretKey}
}

// foreignKnownHosts has a host key for each VM, of a machine that is none of them.
func (f *fixture) foreignKnownHosts(t testing.TB) string {
	t.Helper()
	key, _, err := guest.NewSSHKey()
	if err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for _, node := range f.Nodes {
		lines.WriteString(node.VMID() + " " + string(ssh.MarshalAuthorizedKey(key)))
	}
	return f.file(t, "foreign-known-hosts", lines.String())
}

func (f *fixture) foreignKey(t testing.TB) string {
	t.Helper()
	_, private, err := guest.NewSSHKey()
	if err != nil {
		t.Fatal(err)
	}
	return f.file(t, "foreign-key", string(private))
}

// file writes a file that only its owner may read.
func (f *fixture) file(t testing.TB, name, body string) string {
	t.Helper()
	path := filepath.Join(f.home, name)
	if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// testNotRunning: what CloudStack itself is at work on, or what does not run, can't be scaled live.
func testNotRunning(t *testing.T, f *fixture) {
	set := func(state standin.ClusterState) {
		f.Cloud.Model.UpdateCluster(f.Cloud.ClusterID, func(c *standin.Cluster) { c.State = state })
	}
	t.Cleanup(func() { set(standin.ClusterRunning) })
	for _, state := range []standin.ClusterState{standin.ClusterStopping, standin.ClusterScaling, standin.ClusterAlert} {
		set(state)
		badInput{args: []string{"--worker", "large"}, code: 4, says: []string{"cluster lab is " + string(state)}}.test(t, f)
	}
}
