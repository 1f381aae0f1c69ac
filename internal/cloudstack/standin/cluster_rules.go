package standin

import (
	"slices"
	"strings"
)

// The least that CloudStack accepts for a node of a CKS cluster.
const (
	minNodeCPUs      = 2
	minNodeMemoryMiB = 2048
)

// clusterGoal is what a scaleKubernetesCluster call asks for.
type clusterGoal struct {
	byDefault bool // one offering for all roles
	all       *Offering
	byRole    map[Role]*Offering

	size             sizeGoal
	autoscaling      *bool
	minSize, maxSize int
}

// offering returns the goal of the role, or nil for none.
func (g *clusterGoal) offering(r Role) *Offering {
	if g.byDefault {
		return g.all
	}
	return g.byRole[r]
}

func (g *clusterGoal) writeAutoscaling(c *Cluster) {
	if g.autoscaling != nil {
		c.Autoscaling, c.MinSize, c.MaxSize = *g.autoscaling, g.minSize, g.maxSize
	}
}

// validateScale holds the call against CloudStack's rules.
func (c *call) validateScale(k *Cluster) (clusterGoal, *APIError) {
	goal, err := c.clusterGoal(k)
	if err != nil {
		return goal, err
	}
	for _, check := range []func(*Cluster, *clusterGoal) *APIError{c.checkClusterState, c.checkAutoscaling, c.checkSize, c.checkOfferings} {
		if err := check(k, &goal); err != nil {
			return goal, err
		}
	}
	return goal, nil
}

// clusterGoal reads the offerings. With nodeofferings, serviceofferingid is ignored.
func (c *call) clusterGoal(k *Cluster) (clusterGoal, *APIError) {
	goal := clusterGoal{byDefault: true, all: c.m.offering(orDefault(c.str("serviceofferingid"), k.OfferingID)), byRole: map[Role]*Offering{}}
	for _, entry := range c.indexed("nodeofferings") {
		if entry["node"] == "" || entry["offering"] == "" {
			return goal, refusedf("Incomplete node type to Service Offering ID mapping: '%s' -> '%s'", entry["node"], entry["offering"])
		}
		role := Role(strings.ToLower(entry["node"]))
		if role != RoleControl && role != RoleEtcd && role != RoleWorker && role != "default" {
			return goal, refusedf("The provided value [%s] for node type is invalid", entry["node"])
		}
		o := c.m.offering(entry["offering"])
		if o == nil {
			return goal, refusedf("Cannot find a service offering with ID %s", entry["offering"])
		}
		goal.byDefault, goal.byRole[role] = false, o
	}
	if all, ok := goal.byRole["default"]; ok {
		goal.byDefault, goal.all = true, all
	}
	return goal, nil
}

// checkClusterState is about the call as a whole.
func (c *call) checkClusterState(k *Cluster, _ *clusterGoal) *APIError {
	asked := c.str("serviceofferingid") + c.str("size") + c.str("nodeids") + c.str("autoscalingenabled")
	switch {
	case asked == "" && len(c.indexed("nodeofferings")) == 0:
		return refusedf("Kubernetes cluster %s cannot be scaled, either service offering or cluster size or nodeids to be removed or autoscaling must be passed", k.Name)
	case k.External:
		return refusedf("Scale kubernetes cluster is not supported for an externally managed cluster (%s)", k.Name)
	case k.State != ClusterCreated && k.State != ClusterRunning && k.State != ClusterStopped:
		return refusedf("Kubernetes cluster %s is in %s state and can not be scaled", k.Name, k.State)
	}
	return nil
}

func (c *call) checkAutoscaling(_ *Cluster, goal *clusterGoal) *APIError {
	if c.str("autoscalingenabled") == "" {
		return nil
	}
	on := c.bool("autoscalingenabled")
	goal.autoscaling = &on
	if !on {
		return nil
	}
	var errMin, errMax *APIError
	goal.minSize, errMin = c.int("minsize")
	goal.maxSize, errMax = c.int("maxsize")
	switch {
	case c.str("size") != "" || c.str("nodeids") != "":
		return refusedf("Autoscaling can not be passed along with nodeids or clustersize")
	case errMin != nil || errMax != nil || c.str("minsize") == "" || c.str("maxsize") == "":
		return refusedf("Autoscaling requires minsize and maxsize to be passed")
	case goal.minSize < 1:
		return refusedf("Minimum size must be at least than 1")
	case goal.maxSize <= goal.minSize:
		return refusedf("Maximum size must be greater than or equal to minimum size")
	case goal.maxSize > c.m.settingInt(SettingMaxClusterSize):
		return refusedf("Maximum size can not exceed %d", c.m.settingInt(SettingMaxClusterSize))
	}
	return nil
}

// checkOfferings compares the goal of each role with the record, not with the VMs.
func (c *call) checkOfferings(k *Cluster, goal *clusterGoal) *APIError {
	if c.str("serviceofferingid") == "" && goal.byDefault {
		return nil // autoscaling or size alone
	}
	for _, role := range []Role{RoleControl, RoleEtcd, RoleWorker} {
		o := goal.offering(role)
		if o == nil {
			continue
		}
		if err := c.checkNodeOffering(k, o); err != nil {
			return err
		}
		if err := c.checkNotSmaller(k, o, c.m.offering(k.column(role))); err != nil {
			return err
		}
	}
	return nil
}

func (c *call) checkNodeOffering(k *Cluster, o *Offering) *APIError {
	v := c.m.version(k.VersionID)
	switch {
	case o.Customized:
		return refusedf("Custom service offerings are not supported for Kubernetes clusters. Kubernetes cluster : %s, service offering : %s", k.Name, o.Name)
	case o.CPUs < minNodeCPUs || o.MemoryMiB < minNodeMemoryMiB:
		return refusedf("Kubernetes cluster : %s cannot be scaled with service offering : %s, Kubernetes cluster template needs minimum %d vCPUs and %d MB RAM", k.Name, o.Name, minNodeCPUs, minNodeMemoryMiB)
	case v != nil && o.CPUs < v.MinCPUs:
		return refusedf("Kubernetes cluster : %s cannot be scaled with service offering : %s, associated Kubernetes version : %s needs minimum %d vCPUs", k.Name, o.Name, v.Name, v.MinCPUs)
	case v != nil && o.MemoryMiB < v.MinMemoryMiB:
		return refusedf("Kubernetes cluster : %s cannot be scaled with service offering : %s, associated Kubernetes version : %s needs minimum %d MB RAM", k.Name, o.Name, v.Name, v.MinMemoryMiB)
	}
	return nil
}

// checkNotSmaller is where a record without an offering ends in CloudStack's null error.
func (c *call) checkNotSmaller(k *Cluster, o, old *Offering) *APIError {
	switch {
	case old == nil:
		return refusedf(`Cannot invoke "com.cloud.offering.ServiceOffering.getRamSize()" because "existingServiceOffering" is null`)
	case k.State != ClusterRunning:
		return nil
	case o.MemoryMiB < old.MemoryMiB || o.CPUs*o.MHz < old.CPUs*old.MHz:
		return refusedf("Kubernetes cluster cannot be scaled down for service offering. Service offering : %s offers lesser resources as compared to service offering : %s of Kubernetes cluster : %s", o.Name, old.Name, k.Name)
	}
	return nil
}

// checkNodes is what CloudStack checks once it knows that VMs must change: all are there, and before 4.23 none runs on KVM.
func (m *Model) checkNodes(k *Cluster) *APIError {
	running := slices.ContainsFunc(k.Nodes, func(n ClusterNode) bool { return m.vm(n.VMID) != nil && m.vm(n.VMID).State == VMRunning })
	switch {
	case k.State == ClusterCreated:
		return nil
	case len(k.Nodes) < k.ControlNodes+k.EtcdNodes+k.Size:
		return refusedf("Scaling Kubernetes cluster : %s failed, it is in unstable state as not enough existing VM instances found!", k.Name)
	case running && !m.atLeast(4, 23):
		return refusedf("Scaling Kubernetes cluster : %s failed, scaling Kubernetes cluster with running VMs on hypervisor KVM is not supported!", k.Name)
	}
	return nil
}
