package standin

import (
	"strings"
	"time"
)

// scaleKubernetesCluster starts the job that changes the offerings of a cluster. Everything except the ids and the
// permission is checked in the job.
func scaleKubernetesCluster(c *call) (any, error) {
	k := c.m.cluster(c.str("id"))
	if k == nil {
		return nil, unknownID(c.command.lower(), "id", c.str("id"))
	}
	if id := c.str("serviceofferingid"); id != "" && c.m.offering(id) == nil {
		return nil, unknownID(c.command.lower(), "serviceofferingid", id)
	}
	if err := c.mayUse(k.Owner, k.ID); err != nil {
		return nil, err
	}
	s := &clusterScale{call: c, m: c.m, cluster: k, job: c.m.startJob(c, instanceCluster, k.ID), generation: c.m.generation}
	c.m.after(c.m.cfg.AgentStep, s.generation, s.begin)
	return s.job.reply(), nil
}

// clusterScale is one run of scaleKubernetesCluster.
type clusterScale struct {
	call       *call
	m          *Model
	cluster    *Cluster
	job        *Job
	generation int

	goal     clusterGoal
	roles    []Role // still to do
	deadline time.Time
	from     ClusterState // state to return to; "" while no transition was made
}

// begin validates inside the job, as CloudStack does. A cluster grows after the offerings were changed, and shrinks before.
func (s *clusterScale) begin() {
	goal, err := s.call.validateScale(s.cluster)
	if err != nil {
		s.m.finish(s.job, nil, err)
		return
	}
	s.goal = goal
	s.deadline = s.m.now().Add(time.Duration(s.m.settingInt(SettingScaleTimeout)) * time.Second)
	s.roles = []Role{RoleControl, RoleEtcd, RoleWorker}
	if goal.size.change(s.cluster) < 0 {
		s.resizeCluster(func() { s.nextRole(s.succeed) })
		return
	}
	s.nextRole(func() { s.resizeCluster(s.succeed) })
}

// nextRole takes the roles one after the other, and goes on with then. Only the first VM of a role decides whether the role
// is scaled.
func (s *clusterScale) nextRole(then func()) {
	if len(s.roles) == 0 {
		then()
		return
	}
	role := s.roles[0]
	s.roles = s.roles[1:]
	o, vms := s.goal.offering(role), s.m.vmsOf(s.cluster, role)
	existing := s.existing(vms)
	switch {
	case o == nil, o.ID == existing:
		s.nextRole(then)
	case existing == "":
		s.fail(refusedf("The Kubernetes cluster %s does not have a service offering set for node type %s", s.cluster.Name, strings.ToUpper(string(role))))
	default:
		s.scaleRole(role, o, vms, then)
	}
}

// existing returns the offering of the first VM, or that of the record where there is none.
func (s *clusterScale) existing(vms []*VM) string {
	if len(vms) == 0 {
		return s.cluster.OfferingID
	}
	return vms[0].OfferingID
}

func (s *clusterScale) scaleRole(role Role, o *Offering, vms []*VM, then func()) {
	if err := s.m.checkNodes(s.cluster); err != nil {
		s.fail(err)
		return
	}
	s.transit()
	s.nextVM(role, o, vms[:min(len(vms), s.cluster.recorded(role))], then)
}

// nextVM resizes the VMs one after the other, in the order of the list.
func (s *clusterScale) nextVM(role Role, o *Offering, vms []*VM, then func()) {
	if len(vms) == 0 {
		s.writeRecord(role, o)
		s.nextRole(then)
		return
	}
	vm := vms[0]
	s.m.resize(&resize{m: s.m, vm: vm, offering: o, goal: o.size(), job: s.job, done: func(err *APIError) {
		switch {
		case err != nil:
			s.fail(refusedf("Scaling Kubernetes cluster : %s failed, unable to scale cluster VM : %s due to %s", s.cluster.Name, vm.DisplayName, err.Text))
		case s.m.now().After(s.deadline):
			s.fail(refusedf("Scaling Kubernetes cluster : %s failed, scaling action timed out", s.cluster.Name))
		default:
			s.nextVM(role, o, vms[1:], then)
		}
	}})
}

// transit moves the cluster into the scaling state that belongs to its present one.
func (s *clusterScale) transit() {
	switch s.cluster.State {
	case ClusterRunning:
		s.from, s.cluster.State = ClusterRunning, ClusterScaling
	case ClusterStopped:
		s.from, s.cluster.State = ClusterStopped, ClusterScalingStopped
	}
}

// writeRecord writes what new nodes of the role get. The totals of CPU and memory stay as they were: CloudStack computes
// their change from the first VM, which has the new offering by now.
func (s *clusterScale) writeRecord(role Role, o *Offering) {
	s.cluster.setColumn(role, o.ID)
	if s.goal.byDefault && role == RoleWorker {
		s.cluster.OfferingID = o.ID
	}
}

// fail leaves what is done as it is: VMs with the new offering keep it, the record keeps the old. A cluster that was
// being changed goes to Alert.
func (s *clusterScale) fail(err *APIError) {
	if s.from != "" {
		s.cluster.State = ClusterAlert
	}
	s.m.finish(s.job, nil, err)
}

func (s *clusterScale) succeed() {
	if s.from != "" {
		s.cluster.State = s.from
	}
	s.goal.writeAutoscaling(s.cluster)
	s.m.finish(s.job, map[string]any{"kubernetescluster": s.m.clusterJSON(s.cluster, s.call.account.Admin)}, nil)
}

// vmsOf returns the VMs of the role in id order, external nodes among the workers.
func (m *Model) vmsOf(c *Cluster, role Role) []*VM {
	var out []*VM
	for _, n := range c.Nodes {
		if vm := m.vm(n.VMID); vm != nil && n.Role == role {
			out = append(out, vm)
		}
	}
	return out
}
