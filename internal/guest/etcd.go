package guest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// etcd asks etcd on the machine for the health of its members.
func (g *guest) etcd(ctx context.Context) (*capacity.Etcd, error) {
	lines, err := g.run(ctx, etcdCommand(), g.timeouts.Probe, "")
	if err != nil {
		return nil, err
	}
	reading, err := parseEtcd(lines)
	if err != nil {
		return nil, fmt.Errorf("%v: etcd: %w", place{target: g.target}, err)
	}
	return &reading, nil
}

// parseEtcd reads the answer of the etcd script, and refuses one with a missing, unknown or repeated key. An etcd that does not answer is a
// reading, not an error.
func parseEtcd(lines []string) (capacity.Etcd, error) {
	unit, exit, health := capacity.Guest{}, "", ""
	text := func(at *string) field {
		return func(_ *capacity.Guest, value string) error { *at = value; return nil }
	}
	unitFields := probeFields()
	fields := map[string]field{"exit": text(&exit), "health": text(&health)}
	for _, key := range []string{"ActiveState", "SubState", "InvocationID", "MainPID"} {
		fields[key] = unitFields[key]
	}
	if err := parseFields(&unit, fields, lines); err != nil {
		return capacity.Etcd{}, err
	}
	e := capacity.Etcd{Unit: unit.Kubelet}
	e.Members, e.Problem = etcdMembers(exit, health)
	return e, nil
}

// etcdMembers reads what `etcdctl endpoint health --cluster -w json` printed. It exits with 1 also where it could ask and found a member ill.
func etcdMembers(exit, health string) ([]capacity.EtcdMember, string) {
	var answer []struct {
		Endpoint string `json:"endpoint"`
		Health   bool   `json:"health"`
		Error    string `json:"error"`
	}
	switch {
	case exit == "127":
		return nil, "there is no etcdctl on this machine, neither in /opt/bin nor in root's PATH"
	case strings.TrimSpace(health) == "":
		return nil, fmt.Sprintf("no answer on 127.0.0.1:2379, or no quorum (etcdctl ended with exit status %s)", oneLine(exit))
	}
	if err := json.Unmarshal([]byte(health), &answer); err != nil {
		return nil, fmt.Sprintf("etcdctl's answer is not the JSON we know: %v", err)
	}
	var members []capacity.EtcdMember
	for _, m := range answer {
		members = append(members, capacity.EtcdMember{Endpoint: m.Endpoint, Healthy: m.Health, Problem: oneLine(m.Error)})
	}
	if members == nil {
		return nil, "etcdctl names no member"
	}
	return members, ""
}
