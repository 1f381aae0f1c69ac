package kube

import "testing"

func TestControlPlaneIsReady(t *testing.T) {
	got, err := newClient(t, Options{}).ControlPlane(t.Context())
	if got != "" || err != nil {
		t.Errorf("a healthy API server: %q, %v", got, err)
	}
}

func TestNotReady(t *testing.T) {
	for name, tt := range map[string]struct{ body, want string }{
		"etcd":    {"[+]ping ok\n[-]etcd failed: reason withheld\n[+]log ok\nreadyz check failed\n", "etcd failed: reason withheld"},
		"several": {"[-]etcd failed\n[-]shutdown failed\n", "etcd failed, shutdown failed"},
		"silent":  {"", "not ready, without saying why"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := notReady(tt.body); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
