package capacity

import (
	"strings"
	"testing"
)

func TestCheckEtcd(t *testing.T) {
	running := Unit{ActiveState: "active", SubState: "running", MainPID: 7}
	well := EtcdMember{Endpoint: "http://10.1.1.2:2379", Healthy: true}
	ill := EtcdMember{Endpoint: "http://10.1.1.3:2379", Problem: "context deadline exceeded"}
	for _, c := range []struct {
		name string
		etcd *Etcd
		ok   bool
		says string
	}{
		{"never read", nil, false, "not read"},
		{"the unit is dead", &Etcd{Unit: Unit{ActiveState: "inactive", SubState: "dead"}, Members: []EtcdMember{well}}, false, "inactive (dead)"},
		{"it does not answer", &Etcd{Unit: running, Problem: "etcdctl ended with exit status 1"}, false, "exit status 1"},
		{"all are well", &Etcd{Unit: running, Members: []EtcdMember{well, well}}, true, "2 members healthy"},
		{"another member is ill", &Etcd{Unit: running, Members: []EtcdMember{well, ill}}, false, "1 of 2 members are not healthy: http://10.1.1.3:2379: context deadline exceeded"},
	} {
		got := CheckEtcd(Guest{Etcd: c.etcd})
		if got.OK != c.ok || !strings.Contains(got.Observed, c.says) || got.Layer != LayerReadiness {
			t.Errorf("%s: %+v, want OK=%t and %q", c.name, got, c.ok, c.says)
		}
	}
}
