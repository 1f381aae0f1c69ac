package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/lab/control"
)

// testJump: the worker's own address is one that only other guests reach, so the control node is the jump host. Whoever runs trueup has met neither of
// the two: each host key must be put on file first, and one that has changed is never believed.
func testJump(t *testing.T, f *fixture) {
	worker, jump := f.ofRole("worker")[0], f.ofRole("control")[0]
	f.atAddress(t, worker.VMID(), control.HostInGuests)
	goal := f.grown(t, "worker", 0, 128)
	on := f.newcomer(t)
	way := []string{"--ssh-via", fmt.Sprintf("jump=cloud@127.0.0.1:%d", jump.SSHPort()), "--ssh-port", strconv.Itoa(worker.SSHPort()), "--node", worker.Name()}
	scale := append([]string{"scale", f.Options.Name, "--worker", goal.Name, "--yes", settle}, way...)
	enroll := append([]string{"ssh", "enroll", f.Options.Name, "--yes"}, way...)
	before, pods, asked := f.read(t), f.pods(t), f.changes(t)

	refused := func(code int, parts []string, args ...string) {
		t.Helper()
		r := begin(t, on, args...).wait()
		r.expectCode(t, code)
		for _, part := range parts {
			r.expectSays(t, part)
		}
		f.expectNoChanges(t, asked)
		f.expectUntouched(t, before)
	}
	refused(8, []string{fmt.Sprintf("log in once with `ssh -p %d cloud@127.0.0.1`", jump.SSHPort())}, scale...)
	met := fmt.Sprintf("[127.0.0.1]:%d %s", jump.SSHPort(), ssh.MarshalAuthorizedKey(jump.Identity().HostKey)) // as `ssh` writes it
	writeFile(t, filepath.Join(on.dir, ".ssh", "known_hosts"), met)
	refused(8, []string{"its host key is unknown", "trueup ssh enroll"}, scale...)

	begin(t, on, enroll...).wait().expectCode(t, 0)
	file := filepath.Join(on.dir, ".config", "trueup", "known_hosts")
	line := worker.VMID() + " " + string(ssh.MarshalAuthorizedKey(worker.Identity().HostKey))
	if got := readFile(t, file); strings.TrimSpace(got) != strings.TrimSpace(line) {
		t.Errorf("on file after enroll: %q, want %q", got, line)
	}
	other := worker.VMID() + " " + string(ssh.MarshalAuthorizedKey(jump.Identity().HostKey)) // as if the worker had been installed anew
	writeFile(t, file, other)
	refused(8, []string{"installed anew, or something else answers in its place"}, scale...)
	refused(8, []string{"installed anew, or something else answers in its place"}, enroll...)
	if got := readFile(t, file); got != other {
		t.Errorf("on file after a refusal: %q, want %q", got, other)
	}
	writeFile(t, file, line)

	record := f.record(t)
	begin(t, on, scale...).wait().expectCode(t, 0)
	f.expectOnlyNeededRequests(t, f.changes(t).since(asked), expectOneAtATime(t, record.stop(t)))
	f.expectGrown(t, before, map[string]standin.Offering{"worker": goal})
	f.expectPodsUntouched(t, pods)
	f.expectLeaseFree(t)
}

// atAddress gives the VM's NIC another address, as CloudStack lists it, until the test ends.
func (f *fixture) atAddress(t *testing.T, vmID, address string) {
	t.Helper()
	old := ""
	f.Cloud.Model.UpdateVM(vmID, func(vm *standin.VM) { old, vm.NICs[0].Address = vm.NICs[0].Address, address })
	t.Cleanup(func() { f.Cloud.Model.UpdateVM(vmID, func(vm *standin.VM) { vm.NICs[0].Address = old }) })
}

// newcomer returns the machine, and the home in it, of somebody who has a key that the nodes know, and has met none of them.
func (f *fixture) newcomer(t *testing.T) machine {
	t.Helper()
	home := t.TempDir()
	env := append(f.person(), "HOME="+home, "USER=newcomer", "TRUEUP_SSH_KEY="+copied(t, f.SSHKeyPath(), home))
	return machine{env: env, dir: home}
}

func writeFile(t *testing.T, path, body string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
