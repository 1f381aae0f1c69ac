package compare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/lab/cluster"
)

// workers is how many nodes are taken to the bigger offering.
const workers = 2

// Trial is what one run of a contender has cost.
type Trial struct {
	Round     int
	Contender string
	Wall      time.Duration
	// CPU is the contender's, with all programs that it has started; PeakMiB is that of its biggest program.
	CPU     time.Duration
	PeakMiB float64
	// SSHConnections and the requests are counted by relays and by what answered; Bytes is all that went through relays.
	SSHConnections, CloudStackRequests, KubernetesRequests int
	Bytes                                                  int64
	Nodes                                                  []NodeTrial
}

// NodeTrial is one node of it.
type NodeTrial struct {
	Node               string
	Phases             []Phase
	Wall, Added        time.Duration
	Cordoned, NotReady time.Duration
	KubeletRestarts    int
}

// Run brings up a lab of its own, lets the contender work on it, measures, and takes the lab down.
func Run(ctx context.Context, round int, c Contender, programs Programs, log io.Writer) (trial Trial, err error) {
	dir, err := os.MkdirTemp("", "trueup-compare-")
	if err != nil {
		return Trial{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	lab, err := cluster.Up(ctx, cluster.Options{Dir: filepath.Join(dir, "lab"), Workers: workers, Pods: workers, Progress: log})
	if err != nil {
		return Trial{}, err
	}
	defer func() { err = errors.Join(err, lab.Down(context.WithoutCancel(ctx))) }()
	for _, node := range lab.Nodes {
		if _, err := node.Run(ctx, selfOnlining); err != nil {
			return Trial{}, err
		}
		if err := node.RecordHotplug(ctx); err != nil {
			return Trial{}, err
		}
	}
	b := &bench{lab: lab, dir: dir, contender: c}
	defer b.close()
	if err := b.connect(ctx, programs); err != nil {
		return Trial{}, err
	}
	trial, err = b.run(ctx, log)
	trial.Round, trial.Contender = round, c.Name
	return trial, err
}

// bench is a lab with relays before everything that answers.
type bench struct {
	lab         *cluster.Lab
	dir         string
	contender   Contender
	task        task
	cloud, kube *relay
	ssh         []*relay
}

func (b *bench) relays() []*relay { return append([]*relay{b.cloud, b.kube}, b.ssh...) }

func (b *bench) close() {
	for _, r := range b.relays() {
		if r != nil {
			r.close()
		}
	}
}

func (b *bench) connect(ctx context.Context, programs Programs) (err error) {
	l := b.lab
	offering := l.Cloud.Offerings["medium"]
	kubectl := l.Describe().Kubectl
	b.task = task{programs: programs, cluster: l.Options.Name, offeringID: offering.ID, cpus: offering.CPUs, mib: offering.MemoryMiB,
		apiKey: l.Cloud.Account.APIKey, secretKey: l.Cloud.Account.SecretKey, sshKey: l.SSHKeyPath(), knownHosts: l.KnownHostsPath(),
		home: b.dir, path: filepath.Dir(kubectl)}
	if b.cloud, err = newRelay(ctx, strings.TrimSuffix(strings.TrimPrefix(l.Cloud.URL, "http://"), standin.Path)); err != nil {
		return err
	}
	b.task.url = "http://" + b.cloud.address() + standin.Path
	if b.kube, err = newRelay(ctx, strings.TrimPrefix(l.Plane.URL(), "https://")); err != nil {
		return err
	}
	if err := b.writeKubeconfig(); err != nil {
		return err
	}
	for _, node := range l.Nodes {
		if err := b.connectNode(ctx, node); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) writeKubeconfig() error {
	admin, err := b.lab.Plane.AdminKubeconfig("127.0.0.1")
	if err != nil {
		return err
	}
	b.task.kubeconfig = filepath.Join(b.dir, "kubeconfig")
	return os.WriteFile(b.task.kubeconfig, []byte(strings.ReplaceAll(string(admin), b.lab.Plane.URL(), "https://"+b.kube.address())), 0o600)
}

// connectNode makes CloudStack's forwarding rule lead through a relay.
func (b *bench) connectNode(ctx context.Context, node *cluster.Node) error {
	r, err := newRelay(ctx, "127.0.0.1:"+strconv.Itoa(node.SSHPort()))
	if err != nil {
		return err
	}
	b.ssh = append(b.ssh, r)
	if node.Control {
		b.task.controlPort = r.port()
	} else {
		b.task.nodes = append(b.task.nodes, target{node.Name(), node.VMID(), r.port()})
	}
	return b.lab.Cloud.Model.SetPortForwarding(node.VMID(), r.port())
}

// run lets the contender work, and gathers.
func (b *bench) run(ctx context.Context, log io.Writer) (Trial, error) {
	record, err := b.lab.Record(ctx)
	if err != nil {
		return Trial{}, err
	}
	requests := len(b.lab.Cloud.Model.Requests())
	began := time.Now()
	state, err := b.perform(ctx, log)
	ended := time.Now()
	if err != nil {
		return Trial{}, err
	}
	trial := Trial{Wall: ended.Sub(began), CPU: state.UserTime() + state.SystemTime(), CloudStackRequests: len(b.lab.Cloud.Model.Requests()) - requests}
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		trial.PeakMiB = float64(usage.Maxrss) / 1024 // Linux counts it in KiB
	}
	for _, r := range b.relays() {
		trial.Bytes += r.bytes.Load()
	}
	for _, r := range b.ssh {
		trial.SSHConnections += int(r.connections.Load())
	}
	seen, err := record.Stop(ctx)
	if err != nil {
		return Trial{}, err
	}
	if trial.KubernetesRequests, err = b.kubernetesRequests(); err != nil {
		return Trial{}, err
	}
	trial.Nodes, err = b.nodes(ctx, began, ended, seen)
	return trial, err
}

func (b *bench) perform(ctx context.Context, log io.Writer) (*os.ProcessState, error) {
	argv := b.contender.command(b.task)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = b.task.environment(), b.dir, log, log
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w", b.contender.Name, err)
	}
	return cmd.ProcessState, nil
}

// kubernetesRequests counts the requests of kubectl and trueup by the API server's audit log, wherever they ran.
func (b *bench) kubernetesRequests() (n int, err error) {
	requests, err := b.lab.Plane.Requests()
	for _, r := range requests {
		if strings.HasPrefix(r.Agent, "kubectl/") || strings.HasPrefix(r.Agent, "trueup/") {
			n++
		}
	}
	return n, err
}
