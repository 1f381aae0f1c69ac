package notice

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"
)

// Route is a channel with the kinds of notice that it gets; none means all.
type Route struct {
	Channel Channel
	Kinds   []Kind
}

func (r Route) wants(k Kind) bool { return len(r.Kinds) == 0 || slices.Contains(r.Kinds, k) }

// Options are a sender's parts. Log and Told may be nil.
type Options struct {
	Outbox Outbox
	Routes []Route
	Log    *slog.Logger
	// Told hears of each attempt whether the receiver took the notice.
	Told func(channel string, ok bool)
}

// Sender takes notices and sends them. A nil Sender takes them and does nothing.
type Sender struct {
	Options

	// spare takes what the outbox fails to take, so that people hear of it all the same.
	spare *Memory
	wake  map[string]chan struct{}
}

// New returns a sender. It sends nothing before Run.
func New(o Options) (*Sender, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Told == nil {
		o.Told = func(string, bool) {}
	}
	s := &Sender{Options: o, spare: NewMemory(), wake: map[string]chan struct{}{}}
	for _, r := range o.Routes {
		if _, twice := s.wake[r.Channel.Name()]; twice {
			return nil, fmt.Errorf("two channels for notices have the name %q", r.Channel.Name())
		}
		s.wake[r.Channel.Name()] = make(chan struct{}, 1)
	}
	return s, nil
}

// Post hands a notice over. When it returns nil, the outbox has it, or had an equal one. An error means that it is kept in memory only: it is
// sent as well, unless the process ends before.
func (s *Sender) Post(ctx context.Context, n Notice) error {
	if s == nil {
		return nil
	}
	n.Version = bodyVersion
	body, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("notice: %w", err)
	}
	var letters []Letter
	for _, r := range s.Routes {
		if r.wants(n.Kind) {
			letters = append(letters, Letter{ID: uuid.NewString(), Channel: r.Channel.Name(), Key: n.key(), Kind: n.Kind, ClusterID: n.ClusterID,
				Body: body, Created: time.Now()})
		}
	}
	defer s.wakeAll()
	if err := s.Outbox.Put(ctx, n.ClusterID, n.Kind.ends(), letters); err != nil {
		return errors.Join(fmt.Errorf("notice: %w", err), s.spare.Put(ctx, n.ClusterID, n.Kind.ends(), letters))
	}
	return nil
}

// Over says that drift or a wait of a cluster has ended without a notice: the same is told again when it comes again.
func (s *Sender) Over(ctx context.Context, clusterID string) error {
	if s == nil {
		return nil
	}
	ends := []Kind{Waiting, Drift}
	return errors.Join(s.Outbox.Put(ctx, clusterID, ends, nil), s.spare.Put(ctx, clusterID, ends, nil))
}

func (s *Sender) wakeAll() {
	for _, wake := range s.wake {
		select {
		case wake <- struct{}{}:
		default: // it is awake already
		}
	}
}

// Run sends until ctx ends. What is not sent then stays in the outbox. One channel that fails holds no other back.
// One sender at a time runs on an outbox: for other routes, wait until this one has ended, then run the next.
func (s *Sender) Run(ctx context.Context) {
	if s == nil {
		return
	}
	var all sync.WaitGroup
	for _, r := range s.Routes {
		d := &delivery{Sender: s, channel: r.Channel, pace: rate.NewLimiter(perSecond, burst), sent: map[string]bool{}}
		all.Go(func() { d.run(ctx) })
	}
	all.Wait()
}
