package notice

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/http/httptest"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// postOffice is a small SMTP server with a real certificate for 127.0.0.1 and example.com.
type postOffice struct {
	address, caFile string

	implicit   bool              // TLS from the first byte
	noStartTLS bool              // offers none
	refuse     map[string]string // answers to a command instead of the good one
	quote      func() string     // what every refusal quotes

	mails  []string
	logins []string
	plain  []string // commands that came before TLS
}

func opens(t *testing.T, p *postOffice) *postOffice {
	t.Helper()
	lender := httptest.NewTLSServer(nil) // lends its certificate
	defer lender.Close()
	config := &tls.Config{Certificates: lender.TLS.Certificates}
	p.caFile = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(p.caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: lender.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.address = listener.Addr().String()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			p.serve(conn, config)
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-done })
	return p
}

// serve speaks to one client.
func (p *postOffice) serve(conn net.Conn, config *tls.Config) {
	defer func() { _ = conn.Close() }()
	secure := p.implicit
	if secure {
		conn = tls.Server(conn, config)
	}
	in := bufio.NewReader(conn)
	say := func(line string) { _, _ = fmt.Fprintf(conn, "%s\r\n", line) }
	say("220 post office")
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimSpace(line)
		verb, _, _ := strings.Cut(line, " ")
		if !secure {
			p.plain = append(p.plain, line)
		}
		switch answer := p.refuse[verb]; {
		case answer != "":
			say(answer + " " + line + p.quote())
		case verb == "EHLO" && (secure || p.noStartTLS):
			say("250-post office\r\n250 AUTH PLAIN")
		case verb == "EHLO":
			say("250-post office\r\n250-STARTTLS\r\n250 AUTH PLAIN")
		case verb == "STARTTLS":
			say("220 go ahead")
			conn, secure = tls.Server(conn, config), true
			in = bufio.NewReader(conn)
		case verb == "AUTH":
			login, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(line, "AUTH PLAIN "))
			p.logins = append(p.logins, strings.Trim(strings.ReplaceAll(string(login), "\x00", " "), " "))
			say("235 welcome")
		case verb == "DATA":
			say("354 go on")
			p.mails = append(p.mails, readMail(in))
			say("250 taken")
		case verb == "QUIT":
			say("221 bye")
			return
		default:
			p.mails = append(p.mails, line)
			say("250 well")
		}
	}
}

func readMail(in *bufio.Reader) string {
	var b strings.Builder
	for {
		line, err := in.ReadString('\n')
		if err != nil || line == ".\r\n" {
			return b.String()
		}
		b.WriteString(strings.TrimPrefix(line, "."))
	}
}

func mailer(t *testing.T, p *postOffice, change func(*MailOptions)) *Mail {
	t.Helper()
	o := MailOptions{Name: "mail", Server: p.address, From: "trueup <trueup@example.com>", To: []string{"ops@example.com", "Night Shift <night@example.com>"},
		User: "robot", Password: as("pass word"), CAFile: p.caFile, Implicit: p.implicit}
	if change != nil {
		change(&o)
	}
	m, err := NewMail(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMail(t *testing.T) {
	for name, implicit := range map[string]bool{"STARTTLS": false, "implicit TLS": true} {
		t.Run(name, func(t *testing.T) {
			p := opens(t, &postOffice{implicit: implicit})
			n := failed()
			n.Cluster = "prod\r\nBcc: everybody@example.com" // whoever may name a cluster may not address mail
			n.Text = ".\r\n" + n.Text + "\n" + strings.Repeat("ä", 2000)
			if err := mailer(t, p, nil).Send(t.Context(), "letter-1", n); err != nil {
				t.Fatal(err)
			}
			want := []string{"MAIL FROM:<trueup@example.com>", "RCPT TO:<ops@example.com>", "RCPT TO:<night@example.com>"}
			if len(p.mails) != 4 || strings.Join(p.mails[:3], "\n") != strings.Join(want, "\n") || strings.Join(p.logins, "") != "robot pass word" {
				t.Fatalf("envelope %q, log-ins %q", p.mails, p.logins)
			}
			checkMail(t, p.mails[3], n)
			for _, line := range p.plain {
				if verb, _, _ := strings.Cut(line, " "); verb != "EHLO" && verb != "STARTTLS" {
					t.Errorf("%q was said without TLS", line)
				}
			}
		})
	}
}

func checkMail(t *testing.T, text string, n Notice) {
	t.Helper()
	m, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil || !strings.HasPrefix(subject, "[trueup] prod") || m.Header.Get("Bcc") != "" || m.Header.Get("Message-Id") != "<letter-1@example.com>" {
		t.Errorf("subject %q (%v), headers %v", subject, err, m.Header)
	}
	if to, err := m.Header.AddressList("To"); err != nil || len(to) != 2 {
		t.Errorf("to %v, %v", to, err)
	}
	body, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	if want := strings.ReplaceAll(n.Text, "\r\n", "\n"); err != nil || !strings.HasPrefix(strings.ReplaceAll(string(body), "\r\n", "\n"), want+"\n\nNext: trueup resume prod\n") {
		t.Errorf("body %q (%v), want to begin with %q", body, err, want)
	}
}

// Nothing that matters is said to a server that can't prove who it is.
func TestMailNeedsVerifiedTLS(t *testing.T) {
	for name, tt := range map[string]struct {
		office *postOffice
		change func(*MailOptions)
	}{
		"no STARTTLS":       {&postOffice{noStartTLS: true}, nil},
		"unknown authority": {&postOffice{}, func(o *MailOptions) { o.CAFile = "" }},
		"another name":      {&postOffice{}, func(o *MailOptions) { o.Server = strings.Replace(o.Server, "127.0.0.1", "localhost", 1) }},
		"implicit, unknown": {&postOffice{implicit: true}, func(o *MailOptions) { o.CAFile = "" }},
	} {
		t.Run(name, func(t *testing.T) {
			p := opens(t, tt.office)
			err := mailer(t, p, tt.change).Send(t.Context(), "1", failed())
			if _, is := errors.AsType[*Error](err); !is || len(p.mails) > 0 || len(p.logins) > 0 {
				t.Errorf("got %v; the server heard %q %q", err, p.mails, p.logins)
			}
		})
	}
}

func TestMailWithoutLogin(t *testing.T) {
	p := opens(t, &postOffice{})
	if err := mailer(t, p, func(o *MailOptions) { o.User, o.Password = "", nil }).Send(t.Context(), "1", failed()); err != nil || len(p.logins) != 0 || len(p.mails) != 4 {
		t.Errorf("%v, log-ins %q, heard %q", err, p.logins, p.mails)
	}
}

func TestMailRefused(t *testing.T) {
	for verb, code := range map[string]string{"EHLO": "554", "STARTTLS": "454", "AUTH": "535", "MAIL": "550", "RCPT": "551", "DATA": "452"} {
		p := opens(t, &postOffice{refuse: map[string]string{verb: code, "HELO": code}, quote: func() string { return "" }})
		err := mailer(t, p, nil).Send(t.Context(), "1", failed())
		got, is := errors.AsType[*Error](err)
		if want := "the mail server answered " + code + " to " + verb; !is || got.Reason != want {
			t.Errorf("%s: got %v, want %q", verb, err, want)
		}
	}
}

func TestMailOptions(t *testing.T) {
	for name, change := range map[string]func(*MailOptions){
		"no port":           func(o *MailOptions) { o.Server = "example.com" },
		"no sender":         func(o *MailOptions) { o.From = "" },
		"nobody":            func(o *MailOptions) { o.To = nil },
		"a line in address": func(o *MailOptions) { o.To = []string{"ops@example.com\r\nDATA"} },
		"no authority":      func(o *MailOptions) { o.CAFile = "/dev/null" },
	} {
		o := MailOptions{Name: "mail", Server: "127.0.0.1:25", From: "a@example.com", To: []string{"b@example.com"}}
		change(&o)
		if _, err := NewMail(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// A server that takes the connection and says nothing is left when the attempt's time is over.
func TestMailServerIsSilent(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, cancel := contextOf(t, 50*time.Millisecond)
	defer cancel()
	got, is := errors.AsType[*Error](mailer(t, &postOffice{address: listener.Addr().String()}, nil).Send(ctx, "1", failed()))
	if !is || got.Reason != "greeting: no answer in time" {
		t.Errorf("got %v", got)
	}
}
