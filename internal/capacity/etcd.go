package capacity

import (
	"fmt"
	"strings"
)

// Etcd is what a dedicated etcd machine says about etcd.
type Etcd struct {
	// Unit is etcd.service. Start and Restarts are not read.
	Unit Unit `json:"unit"`
	// Members is what this member found when it asked every member for a linearizable read, itself included. Empty: it could not ask.
	Members []EtcdMember `json:"members,omitempty"`
	// Problem says why it could not ask.
	Problem string `json:"problem,omitempty"`
}

// EtcdMember is one member of an etcd cluster, as another one sees it.
type EtcdMember struct {
	Endpoint string `json:"endpoint"` // its advertised client URL
	Healthy  bool   `json:"healthy"`
	Problem  string `json:"problem,omitempty"` // etcd's own words
}

// CheckEtcd tells whether etcd runs on the machine, answers on its client port, and finds every member of its cluster healthy.
func CheckEtcd(g Guest) Check {
	c := Check{Layer: LayerReadiness, What: "etcd", Expected: "active (running), every member healthy"}
	if g.Etcd == nil {
		c.Observed = "not read"
		return c
	}
	if !g.Etcd.Unit.Running() {
		c.Observed = g.Etcd.Unit.String()
		return c
	}
	c.OK, c.Observed = g.Etcd.members()
	return c
}

// members tells whether all members are healthy, and names those that are not.
func (e Etcd) members() (ok bool, observed string) {
	if len(e.Members) == 0 {
		return false, "it does not answer: " + e.Problem
	}
	var bad []string
	for _, m := range e.Members {
		if !m.Healthy {
			bad = append(bad, m.Endpoint+": "+m.Problem)
		}
	}
	if bad != nil {
		return false, fmt.Sprintf("%d of %d members are not healthy: %s", len(bad), len(e.Members), strings.Join(bad, ", "))
	}
	return true, fmt.Sprintf("active (running), %d members healthy", len(e.Members))
}
