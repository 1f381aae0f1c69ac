package cloudstack

import (
	"context"
	"errors"
	"fmt"
	"slices"

	sdk "github.com/apache/cloudstack-go/v2/cloudstack"
	"golang.org/x/sync/errgroup"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// The cluster types that CloudStack knows.
const (
	TypeCloudManaged    = "CloudManaged"
	TypeExternalManaged = "ExternalManaged" // made by another tool: CloudStack can't scale it and has no kubeconfig of it
)

// Cluster is a CKS cluster: its record in CloudStack and, as Cluster (the method) reads it, its VMs.
type Cluster struct {
	ID                string `json:"id"`
	Name              string `json:"name"`
	State             string `json:"state"` // CloudStack's word: Running, Stopped, Scaling, Alert, …
	Type              string `json:"type"`  // CloudManaged or ExternalManaged
	ZoneID            string `json:"zoneID"`
	ZoneName          string `json:"zoneName"`
	NetworkID         string `json:"networkID"`
	ProjectID         string `json:"projectID,omitempty"`
	Account           string `json:"account,omitempty"`
	KeyPair           string `json:"keyPair,omitempty"`
	KubernetesVersion string `json:"kubernetesVersion"`
	Autoscaling       bool   `json:"autoscaling,omitempty"`

	// ControlNodes, WorkerNodes and EtcdNodes are the counts in the record; external nodes count as workers.
	ControlNodes int `json:"controlNodes"`
	WorkerNodes  int `json:"workerNodes"`
	EtcdNodes    int `json:"etcdNodes,omitempty"`

	// Records holds, per role of the cluster, what a new node would get. In the list of Clusters their sizes are 0: not read.
	Records map[rollout.Role]capacity.Record `json:"records"`
	// VMs are in CloudStack's order. Nil in the list of Clusters: not read.
	VMs []VM `json:"vms,omitempty"`
}

// VM is one virtual machine of a cluster.
type VM struct {
	Role rollout.Role `json:"role"`
	// Instance is as listVirtualMachines shows it. If CloudStack lists the VM in the cluster only, OfferingID is empty and
	// the size 0: not read.
	Instance capacity.Instance `json:"instance"`
	// External means that the VM was added to the cluster by somebody; CKS did not make it.
	External bool `json:"external,omitempty"`
	// Address is the VM's own address in the cluster's network.
	Address string `json:"address,omitempty"`
	// Hypervisor is CloudStack's word for it: KVM, VMware, …
	Hypervisor string `json:"hypervisor,omitempty"`
	// RoleDoubt says why Role may be wrong; empty where all signs agree.
	RoleDoubt string `json:"roleDoubt,omitempty"`
}

// ClusterFilter limits a list of clusters. Zero fields limit nothing.
type ClusterFilter struct {
	Keyword   string // part of the name
	State     string
	ProjectID string // only clusters of this project
}

// Clusters lists the clusters that the account can see, in and outside of projects, without their VMs.
func (c *Client) Clusters(ctx context.Context, filter ClusterFilter) ([]Cluster, error) {
	list, err := c.clusterRecords(ctx, filter)
	if err != nil {
		return nil, err
	}
	out := make([]Cluster, 0, len(list))
	for _, record := range list {
		out = append(out, record.cluster())
	}
	return out, nil
}

// Cluster finds a cluster by id or name, and reads its VMs and the sizes of its record. If there is not exactly one, the
// error is a *LookupError.
func (c *Client) Cluster(ctx context.Context, nameOrID string) (Cluster, error) {
	list, err := c.clusterRecords(ctx, ClusterFilter{})
	if err != nil {
		return Cluster{}, err
	}
	record, err := lookup("cluster", nameOrID, list, clusterRecord.candidate)
	if err != nil {
		return Cluster{}, err
	}
	cluster := record.cluster()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		cluster.VMs, err = c.vms(ctx, record)
		return err
	})
	group.Go(func() error { return c.fillRecords(ctx, cluster.Records) })
	if err := group.Wait(); err != nil {
		return Cluster{}, fmt.Errorf("cluster %s: %w", record.Name, err)
	}
	return cluster, nil
}

// Kubeconfig returns the cluster's kubeconfig with administrator's rights, as CloudStack keeps it. It is a secret.
func (c *Client) Kubeconfig(ctx context.Context, clusterID string) ([]byte, error) {
	var reply *sdk.GetKubernetesClusterConfigResponse
	_, err := c.read(ctx, "getKubernetesClusterConfig", func(cs *sdk.CloudStackClient) (err error) {
		params := cs.Kubernetes.NewGetKubernetesClusterConfigParams()
		params.SetId(clusterID)
		reply, err = cs.Kubernetes.GetKubernetesClusterConfig(params)
		return err
	})
	var answer *APIError
	if errors.As(err, &answer) && answer.Code == codeInternal {
		return nil, fmt.Errorf("kubeconfig of cluster %s (CloudStack keeps none of clusters that it did not start; give one with --kubeconfig): %w", clusterID, err)
	}
	if err != nil {
		return nil, fmt.Errorf("kubeconfig of cluster %s: %w", clusterID, err)
	}
	if reply.Configdata == "" {
		return nil, fmt.Errorf("kubeconfig of cluster %s: %w: CloudStack keeps none for it; give one with --kubeconfig", clusterID, rollout.ErrNotFound)
	}
	return []byte(reply.Configdata), nil
}

// clusterRecord is a cluster as CloudStack sends it. Its VMs are thin: no offering, CPU, memory or template.
type clusterRecord struct {
	ID                string    `json:"id"`
	Name              string    `json:"name"`
	State             string    `json:"state"`
	Type              string    `json:"clustertype"`
	ZoneID            string    `json:"zoneid"`
	ZoneName          string    `json:"zonename"`
	NetworkID         string    `json:"networkid"`
	ProjectID         string    `json:"projectid"`
	Account           string    `json:"account"`
	KeyPair           string    `json:"keypair"`
	KubernetesVersion string    `json:"kubernetesversionname"`
	Autoscaling       bool      `json:"autoscalingenabled"`
	Control           number    `json:"controlnodes"`
	Masters           number    `json:"masternodes"` // the same, by its older name
	Size              number    `json:"size"`
	Etcd              number    `json:"etcdnodes"`
	OfferingID        string    `json:"serviceofferingid"`
	OfferingName      string    `json:"serviceofferingname"`
	ControlOfferingID string    `json:"controlofferingid"`
	ControlOffering   string    `json:"controlofferingname"`
	WorkerOfferingID  string    `json:"workerofferingid"`
	WorkerOffering    string    `json:"workerofferingname"`
	EtcdOfferingID    string    `json:"etcdofferingid"`
	EtcdOffering      string    `json:"etcdofferingname"`
	VMs               []machine `json:"virtualmachines"`
}

func (r clusterRecord) candidate() Candidate {
	note := r.State
	if r.ZoneName != "" {
		note = "zone " + r.ZoneName + ", " + r.State
	}
	return Candidate{ID: r.ID, Name: r.Name, Note: note}
}

func (r clusterRecord) controlNodes() int {
	if r.Control != 0 {
		return int(r.Control)
	}
	return int(r.Masters)
}

func (r clusterRecord) cluster() Cluster {
	return Cluster{
		ID: r.ID, Name: r.Name, State: r.State, Type: r.Type, ZoneID: r.ZoneID, ZoneName: r.ZoneName,
		NetworkID: r.NetworkID, ProjectID: r.ProjectID, Account: r.Account, KeyPair: r.KeyPair,
		KubernetesVersion: r.KubernetesVersion, Autoscaling: r.Autoscaling,
		ControlNodes: r.controlNodes(), WorkerNodes: int(r.Size), EtcdNodes: int(r.Etcd),
		Records: r.records(),
	}
}

// records takes the role's own offering, else the cluster's. Either may be absent.
func (r clusterRecord) records() map[rollout.Role]capacity.Record {
	record := func(id, name string) capacity.Record {
		if id == "" {
			id, name = r.OfferingID, r.OfferingName
		}
		return capacity.Record{Offering: capacity.Offering{ID: id, Name: name}}
	}
	out := map[rollout.Role]capacity.Record{
		rollout.RoleControl: record(r.ControlOfferingID, r.ControlOffering),
		rollout.RoleWorker:  record(r.WorkerOfferingID, r.WorkerOffering),
	}
	if r.Etcd > 0 {
		out[rollout.RoleEtcd] = record(r.EtcdOfferingID, r.EtcdOffering)
	}
	return out
}

// fillRecords looks up the sizes. An offering that was deleted since keeps its name, and no size.
func (c *Client) fillRecords(ctx context.Context, records map[rollout.Role]capacity.Record) error {
	known := map[string]capacity.Offering{}
	for role, record := range records {
		id := record.Offering.ID
		if _, asked := known[id]; !asked && id != "" {
			list, err := c.offerings(ctx, id, "")
			if err != nil && !unknownID(err) {
				return err
			}
			known[id] = record.Offering
			if len(list) == 1 {
				known[id] = list[0]
			}
		}
		records[role] = capacity.Record{Offering: known[id]}
	}
	return nil
}

// clusterRecords lists outside of projects and within. An account without access to any project still sees its own clusters.
func (c *Client) clusterRecords(ctx context.Context, filter ClusterFilter) ([]clusterRecord, error) {
	if filter.ProjectID != "" {
		return c.clusterRecordsOf(ctx, filter, filter.ProjectID)
	}
	own, err := c.clusterRecordsOf(ctx, filter, "")
	if err != nil {
		return nil, err
	}
	inProjects, err := c.clusterRecordsOf(ctx, filter, anyProject)
	if err != nil && !errors.Is(err, rollout.ErrDenied) && !unknownID(err) {
		return nil, err
	}
	for _, record := range inProjects {
		if !slices.ContainsFunc(own, func(r clusterRecord) bool { return r.ID == record.ID }) {
			own = append(own, record)
		}
	}
	return own, nil
}

func (c *Client) clusterRecordsOf(ctx context.Context, filter ClusterFilter, projectID string) ([]clusterRecord, error) {
	list, err := all(func(p page) ([]clusterRecord, int, error) {
		params := map[string]string{"listall": "true"}
		for name, value := range map[string]string{"keyword": filter.Keyword, "state": filter.State, "projectid": projectID} {
			if value != "" {
				params[name] = value
			}
		}
		p.set(params)
		var reply struct {
			Count int             `json:"count"`
			List  []clusterRecord `json:"kubernetescluster"`
		}
		_, err := c.get(ctx, "listKubernetesClusters", params, &reply)
		return reply.List, reply.Count, err
	})
	if err != nil {
		return nil, fmt.Errorf("list clusters: %w", err)
	}
	return list, nil
}
