package standin

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Config is what a Model is made from. The zero value gives a working model on real time with simulated guests.
type Config struct {
	// Clock defaults to RealClock.
	Clock Clock
	// Hypervisor defaults to a SimHypervisor, to be had with Model.Sim.
	Hypervisor Hypervisor
	// Seed makes the ids repeatable.
	Seed uint64
	// Version is what listCapabilities shows; default 4.23.0.0, the first line that live-scales fixed offerings on KVM.
	Version string
	// AgentStep is how long each step of a resize takes (attach memory, raise CPUs, write the record); default 100 ms.
	AgentStep time.Duration
	// ScanInterval is the period of the cluster state scanner, default 30 s; FirstScan its first run after the server's
	// start, default 300 s. Both are CloudStack's.
	ScanInterval, FirstScan time.Duration
	// NodesReady is asked by the scanner whether all Kubernetes nodes of an Alert cluster are Ready; nil says yes.
	NodesReady func(clusterID string) bool
	// RateLimit is the number of calls that an account may make per RateInterval; 0 means no limit.
	RateLimit    int
	RateInterval time.Duration
	// Log gets what only the management server's log would show, such as the hypervisor's reason; nil discards it.
	Log *slog.Logger
}

// Defaults are the ids of the objects that New creates.
type Defaults struct{ ZoneID, HostID, TemplateID, VersionID, DomainID string }

// Model is a CloudStack: its records, its jobs and its habits. Its methods may be called at the same time.
type Model struct {
	cfg      Config
	ctx      context.Context //nolint:containedctx // the model's own life, which Close ends
	cancel   context.CancelFunc
	defaults Defaults
	commands map[string]command

	mu         sync.Mutex
	random     *rand.Rand
	accounts   []*Account
	zones      []*Zone
	hosts      []*Host
	offerings  []*Offering
	templates  []*Template
	versions   []*KubernetesVersion
	networks   []*Network
	addresses  []*PublicIP
	rules      []*PortForwardingRule
	vms        []*VM
	limits     map[Owner]Limit
	clusters   []*Cluster
	settings   map[settingKey]string
	jobs       []*Job
	queues     map[string][]func() // per VM: what waits for its turn; the first is running
	listedLate map[string]lateListing
	faults     []*armedFault
	requests   []Request
	calls      map[string]*rateWindow
	generation int // of the management server: a restart ends the jobs of the one before
	downUntil  time.Time
	scanner    Timer
}

type lateListing struct {
	until time.Time
	old   VM
}

// New returns a model with one zone that allows dynamic scaling, one host without limits, one dynamically scalable CKS
// template and one Kubernetes version. Everything else is added.
func New(cfg Config) *Model {
	cfg.fillIn()
	m := &Model{
		cfg: cfg, commands: commandTable(), random: rand.New(rand.NewPCG(cfg.Seed, 0x7275657570)),
		settings: map[settingKey]string{}, queues: map[string][]func(){},
		listedLate: map[string]lateListing{}, calls: map[string]*rateWindow{},
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.addDefaults()
	m.startScanner()
	return m
}

func (cfg *Config) fillIn() {
	if cfg.Clock == nil {
		cfg.Clock = RealClock{}
	}
	if cfg.Hypervisor == nil {
		cfg.Hypervisor = NewSimHypervisor()
	}
	if cfg.Version == "" {
		cfg.Version = "4.23.0.0"
	}
	if cfg.AgentStep == 0 {
		cfg.AgentStep = 100 * time.Millisecond
	}
	if cfg.ScanInterval == 0 {
		cfg.ScanInterval = 30 * time.Second
	}
	if cfg.FirstScan == 0 {
		cfg.FirstScan = 300 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
}

func (m *Model) addDefaults() {
	m.defaults.DomainID = m.newID()
	m.defaults.ZoneID = m.AddZone(Zone{Name: "zone-1"}).ID
	m.Set(SettingDynamicScaling, m.defaults.ZoneID, "true")
	m.defaults.HostID = m.AddHost(Host{Name: "host-1"}).ID
	m.defaults.TemplateID = m.AddTemplate(Template{Name: "cks-node", DynamicallyScalable: true, ForCKS: true, OSType: "Debian GNU/Linux 12 (64-bit)"}).ID
	m.defaults.VersionID = m.AddKubernetesVersion(KubernetesVersion{Name: "v1.36.3", Semantic: "1.36.3", MinCPUs: 2, MinMemoryMiB: 2048}).ID
}

// Close ends the scanner and cancels what the hypervisor is doing for the model.
func (m *Model) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.generation++
	m.scanner.Stop()
	m.cancel()
}

// Defaults returns the ids of the objects that New created.
func (m *Model) Defaults() Defaults { return m.defaults }

// Sim returns the in-memory hypervisor, or nil if the model was given another one.
func (m *Model) Sim() *SimHypervisor {
	sim, _ := m.cfg.Hypervisor.(*SimHypervisor)
	return sim
}

func (m *Model) now() time.Time { return m.cfg.Clock.Now() }

// newID returns the next id of the seeded source.
func (m *Model) newID() string {
	var id uuid.UUID
	for i := range id {
		id[i] = byte(m.random.Uint32())
	}
	id[6] = id[6]&0x0f | 0x40 // version 4
	id[8] = id[8]&0x3f | 0x80 // RFC 9562 variant
	return id.String()
}

func (m *Model) idOr(id string) string {
	if id == "" {
		return m.newID()
	}
	return id
}
