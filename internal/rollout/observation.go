package rollout

import (
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// Observation is one look at a node in every system. Next decides on nothing else.
type Observation struct {
	Target   Target            `json:"target"`
	Instance capacity.Instance `json:"instance"`
	// ServerTime is CloudStack's own clock at the reading of Instance (the HTTP Date header, whole seconds).
	ServerTime time.Time `json:"serverTime"`
	// Job is the resize job that the claim names or, without such a name, one found for this instance. Nil if there is none.
	Job   *Job           `json:"job,omitempty"`
	Guest capacity.Guest `json:"guest"`
	// Inspection is what was looked at before the first change alone; nil in the engine.
	Inspection *capacity.Inspection `json:"inspection,omitempty"`
	// Node is zero for a dedicated etcd machine.
	Node capacity.Node `json:"node"`
	// Pods are the node's pods: read just before kubelet's restart and before the node is given back, else nil or old.
	Pods *PodReading `json:"pods,omitempty"`
	// Held are pods whose eviction a disruption budget does not allow now, by UID, with the API server's word: what the last drain found.
	Held map[string]string `json:"held,omitempty"`
	// GuestUnread says why the guest of an instance that is being stopped or started could not be read; empty if it was, or if the instance does not run.
	GuestUnread string `json:"guestUnread,omitempty"`
	// Peers are the cluster's other control-plane nodes, for a control-plane node: it may only be touched while all of them are well.
	Peers []Peer `json:"peers,omitempty"`
	// ControlPlane is what the API server says of its own health, for a control-plane node or an etcd machine; empty if it is well.
	ControlPlane string `json:"controlPlane,omitempty"`
}

// Peer is another node of the same role, on which the cluster relies meanwhile.
type Peer struct {
	Name  string             `json:"name"`
	Ready capacity.Condition `json:"ready"`
}

// Job is a CloudStack async job.
type Job struct {
	ID     string    `json:"id"`
	Status JobStatus `json:"status"`
	// Created is when CloudStack made the job, by its own clock, in whole seconds.
	Created time.Time `json:"created"`
	// Code and Text are CloudStack's error code and text of a failed job.
	Code int    `json:"code,omitempty"`
	Text string `json:"text,omitempty"`
	// Cancelled means that CloudStack gave the job up without knowing what had become of it: its management server was restarted.
	Cancelled bool `json:"cancelled,omitempty"`
}

// JobStatus is the state of an async job.
type JobStatus int

// The job states, with CloudStack's own numbers.
const (
	JobPending   JobStatus = 0
	JobSucceeded JobStatus = 1
	JobFailed    JobStatus = 2
)

// InstanceReading is the answer of the CloudStack port to "how is this VM?".
type InstanceReading struct {
	Instance   capacity.Instance
	ServerTime time.Time
	// PendingJobID is the VM's jobid while CloudStack works on it, else empty.
	PendingJobID string
}
