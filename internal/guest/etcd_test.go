package guest

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// etcdMember is a real etcd on this machine.
type etcdMember struct {
	name, client, peer string
	process            *exec.Cmd
}

// freeURL is a URL on a port that was free a moment ago.
func freeURL(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { must(t, l.Close()) }()
	return "http://" + l.Addr().String()
}

// etcdCluster starts real members of one cluster, and waits until each answers.
func etcdCluster(t *testing.T, programs string, count int) []*etcdMember {
	t.Helper()
	var members []*etcdMember
	var peers []string
	for i := range count {
		m := &etcdMember{name: fmt.Sprintf("e%d", i+1), client: freeURL(t), peer: freeURL(t)}
		members, peers = append(members, m), append(peers, m.name+"="+m.peer)
	}
	for _, m := range members {
		m.process = exec.Command(filepath.Join(programs, "etcd"), "--name", m.name, "--data-dir", filepath.Join(t.TempDir(), m.name), "--log-level=error",
			"--listen-client-urls", m.client, "--advertise-client-urls", m.client, "--listen-peer-urls", m.peer, "--initial-advertise-peer-urls", m.peer,
			"--initial-cluster", strings.Join(peers, ","))
		must(t, m.process.Start())
		t.Cleanup(m.kill)
	}
	for _, m := range members {
		eventually(t, "etcd "+m.name+" answers", m.answers)
	}
	return members
}

func (m *etcdMember) answers() bool {
	reply, err := http.Get(m.client + "/health")
	if err != nil {
		return false
	}
	defer func() { _ = reply.Body.Close() }()
	return reply.StatusCode == http.StatusOK
}

func (m *etcdMember) kill() {
	_ = m.process.Process.Kill() // it may be dead already
	_ = m.process.Wait()
}

// programs is the folder with etcd and etcdctl, compiled if they never were.
func programs(t *testing.T) string {
	t.Helper()
	build := exec.Command("../../lab/kubernetes/build.sh")
	var progress bytes.Buffer
	build.Stderr = &progress
	out, err := build.Output()
	if err != nil {
		t.Fatalf("build etcd: %v\n%s", err, progress.String())
	}
	return strings.TrimSpace(string(out))
}

// etcdMachine is a guest without kubelet, on which etcd runs. Its etcdctl is the real one, led to another port than 2379.
func etcdMachine(t *testing.T, etcdctl string) *guest {
	t.Helper()
	m := newMachine(t)
	m.write("state/unit", "ActiveState=inactive\nSubState=dead\nInvocationID=\nMainPID=0\nExecMainStartTimestampMonotonic=0\nNRestarts=0")
	m.write("state/etcd-unit", "ActiveState=active\nSubState=running\nInvocationID="+secondInvocation+"\nMainPID=77")
	m.write("state/journal", "2026-12-01T00:00:00+0000 e1 etcd[77]: apply request took too long")
	m.write("state/dmesg", "")
	for _, path := range []string{"var/lib/kubelet", "sys/fs/cgroup"} {
		m.remove(path)
	}
	if etcdctl != "" {
		m.program("etcdctl", etcdctl)
	}
	s := open(t, m.config())
	g, err := s.Guest(t.Context(), rollout.Target{Name: "demo-etcd-1", InstanceID: vmID, Role: rollout.RoleEtcd})
	must(t, err)
	return g.(*guest)
}

// The health of etcd is read from the real etcd by the real etcdctl: all well, one of three dead, and without a quorum.
func TestEtcdHealth(t *testing.T) {
	programs := programs(t)
	members := etcdCluster(t, programs, 3)
	g := etcdMachine(t, fmt.Sprintf("exec %s --endpoints %s \"$@\"", filepath.Join(programs, "etcdctl"), members[0].client))

	reading, err := g.Probe(t.Context())
	must(t, err)
	if c := capacity.CheckEtcd(reading); !c.OK || len(reading.Etcd.Members) != 3 {
		t.Errorf("%+v, %+v", c, reading.Etcd)
	}
	if reading.CPUsOnline != 2 || reading.Kubelet.ActiveState != "inactive" || reading.Etcd.Unit.InvocationID != secondInvocation {
		t.Errorf("%+v", reading)
	}

	members[2].kill()
	reading, err = g.Probe(t.Context())
	must(t, err)
	if c := capacity.CheckEtcd(reading); c.OK || !strings.Contains(c.Observed, "1 of 3 members are not healthy: "+members[2].client) {
		t.Errorf("one member dead: %+v", c)
	}

	members[1].kill()
	reading, err = g.Probe(t.Context())
	must(t, err)
	if c := capacity.CheckEtcd(reading); c.OK || !strings.Contains(c.Observed, "does not answer") {
		t.Errorf("no quorum: %+v", c)
	}
}

func TestEtcdctlIsMissing(t *testing.T) {
	g := etcdMachine(t, "exit 127")
	reading, err := g.Probe(t.Context())
	must(t, err)
	if c := capacity.CheckEtcd(reading); c.OK || !strings.Contains(c.Observed, "no etcdctl") {
		t.Errorf("%+v", c)
	}
}

func TestDiagnoseOfEtcd(t *testing.T) {
	lines, err := etcdMachine(t, "exit 1").Diagnose(t.Context())
	must(t, err)
	want := []string{"unit: ActiveState=active", "unit: SubState=running", "unit: InvocationID=" + secondInvocation, "unit: MainPID=77",
		"etcd-last: 2026-12-01T00:00:00+0000 e1 etcd[77]: apply request took too long"}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParseEtcdIsStrict(t *testing.T) {
	good := []string{"ActiveState=active", "SubState=running", "InvocationID=" + firstInvocation, "MainPID=7", "exit=1", `health=[{"endpoint":"http://a:2379","health":false,"took":"2s","error":"context deadline exceeded"}]`}
	got, err := parseEtcd(good)
	must(t, err)
	want := capacity.Etcd{Unit: capacity.Unit{ActiveState: "active", SubState: "running", InvocationID: firstInvocation, MainPID: 7},
		Members: []capacity.EtcdMember{{Endpoint: "http://a:2379", Problem: "context deadline exceeded"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, health := range []string{"", "{}", "[]", "null", "[3]", `[{"endpoint":`, "Error: unhealthy cluster"} {
		got, err := parseEtcd(append(good[:5:5], "health="+health))
		if err != nil || got.Members != nil || got.Problem == "" {
			t.Errorf("health=%s: %+v, %v; want a problem", health, got, err)
		}
	}
	for _, bad := range [][]string{good[1:], good[:5], append(good[:6:6], "MainPID=8"), append(good[:6:6], "NRestarts=1")} {
		if _, err := parseEtcd(bad); err == nil {
			t.Errorf("%q: want an error", bad)
		}
	}
}

func FuzzEtcdMembers(f *testing.F) {
	f.Add("0", `[{"endpoint":"http://a:2379","health":true,"took":"1ms"}]`)
	f.Add("1", "")
	f.Fuzz(func(t *testing.T, exit, health string) {
		members, problem := etcdMembers(exit, health)
		if (members == nil) == (problem == "") {
			t.Errorf("members %v, problem %q", members, problem)
		}
	})
}
