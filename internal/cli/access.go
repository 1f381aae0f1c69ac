package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/cloudstack"
	"github.com/cks-trueup/trueup/internal/guest"
	"github.com/cks-trueup/trueup/internal/kube"
	"github.com/cks-trueup/trueup/internal/rollout"
	"github.com/cks-trueup/trueup/internal/survey"
)

// access holds the flags that say how to reach CloudStack, Kubernetes and the guests.
type access struct {
	url, apiKey, secretKeyFile, caFile, profile, configFile string
	kubeconfig, kubeContext, kubeVia                        string
	sshKey, sshUser, knownHosts, sshVia                     string
	guestVia, guestImage, guestNamespace                    string
	sshPort                                                 int
	acceptNew                                               bool
	history                                                 string
}

func (f *access) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.url, "api-url", "", "CloudStack API `URL`; else $CLOUDSTACK_API_URL, else the profile")
	flags.StringVar(&f.apiKey, "api-key", "", "CloudStack API `key`; else $CLOUDSTACK_API_KEY, else the profile")
	flags.StringVar(&f.secretKeyFile, "secret-key-file", "", "`file` with the secret key; else $CLOUDSTACK_SECRET_KEY, else the profile")
	flags.StringVar(&f.profile, "profile", "", "CloudMonkey `profile`; beats the environment")
	flags.StringVar(&f.configFile, "cmk-config", "", "CloudMonkey's configuration `file`; else ~/.cmk/config")
	flags.StringVar(&f.caFile, "ca-file", "", "PEM `file` with further authorities for the CloudStack API")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig `file`; else the one that CloudStack keeps")
	flags.StringVar(&f.kubeContext, "kube-context", "", "`context` in that kubeconfig file")
	flags.StringVar(&f.kubeVia, "kube-via", "", "`way` to the Kubernetes API: direct, tunnel (through SSH to a control-plane node) or kubectl (there); else the first that works")
	flags.StringVar(&f.guestVia, "guest-via", "", "`way` into the nodes: ssh, or pod (a privileged pod on each, for nodes without SSH); else $TRUEUP_GUEST_VIA, else ssh")
	flags.StringVar(&f.guestImage, "guest-image", "", "`image` of that pod, with sh and nsenter; else $TRUEUP_GUEST_IMAGE, else "+defaultGuestImage)
	flags.StringVar(&f.guestNamespace, "guest-namespace", "", "`namespace` of that pod; else $TRUEUP_GUEST_NAMESPACE, else "+defaultGuestNamespace)
	flags.StringVar(&f.sshKey, "ssh-key", "", "private key `file` for the nodes; else $TRUEUP_SSH_KEY; the SSH agent is asked as well")
	flags.StringVar(&f.sshUser, "ssh-user", "", "`user` on the nodes; else the VM detail controlNodeLoginUser, else cloud")
	flags.StringVar(&f.sshVia, "ssh-via", "", "`way` to the nodes: direct (their own addresses), forwarded (port forwarding rules) or jump=USER@HOST[:PORT] (own addresses, through that host); else a rule where there is one")
	flags.IntVar(&f.sshPort, "ssh-port", 0, "`port` of sshd at the nodes' own addresses; else 22")
	flags.BoolVar(&f.acceptNew, "accept-new-host-keys", false, "believe and keep the host key of a node of which none is known, once the node has shown to be that machine; a changed key is refused all the same")
	flags.StringVar(&f.history, "history", "", "history `file`; else $TRUEUP_HISTORY, else ~/.local/state/trueup/history.jsonl")
	flags.StringVar(&f.knownHosts, "known-hosts", "", "`file` of host keys by VM id; else $TRUEUP_KNOWN_HOSTS, else ~/.config/trueup/known_hosts")
}

func (a *app) env(name string) string {
	v, _ := a.Env(name)
	return v
}

// cloudStack returns a client for the credentials that flags, environment and profile give.
func (a *app) cloudStack() (*cloudstack.Client, error) {
	f := a.access
	creds, err := cloudstack.Resolve(cloudstack.Sources{URL: f.url, APIKey: f.apiKey, SecretKeyFile: f.secretKeyFile,
		CAFile: f.caFile, Profile: f.profile, ConfigFile: f.configFile, Env: a.Env, Home: a.env("HOME")})
	if err != nil {
		return nil, withCode(ExitUsage, err)
	}
	client, err := cloudstack.New(creds, cloudstack.Options{UserAgent: "trueup/" + a.Version, Transport: a.transport})
	return client, withCode(ExitUsage, err)
}

// guests is the way into the guests of a cluster.
type guests interface {
	rollout.Guests
	survey.Inspector
	Close() error
}

// overview reads what there is in a cluster, before anything is done.
type overview interface {
	Claims(ctx context.Context) (map[string]string, error)
	Nodes(ctx context.Context) ([]capacity.Node, error)
	Holder(ctx context.Context) (kube.Holding, error)
	AllPods(ctx context.Context) (map[string][]capacity.Pod, error)
	Misplaced(ctx context.Context, node string) ([]string, error)
}

// kubernetes is the way to the Kubernetes API of a cluster.
type kubernetes interface {
	rollout.Nodes
	rollout.Health
	rollout.Pods
	rollout.Evictions
	rollout.Shelf
	overview
	Missing(ctx context.Context, further ...kube.Right) ([]kube.Right, error)
	Lock() rollout.Lock
	Close()
}

// kubeClient makes a *kube.Client a kubernetes: its Lock is one of ours.
type kubeClient struct{ *kube.Client }

func (c kubeClient) Lock() rollout.Lock { return c.Client.Lock() }

// session is the open way to one cluster.
type session struct {
	cloudStack *cloudstack.Client
	cluster    cloudstack.Cluster
	guests     guests
	kube       kubernetes
	kubeErr    error // why there is no kube
	control    *controlPlane
	way        usedWay // to the API server
}

// open finds the cluster and the ways to its guests and its API.
func (a *app) open(ctx context.Context, nameOrID string) (*session, error) {
	client, err := a.cloudStack()
	if err != nil {
		return nil, err
	}
	s := &session{cloudStack: client}
	if err := a.find(ctx, s, nameOrID); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// find fills the session. A kubeconfig that CloudStack doesn't give is kept as kubeErr: status can do without. One that the person named must be
// usable.
func (a *app) find(ctx context.Context, s *session, nameOrID string) (err error) {
	if s.cluster, err = s.cloudStack.Cluster(ctx, nameOrID); err != nil {
		return inputError(err)
	}
	if s.guests, err = a.openGuests(s); err != nil {
		return withCode(ExitUsage, err)
	}
	s.kube, s.kubeErr = a.openKube(ctx, s)
	if a.access.kubeconfig != "" || a.access.kubeVia != "" {
		return withCode(ExitUsage, s.kubeErr)
	}
	return nil
}

func (s *session) close() {
	if s.guests != nil {
		_ = s.guests.Close()
	}
	if s.kube != nil {
		s.kube.Close()
	}
	s.cloudStack.Close()
}

// reachable is why the cluster's Kubernetes API can't be used, nil if it can.
func (s *session) reachable() error {
	if s.kube != nil {
		return nil
	}
	return withCode(ExitUnreachable, fmt.Errorf("no way to the Kubernetes API of %s: %w", s.cluster.Name, s.kubeErr))
}

func (a *app) kubeClient(ctx context.Context, s *session) (kubernetes, error) {
	ways, err := a.kubeWays(s)
	if err != nil {
		return nil, err
	}
	var config kube.Kubeconfig
	if ways.Only != kube.ViaKubectl {
		config, err = a.readKubeconfig(ctx, s)
		switch {
		case err == nil:
		case ways.Only != "" || ways.Kubectl == nil || a.access.kubeconfig != "" || errors.Is(err, kube.ErrKubeconfig):
			return nil, err
		default: // without one kubectl is all that is left
			ways.Only = kube.ViaKubectl
			s.way.note(kube.ViaKubectl, err)
			a.tellWay(kube.ViaKubectl, err)
		}
	}
	options := kube.Options{Version: a.Version, Clock: a.clock, Waiting: a.tellWaiting, Ways: ways}
	if a.viaPod() {
		options.HostPodNamespace = a.guestNamespace()
	}
	client, err := kube.New(config, options)
	if err != nil {
		return nil, err
	}
	return kubeClient{client}, nil
}

func (a *app) readKubeconfig(ctx context.Context, s *session) (kube.Kubeconfig, error) {
	if a.access.kubeconfig != "" {
		return kube.FromFile(a.access.kubeconfig, a.access.kubeContext)
	}
	data, err := s.cloudStack.Kubeconfig(ctx, s.cluster.ID)
	if err != nil {
		return kube.Kubeconfig{}, fmt.Errorf("no kubeconfig from CloudStack, name one with --kubeconfig: %w", err)
	}
	return kube.FromCloudStack(data)
}

func (a *app) tellWaiting(held *rollout.HeldError, atMost time.Duration) {
	a.say("%s; watching for up to %s whether it is alive …", held, atMost.Round(time.Second))
}

func (a *app) sshGuests(s *session) (guests, error) {
	way, jump, err := a.sshWay()
	if err != nil {
		return nil, err
	}
	ways, err := guest.New(guest.Config{
		Resolve: (&endpoints{session: s, user: a.access.sshUser, way: way}).resolve, KnownHosts: a.knownHosts(),
		KeyFile: first(a.access.sshKey, a.env("TRUEUP_SSH_KEY")), AgentSocket: a.env("SSH_AUTH_SOCK"), Jump: jump, AcceptNew: a.access.acceptNew,
	})
	if err != nil {
		return nil, fmt.Errorf("%w (flag --ssh-key)", err)
	}
	return ways, nil
}

// sshWay is the way to the nodes that --ssh-via and --ssh-port say.
func (a *app) sshWay() (way cloudstack.Way, jump guest.Jump, err error) {
	way.Port = a.access.sshPort
	if way.Port < 0 || way.Port > 65535 {
		return way, jump, fmt.Errorf("--ssh-port %d is no port", way.Port)
	}
	kind, host, isJump := strings.Cut(a.access.sshVia, "=")
	switch {
	case a.access.sshVia == "":
	case kind == "direct" && !isJump:
		way.Kind = cloudstack.ViaAddress
	case kind == "forwarded" && !isJump:
		way.Kind = cloudstack.ViaForwarding
	case kind == "jump" && isJump:
		way.Kind = cloudstack.ViaAddress
		jump, err = a.jump(host)
	default:
		err = fmt.Errorf("--ssh-via %q: it is direct, forwarded or jump=USER@HOST[:PORT]", a.access.sshVia)
	}
	if err == nil && way.Port != 0 && way.Kind == cloudstack.ViaForwarding {
		err = fmt.Errorf("--ssh-port %d is for the nodes' own addresses, and --ssh-via forwarded uses none", way.Port)
	}
	return way, jump, err
}

// jump reads USER@HOST[:PORT].
func (a *app) jump(text string) (guest.Jump, error) {
	j, ok := guest.ParseJump(text)
	if !ok {
		return j, fmt.Errorf("--ssh-via jump=%s: expected jump=USER@HOST or jump=USER@HOST:PORT", text)
	}
	j.KnownHosts = filepath.Join(a.env("HOME"), ".ssh", "known_hosts")
	return j, nil
}

func (a *app) knownHosts() string {
	config := first(a.env("XDG_CONFIG_HOME"), filepath.Join(a.env("HOME"), ".config"))
	return first(a.access.knownHosts, a.env("TRUEUP_KNOWN_HOSTS"), filepath.Join(config, "trueup", "known_hosts"))
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// endpointsAge is for how long CloudStack's answer about endpoints is used for further connections. CloudStack numbers ports
// anew at each change of a cluster's size, so a later connection asks again.
const endpointsAge = 10 * time.Second

// loginUser is the user that CKS makes on its nodes where no VM detail says otherwise.
const loginUser = "cloud"

// endpoints resolves where a node's sshd answers. It asks CloudStack once for the whole cluster, again when that answer has aged, and at once where a
// node was not found at the endpoint that it had.
type endpoints struct {
	session *session
	user    string
	way     cloudstack.Way

	mu    sync.Mutex
	read  time.Time
	known map[string]cloudstack.Endpoint
}

func (e *endpoints) resolve(ctx context.Context, t rollout.Target, failed guest.Endpoint) (guest.Endpoint, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if was, ok := e.known[t.InstanceID]; time.Since(e.read) > endpointsAge || ok && was.Address() == failed.Address {
		known, err := e.session.cloudStack.Endpoints(ctx, e.session.cluster, e.way)
		if err != nil {
			return guest.Endpoint{}, err
		}
		e.known, e.read = known, time.Now()
	}
	found, ok := e.known[t.InstanceID]
	if !ok {
		return guest.Endpoint{}, fmt.Errorf("%s: %w: %s in CloudStack", t.Name, rollout.ErrUnreachable, e.missing())
	}
	return guest.Endpoint{Address: found.Address(), User: e.userOf(t)}, nil
}

// missing is what a node without an endpoint lacks.
func (e *endpoints) missing() string {
	switch e.way.Kind {
	case cloudstack.ViaForwarding:
		return "it has no active port forwarding rule to port 22 (--ssh-via forwarded)"
	case cloudstack.ViaAddress:
		return "it has no address of its own (--ssh-via)"
	}
	return "it has neither a port forwarding rule to port 22 nor an address of its own"
}

func (e *endpoints) userOf(t rollout.Target) string {
	for _, vm := range e.session.cluster.VMs {
		if vm.Instance.ID == t.InstanceID {
			return first(e.user, vm.Instance.LoginUser, loginUser)
		}
	}
	return first(e.user, loginUser)
}
