package access

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestWhereItMayListen(t *testing.T) {
	for _, c := range []struct {
		name string
		e    Exposure
		ok   bool
		open bool
	}{
		{"loopback without anything", Exposure{Address: "127.0.0.1:8420"}, true, true},
		{"IPv6 loopback", Exposure{Address: "[::1]:8420"}, true, true},
		{"localhost", Exposure{Address: "localhost:8420"}, true, true},
		{"mapped loopback", Exposure{Address: "[::ffff:127.0.0.1]:8420"}, true, true},
		{"loopback with a token", Exposure{Address: "127.0.0.1:8420", Tokens: 1}, true, false},
		{"loopback with certificates", Exposure{Address: "127.0.0.1:8420", TLS: true, Certs: 1}, true, false},
		{"everywhere without anything", Exposure{Address: "0.0.0.0:8420"}, false, false},
		{"everywhere, no host", Exposure{Address: ":8420"}, false, false},
		{"everywhere with tokens in the clear", Exposure{Address: "[::]:8420", Tokens: 3}, false, false},
		{"everywhere with TLS alone", Exposure{Address: "10.0.0.1:8420", TLS: true}, false, false},
		{"a name with TLS alone", Exposure{Address: "trueup.example:8420", TLS: true}, false, false},
		{"TLS and a token", Exposure{Address: "10.0.0.1:8420", TLS: true, Tokens: 1}, true, false},
		{"TLS and a certificate", Exposure{Address: ":8420", TLS: true, Certs: 1}, true, false},
		{"a name that looks like loopback", Exposure{Address: "127.0.0.1.example:8420"}, false, false},
		{"no port", Exposure{Address: "127.0.0.1"}, false, false},
	} {
		if err := c.e.Check(); (err == nil) != c.ok || c.e.Open() != c.open {
			t.Errorf("%s: Check() = %v, Open() = %t; want ok %t, open %t", c.name, err, c.e.Open(), c.ok, c.open)
		}
	}
}

func TestHosts(t *testing.T) {
	names := []string{"trueup.example"}
	for host, want := range map[string]bool{
		"127.0.0.1:8420": true, "[::1]:8420": true, "::1": true, "localhost": true, "LOCALHOST:1": true, "10.1.2.3": true,
		"trueup.example": true, "TrueUp.example.:443": true,
		"": false, "attacker.example": false, "trueup.example.attacker.example": false, "localhost.attacker.example:8420": false, "127.0.0.1.nip.example": false,
	} {
		if got := HostAllowed(host, names); got != want {
			t.Errorf("HostAllowed(%q) = %t, want %t", host, got, want)
		}
	}
}

func TestTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	read, readText, err := NewToken("grafana", Read)
	if err != nil {
		t.Fatal(err)
	}
	operate, operateText, _ := NewToken("night@shift", Operate)
	for _, one := range []Token{read, operate} {
		if err := AddToken(path, one); err != nil {
			t.Fatal(err)
		}
	}
	if err := AddToken(path, read); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("a name was taken twice: %v", err)
	}
	kept, _ := os.ReadFile(path)
	if strings.Contains(string(kept), readText) || strings.Contains(string(kept), readText[len(prefix):]) {
		t.Error("the file holds a token")
	}
	tokens, err := LoadTokens(path)
	if err != nil || len(tokens) != 2 {
		t.Fatalf("%d tokens, %v", len(tokens), err)
	}
	keys := NewKeys(tokens)
	for text, want := range map[string]Identity{readText: {"grafana", Read}, operateText: {"night@shift", Operate}, "": {}, "trueup_": {}, readText + "x": {}} {
		if got, ok := keys.Who(text); got != want || ok != (want.Name != "") {
			t.Errorf("Who = %v, %t; want %v", got, ok, want)
		}
	}
	if err := os.Chmod(path, 0o620); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadTokens(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others may write was taken: %v", err)
	}
	var none *Keys
	if _, ok := none.Who(readText); ok || none.Len() != 0 {
		t.Error("no keys know somebody")
	}
}

func TestTokenFilesThatAreRefused(t *testing.T) {
	hash := strings.Repeat("ab", 32)
	for name, text := range map[string]string{
		"two words": "a read", "a role of its own": "a root " + hash, "no hash": "a read trueup_canary-secret", "short hash": "a read abcd",
		"a name with markup": "<b> read " + hash, "twice": "a read " + hash + "\na operate " + hash,
	} {
		_, err := ParseTokens(text)
		if err == nil {
			t.Errorf("%s: taken", name)
		} else if strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: the error quotes what may be a token: %v", name, err)
		}
	}
	if got, err := ParseTokens("# comment\n\n a  operate\t" + hash + " \n"); err != nil || len(got) != 1 || got[0].Role != Operate {
		t.Errorf("a good file: %v, %v", got, err)
	}
}

func TestSessionsEndWithTheirToken(t *testing.T) {
	now := time.Date(2026, 12, 7, 3, 0, 0, 0, time.UTC)
	token, text, _ := NewToken("alice", Operate)
	keys := NewKeys([]Token{token})
	s := NewSessions(keys, func() time.Time { return now })
	if _, _, ok := s.Begin("wrong"); ok {
		t.Fatal("a session for a wrong token")
	}
	cookie, who, ok := s.Begin(text)
	if !ok || who.Name != "alice" {
		t.Fatalf("Begin = %v, %t", who, ok)
	}
	if _, csrf, ok := s.Who(cookie); !ok || csrf == "" || csrf == cookie {
		t.Error("the session is not known, or has no secret of its own for forms")
	}
	token.Role = Read
	keys.Replace([]Token{token})
	if who, _, _ := s.Who(cookie); who.Role != Read {
		t.Errorf("the session kept the role %s of before", who.Role)
	}
	keys.Replace(nil)
	if _, _, ok := s.Who(cookie); ok {
		t.Error("the session outlived its token")
	}
	keys.Replace([]Token{token})
	now = now.Add(sessionLife)
	if _, _, ok := s.Who(cookie); ok {
		t.Error("the session outlived its time")
	}
	for range mostSessions + 5 {
		s.Begin(text)
	}
	if len(s.open) > mostSessions {
		t.Errorf("%d sessions are open", len(s.open))
	}
	other, _, _ := s.Begin(text)
	s.End(other)
	if _, _, ok := s.Who(other); ok {
		t.Error("the session outlived its end")
	}
}

func TestSameNeedsASecret(t *testing.T) {
	if Same("", "") || Same("a", "b") || !Same("a", "a") {
		t.Error("Same is not what it says")
	}
}

func TestCertificateNames(t *testing.T) {
	got, err := ParseCertificates("# names\nalice operate\ngrafana read\n")
	if err != nil || got["alice"] != Operate || got["grafana"] != Read {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"alice", "alice root", "a read\na read"} {
		if _, err := ParseCertificates(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	if _, ok := got.Who(nil); ok {
		t.Error("a connection without TLS is somebody")
	}
}
