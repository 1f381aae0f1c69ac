package cluster

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cks-trueup/trueup/lab/artifacts"
)

// Options say what a lab shall be. The zero value of each field but Dir means the default in its comment.
type Options struct {
	Dir       string        // the lab's folder: made, emptied and filled by Up, emptied by Down. No default
	Name      string        // of the cluster; default "lab"
	Control   int           // control-plane nodes; default 1
	Workers   int           // default 0
	Etcd      int           // dedicated etcd machines, 0 or 1; its etcd is not the one that the lab's API server uses
	VCPUs     int           // of each guest at boot; default 2
	MemoryMiB int           // of each guest at boot; default 2048
	Status    time.Duration // how often kubelets post their status; default 2 s; Kubernetes' own default is 10 s
	Pods      int           // replicas of a Deployment of real pods; default 0
	Artifacts artifacts.Set // default: built when missing
	Progress  io.Writer     // default: none
}

// Limits of every guest, as CloudStack's KVM agent defines them: 16 DIMM slots, and room to grow.
const (
	maxVCPUs     = 8
	maxMemoryMiB = 16384
	dimmSlots    = 16
)

// An etcd machine at boot: it has neither containerd nor kubelet.
const (
	etcdVCPUs     = 1
	etcdMemoryMiB = 1024
)

// maxNodes keeps guest addresses in one /24 and, long before, a machine usable: two cores carry three or four kubelets.
const maxNodes = 16

// maxPods is what one kubelet takes by default.
const maxPods = 110

// complete fills in defaults and refuses what can't be.
func (o Options) complete() (Options, error) {
	if o.Dir == "" {
		return o, errors.New("lab: no folder given")
	}
	if o.Name == "" {
		o.Name = "lab"
	}
	orDefault(&o.Control, 1)
	orDefault(&o.VCPUs, 2)
	orDefault(&o.MemoryMiB, 2048)
	if o.Status == 0 {
		o.Status = 2 * time.Second
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	switch {
	case o.Etcd < 0 || o.Etcd > 1:
		return o, fmt.Errorf("lab: %d etcd machines: possible are 0 and 1, as guests can't reach each other", o.Etcd)
	case o.Pods < 0 || o.Pods > maxPods:
		return o, fmt.Errorf("lab: %d pods: possible are 0 to %d", o.Pods, maxPods)
	case o.Control < 0 || o.Workers < 0 || o.Control+o.Workers > maxNodes:
		return o, fmt.Errorf("lab: %d control nodes and %d workers: possible are 1 to %d together", o.Control, o.Workers, maxNodes)
	case o.VCPUs < 1 || o.VCPUs > maxVCPUs:
		return o, fmt.Errorf("lab: %d vCPUs: possible are 1 to %d", o.VCPUs, maxVCPUs)
	case o.MemoryMiB < 1024 || o.MemoryMiB > maxMemoryMiB:
		return o, fmt.Errorf("lab: %d MiB: possible are 1024 to %d", o.MemoryMiB, maxMemoryMiB)
	}
	return o, nil
}

func orDefault(field *int, value int) {
	if *field == 0 {
		*field = value
	}
}
