package standin

import (
	"slices"
	"time"
)

// startScanner plans the first look at the clusters after the management server's start.
func (m *Model) startScanner() { m.planScan(m.cfg.FirstScan, m.generation) }

func (m *Model) planScan(d time.Duration, generation int) {
	m.scanner = m.cfg.Clock.AfterFunc(d, func() { m.scan(generation) })
}

// scan is CloudStack's state scanner: Running with a VM that doesn't run becomes Alert, and a healthy Alert cluster becomes
// Running, whatever happened to it. It looks at no other state, so that a cluster may stay Scaling for ever.
func (m *Model) scan(generation int) {
	for _, id := range m.alertWithRunningVMs() {
		m.revive(id, m.cfg.NodesReady == nil || m.cfg.NodesReady(id))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.clusters {
		if c.State == ClusterRunning && !m.allRunning(c) {
			c.State = ClusterAlert
		}
	}
	if m.generation == generation {
		m.planScan(m.cfg.ScanInterval, generation)
	}
}

// alertWithRunningVMs returns the clusters whose nodes are worth asking for; the question is put without the lock.
func (m *Model) alertWithRunningVMs() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for _, c := range m.clusters {
		if c.State == ClusterAlert && m.allRunning(c) && len(c.Nodes) == c.ControlNodes+c.EtcdNodes+c.Size {
			out = append(out, c.ID)
		}
	}
	return out
}

func (m *Model) revive(id string, healthy bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.cluster(id); healthy && c != nil && c.State == ClusterAlert {
		c.State = ClusterRunning
	}
}

func (m *Model) allRunning(c *Cluster) bool {
	return !slices.ContainsFunc(c.Nodes, func(n ClusterNode) bool {
		vm := m.vm(n.VMID)
		return vm == nil || vm.State != VMRunning
	})
}
