package standin

import (
	"fmt"
	"slices"
	"strconv"
)

// sizeGoal is the change of the number of workers that a call asks for; the zero value is none.
type sizeGoal struct {
	workers int
	remove  []string // VM ids that the call names
}

// change returns how many workers come (positive) or go.
func (g sizeGoal) change(k *Cluster) int {
	switch {
	case len(g.remove) > 0:
		return -len(g.remove)
	case g.workers > 0:
		return g.workers - k.Size
	}
	return 0
}

// checkSize holds size and nodeids against CloudStack's rules.
func (c *call) checkSize(k *Cluster, goal *clusterGoal) *APIError {
	goal.size.remove = c.list("nodeids")
	if err := c.checkRemoval(k, goal.size.remove); err != nil || c.str("size") == "" {
		return err
	}
	n, err := strconv.Atoi(c.str("size"))
	switch limit := c.m.settingInt(SettingMaxClusterSize); {
	case len(goal.size.remove) > 0:
		return refusedf("nodeids can not be passed along with clustersize or service offering")
	case err != nil || n < 1:
		return refusedf("Kubernetes cluster : %s cannot be scaled for size, %s", k.Name, c.str("size"))
	case n+k.ControlNodes > limit:
		return refusedf("Maximum cluster size can not exceed %d. Please contact your administrator", limit)
	case k.State == ClusterStopped:
		return refusedf("Kubernetes cluster : %s cannot be scaled for size in %s state", k.Name, k.State)
	}
	goal.size.workers = n
	return nil
}

// checkRemoval wants worker nodes of this cluster, and one that stays.
func (c *call) checkRemoval(k *Cluster, ids []string) *APIError {
	if len(ids) == 0 {
		return nil
	}
	if c.str("serviceofferingid") != "" || len(c.indexed("nodeofferings")) > 0 {
		return refusedf("nodeids can not be passed along with clustersize or service offering")
	}
	for _, id := range ids {
		isWorker := func(n ClusterNode) bool { return n.VMID == id && n.Role == RoleWorker }
		if !slices.ContainsFunc(k.Nodes, isWorker) {
			return refusedf("%s is not a worker node of the Kubernetes cluster %s", id, k.Name)
		}
	}
	if len(ids) >= k.Size {
		return refusedf("At least one worker node of the Kubernetes cluster %s must stay", k.Name)
	}
	return nil
}

// resizeCluster changes the number of workers, rebuilds the rules and goes on with next. The hypervisor works without
// the lock.
func (s *clusterScale) resizeCluster(next func()) {
	n := s.goal.size.change(s.cluster)
	if n == 0 || s.cluster.State == ClusterCreated {
		s.cluster.Size += n
		next()
		return
	}
	s.transit()
	work := func() error { return s.removeWorkers(s.leaving(-n)) }
	if n > 0 {
		work = func() error { return s.addWorkers(n) }
	}
	s.m.cfg.Clock.AfterFunc(s.m.cfg.AgentStep, func() {
		if s.m.isStale(s.generation) {
			return
		}
		s.resized(n, work(), next)
	})
}

func (s *clusterScale) resized(n int, err error, next func()) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	switch {
	case s.m.generation != s.generation:
	case err != nil:
		s.fail(refusedf("Scaling failed for Kubernetes cluster : %s, %s", s.cluster.Name, err))
	default:
		s.cluster.Size += n
		s.m.renumberPorts(s.cluster)
		next()
	}
}

// leaving returns the workers that go: those named, else the last ones. It locks.
func (s *clusterScale) leaving(n int) []string {
	if len(s.goal.size.remove) > 0 {
		return s.goal.size.remove
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	var ids []string
	for _, vm := range s.m.vmsOf(s.cluster, RoleWorker) {
		ids = append(ids, vm.ID)
	}
	return ids[len(ids)-n:]
}

func (s *clusterScale) removeWorkers(ids []string) error {
	for _, id := range ids {
		if err := s.m.StopVM(s.m.ctx, id); err != nil {
			return err
		}
		s.m.RemovePortForwarding(id)
		s.m.expunge(id)
	}
	return nil
}

// expunge forgets a VM.
func (m *Model) expunge(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.vms = slices.DeleteFunc(m.vms, func(vm *VM) bool { return vm.ID == id })
	for _, c := range m.clusters {
		c.Nodes = slices.DeleteFunc(c.Nodes, func(n ClusterNode) bool { return n.VMID == id })
	}
}

// addWorkers deploys n VMs with the offering of the record, which may be smaller than that of the other workers.
func (s *clusterScale) addWorkers(n int) error {
	for range n {
		vm := s.m.AddVM(s.newWorker())
		if err := s.m.StartVM(s.m.ctx, vm.ID); err != nil {
			s.m.expunge(vm.ID)
			return err
		}
		s.join(vm)
	}
	return nil
}

// newWorker describes the next worker after the pattern of the first one.
func (s *clusterScale) newWorker() VM {
	m := s.m
	m.mu.Lock()
	defer m.mu.Unlock()
	pattern := m.vmsOf(s.cluster, RoleWorker)[0]
	id, last := m.newID(), len(s.cluster.Nodes)
	vm := VM{
		ID: id, Name: vmName(s.cluster.Name, RoleWorker, 0, id), State: VMStopped, OfferingID: s.cluster.column(RoleWorker),
		TemplateID: pattern.TemplateID, DynamicallyScalable: true, Type: pattern.Type, KeyPair: pattern.KeyPair,
		Details: pattern.Details, Owner: pattern.Owner,
	}
	for _, nic := range pattern.NICs[:min(1, len(pattern.NICs))] {
		vm.NICs = []NIC{{ID: m.newID(), NetworkID: nic.NetworkID, Address: fmt.Sprintf("10.1.1.%d", 10+last), MAC: fmt.Sprintf("02:00:00:00:01:%02x", last)}}
	}
	return vm
}

// join makes the VM a node of the cluster, with a rule for its SSH port where the others have one.
func (s *clusterScale) join(vm VM) {
	m := s.m
	m.mu.Lock()
	defer m.mu.Unlock()
	version := ""
	if v := m.version(s.cluster.VersionID); v != nil {
		version = v.Semantic
	}
	for _, r := range m.rules {
		if r.VMID == s.cluster.Nodes[0].VMID && r.PrivatePort == sshPort {
			rule := *r
			rule.VMID = vm.ID
			m.rules = append(m.rules, &rule)
			break
		}
	}
	s.cluster.Nodes = append(s.cluster.Nodes, ClusterNode{VMID: vm.ID, Role: RoleWorker, Version: version})
}

// renumberPorts rebuilds the SSH rules as CloudStack does after each change of the size: 2222 and up over the VMs that are
// neither etcd nor external, then the external ones.
func (m *Model) renumberPorts(c *Cluster) {
	port := firstSSHPort
	for _, external := range []bool{false, true} {
		for _, n := range c.Nodes {
			if n.Role == RoleEtcd || n.External != external {
				continue
			}
			for _, r := range m.rules {
				if r.VMID == n.VMID && r.PrivatePort == sshPort {
					r.ID, r.PublicPort = m.newID(), port
				}
			}
			port++
		}
	}
}
