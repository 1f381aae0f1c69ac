package notice

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// told is one attempt that a receiver saw.
type told struct {
	After time.Duration // since the test began
	ID    string
	Kind  Kind
}

// receiver is a channel that fails so many times first.
type receiver struct {
	name  string
	fails int
	err   error
	began time.Time
	seen  []told
}

func (r *receiver) Name() string { return r.name }

func (r *receiver) Send(_ context.Context, id string, n Notice) error {
	r.seen = append(r.seen, told{time.Since(r.began), id, n.Kind})
	if r.fails != 0 {
		r.fails--
		return r.err
	}
	return nil
}

func (r *receiver) kinds() (kinds []Kind) {
	for _, s := range r.seen {
		kinds = append(kinds, s.Kind)
	}
	return kinds
}

func receiving(name string) *receiver {
	return &receiver{name: name, began: time.Now(), err: &Error{Channel: name, Reason: "down"}}
}

// running starts a sender, and returns what stops it and waits for its end.
func running(t *testing.T, o Options) (*Sender, func()) {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	return s, func() { cancel(); <-done }
}

func drift(about string) Notice {
	return Notice{Kind: Drift, ClusterID: "c1", Cluster: "prod", About: about}
}

func about(kind Kind, run string) Notice {
	return Notice{Kind: kind, ClusterID: "c1", Cluster: "prod", Run: run, Time: time.Now()}
}

func post(t *testing.T, s *Sender, notices ...Notice) {
	t.Helper()
	for _, n := range notices {
		if err := s.Post(t.Context(), n); err != nil {
			t.Error(err)
		}
	}
}

func TestEachNoticeOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		post []Notice
		want []Kind
	}{
		"the same drift, scan after scan":   {[]Notice{drift("n1/guest"), drift("n1/guest"), drift("n1/guest")}, []Kind{Drift}},
		"another drift":                     {[]Notice{drift("n1/guest"), drift("n1/guest,n1/node")}, []Kind{Drift, Drift}},
		"drift again after it was healed":   {[]Notice{drift("n1/guest"), about(Started, "r"), about(Healed, "r"), drift("n1/guest")}, []Kind{Drift, Started, Healed, Drift}},
		"drift all the same after a fault":  {[]Notice{drift("n1/guest"), about(Started, "r"), about(Failed, "r"), drift("n1/guest")}, []Kind{Drift, Started, Failed}},
		"a run's end is told once":          {[]Notice{about(Succeeded, "r"), about(Succeeded, "r"), about(Succeeded, "r2")}, []Kind{Succeeded, Succeeded}},
		"waiting again after somebody came": {[]Notice{about(Waiting, ""), about(Waiting, ""), about(Started, "r"), about(Waiting, "")}, []Kind{Waiting, Started, Waiting}},
		"the healed drift is not repeated":  {[]Notice{about(Healed, "r"), about(Healed, "r")}, []Kind{Healed}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ops := receiving("ops")
				s, stop := running(t, Options{Outbox: NewMemory(), Routes: []Route{{Channel: ops}}})
				for _, n := range tt.post {
					post(t, s, n)
					time.Sleep(time.Minute)
				}
				stop()
				if diff := cmp.Diff(tt.want, ops.kinds()); diff != "" {
					t.Errorf("told (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestDriftThatWentByItselfIsToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ops := receiving("ops")
		s, stop := running(t, Options{Outbox: NewMemory(), Routes: []Route{{Channel: ops}}})
		post(t, s, drift("n1/guest"))
		if err := s.Over(t.Context(), "c1"); err != nil {
			t.Fatal(err)
		}
		post(t, s, drift("n1/guest"))
		synctest.Wait()
		stop()
		if diff := cmp.Diff([]Kind{Drift, Drift}, ops.kinds()); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}

func TestRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, faults := receiving("all"), receiving("faults")
		s, stop := running(t, Options{Outbox: NewMemory(), Routes: []Route{{Channel: all}, {Channel: faults, Kinds: []Kind{Failed, Waiting}}}})
		for _, k := range Kinds() {
			post(t, s, about(k, "r"))
		}
		time.Sleep(time.Minute)
		stop()
		if diff := cmp.Diff(Kinds(), all.kinds()); diff != "" {
			t.Errorf("all (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]Kind{Failed, Waiting}, faults.kinds()); diff != "" {
			t.Errorf("faults (-want +got):\n%s", diff)
		}
	})
}

// A receiver that is down is asked again with growing pauses, with the same id, and holds no other channel back.
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down, up := receiving("down"), receiving("up")
		down.fails = 4
		outcomes := map[string][]bool{}
		s, stop := running(t, Options{Outbox: NewMemory(), Routes: []Route{{Channel: down}, {Channel: up}},
			Told: func(channel string, ok bool) {
				if channel == "down" {
					outcomes[channel] = append(outcomes[channel], ok)
				}
			}})
		post(t, s, about(Failed, "r"))
		time.Sleep(time.Second)
		synctest.Wait()
		if len(up.seen) != 1 {
			t.Errorf("the channel that works was told %d times, want once", len(up.seen))
		}
		time.Sleep(time.Hour)
		stop()
		if len(down.seen) != 5 {
			t.Fatalf("%d attempts, want 5: %v", len(down.seen), down.seen)
		}
		for i := 1; i < 5; i++ {
			longest := 5 * time.Second << (i - 1)
			if gap := down.seen[i].After - down.seen[i-1].After; gap > longest || gap < longest*8/10 || down.seen[i].ID != down.seen[0].ID {
				t.Errorf("attempt %d came after %v as %s; want %v, less up to a fifth, as %s", i+1, gap, down.seen[i].ID, longest, down.seen[0].ID)
			}
		}
		if diff := cmp.Diff([]bool{false, false, false, false, true}, outcomes["down"]); diff != "" {
			t.Errorf("outcomes (-want +got):\n%s", diff)
		}
	})
}

func TestGivesUpAfterADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := receiving("down")
		down.fails = -1
		s, stop := running(t, Options{Outbox: NewMemory(), Routes: []Route{{Channel: down}}})
		post(t, s, about(Failed, "r"))
		time.Sleep(30 * time.Hour)
		synctest.Wait()
		attempts := len(down.seen)
		last := down.seen[attempts-1].After
		if last < 24*time.Hour || last > 24*time.Hour+10*time.Minute {
			t.Errorf("the last of %d attempts was after %v, want a day and at most a pause", attempts, last)
		}
		if least := int(24 * time.Hour / longestPause); attempts < least || attempts > 2*least {
			t.Errorf("%d attempts in a day, want about one in ten minutes", attempts)
		}
		post(t, s, about(Failed, "r"))
		time.Sleep(time.Second)
		stop()
		if len(down.seen) != attempts+1 {
			t.Errorf("given up, the same notice posted again must be tried again")
		}
	})
}

func TestReceiverAsksForPatience(t *testing.T) {
	for name, tt := range map[string]struct{ asked, least, most time.Duration }{
		"longer than our pause":  {2 * time.Minute, 2 * time.Minute, 2 * time.Minute},
		"shorter than our pause": {time.Second, 4 * time.Second, 5 * time.Second},
		"out of all measure":     {1000 * time.Hour, time.Hour, time.Hour},
	} {
		if got := pause(0, &Error{RetryAfter: tt.asked}); got < tt.least || got > tt.most {
			t.Errorf("%s: %v, want %v to %v", name, got, tt.least, tt.most)
		}
	}
}

// A fleet that drifts all at once must not run into the receiver's own limit.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ops := receiving("ops")
		s, stop := running(t, Options{Outbox: NewMemory(), Routes: []Route{{Channel: ops}}})
		for i := range 100 {
			n := drift("n1/guest")
			n.ClusterID = fmt.Sprint("c", i)
			post(t, s, n)
		}
		time.Sleep(10 * time.Minute)
		stop()
		if len(ops.seen) != 100 {
			t.Fatalf("%d of 100 told", len(ops.seen))
		}
		if took := ops.seen[99].After; took < 95*time.Second || took > 100*time.Second {
			t.Errorf("100 notices in %v, want one per second after the first five", took)
		}
	})
}

// What was posted and not sent when the server ended is sent by its next start, and what was sent is not.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box, ops := NewMemory(), receiving("ops") // the store is held to the same rules as this outbox
		ops.fails = 1
		s, stop := running(t, Options{Outbox: box, Routes: []Route{{Channel: ops}}})
		post(t, s, about(Failed, "r"))
		synctest.Wait()
		stop()
		s, stop = running(t, Options{Outbox: box, Routes: []Route{{Channel: ops}}})
		post(t, s, about(Failed, "r"))
		time.Sleep(time.Minute)
		stop()
		s, stop = running(t, Options{Outbox: box, Routes: []Route{{Channel: ops}}})
		post(t, s, about(Failed, "r"))
		time.Sleep(time.Minute)
		stop()
		if len(ops.seen) != 2 || ops.seen[0].ID != ops.seen[1].ID {
			t.Errorf("attempts %v, want two of one notice", ops.seen)
		}
	})
}

// broken is an outbox that fails in chosen ways.
type broken struct {
	*Memory

	put, due, settle bool
}

var errDisk = errors.New("disk full")

func (b *broken) Put(ctx context.Context, id string, ends []Kind, letters []Letter) error {
	if b.put {
		return errDisk
	}
	return b.Memory.Put(ctx, id, ends, letters)
}

func (b *broken) Due(ctx context.Context, channel string, now time.Time, limit int) ([]Letter, time.Time, error) {
	if b.due {
		return nil, time.Time{}, errDisk
	}
	return b.Memory.Due(ctx, channel, now, limit)
}

func (b *broken) Settle(ctx context.Context, id string, state State) error {
	if b.settle {
		return errDisk
	}
	return b.Memory.Settle(ctx, id, state)
}

// Without its outbox a server tells people all the same, and does not tell them one thing again and again.
func TestOutboxFails(t *testing.T) {
	for name, box := range map[string]*broken{
		"it takes nothing":     {put: true},
		"it gives nothing":     {put: true, due: true},
		"it does not remember": {settle: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				box.Memory = NewMemory()
				ops := receiving("ops")
				s, stop := running(t, Options{Outbox: box, Routes: []Route{{Channel: ops}}})
				if err := s.Post(t.Context(), about(Failed, "r")); box.put != errors.Is(err, errDisk) {
					t.Errorf("the outbox's error was told as %v", err)
				}
				time.Sleep(time.Hour)
				stop()
				if len(ops.seen) != 1 {
					t.Errorf("told %d times, want once", len(ops.seen))
				}
			})
		})
	}
}

func TestNoticeOfANewerVersionIsLeftUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		box, ops := NewMemory(), receiving("ops")
		letter := Letter{ID: "1", Channel: "ops", Key: "k", Body: []byte(`{"v":99}`), Created: time.Now()}
		if err := box.Put(t.Context(), "c1", nil, []Letter{letter}); err != nil {
			t.Fatal(err)
		}
		_, stop := running(t, Options{Outbox: box, Routes: []Route{{Channel: ops}}, Log: slog.New(slog.NewTextHandler(&log, nil))})
		time.Sleep(time.Hour)
		stop()
		if due, _, _ := box.Due(t.Context(), "ops", time.Now(), 1); len(ops.seen) != 0 || len(due) != 0 || log.Len() == 0 {
			t.Errorf("told %v, %d left, log %q; want it dropped and logged", ops.seen, len(due), log.String())
		}
	})
}

func TestChannelsHaveNamesOfTheirOwn(t *testing.T) {
	if _, err := New(Options{Routes: []Route{{Channel: receiving("ops")}, {Channel: receiving("ops")}}}); err == nil {
		t.Error("two channels of one name: each would send the other's letters")
	}
}

func TestNilSenderDoesNothing(t *testing.T) {
	var s *Sender
	if err := errors.Join(s.Post(t.Context(), drift("x")), s.Over(t.Context(), "c1")); err != nil {
		t.Error(err)
	}
	s.Run(t.Context())
}

func TestEveryKindHasATitle(t *testing.T) {
	var titles []string
	for _, k := range Kinds() {
		title := Notice{Kind: k, Cluster: "prod"}.Title()
		if slices.Contains(titles, title) || title == "prod: "+string(k) {
			t.Errorf("kind %s has the title %q", k, title)
		}
		titles = append(titles, title)
	}
}
