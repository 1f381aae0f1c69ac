package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"sync"
	"time"
)

// The bounds of sessions: a working day, and more browsers than a team has.
const (
	sessionLife  = 12 * time.Hour
	mostSessions = 1000
)

// Sessions are browsers that have shown a token. They live in memory: a restart of the server ends them.
type Sessions struct {
	keys *Keys
	now  func() time.Time

	mu   sync.Mutex
	open map[[sha256.Size]byte]session // by the hash of the cookie, so that a lookup tells nothing by its time
}

type session struct {
	token   [sha256.Size]byte
	csrf    string
	expires time.Time
}

// NewSessions returns no sessions yet.
func NewSessions(keys *Keys, now func() time.Time) *Sessions {
	return &Sessions{keys: keys, now: now, open: map[[sha256.Size]byte]session{}}
}

// Begin opens a session for whoever has the token, and returns the cookie's value.
func (s *Sessions) Begin(token string) (cookie string, who Identity, ok bool) {
	who, ok = s.keys.Who(token)
	if !ok {
		return "", Identity{}, false
	}
	cookie = random()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	s.open[sha256.Sum256([]byte(cookie))] = session{token: sha256.Sum256([]byte(token)), csrf: random(), expires: s.now().Add(sessionLife)}
	return cookie, who, true
}

// sweep drops what has expired, and the oldest where there are too many.
func (s *Sessions) sweep() {
	var oldest [sha256.Size]byte
	var first time.Time
	for id, one := range s.open {
		if !s.now().Before(one.expires) {
			delete(s.open, id)
		} else if first.IsZero() || one.expires.Before(first) {
			oldest, first = id, one.expires
		}
	}
	if len(s.open) >= mostSessions {
		delete(s.open, oldest)
	}
}

// Who returns whose session it is, with the role that the token has now, and the secret that forms of this session carry.
func (s *Sessions) Who(cookie string) (who Identity, csrf string, ok bool) {
	s.mu.Lock()
	one, found := s.open[sha256.Sum256([]byte(cookie))]
	s.mu.Unlock()
	if !found || !s.now().Before(one.expires) {
		return Identity{}, "", false
	}
	who, ok = s.keys.whose(one.token)
	return who, one.csrf, ok
}

// End closes the session.
func (s *Sessions) End(cookie string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, sha256.Sum256([]byte(cookie)))
}

// Same compares two secrets in constant time. An empty one is never the same.
func Same(a, b string) bool { return a != "" && subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
