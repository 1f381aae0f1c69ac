package notice

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Letter is one notice for one channel.
type Letter struct {
	ID        string
	Channel   string
	Key       string // equal notices have equal keys
	Kind      Kind
	ClusterID string
	Body      []byte // JSON of the Notice
	Created   time.Time
	// Attempts counts those that failed.
	Attempts int
}

// State is what became of a letter.
type State string

// The states.
const (
	Pending State = "pending"
	Sent    State = "sent"
	Dropped State = "dropped" // given up
)

// Outbox keeps letters until they are sent, and remembers which were. The store implements it.
type Outbox interface {
	// Put first ends the episodes of these kinds of the cluster, then adds the letters of which no equal one is in an open episode, all or
	// none of it. They are due at once.
	Put(ctx context.Context, clusterID string, ends []Kind, letters []Letter) error
	// Due returns pending letters of a channel that are due, oldest first, and when the next later one will be; zero if there is none.
	Due(ctx context.Context, channel string, now time.Time, limit int) (due []Letter, next time.Time, err error)
	// Postpone counts a failed attempt and sets when the next is due.
	Postpone(ctx context.Context, id string, due time.Time) error
	// Settle ends a letter. If it was dropped, an equal one may be put again.
	Settle(ctx context.Context, id string, state State) error
}

// Memory is an outbox that is lost with the process: for a server without a store, and while the store fails.
type Memory struct {
	mu      sync.Mutex
	letters []*memo
}

type memo struct {
	Letter

	state State
	due   time.Time
	open  bool
}

// NewMemory returns an empty outbox.
func NewMemory() *Memory { return &Memory{} }

// mostSettled bounds what Memory remembers of letters that are done: only the dedup of as many needs it.
const mostSettled = 10_000

// Put implements Outbox.
func (m *Memory) Put(_ context.Context, clusterID string, ends []Kind, letters []Letter) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, old := range m.letters {
		if old.ClusterID == clusterID && slices.Contains(ends, old.Kind) {
			old.open = false
		}
	}
	for _, l := range letters {
		if !slices.ContainsFunc(m.letters, func(old *memo) bool { return old.open && old.Channel == l.Channel && old.Key == l.Key }) {
			m.letters = append(m.letters, &memo{Letter: l, state: Pending, due: l.Created, open: true})
		}
	}
	if over := len(m.letters) - mostSettled; over > 0 {
		m.letters = slices.DeleteFunc(m.letters, func(old *memo) bool {
			forget := over > 0 && old.state != Pending
			if forget {
				over--
			}
			return forget
		})
	}
	return nil
}

// Due implements Outbox.
func (m *Memory) Due(_ context.Context, channel string, now time.Time, limit int) (due []Letter, next time.Time, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.letters {
		switch {
		case l.Channel != channel || l.state != Pending:
		case !l.due.After(now):
			if len(due) < limit {
				due = append(due, l.Letter)
			}
		case next.IsZero() || l.due.Before(next):
			next = l.due
		}
	}
	return due, next, nil
}

// Postpone implements Outbox.
func (m *Memory) Postpone(_ context.Context, id string, due time.Time) error {
	m.change(id, func(l *memo) { l.Attempts, l.due = l.Attempts+1, due })
	return nil
}

// Settle implements Outbox.
func (m *Memory) Settle(_ context.Context, id string, state State) error {
	m.change(id, func(l *memo) { l.state, l.open = state, l.open && state != Dropped })
	return nil
}

func (m *Memory) change(id string, change func(*memo)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.letters {
		if l.ID == id {
			change(l)
		}
	}
}
