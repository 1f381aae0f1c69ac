package standin

import "time"

// Fault is one scripted disturbance: an effect, and the calls that it strikes. Empty fields strike any.
type Fault struct {
	// Command is the API command; effects inside a job match the command of the job.
	Command string
	// Account is the name of the calling account.
	Account string
	// VM and Cluster are ids of what the call, or the job, is about.
	VM, Cluster string
	// Skip lets this many matching calls pass first.
	Skip int
	// Times is how often the effect strikes: 0 means once, Always every time.
	Times  int
	Effect Effect
}

// Always is the Times of a fault that never ends.
const Always = -1

// Effect is what a fault does. The types below are all there are.
type Effect interface{ effect() }

// Effects on a call.
type (
	// LoseRequest cuts the connection before the call has any effect.
	LoseRequest struct{}
	// LoseReply lets the call have its effect, then cuts the connection.
	LoseReply struct{}
	// ProxyError answers with HTML as a proxy does whose backend is away; Status 0 means 502.
	ProxyError struct{ Status int }
	// TooManyRequests answers 429 with a Retry-After of whole seconds.
	TooManyRequests struct{ RetryAfter time.Duration }
	// Refuse answers with an API error.
	Refuse struct {
		Code int
		Text string
	}
)

// Effects on a job.
type (
	// JobDelay makes the resize of a VM start later. A stop or a start hangs by it: the VM shows Stopping or Starting meanwhile.
	JobDelay struct{ By time.Duration }
	// JobFailure ends the resize, the stop or the start of a VM at a stage; Code 0 means 530.
	JobFailure struct {
		At   Stage
		Code int
		Text string
	}
	// JobSilent lets the work be done while the job stays pending for ever.
	JobSilent struct{}
	// JobLost makes the API forget the job when it ends.
	JobLost struct{}
	// NoCapacity finds no host with enough capacity, for a growth or for a start.
	NoCapacity struct{}
	// MemoryFailure makes the agent fail to attach memory.
	MemoryFailure struct{}
	// CPUFailure makes the agent fail to raise the CPUs, after it attached the memory.
	CPUFailure struct{}
	// MoveHost live-migrates the VM to another host before it is resized.
	MoveHost struct{ HostID string }
	// RestartServer restarts the management server at a stage of a VM's resize, stop or start.
	RestartServer struct {
		At       Stage
		Downtime time.Duration
	}
	// ListedLate makes lists show the VM as it was before the resize, the stop or the start for some time after it.
	ListedLate struct{ For time.Duration }
)

// Stage is a point in the resize, the stop or the start of one VM.
type Stage int

// The stages of a resize, in their order. A stop and a start have the first and the last of them.
const (
	// BeforeAgent is after the checks and before the hypervisor does anything.
	BeforeAgent Stage = iota
	// AfterMemory is after the memory was attached and before the CPUs are raised.
	AfterMemory
	// AfterCPUs is after the hypervisor did everything and before the record is written.
	AfterCPUs
)

// AfterAgent is AfterCPUs of a stop or a start: the VM is off, or on, and the record doesn't say so yet.
const AfterAgent = AfterCPUs

func (LoseRequest) effect()     {}
func (LoseReply) effect()       {}
func (ProxyError) effect()      {}
func (TooManyRequests) effect() {}
func (Refuse) effect()          {}
func (JobDelay) effect()        {}
func (JobFailure) effect()      {}
func (JobSilent) effect()       {}
func (JobLost) effect()         {}
func (NoCapacity) effect()      {}
func (MemoryFailure) effect()   {}
func (CPUFailure) effect()      {}
func (MoveHost) effect()        {}
func (RestartServer) effect()   {}
func (ListedLate) effect()      {}

type armedFault struct {
	Fault

	left int
}

// Script arms faults. Of several that match, the one that was armed first strikes.
func (m *Model) Script(faults ...Fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range faults {
		m.faults = append(m.faults, &armedFault{Fault: f, left: max(f.Times, 1)})
	}
}

// Unstruck returns the armed faults that have not struck as often as they shall; faults with Always are left out.
func (m *Model) Unstruck() []Fault {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Fault
	for _, f := range m.faults {
		if f.Times != Always && f.left > 0 {
			out = append(out, f.Fault)
		}
	}
	return out
}

// place is what a fault is matched against.
type place struct{ command, account, vm, cluster string }

func (f *Fault) strikes(at place) bool {
	return matches(f.Command, at.command) && matches(f.Account, at.account) &&
		matches(f.VM, at.vm) && matches(f.Cluster, at.cluster)
}

func matches(want, got string) bool { return want == "" || want == got }

// takeFault uses up the first armed fault of effect E at that place.
func takeFault[E Effect](m *Model, at place) (E, bool) {
	return takeFaultIf(m, at, func(E) bool { return true })
}

// takeFaultIf is takeFault for effects that also satisfy ok, such as those of one stage.
func takeFaultIf[E Effect](m *Model, at place, ok func(E) bool) (E, bool) {
	for _, f := range m.faults {
		effect, is := f.Effect.(E)
		if !is || f.left == 0 || !f.strikes(at) || !ok(effect) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		if f.Times != Always {
			f.left--
		}
		return effect, true
	}
	var none E
	return none, false
}

// placeOf returns the place of a job.
func (m *Model) placeOf(j *Job) place {
	at := place{command: j.Command, account: j.Account}
	switch j.InstanceType {
	case instanceVM:
		at.vm, at.cluster = j.InstanceID, m.clusterOf(j.InstanceID)
	case instanceCluster:
		at.cluster = j.InstanceID
	}
	return at
}

// clusterOf returns the id of the VM's cluster, or "".
func (m *Model) clusterOf(vmID string) string {
	for _, c := range m.clusters {
		for _, n := range c.Nodes {
			if n.VMID == vmID {
				return c.ID
			}
		}
	}
	return ""
}

// placeOfCall returns the place of a call: its id or jobid says what it is about.
func (m *Model) placeOfCall(x *exchange) place {
	at := place{command: x.command, account: x.accountName()}
	if j := m.job(x.params["jobid"]); j != nil {
		of := m.placeOf(j)
		at.vm, at.cluster = of.vm, of.cluster
		return at
	}
	id := x.params["id"]
	if m.cluster(id) != nil {
		at.cluster = id
	} else if m.vm(id) != nil {
		at.vm, at.cluster = id, m.clusterOf(id)
	}
	return at
}
