// Package guest is trueup's way into guests, implementing rollout.Guests: SSH, and where there is none a pod on the node.
//
// Its invariant: nothing that a guest executes is built from data. Every command is a constant of this package; the one
// value that varies, an InvocationID, goes over standard input and is checked at both ends. And no key of a guest is
// believed that a person has not put on file for exactly this virtual machine.
//
// One connection per node is kept open and shared by all commands to that node. It is checked while idle, and opened anew
// when it broke; a command that was under way then is never repeated here, because only the caller knows whether that is safe.
package guest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// Endpoint is where a guest's SSH server answers, and whom to log in as.
type Endpoint struct {
	Address string // host:port
	User    string // any user but root needs sudo for what Sudoers lists, without a password
}

// Resolver finds a guest's endpoint. It is asked before each new connection: port forwarding rules may be rebuilt meanwhile. failed is the endpoint at
// which that guest was not found just now, zero at first: a resolver that remembers what it found must look anew then.
type Resolver func(ctx context.Context, target rollout.Target, failed Endpoint) (Endpoint, error)

// Endpoints are endpoints that are known beforehand, by instance id.
type Endpoints map[string]Endpoint

// Resolve looks the target up. It is a Resolver.
func (e Endpoints) Resolve(_ context.Context, target rollout.Target, _ Endpoint) (Endpoint, error) {
	endpoint, ok := e[target.InstanceID]
	if !ok {
		return Endpoint{}, fmt.Errorf("no SSH endpoint is known for VM %s: %w", target.InstanceID, rollout.ErrNotFound)
	}
	return endpoint, nil
}

// Config says how guests are reached. Resolve, KnownHosts and at least one of KeyFile and AgentSocket must be set;
// a zero duration means the default.
type Config struct {
	Resolve Resolver
	// KnownHosts is a file in OpenSSH's known_hosts format whose host field is the id of the VM, because many nodes share
	// one address. It is read anew for each connection. `ssh -o HostKeyAlias=<vm-id>` reads and writes the same.
	KnownHosts string
	// KeyFile is a private key without a passphrase. It is offered before the agent's keys.
	KeyFile string
	// AgentSocket is the socket of an ssh-agent, usually from SSH_AUTH_SOCK.
	AgentSocket string
	// Jump is a host that connections go through; zero means none.
	Jump Jump
	// AcceptNew puts the key of a guest of which no key is on file into KnownHosts at the first contact, once the guest has shown by its DMI UUID
	// that it is the virtual machine. A key that differs from the one on file is refused all the same.
	AcceptNew bool

	DialTimeout time.Duration // to connect and log in
	KeepAlive   time.Duration // between two checks of an open connection, and the time that the guest has to answer one
	Timeouts    Timeouts
}

// Timeouts are the deadlines of the commands, including a new connection if one is needed. Zero means the default.
type Timeouts struct {
	Probe, Inspect, Online, Restart, Diagnose time.Duration
}

// The defaults leave room for a guest under software emulation on a busy machine, where a log-in was measured to take up to 3 s.
// Each command's timeout leaves time to notice a dead connection (two times KeepAlive) and to open another one.
const (
	defaultDialTimeout     = 15 * time.Second
	defaultKeepAlive       = 5 * time.Second
	defaultProbeTimeout    = 25 * time.Second
	defaultInspectTimeout  = 25 * time.Second
	defaultOnlineTimeout   = 60 * time.Second
	defaultRestartTimeout  = 40 * time.Second
	defaultDiagnoseTimeout = 25 * time.Second
)

// SSH reaches guests over SSH. It is a rollout.Guests, safe for concurrent use.
type SSH struct {
	cfg      Config
	identity *identity
	jump     *jumpHost // nil where connections are direct

	ctx    context.Context //nolint:containedctx // the life of the port: ends with Close
	cancel context.CancelFunc
	tasks  sync.WaitGroup // dials ahead of need, and the watch over each connection

	mu     sync.Mutex
	links  map[string]*link // by instance id
	closed bool
}

var (
	_ rollout.Guests = (*SSH)(nil)
	_ rollout.Guest  = (*guest)(nil)
	_ Resolver       = Endpoints(nil).Resolve
)

// New checks the configuration and loads the key file. It connects to nothing. The caller must Close what it returns.
func New(cfg Config) (*SSH, error) {
	if cfg.Resolve == nil || cfg.KnownHosts == "" {
		return nil, errors.New("guest: Config needs Resolve and KnownHosts")
	}
	identity, err := loadIdentity(cfg.KeyFile, cfg.AgentSocket)
	if err != nil {
		return nil, err
	}
	cfg.setDefaults()
	ctx, cancel := context.WithCancel(context.Background())
	s := &SSH{cfg: cfg, identity: identity, ctx: ctx, cancel: cancel, links: map[string]*link{}}
	if cfg.Jump != (Jump{}) {
		s.jump = &jumpHost{ssh: s}
	}
	return s, nil
}

func (c *Config) setDefaults() {
	fill(&c.DialTimeout, defaultDialTimeout)
	fill(&c.KeepAlive, defaultKeepAlive)
	c.Timeouts.setDefaults()
}

func (t *Timeouts) setDefaults() {
	fill(&t.Probe, defaultProbeTimeout)
	fill(&t.Inspect, defaultInspectTimeout)
	fill(&t.Online, defaultOnlineTimeout)
	fill(&t.Restart, defaultRestartTimeout)
	fill(&t.Diagnose, defaultDiagnoseTimeout)
}

func fill(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}

// Guest returns the target's guest once there is a connection to it.
func (s *SSH) Guest(ctx context.Context, target rollout.Target) (rollout.Guest, error) {
	g, err := s.enter(ctx, target)
	if err != nil {
		return nil, err
	}
	return g, nil
}

func (s *SSH) enter(ctx context.Context, target rollout.Target) (*guest, error) {
	link, err := s.link(target)
	if err != nil {
		return nil, err
	}
	if _, err := link.connect(ctx); err != nil {
		return nil, err
	}
	return &guest{target: target, way: link, timeouts: s.cfg.Timeouts}, nil
}

// Warm begins to connect to the target and returns at once, so that the connection is there when it is needed: for the next
// node, while the one before settles. A failure is not reported: whoever needs the connection tries again and is told.
func (s *SSH) Warm(target rollout.Target) {
	link, err := s.link(target)
	if err != nil {
		return
	}
	s.start(func() { _, _ = link.connect(s.ctx) })
}

// Close ends all connections and whatever is under way on them.
func (s *SSH) Close() error {
	s.mu.Lock()
	s.closed = true
	links := s.links
	s.links = nil
	s.mu.Unlock()

	s.cancel()
	for _, link := range links {
		link.close()
	}
	if s.jump != nil {
		s.jump.close()
	}
	s.tasks.Wait()
	return nil
}

// link returns the one link to the target.
func (s *SSH) link(target rollout.Target) (*link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("%w: node %s (VM %s): the SSH connections are closed", rollout.ErrUnreachable, target.Name, target.InstanceID)
	}
	if s.links[target.InstanceID] == nil {
		s.links[target.InstanceID] = newLink(s, target)
	}
	return s.links[target.InstanceID], nil
}

// start runs a task that Close waits for. It reports whether the task was started: after Close none is.
func (s *SSH) start(task func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.tasks.Go(task)
	}
	return !s.closed
}
