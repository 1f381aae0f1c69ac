// Package cluster brings up a whole lab: a CKS cluster with real Kubernetes parts and QEMU guests behind a CloudStack that is played.
//
// Invariant: a lab is one folder and the programs marked with it. Down, or the next Up after a kill, leaves neither.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"

	"github.com/cks-trueup/trueup/lab/artifacts"
	"github.com/cks-trueup/trueup/lab/control"
	"github.com/cks-trueup/trueup/lab/guest"
	"github.com/cks-trueup/trueup/lab/process"
)

const (
	// bootTimeout is for a cold boot to SSH: 11 s for one guest on a quiet machine, 45 s for each of three at a load of 16 on
	// two cores, more than two minutes at a load of 22.
	bootTimeout = 5 * time.Minute
	// readyTimeout is for all nodes together, boot included: three took 52 s at a load of 6 and 75 s at 16.
	readyTimeout = 8 * time.Minute
)

// Lab is a running lab. Its parts may be used directly.
type Lab struct {
	Options Options
	Plane   *control.Plane
	Kube    *kubernetes.Clientset // an administrator's
	Nodes   []*Node
	Etcd    []*guest.Guest // dedicated etcd machines: no Nodes
	Cloud   *Cloud

	folder   *folder
	starter  *process.Starter
	login    *login
	progress *progress
}

// Node is one guest and its role.
type Node struct {
	*guest.Guest

	Control bool
}

// Role is control or worker.
func (n *Node) Role() string {
	if n.Control {
		return "control"
	}
	return "worker"
}

// Up brings a lab up and returns when all its Nodes are Ready. If it fails, nothing is left but an error.
func Up(ctx context.Context, options Options) (*Lab, error) {
	options, err := options.complete()
	if err != nil {
		return nil, err
	}
	if options.Artifacts == (artifacts.Set{}) {
		if options.Artifacts, err = artifacts.Build(ctx, options.Progress); err != nil {
			return nil, err
		}
	}
	held, err := holdFolder(ctx, options.Dir)
	if err != nil {
		return nil, err
	}
	options.Dir = held.path
	l := &Lab{Options: options, folder: held, progress: &progress{out: options.Progress, began: time.Now()}}
	if err := l.up(ctx); err != nil {
		// The caller's context may be what ended: what runs is ended all the same.
		return nil, errors.Join(err, l.Down(context.WithoutCancel(ctx)))
	}
	return l, nil
}

func (l *Lab) up(ctx context.Context) (err error) {
	if l.starter, err = process.NewStarter(l.Options.Dir); err != nil {
		return err
	}
	if l.login, err = newLogin(filepath.Join(l.Options.Dir, "ssh")); err != nil {
		return err
	}
	l.progress.sayf("control plane")
	if l.Plane, err = control.Start(ctx, l.starter, l.Options.Artifacts.Kubernetes, filepath.Join(l.Options.Dir, "control")); err != nil {
		return err
	}
	if err := l.connect(); err != nil {
		return err
	}
	l.progress.sayf("%d guests: boot, then kubelet", l.Options.Control+l.Options.Workers+l.Options.Etcd)
	if err := l.startGuests(ctx); err != nil {
		return err
	}
	if err := l.login.writeKnownHosts(l.guests()); err != nil {
		return err
	}
	if err := l.waitNodes(ctx); err != nil {
		return err
	}
	if err := l.startPods(ctx); err != nil {
		return err
	}
	if err := l.startCloud(ctx); err != nil {
		return err
	}
	if err := l.writeDescription(); err != nil {
		return err
	}
	l.progress.sayf("%s", upLine)
	return nil
}

// waitNodes waits for every guest at once; the first that fails ends the others' wait.
func (l *Lab) waitNodes(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	for _, etcd := range l.Etcd {
		group.Go(func() error {
			if err := etcd.WaitSSH(ctx); err != nil {
				return err
			}
			_, err := etcd.Run(ctx, "until /opt/bin/etcdctl endpoint health 2>/dev/null; do sleep 1; done")
			return err
		})
	}
	for _, node := range l.Nodes {
		group.Go(func() error {
			bootCtx, cancel := context.WithTimeout(ctx, bootTimeout)
			defer cancel()
			if err := node.WaitSSH(bootCtx); err != nil {
				return err
			}
			l.progress.sayf("%s: SSH answers", node.Name())
			return l.waitReady(ctx, node)
		})
	}
	return group.Wait()
}

// guests are all virtual machines of the lab.
func (l *Lab) guests() []*guest.Guest {
	all := slices.Clone(l.Etcd)
	for _, node := range l.Nodes {
		all = append(all, node.Guest)
	}
	return all
}

// Down ends everything and removes the folder. It may be called once.
func (l *Lab) Down(ctx context.Context) error {
	if l.Cloud != nil {
		l.Cloud.close()
	}
	var group sync.WaitGroup
	for _, g := range l.guests() {
		group.Go(g.Kill)
	}
	group.Wait()
	if l.Plane != nil {
		l.Plane.Stop(ctx)
	}
	if l.starter != nil {
		l.starter.Close()
	}
	return l.folder.release(ctx)
}

// progress says what happens, with the seconds since the start.
type progress struct {
	mu    sync.Mutex
	out   io.Writer
	began time.Time
}

func (p *progress) sayf(format string, arguments ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = fmt.Fprintf(p.out, "%6.1f s  %s\n", time.Since(p.began).Seconds(), fmt.Sprintf(format, arguments...))
}
