package standin

// stopKubernetesCluster and startKubernetesCluster turn all VMs of a cluster off and on.
func stopKubernetesCluster(c *call) (any, error) {
	return c.switchPower(ClusterStopping, ClusterStopped, []ClusterState{ClusterRunning, ClusterAlert}, func(m *Model, id string) error { return m.StopVM(m.ctx, id) })
}

func startKubernetesCluster(c *call) (any, error) {
	return c.switchPower(ClusterStarting, ClusterRunning, []ClusterState{ClusterStopped, ClusterCreated}, func(m *Model, id string) error { return m.StartVM(m.ctx, id) })
}

// switchPower starts the job that brings the cluster from one of the states to the end state.
func (c *call) switchPower(during, end ClusterState, from []ClusterState, each func(*Model, string) error) (any, error) {
	k := c.m.cluster(c.str("id"))
	if k == nil {
		return nil, unknownID(c.command.lower(), "id", c.str("id"))
	}
	if err := c.mayUse(k.Owner, k.ID); err != nil {
		return nil, err
	}
	p := &powerChange{call: c, cluster: k, job: c.m.startJob(c, instanceCluster, k.ID), generation: c.m.generation, end: end, each: each}
	c.m.after(c.m.cfg.AgentStep, p.generation, func() { p.begin(during, from) })
	return p.job.reply(), nil
}

// powerChange is one run of start or stop.
type powerChange struct {
	call       *call
	cluster    *Cluster
	job        *Job
	generation int
	end        ClusterState
	each       func(*Model, string) error
}

func (p *powerChange) begin(during ClusterState, from []ClusterState) {
	m := p.call.m
	for _, s := range from {
		if p.cluster.State != s {
			continue
		}
		p.cluster.State = during
		var ids []string
		for _, n := range p.cluster.Nodes {
			ids = append(ids, n.VMID)
		}
		m.cfg.Clock.AfterFunc(m.cfg.AgentStep, func() { p.finish(p.switchAll(ids)) })
		return
	}
	m.finish(p.job, nil, refusedf("Kubernetes cluster %s is in %s state", p.cluster.Name, p.cluster.State))
}

// switchAll runs without the lock, because the hypervisor may take its time.
func (p *powerChange) switchAll(ids []string) error {
	for _, id := range ids {
		if err := p.each(p.call.m, id); err != nil {
			return err
		}
	}
	return nil
}

func (p *powerChange) finish(err error) {
	m := p.call.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.generation != p.generation {
		return
	}
	if err != nil {
		p.cluster.State = ClusterAlert
		m.finish(p.job, nil, refusedf("%s", err))
		return
	}
	p.cluster.State = p.end
	m.finish(p.job, p.result(), nil)
}

func (p *powerChange) result() any {
	if p.end == ClusterStopped {
		return map[string]any{"success": true, "displaytext": "Kubernetes cluster stopped"}
	}
	return map[string]any{"kubernetescluster": p.call.m.clusterJSON(p.cluster, p.call.account.Admin)}
}
