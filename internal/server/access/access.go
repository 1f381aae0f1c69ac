// Package access says who may use the server's API and page: bearer tokens, sessions of browsers, client certificates, and where it may listen.
//
// Its invariants: no token is kept, only its hash, and it is printed once, when it is made; what is not surely known is nobody; a session ends no
// later than its token.
package access

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
)

// Role is what somebody may do.
type Role string

// The roles. Operate includes read.
const (
	Read    Role = "read"
	Operate Role = "operate"
)

// May reports whether the role is enough for what another one may do.
func (r Role) May(what Role) bool { return r == Operate || r == Read && what == Read }

// Identity is somebody who is known.
type Identity struct {
	Name string
	Role Role
}

// Token is one line of a token file: a name, a role and the SHA-256 of the token. Tokens are 256 random bits, so a slow hash would add nothing.
type Token struct {
	Identity

	Hash [sha256.Size]byte
}

// Line is the token's line in a file.
func (t Token) Line() string {
	return t.Name + " " + string(t.Role) + " " + hex.EncodeToString(t.Hash[:])
}

// prefix makes a token that was left somewhere easy to find.
const prefix = "trueup_"

// NewToken makes a token. The text is its only copy.
func NewToken(name string, role Role) (Token, string, error) {
	if err := check(name, role); err != nil {
		return Token{}, "", err
	}
	text := prefix + random()
	return Token{Identity: Identity{Name: name, Role: role}, Hash: sha256.Sum256([]byte(text))}, text, nil
}

// random is 256 bits as text.
func random() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // it never fails: the program would end
	return base64.RawURLEncoding.EncodeToString(b)
}

func check(name string, role Role) error {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._@-", r)
	}
	if name == "" || len(name) > 64 || strings.ContainsFunc(name, func(r rune) bool { return !plain(r) }) {
		return errors.New("a name has 1 to 64 letters, digits or one of ._@-")
	}
	if role != Read && role != Operate {
		return fmt.Errorf("the role is read or operate, not %q", role)
	}
	return nil
}

// ParseTokens reads a token file: one token in a line, empty lines and those that begin with # are skipped.
func ParseTokens(text string) ([]Token, error) {
	var out []Token
	err := eachLine(text, func(line string) (string, error) {
		t, err := parseToken(line)
		out = append(out, t)
		return t.Name, err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// eachLine hands every line to read, which returns the name that the line is for. A name that is there twice is an error. Errors name the line's number,
// and never the line itself: somebody may have put a token there.
func eachLine(text string, read func(line string) (name string, err error)) error {
	seen := map[string]bool{}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, err := read(line)
		if err == nil && seen[name] {
			err = fmt.Errorf("the name %s is there twice", name)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", i+1, err)
		}
		seen[name] = true
	}
	return nil
}

func parseToken(line string) (Token, error) {
	f := strings.Fields(line)
	if len(f) != 3 {
		return Token{}, errors.New("expected NAME ROLE SHA256, as `trueup token new` writes it")
	}
	t := Token{Identity: Identity{Name: f[0], Role: Role(f[1])}}
	hash, err := hex.DecodeString(f[2])
	if err != nil || len(hash) != len(t.Hash) {
		return Token{}, errors.New("the third word is not a SHA-256 in hexadecimal digits: is it the token itself? Then make a new one")
	}
	copy(t.Hash[:], hash)
	if err := check(t.Name, t.Role); err != nil {
		return Token{}, errors.New("name or role is not valid: a name has letters, digits or one of ._@-, a role is read or operate")
	}
	return t, nil
}

// LoadTokens reads a token file. One that others may write is refused: they could make themselves operators.
func LoadTokens(path string) ([]Token, error) {
	text, err := readPrivate(path)
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	tokens, err := ParseTokens(text)
	if err != nil {
		return nil, fmt.Errorf("tokens: %s: %w", path, err)
	}
	return tokens, nil
}

func readPrivate(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.Mode().Perm()&0o022 != 0 {
		return "", fmt.Errorf("%s may be written by others (%v): chmod 600 %s", path, info.Mode().Perm(), path)
	}
	text, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	return string(text), err
}

// AddToken adds a token's line to the file, which need not exist yet. A name that is there already is refused.
func AddToken(path string, t Token) (err error) {
	file, err := os.OpenFile(filepath.Clean(path), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil { // released with the close
		return fmt.Errorf("tokens: lock %s: %w", path, err)
	}
	text, err := readPrivate(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("tokens: %w", err)
	}
	line := t.Line() + "\n"
	if text != "" && !strings.HasSuffix(text, "\n") {
		line = "\n" + line
	}
	if _, err := ParseTokens(text + line); err != nil {
		return fmt.Errorf("tokens: %s: %w", path, err)
	}
	if _, err := file.WriteString(line); err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	return file.Sync()
}

// Keys are the tokens in force. They can be replaced while they are used; nil has none.
type Keys struct{ tokens atomic.Pointer[[]Token] }

// NewKeys returns the tokens as keys.
func NewKeys(tokens []Token) *Keys {
	k := new(Keys)
	k.Replace(tokens)
	return k
}

// Replace puts other tokens in force. Sessions of tokens that are gone end with that.
func (k *Keys) Replace(tokens []Token) { k.tokens.Store(&tokens) }

// Len is how many there are.
func (k *Keys) Len() int { return len(k.list()) }

func (k *Keys) list() []Token {
	if k == nil {
		return nil
	}
	if p := k.tokens.Load(); p != nil {
		return *p
	}
	return nil
}

// Who returns whose token it is. Every token is compared, each in constant time.
func (k *Keys) Who(text string) (Identity, bool) { return k.whose(sha256.Sum256([]byte(text))) }

func (k *Keys) whose(hash [sha256.Size]byte) (who Identity, ok bool) {
	for _, t := range k.list() {
		if subtle.ConstantTimeCompare(hash[:], t.Hash[:]) == 1 {
			who, ok = t.Identity, true
		}
	}
	return who, ok
}
