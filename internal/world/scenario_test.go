package world

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// scenario is all that a seed decides.
type scenario struct {
	seed   uint64
	config Config
	// trouble of calls: one in so many goes wrong; 0 is none.
	upsetOneIn uint64
	faults     []func(*World)
	events     []event
	runs       []troubled
}

// event is something that somebody else does.
type event struct {
	at time.Duration
	do func(*World)
}

// troubled is a run that may be ended early.
type troubled struct {
	killAt int
	stopAt time.Duration // 0: never
	pause  time.Duration // for which it is stopped; 0: never
	after  time.Duration // when it is stopped
	second bool          // another run is started beside it
	resume bool
}

func newScenario(seed uint64) *scenario {
	r := rand.New(rand.NewPCG(seed, 0x74727565))
	s := &scenario{seed: seed, config: randomConfig(r, seed), upsetOneIn: pick[uint64](r, 0, 0, 200, 60, 20, 8)}
	for range r.IntN(3) {
		s.faults = append(s.faults, randomFault(r, s.name(r)))
	}
	for range r.IntN(4) {
		s.events = append(s.events, event{time.Duration(r.Int64N(int64(40 * time.Second))), randomEvent(r, s.name(r))})
	}
	for range 1 + r.IntN(3) {
		s.runs = append(s.runs, randomRun(r))
	}
	return s
}

func (s *scenario) name(r *rand.Rand) string { return pick(r, s.config.Nodes...).Name }

func randomConfig(r *rand.Rand, seed uint64) Config {
	names := pick(r, []string{"w1"}, []string{"w1"}, []string{"w1", "w2"}, []string{"c1", "w1"}, []string{"c1", "c2", "c3"}, []string{"e1", "w1"}, []string{"e1", "e2", "e3"})
	c := Config{Seed: seed}
	for _, name := range names {
		n := NodeConfig{Name: name, AutoCPU: oneIn(r, 4), AutoMemory: oneIn(r, 3), PageStructsOnDIMM: oneIn(r, 5), Blip: oneIn(r, 2),
			PostEvery: pick(r, 2*time.Second, 10*time.Second, 5*time.Minute), ClockOff: pick(r, 0, -time.Hour, 3*time.Second)}
		if oneIn(r, 4) {
			n.Devices = 2
		}
		if oneIn(r, 5) {
			n.CordonedBy = "kubectl-cordon"
		}
		c.Nodes = append(c.Nodes, n)
	}
	return c
}

func randomRun(r *rand.Rand) troubled {
	t := troubled{resume: oneIn(r, 3), second: oneIn(r, 10)}
	switch r.IntN(6) {
	case 0, 1:
		t.killAt = 1 + r.IntN(400)
	case 2:
		t.stopAt = time.Duration(1 + r.Int64N(int64(40*time.Second)))
	case 3:
		t.after, t.pause = time.Duration(1+r.Int64N(int64(30*time.Second))), pick(r, 15*time.Second, 50*time.Second, 5*time.Minute)
	}
	return t
}

// randomFault is one of CloudStack's.
func randomFault(r *rand.Rand, name string) func(*World) {
	if oneIn(r, 8) {
		u := Upset{Call: "CloudStack.Resize " + name, Err: ErrReset, Adrift: time.Duration(1+r.IntN(80)) * time.Second}
		return func(w *World) { w.Script(u) }
	}
	stage := pick(r, standin.BeforeAgent, standin.AfterMemory, standin.AfterCPUs)
	f := pick(r,
		standin.Fault{Effect: standin.JobDelay{By: 40 * time.Second}},
		standin.Fault{Effect: standin.JobDelay{By: 5 * time.Minute}},
		standin.Fault{Effect: standin.JobFailure{At: stage, Text: "scripted"}},
		standin.Fault{Effect: standin.JobFailure{At: stage, Text: "scripted"}},
		standin.Fault{Effect: standin.JobLost{}},
		standin.Fault{Effect: standin.CPUFailure{}},
		standin.Fault{Effect: standin.MemoryFailure{}},
		standin.Fault{Effect: standin.NoCapacity{}},
		standin.Fault{Effect: standin.RestartServer{At: stage, Downtime: 20 * time.Second}},
		standin.Fault{Effect: standin.ListedLate{For: 20 * time.Second}},
		standin.Fault{Command: "scaleVirtualMachine", Effect: standin.LoseReply{}},
		standin.Fault{Command: "scaleVirtualMachine", Effect: standin.LoseRequest{}},
		standin.Fault{Command: "scaleVirtualMachine", Effect: standin.ProxyError{}},
		standin.Fault{Command: "scaleVirtualMachine", Effect: standin.TooManyRequests{RetryAfter: 3 * time.Second}},
		standin.Fault{Command: "scaleVirtualMachine", Effect: standin.Refuse{Code: 533, Text: "scripted"}},
		standin.Fault{Command: "listVirtualMachines", Times: 7, Effect: standin.LoseRequest{}},
		standin.Fault{Command: "queryAsyncJobResult", Times: 3, Effect: standin.LoseReply{}},
	)
	return func(w *World) {
		f.VM = w.idOf(name)
		w.CloudStack.Script(f)
	}
}

// randomEvent is something that somebody else does to a node, or to the cluster.
func randomEvent(r *rand.Rand, name string) func(*World) {
	long := time.Duration(1+r.IntN(30)) * time.Second
	return pick(r,
		func(w *World) { w.Cordon(name) },
		func(w *World) { w.Uncordon(name) },
		func(w *World) { w.Recordon(name) },
		func(w *World) { w.RestartKubelet(name) },
		func(w *World) { w.Reboot(name) },
		func(w *World) { w.StopVM(name) },
		func(w *World) { w.StopVM(name); w.At(long, func(w *World) { w.StartVM(name) }) },
		func(w *World) { w.DeleteNode(name) },
		func(w *World) { w.DeleteNode(name); w.At(long, func(w *World) { w.RestartKubelet(name) }) },
		func(w *World) { w.Mark(name, Kured()) },
		func(w *World) { w.Mark(name, Autoscaler()); w.At(long, func(w *World) { w.Unmark(name) }) },
		func(w *World) { w.ScaleElsewhere(name) },
		func(w *World) { w.DropClaim(name) },
		func(w *World) { w.Alert() },
		func(w *World) { w.RestartManagement(long) },
		func(w *World) { w.APIDown(long) },
		func(w *World) { w.APIDown(4 * long) },
		func(w *World) { w.SSHDown(name, long) },
		func(w *World) { w.SSHDown(name, 4*long) },
		func(w *World) { w.StealLease() },
		func(w *World) { w.BreakKubelet(name, true); w.BreakEtcd(name, true) },
		func(w *World) { w.BreakKubelet(name, true); w.At(long, func(w *World) { w.BreakKubelet(name, false) }) },
	)
}

// begin arms the faults and plans the events.
func (s *scenario) begin(w *World) {
	for _, arm := range s.faults {
		arm(w)
	}
	for _, e := range s.events {
		w.At(e.at, e.do)
	}
	if s.upsetOneIn > 0 {
		w.Chance(func(run string, c Call, n int) *Upset {
			h := w.hash("chance", run, c, n)
			if h%s.upsetOneIn != 0 {
				return nil
			}
			return upsetOf(h/s.upsetOneIn, c)
		})
	}
}

func upsetOf(h uint64, c Call) *Upset {
	kinds := []*Upset{{Err: ErrReset}, {Err: ErrReset, Late: true}, {Slow: 700 * time.Millisecond}, {Slow: 12 * time.Second, Late: true}, {Hang: true}, {Hang: true, Late: true}}
	if c.Method == "Patch" {
		kinds = append(kinds, &Upset{Err: ErrRace}, &Upset{Err: ErrRace})
	}
	if c.Port == "Lock" && c.Method != "Check" { // the Lease port has deadlines of its own
		kinds = kinds[:3]
	}
	return kinds[h%uint64(len(kinds))]
}

// short are limits that end hopeless waits soon, so that a seed costs little.
func short(l rollout.Limits) rollout.Limits {
	l.Access, l.Resize, l.Online, l.Verify = 40*time.Second, 2*time.Minute, time.Minute, 90*time.Second
	return l
}

// trouble plays the i-th disturbed run.
func (s *scenario) trouble(ctx context.Context, w *World, i int) {
	t, r := s.runs[i], w.Run()
	r.KillAt = t.killAt
	r.Limits = short(r.Limits)
	if t.stopAt > 0 {
		stop := make(chan struct{})
		r.Stop = stop
		w.At(t.stopAt, func(*World) { close(stop) })
	}
	if t.pause > 0 {
		w.At(t.after, func(*World) { r.StopFor(t.pause) })
	}
	ended := make(chan struct{})
	if t.second {
		w.At(25*time.Second, func(w *World) { defer close(ended); _ = scale(ctx, w, w.Run()) })
	} else {
		close(ended)
	}
	if t.resume {
		_ = resume(ctx, w, r) // what comes of it is judged at the end
	} else {
		_ = scale(ctx, w, r)
	}
	<-ended
	w.Sleep(time.Duration(w.hash("pause", i) % uint64(90*time.Second)))
}
