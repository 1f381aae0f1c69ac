package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/lab/cluster"
	"github.com/cks-trueup/trueup/lab/control"
)

// fixture is a lab that is up, with a recorder of hotplug events in each guest.
type fixture struct {
	*cluster.Lab

	home      string                      // of the person who runs trueup
	offerings map[string]standin.Offering // that grown has added, by name
	viaPods   bool                        // trueup enters guests by pods
}

// start brings a lab up for the length of a test.
func start(t testing.TB, options cluster.Options) *fixture {
	t.Helper()
	options.Dir, options.Progress = filepath.Join(t.TempDir(), "lab"), testWriter{t}
	l, err := cluster.Up(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	// The test's own context has ended when this runs.
	t.Cleanup(func() {
		if t.Failed() {
			logConsoles(t, l)
		}
		if err := l.Down(context.Background()); err != nil {
			t.Errorf("take the lab down: %v", err)
		}
	})
	f := &fixture{Lab: l, home: t.TempDir(), offerings: map[string]standin.Offering{}}
	for _, node := range l.Nodes {
		recordHotplug(t, node)
	}
	return f
}

// logConsoles shows what each guest said last, since its console goes with the lab.
func logConsoles(t testing.TB, l *cluster.Lab) {
	t.Helper()
	for _, node := range l.Nodes {
		t.Logf("the end of the console of %s:\n%s", node.Name(), node.LastWords())
	}
}

// environment is what trueup finds: the lab's CloudStack and SSH key, and nothing of the person who runs the test.
func (f *fixture) environment() []string {
	if f.viaPods {
		return append(f.podEnvironment(), f.person()...)
	}
	return append([]string{"TRUEUP_SSH_KEY=" + f.SSHKeyPath(), "TRUEUP_KNOWN_HOSTS=" + f.KnownHostsPath()}, f.person()...)
}

// person is who runs trueup, and what leads to CloudStack.
func (f *fixture) person() []string {
	return []string{
		"HOME=" + f.home, "USER=tester", "PATH=" + os.Getenv("PATH"),
		"CLOUDSTACK_API_URL=" + f.Cloud.URL, "CLOUDSTACK_API_KEY=" + f.Cloud.Account.APIKey, "CLOUDSTACK_SECRET_KEY=" + f.Cloud.Account.SecretKey,
	}
}

// node returns a node of the lab by its name.
func (f *fixture) node(t testing.TB, name string) *cluster.Node {
	t.Helper()
	for _, node := range f.Nodes {
		if node.Name() == name {
			return node
		}
	}
	t.Fatalf("the lab has no node %s", name)
	return nil
}

// ofRole returns the lab's nodes of a role, in CloudStack's order.
func (f *fixture) ofRole(role string) (nodes []*cluster.Node) {
	for _, node := range f.Nodes {
		if node.Role() == role {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// grown returns an offering that is bigger by so much than what the nodes of a role have now. Tests thus depend on no order.
func (f *fixture) grown(t testing.TB, role string, cpus, mib int) standin.Offering {
	t.Helper()
	now := f.offeringOf(t, f.ofRole(role)[0])
	name := fmt.Sprintf("%s-%dx%d", role, now.CPUs+cpus, now.MemoryMiB+mib)
	if _, known := f.offerings[name]; !known { // a second one of that name would be ambiguous
		bigger := standin.FixedOffering(name, now.CPUs+cpus, now.MemoryMiB+mib)
		bigger.MHz = now.MHz // a slower one is refused while the VM runs
		f.offerings[name] = f.Cloud.Model.AddOffering(bigger)
	}
	return f.offerings[name]
}

// offeringOf is the offering that the stand-in has for the node's VM.
func (f *fixture) offeringOf(t testing.TB, node *cluster.Node) standin.Offering {
	t.Helper()
	vm, _ := f.Cloud.Model.VM(node.VMID())
	var list struct {
		Offerings []struct {
			Name   string `json:"name"`
			CPUs   int    `json:"cpunumber"`
			MHz    int    `json:"cpuspeed"`
			Memory int    `json:"memory"`
		} `json:"serviceoffering"`
	}
	err := f.Cloud.Model.Call(t.Context(), f.Cloud.Account.Name, "listServiceOfferings", map[string]string{"id": vm.OfferingID}, &list)
	if err != nil || len(list.Offerings) != 1 {
		t.Fatalf("offering %s of %s: %v, %v", vm.OfferingID, node.Name(), list, err)
	}
	found := list.Offerings[0]
	return standin.Offering{ID: vm.OfferingID, Name: found.Name, CPUs: found.CPUs, MHz: found.MHz, MemoryMiB: found.Memory}
}

// changes are all traces of a change that was asked for: of CloudStack by its API, of Kubernetes by a program named trueup.
type changes struct {
	CloudStack []standin.Request
	Kubernetes []control.Write
}

func (f *fixture) changes(t testing.TB) (c changes) {
	t.Helper()
	for _, request := range f.Cloud.Model.Requests() {
		if request.Mutating && request.Method != "" { // an empty method is a call of the test itself
			c.CloudStack = append(c.CloudStack, request)
		}
	}
	writes, err := f.Plane.Writes()
	if err != nil {
		t.Fatal(err)
	}
	for _, write := range writes {
		if strings.HasPrefix(write.Agent, "trueup/") && !f.ownPod(write) {
			c.Kubernetes = append(c.Kubernetes, write)
		}
	}
	return c
}

// since returns what came after an earlier reading.
func (c changes) since(before changes) changes {
	return changes{CloudStack: c.CloudStack[len(before.CloudStack):], Kubernetes: c.Kubernetes[len(before.Kubernetes):]}
}

// expectNoChanges fails if trueup has asked for any change since the earlier reading.
func (f *fixture) expectNoChanges(t testing.TB, before changes) {
	t.Helper()
	if now := f.changes(t).since(before); len(now.CloudStack)+len(now.Kubernetes) > 0 {
		t.Errorf("changes were asked for, want none:\nof CloudStack %+v\nof Kubernetes %+v", now.CloudStack, now.Kubernetes)
	}
}

// kubectl runs the lab's kubectl as the administrator.
func (f *fixture) kubectl(t testing.TB, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), f.Describe().Kubectl, append([]string{"--kubeconfig", f.KubeconfigPath()}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// eventuallyTimeout bounds each wait for something that a program does on its own.
const eventuallyTimeout = 3 * time.Minute

// eventually waits until a condition holds that no event tells.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(eventuallyTimeout)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: not within %s", what, eventuallyTimeout)
		}
	}
}

func decode(t testing.TB, from *run, into any) {
	t.Helper()
	if err := json.NewDecoder(bytes.NewReader(from.stdout.Bytes())).Decode(into); err != nil {
		t.Fatalf("%s: output is no JSON: %v\n%s", from, err, &from.stdout)
	}
}

// testWriter sends a lab's progress to the test's log.
type testWriter struct{ t testing.TB }

func (w testWriter) Write(line []byte) (int, error) {
	w.t.Log(strings.TrimSuffix(string(line), "\n"))
	return len(line), nil
}
