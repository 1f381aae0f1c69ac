package notice

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/smtp"
	"net/textproto"
	"os"
	"strings"
	"time"
)

// MailOptions are a mail channel's settings.
type MailOptions struct {
	Name   string
	Server string // host:port
	From   string
	To     []string
	// User and Password log in, if User is not empty. The password is only ever sent over a verified connection.
	User     string
	Password Secret
	// CAFile, if not empty, holds the PEM certificates that alone may have signed the server's.
	CAFile string
	// Implicit speaks TLS from the first byte (port 465); else STARTTLS is required. There is no way without TLS.
	Implicit bool
}

// Mail sends notices as text by SMTP.
type Mail struct {
	o    MailOptions
	host string
	from *mail.Address
	to   []*mail.Address
	tls  *tls.Config
}

// NewMail returns the channel. Its error is about an address, the server's name or CAFile.
func NewMail(o MailOptions) (*Mail, error) {
	m := &Mail{o: o}
	if err := m.read(); err != nil {
		return nil, fmt.Errorf("notice by %s: %w", o.Name, err)
	}
	return m, nil
}

func (m *Mail) read() (err error) {
	if m.host, _, err = net.SplitHostPort(m.o.Server); err != nil {
		return err
	}
	if m.from, err = mail.ParseAddress(m.o.From); err != nil {
		return fmt.Errorf("from %q: %w", m.o.From, err)
	}
	for _, text := range m.o.To {
		to, err := mail.ParseAddress(text)
		if err != nil {
			return fmt.Errorf("to %q: %w", text, err)
		}
		m.to = append(m.to, to)
	}
	if len(m.to) == 0 {
		return errors.New("mail to nobody")
	}
	if m.tls, err = tlsConfig(m.o.CAFile); err != nil {
		return err
	}
	m.tls.ServerName = m.host
	return nil
}

// Name implements Channel.
func (m *Mail) Name() string { return m.o.Name }

// Send implements Channel.
func (m *Mail) Send(ctx context.Context, id string, n Notice) error {
	conn, err := m.dial(ctx)
	if err != nil {
		return m.failed("connect", err)
	}
	defer func() { _ = conn.Close() }() // what matters was answered before
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	client, err := smtp.NewClient(conn, m.host)
	if err != nil {
		return m.failed("greeting", err)
	}
	if err := m.open(client); err != nil {
		return err
	}
	return m.transfer(client, m.message(id, n))
}

func (m *Mail) dial(ctx context.Context) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", m.o.Server)
	if err != nil {
		return nil, err
	}
	deadline, has := ctx.Deadline()
	if !has {
		deadline = time.Now().Add(oneAttempt)
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if m.o.Implicit {
		return tls.Client(conn, m.tls), nil
	}
	return conn, nil
}

// open greets, secures the connection and logs in.
func (m *Mail) open(client *smtp.Client) error {
	name, err := os.Hostname()
	if err != nil || strings.ContainsAny(name, "\r\n ") {
		name = "localhost"
	}
	if err := client.Hello(name); err != nil {
		return m.failed("EHLO", err)
	}
	if !m.o.Implicit {
		if offered, _ := client.Extension("STARTTLS"); !offered {
			return &Error{Channel: m.o.Name, Reason: "the mail server offers no STARTTLS: nothing was sent"}
		}
		if err := client.StartTLS(m.tls.Clone()); err != nil {
			return m.failed("STARTTLS", err)
		}
	}
	if m.o.User == "" {
		return nil
	}
	password, err := m.o.Password()
	if err != nil {
		return &Error{Channel: m.o.Name, Reason: "the password can't be read: " + err.Error()}
	}
	if err := client.Auth(smtp.PlainAuth("", m.o.User, password, m.host)); err != nil {
		return m.failed("AUTH", err)
	}
	return nil
}

func (m *Mail) transfer(client *smtp.Client, message []byte) error {
	if err := client.Mail(m.from.Address); err != nil {
		return m.failed("MAIL", err)
	}
	for _, to := range m.to {
		if err := client.Rcpt(to.Address); err != nil {
			return m.failed("RCPT", err)
		}
	}
	w, err := client.Data()
	if err != nil {
		return m.failed("DATA", err)
	}
	_, err = w.Write(message)
	if err := cmp.Or(err, w.Close()); err != nil { // the answer to the whole message
		return m.failed("DATA", err)
	}
	_ = client.Quit() // the mail is taken: a lost good-bye changes nothing
	return nil
}

// message is the mail with its headers. Whatever a name holds, a header stays one line: mime encodes it.
func (m *Mail) message(id string, n Notice) []byte {
	var to []string
	for _, a := range m.to {
		to = append(to, a.String())
	}
	_, domain, _ := strings.Cut(m.from.Address, "@")
	var b bytes.Buffer
	for _, h := range [][2]string{{"From", m.from.String()}, {"To", strings.Join(to, ", ")}, {"Subject", mime.QEncoding.Encode("utf-8", "[trueup] "+n.Title())},
		{"Date", n.Time.Format(time.RFC1123Z)}, {"Message-ID", "<" + id + "@" + domain + ">"}, {"Auto-Submitted", "auto-generated"}, {"MIME-Version", "1.0"},
		{"Content-Type", "text/plain; charset=utf-8"}, {"Content-Transfer-Encoding", "quoted-printable"}} {
		b.WriteString(h[0] + ": " + h[1] + "\r\n")
	}
	b.WriteString("\r\n")
	body := quotedprintable.NewWriter(&b)
	_, _ = body.Write([]byte(plainText(n))) // a buffer takes everything
	_ = body.Close()
	return b.Bytes()
}

func plainText(n Notice) string {
	text := n.Text + "\n"
	if n.Next != "" {
		text += "\nNext: " + n.Next + "\n"
	}
	text += "\nCluster: " + n.Cluster + " (" + n.ClusterID + ")\n"
	if n.Endpoint != "" {
		text += "Endpoint: " + n.Endpoint + "\n"
	}
	if n.Run != "" {
		text += "Run: " + n.Run + "\n"
	}
	return text + "Time: " + n.Time.UTC().Format(time.RFC3339) + "\n"
}

// failed says at which step the server refused or was lost. Its words are left out: a server may quote what it was sent.
func (m *Mail) failed(step string, err error) error {
	if answer, is := errors.AsType[*textproto.Error](err); is {
		return &Error{Channel: m.o.Name, Reason: fmt.Sprintf("the mail server answered %d to %s", answer.Code, step)}
	}
	return &Error{Channel: m.o.Name, Reason: step + ": " + reason(err)}
}
