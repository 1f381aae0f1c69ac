package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
	"github.com/cks-trueup/trueup/internal/survey"
)

// site is an endpoint with clusters of one worker each. A test changes what it is about.
type site struct {
	mu       sync.Mutex
	clusters []*place
	listErr  error
	looks    int // at API servers
	healed   []string
	// heal is what a healing does; nil heals at once.
	heal func(ctx context.Context, p *place, w Work) (rollout.Report, error)
}

type place struct {
	listed  Listed
	node    capacity.Node
	guest   capacity.Guest
	lease   Lease
	lookErr error
	guests  int // readings of guests
	hang    bool
}

// newPlace is a cluster in which all views agree.
func newPlace(name string) *place {
	id := "vm-" + name
	p := &place{listed: Listed{ID: "id-" + name, Name: name, State: "Running", Policy: Policy{Heal: true, DriftAfter: 10 * time.Minute}}}
	p.listed.Members = []survey.Member{{Role: rollout.RoleWorker, Instance: capacity.Instance{ID: id, Name: name + "-node-1", State: "Running", OfferingID: "small", OfferingName: "small", CPUs: 2, MemoryMiB: 4096}}}
	p.guest = capacity.Guest{ProductUUID: id, CPUsOnline: 2, CPUsPresent: 2, BlockSize: 128 * capacity.MiB, BlocksOnline: 32, MemTotal: 3976 * capacity.MiB}
	p.node = capacity.Node{Name: name + "-node-1", SystemUUID: id, Ready: capacity.Condition{Status: "True"}}
	p.follow()
	return p
}

// grow is somebody who resizes the instance behind our back: the guest has it, kubelet does not know.
func (p *place) grow() {
	i := &p.listed.Members[0].Instance
	i.OfferingID, i.OfferingName, i.CPUs, i.MemoryMiB = "big", "big", 4, 8192
	p.guest.CPUsOnline, p.guest.CPUsPresent, p.guest.BlocksOnline, p.guest.MemTotal = 4, 4, 64, 8072*capacity.MiB
}

// follow makes the Node show what the guest has.
func (p *place) follow() {
	p.node.Capacity = capacity.Resources{"cpu": *resource.NewQuantity(int64(p.guest.CPUsOnline), resource.DecimalSI), "memory": *resource.NewQuantity(p.guest.MemTotal, resource.BinarySI)}
}

func (s *site) List(context.Context) (out []Listed, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.clusters {
		c := p.listed
		c.Members = slices.Clone(c.Members)
		out = append(out, c)
	}
	return out, s.listErr
}

func (s *site) Open(_ context.Context, c Listed) (Cluster, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.clusters {
		if p.listed.ID == c.ID {
			return way{s, p}, nil
		}
	}
	return nil, errors.New("no such cluster")
}

func (s *site) Heal(ctx context.Context, c Listed, w Work) (rollout.Report, error) {
	s.mu.Lock()
	i := slices.IndexFunc(s.clusters, func(p *place) bool { return p.listed.ID == c.ID })
	p, heal := s.clusters[i], s.heal
	s.healed = append(s.healed, fmt.Sprint(c.Name, " ", w.Nodes, " ", w.Finish))
	s.mu.Unlock()
	if heal != nil {
		return heal(ctx, p, w)
	}
	w.Watch(rollout.Event{Move: rollout.MoveClaim})
	s.change(p.follow)
	return rollout.Report{}, nil
}

// healings are those that were begun: the cluster, its nodes, and whether one is finished.
func (s *site) healings() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.healed)
}

func (s *site) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

type way struct {
	site  *site
	place *place
}

func (w way) Look(ctx context.Context) (Sight, error) {
	w.site.mu.Lock()
	w.site.looks++
	hang := w.place.hang
	sight, err := Sight{Nodes: []capacity.Node{w.place.node}, Lease: w.place.lease}, w.place.lookErr
	w.site.mu.Unlock()
	if hang {
		<-ctx.Done()
		return Sight{}, ctx.Err()
	}
	return sight, err
}

func (w way) Guests(context.Context) (Guests, error) { return inside(w), nil }
func (way) Close()                                   {}

type inside way

func (g inside) Guest(context.Context, rollout.Target) (rollout.Guest, error) {
	g.site.mu.Lock()
	defer g.site.mu.Unlock()
	g.place.guests++
	return probe{guest: g.place.guest}, nil
}
func (inside) Close() error { return nil }

type probe struct {
	rollout.Guest

	guest capacity.Guest
}

func (p probe) Probe(context.Context) (capacity.Guest, error) { return p.guest, nil }

// watching plays a site under a fleet that scans it every two minutes, on a virtual clock.
func watching(t *testing.T, s *site, play func(t *testing.T, f *Fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := New(Options{Log: slog.New(slog.DiscardHandler), NewRun: func() string { return "run" }})
		f.Slots(1)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			f.Watch(ctx, "zone-a", s, Settings{Every: 2 * time.Minute, Clusters: 4, Sample: 24 * time.Hour, Timeout: time.Minute})
			close(ended)
		}()
		synctest.Wait()
		play(t, f)
		cancel()
		<-ended
		f.work.Wait()
	})
}

// after lets virtual time pass, and what follows from it settle.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func verdict(t *testing.T, f *Fleet, name string) Decision {
	t.Helper()
	s, ok := f.State("id-" + name)
	if !ok {
		t.Fatalf("%s is not in the fleet", name)
	}
	return s.Decision
}

func want(t *testing.T, f *Fleet, name string, v Verdict) {
	t.Helper()
	if d := verdict(t, f, name); d.Verdict != v {
		t.Errorf("%s is %s (%s), want %s", name, d.Verdict, d.Why, v)
	}
}

func TestHealsWhatLasts(t *testing.T) {
	p := newPlace("prod")
	s := &site{clusters: []*place{p}}
	watching(t, s, func(t *testing.T, f *Fleet) {
		want(t, f, "prod", Fine)
		s.change(p.grow)
		after(3 * time.Minute)
		want(t, f, "prod", Settling)
		after(8 * time.Minute)
		if len(s.healings()) != 0 {
			t.Errorf("healed after %s: %v", 11*time.Minute, s.healings())
		}
		after(6 * time.Minute)
		if fmt.Sprint(s.healings()) != "[prod [vm-prod] false]" {
			t.Errorf("healed %v", s.healings())
		}
		after(3 * time.Minute)
		want(t, f, "prod", Fine)
	})
}

// What agrees again before it has lasted is left alone, and lasts anew when it comes again.
func TestShortDriftIsLeftAlone(t *testing.T) {
	p := newPlace("prod")
	s := &site{clusters: []*place{p}}
	watching(t, s, func(t *testing.T, f *Fleet) {
		s.change(p.grow)
		after(6 * time.Minute)
		want(t, f, "prod", Settling)
		s.change(p.follow)
		after(5 * time.Minute)
		want(t, f, "prod", Fine)
		s.change(func() { p.node.Capacity["cpu"] = resource.MustParse("2") })
		after(8 * time.Minute)
		want(t, f, "prod", Settling)
		if s.healings() != nil {
			t.Errorf("healed %v", s.healings())
		}
	})
}

func TestObserveHealsNothing(t *testing.T) {
	p := newPlace("prod")
	p.listed.Policy.Heal = false
	s := &site{clusters: []*place{p}}
	watching(t, s, func(t *testing.T, f *Fleet) {
		s.change(p.grow)
		after(time.Hour)
		if d := verdict(t, f, "prod"); d.Verdict != Drifting || d.Next != "trueup reconcile prod" || s.healings() != nil {
			t.Errorf("%+v, healed %v", d, s.healings())
		}
	})
}

// One cluster that hangs or fails holds up no other, and says since when.
func TestBlindClusterHoldsUpNoOther(t *testing.T) {
	hangs, fails, well := newPlace("hangs"), newPlace("fails"), newPlace("well")
	hangs.hang, fails.lookErr = true, errors.New("denied")
	s := &site{clusters: []*place{hangs, fails, well}}
	watching(t, s, func(t *testing.T, f *Fleet) {
		began := time.Now()
		want(t, f, "well", Fine)
		after(10 * time.Minute)
		for name, why := range map[string]string{"hangs": "deadline", "fails": "denied"} {
			want(t, f, name, Blind)
			if st, _ := f.State("id-" + name); st.Since.Sub(began) > time.Minute || !strings.Contains(st.Unread, why) {
				t.Errorf("%s: %q since %s", name, st.Unread, st.Since.Sub(began))
			}
		}
		s.change(func() { fails.lookErr = nil })
		after(4 * time.Minute)
		want(t, f, "fails", Fine)
	})
}

// An endpoint that does not answer makes all of its clusters blind, and none forgotten.
func TestBlindEndpoint(t *testing.T) {
	s := &site{clusters: []*place{newPlace("prod")}}
	watching(t, s, func(t *testing.T, f *Fleet) {
		if err := f.Ready([]string{"zone-a"}); err != nil {
			t.Error(err)
		}
		if err := f.Ready([]string{"zone-b"}); err == nil {
			t.Error("an endpoint that was never read counts as read")
		}
		s.change(func() { s.listErr = errors.New("bad gateway") })
		after(3 * time.Minute)
		want(t, f, "prod", Blind)
		s.change(func() { s.listErr = nil })
		after(3 * time.Minute)
		want(t, f, "prod", Fine)
		s.change(func() { s.clusters = nil })
		after(3 * time.Minute)
		if len(f.States()) != 0 {
			t.Errorf("%v", f.States())
		}
	})
}

// While views agree, API servers alone are asked, once in each scan, and guests rarely.
func TestCheapWhileAllAgrees(t *testing.T) {
	p := newPlace("prod")
	s := &site{clusters: []*place{p}}
	watching(t, s, func(t *testing.T, _ *Fleet) {
		after(48*time.Hour + 3*time.Minute)
		s.change(func() {
			if s.looks < 1300 || s.looks > 1600 || p.guests < 1 || p.guests > 3 {
				t.Errorf("%d looks, %d readings of the guest in two days", s.looks, p.guests)
			}
		})
	})
}

// A living holder of the Lease is left alone; one that is dead leaves its rollout to whom it belongs.
func TestSomebodyElseAtWork(t *testing.T) {
	p := newPlace("prod")
	p.grow()
	p.lease = Lease{Holder: "run-7", Open: rollout.LeaseState{Run: "run-7", Command: "scale", Actor: "ann@desk"}}
	s := &site{clusters: []*place{p}}
	s.heal = func(_ context.Context, p *place, _ Work) (rollout.Report, error) {
		s.change(func() { p.follow(); p.lease = Lease{} })
		return rollout.Report{}, nil
	}
	watching(t, s, func(t *testing.T, f *Fleet) {
		for range 240 { // as a holder renews it
			s.change(func() { p.lease.Renewed = time.Now() })
			after(10 * time.Second)
			want(t, f, "prod", Busy)
		}
		after(30 * time.Minute)
		if d := verdict(t, f, "prod"); d.Verdict != Person || d.Next != "trueup resume prod" {
			t.Errorf("%+v", d)
		}
		s.change(func() { p.lease.Open.Command = CommandHeal; p.lease.Open.Goals = nil })
		after(3 * time.Minute)
		if fmt.Sprint(s.healings()) != "[prod [] true]" {
			t.Errorf("healed %v", s.healings())
		}
	})
}

// Healings have a bounded number of places.
func TestSlots(t *testing.T) {
	a, b := newPlace("a"), newPlace("b")
	s := &site{clusters: []*place{a, b}}
	busy, most := 0, 0
	s.heal = func(_ context.Context, p *place, _ Work) (rollout.Report, error) {
		s.change(func() { busy++; most = max(most, busy) })
		time.Sleep(5 * time.Minute)
		s.change(func() { busy--; p.follow() })
		return rollout.Report{}, nil
	}
	watching(t, s, func(t *testing.T, f *Fleet) {
		s.change(func() { a.grow(); b.grow() })
		after(40 * time.Minute)
		if n := len(s.healings()); n != 2 {
			t.Errorf("healed %d times", n)
		}
		s.change(func() {
			if most != 1 {
				t.Errorf("%d at once", most)
			}
		})
		want(t, f, "a", Fine)
		want(t, f, "b", Fine)
	})
}

// What may pass is tried again after pauses that grow; what needs a person is not, until the cluster looks otherwise.
func TestFailures(t *testing.T) {
	for _, tt := range []struct {
		layer capacity.Layer
		most  int // healings within two hours
		least int
		ends  Verdict
	}{{capacity.LayerAccess, 6, 4, Later}, {capacity.LayerKubelet, 1, 1, Person}} {
		t.Run(string(tt.layer), func(t *testing.T) {
			p := newPlace("prod")
			s := &site{clusters: []*place{p}}
			s.heal = func(context.Context, *place, Work) (rollout.Report, error) {
				return rollout.Report{}, &rollout.Fault{Layer: tt.layer, Summary: "it broke", Recover: "trueup resume prod"}
			}
			watching(t, s, func(t *testing.T, f *Fleet) {
				s.change(p.grow)
				after(2 * time.Hour)
				if n := len(s.healings()); n < tt.least || n > tt.most {
					t.Errorf("healed %d times", n)
				}
				want(t, f, "prod", tt.ends)
				before := len(s.healings())
				s.change(func() { p.listed.Members[0].Instance.OfferingID = "bigger" })
				after(time.Hour)
				if tt.ends == Person && len(s.healings()) != before+1 {
					t.Errorf("healed %d times after a change, want one", len(s.healings())-before)
				}
			})
		})
	}
}

// A healing that another server's holds up is no failure.
func TestAnotherServerWasFirst(t *testing.T) {
	p := newPlace("prod")
	s := &site{clusters: []*place{p}}
	s.heal = func(context.Context, *place, Work) (rollout.Report, error) {
		return rollout.Report{}, &rollout.Fault{Layer: capacity.LayerLock, Cause: &rollout.HeldError{Holder: "other"}}
	}
	watching(t, s, func(t *testing.T, f *Fleet) {
		s.change(p.grow)
		after(30 * time.Minute)
		want(t, f, "prod", Heal) // tried in each scan, until the holder is seen on the Lease
		if len(s.healings()) < 5 {
			t.Errorf("healed %d times", len(s.healings()))
		}
	})
}

// Who ends the fleet waits for the present move; who is in a hurry, for the next effect.
func TestEnd(t *testing.T) {
	for _, hurried := range []bool{false, true} {
		t.Run(fmt.Sprint("hurried ", hurried), func(t *testing.T) {
			p := newPlace("prod")
			s := &site{clusters: []*place{p}}
			by := ""
			s.heal = func(_ context.Context, _ *place, w Work) (rollout.Report, error) {
				if hurried {
					<-w.Stop
					by = "stop"
				} else {
					<-w.EndMove
					by = "move"
				}
				return rollout.Report{}, rollout.ErrInterrupted
			}
			watching(t, s, func(t *testing.T, f *Fleet) {
				s.change(p.grow)
				after(20 * time.Minute)
				hurry := make(chan struct{})
				if hurried {
					time.AfterFunc(time.Minute, func() { close(hurry) })
				}
				began := time.Now()
				f.End(t.Context(), hurry)
				if took := time.Since(began); by == "" || hurried != (took >= time.Minute) {
					t.Errorf("ended by %q after %s", by, took)
				}
				after(30 * time.Minute)
				if len(s.healings()) != 1 {
					t.Errorf("begun after the end: %v", s.healings())
				}
			})
		})
	}
}

// opens is a window that is open until a time.
type opens struct{ until time.Time }

func (o opens) Open(at time.Time) bool      { return at.Before(o.until) }
func (o opens) Next(at time.Time) time.Time { return at.Add(24 * time.Hour) }

// When the window closes, a healing ends with its present node.
func TestWindowCloses(t *testing.T) {
	p := newPlace("prod")
	s := &site{clusters: []*place{p}}
	var ended time.Time
	s.heal = func(_ context.Context, _ *place, w Work) (rollout.Report, error) {
		<-w.EndNode
		s.change(func() { ended = time.Now() })
		return rollout.Report{}, rollout.ErrInterrupted
	}
	watching(t, s, func(t *testing.T, f *Fleet) {
		closes := time.Now().Add(time.Hour)
		s.change(func() { p.listed.Policy.Windows = opens{closes}; p.grow() })
		after(2 * time.Hour)
		s.change(func() {
			if late := ended.Sub(closes); late < 0 || late > 3*time.Minute {
				t.Errorf("ended %s after the window closed", late)
			}
		})
		want(t, f, "prod", Closed)
		if len(s.healings()) != 1 {
			t.Errorf("healed %v", s.healings())
		}
	})
}
