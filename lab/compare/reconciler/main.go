// Command reconciler takes nodes to another offering as the draft of CloudStack's own reconciler does (apache/cloudstack pull request 14223, read
// in September 2026): a new SSH connection for every command, kubectl on the control node for every read and write, and fixed pauses of 5 s between
// two looks. It is written from a description of that draft, to be measured beside trueup, and is of no other use.
//
// The draft changes the offering from within the management server and goes on when that returns, so the job is looked at often here, and what that
// costs in API requests is not the draft's.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/apache/cloudstack-go/v2/cloudstack"
	"golang.org/x/crypto/ssh"
)

const (
	pollInterval   = 5 * time.Second
	commandTimeout = 30 * time.Second
	deadline       = time.Hour
	jobInterval    = 100 * time.Millisecond
	annotation     = "cloudstack.apache.org/cks-live-resize"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	err := run(ctx, os.Args[1:])
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "reconciler:", err)
		os.Exit(1)
	}
}

// run takes OFFERING_ID CPUS MEMORY_MIB CONTROL_PORT NODE=VM_ID=PORT …
func run(ctx context.Context, args []string) error {
	r, err := newReconciler(args[:4])
	if err != nil {
		return err
	}
	for _, arg := range args[4:] {
		part := strings.Split(arg, "=")
		if err := r.reconcile(ctx, node{name: part[0], vm: part[1], port: part[2]}); err != nil {
			return fmt.Errorf("%s: %w", part[0], err)
		}
	}
	return nil
}

type node struct{ name, vm, port string }

type reconciler struct {
	offering    string
	cpus, mib   int
	controlPort string
	key         ssh.Signer
	cloud       *cloudstack.CloudStackClient
}

func newReconciler(args []string) (*reconciler, error) {
	cpus, err := strconv.Atoi(args[1])
	if err != nil {
		return nil, err
	}
	mib, err := strconv.Atoi(args[2])
	if err != nil {
		return nil, err
	}
	pem, err := os.ReadFile(os.Getenv("SSH_KEY"))
	if err != nil {
		return nil, err
	}
	key, err := ssh.ParsePrivateKey(pem)
	cloud := cloudstack.NewClient(os.Getenv("CLOUDSTACK_API_URL"), os.Getenv("CLOUDSTACK_API_KEY"), os.Getenv("CLOUDSTACK_SECRET_KEY"), true)
	return &reconciler{args[0], cpus, mib, args[3], key, cloud}, err
}

func (r *reconciler) reconcile(ctx context.Context, n node) error {
	if _, err := r.guest(n); err != nil {
		return err
	}
	before, err := r.node(n)
	if err != nil {
		return err
	}
	if err := r.cordon(ctx, n); err != nil {
		return err
	}
	if err := r.resize(ctx, n); err != nil {
		return err
	}
	if err := poll(ctx, pollInterval, func() (bool, error) { return r.guestHasAll(n) }); err != nil {
		return fmt.Errorf("GUEST_VERIFY: %w", err)
	}
	if err := r.restart(ctx, n); err != nil {
		return fmt.Errorf("KUBELET_RESTART: %w", err)
	}
	if err := poll(ctx, pollInterval, func() (bool, error) { return r.nodeHasAll(n, before) }); err != nil {
		return fmt.Errorf("CAPACITY_VERIFY: %w", err)
	}
	return r.uncordon(ctx, n)
}

func (r *reconciler) cordon(ctx context.Context, n node) error {
	if _, err := r.kubectl("annotate", "node", n.name, annotation+"=true", "--overwrite"); err != nil {
		return err
	}
	if _, err := r.kubectl("cordon", n.name); err != nil {
		return err
	}
	return r.waitUnschedulable(ctx, n, true)
}

func (r *reconciler) uncordon(ctx context.Context, n node) error {
	if _, err := r.kubectl("uncordon", n.name); err != nil {
		return err
	}
	if _, err := r.kubectl("annotate", "node", n.name, annotation+"-"); err != nil {
		return err
	}
	return r.waitUnschedulable(ctx, n, false)
}

func (r *reconciler) waitUnschedulable(ctx context.Context, n node, want bool) error {
	return poll(ctx, pollInterval, func() (bool, error) {
		now, err := r.node(n)
		return now.Spec.Unschedulable == want, err
	})
}

func (r *reconciler) resize(ctx context.Context, n node) error {
	started, err := r.cloud.VirtualMachine.ScaleVirtualMachine(r.cloud.VirtualMachine.NewScaleVirtualMachineParams(n.vm, r.offering))
	if err != nil {
		return err
	}
	return poll(ctx, jobInterval, func() (bool, error) {
		job, err := r.cloud.Asyncjob.QueryAsyncJobResult(r.cloud.Asyncjob.NewQueryAsyncJobResultParams(started.JobID))
		if err == nil && job.Jobstatus == 2 {
			err = fmt.Errorf("job %s failed: %s", started.JobID, job.Jobresult)
		}
		return err == nil && job.Jobstatus == 1, err
	})
}

func (r *reconciler) restart(ctx context.Context, n node) error {
	if _, err := r.ssh(n.port, "sudo systemctl restart kubelet"); err != nil {
		return err
	}
	return poll(ctx, pollInterval, func() (bool, error) {
		out, err := r.ssh(n.port, "sudo systemctl is-active kubelet")
		return strings.TrimSpace(out) == "active", err
	})
}

// guestSize is what the draft looks at in a guest.
type guestSize struct{ cpus, totalKiB int }

func (r *reconciler) guest(n node) (guestSize, error) {
	cpus, err := r.ssh(n.port, "getconf _NPROCESSORS_ONLN")
	if err != nil {
		return guestSize{}, err
	}
	memory, err := r.ssh(n.port, "cat /proc/meminfo")
	if err != nil {
		return guestSize{}, err
	}
	var size guestSize
	if size.cpus, err = strconv.Atoi(strings.TrimSpace(cpus)); err != nil {
		return guestSize{}, err
	}
	_, err = fmt.Sscanf(memory, "MemTotal: %d kB", &size.totalKiB)
	return size, err
}

// guestHasAll allows more than the draft's 2 % or 128 MiB between the offering and MemTotal: with that a guest of 3 GiB would never pass.
func (r *reconciler) guestHasAll(n node) (bool, error) {
	size, err := r.guest(n)
	short := r.mib<<10 - size.totalKiB
	return size.cpus == r.cpus && short >= 0 && short <= max(r.mib<<10/12, 512<<10), err
}

// nodeObject is what the draft reads of a Node.
type nodeObject struct {
	Spec struct {
		Unschedulable bool `json:"unschedulable"`
	} `json:"spec"`
	Status struct {
		Capacity    map[string]string `json:"capacity"`
		Allocatable map[string]string `json:"allocatable"`
		Conditions  []condition       `json:"conditions"`
	} `json:"status"`
}

type condition struct {
	Type   string `json:"type"`
	Status string `json:"status"`
}

func (r *reconciler) node(n node) (nodeObject, error) {
	out, err := r.kubectl("get", "node", n.name, "-o", "json")
	if err != nil {
		return nodeObject{}, err
	}
	var object nodeObject
	return object, json.Unmarshal([]byte(out), &object)
}

func (r *reconciler) nodeHasAll(n node, before nodeObject) (bool, error) {
	now, err := r.node(n)
	ready := false
	for _, c := range now.Status.Conditions {
		ready = ready || c.Type == "Ready" && c.Status == "True"
	}
	return ready && now.Status.Capacity["cpu"] == strconv.Itoa(r.cpus) && now.Status.Allocatable["memory"] != before.Status.Allocatable["memory"], err
}

func (r *reconciler) kubectl(args ...string) (string, error) {
	return r.ssh(r.controlPort, "sudo /opt/bin/kubectl --kubeconfig /etc/kubernetes/admin.conf "+strings.Join(args, " "))
}

// ssh runs one command on a connection of its own. The draft believes every host key.
func (r *reconciler) ssh(port, command string) (string, error) {
	client, err := ssh.Dial("tcp", net.JoinHostPort("127.0.0.1", port), &ssh.ClientConfig{
		User: "cloud", Auth: []ssh.AuthMethod{ssh.PublicKeys(r.key)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(), Timeout: commandTimeout, //nolint:gosec // as the draft
	})
	if err != nil {
		return "", err
	}
	defer func() { _ = client.Close() }()
	session, err := client.NewSession()
	if err != nil {
		return "", err
	}
	var out, complaints bytes.Buffer
	session.Stdout, session.Stderr = &out, &complaints
	if err := session.Run(command); err != nil {
		return "", fmt.Errorf("%s: %w: %s", command, err, &complaints)
	}
	return out.String(), nil
}

// poll looks at once and then after each pause.
func poll(ctx context.Context, pause time.Duration, holds func() (bool, error)) error {
	for {
		if ok, err := holds(); ok || err != nil {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
