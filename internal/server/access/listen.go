package access

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
)

// Exposure is where the server listens, and what stands before it.
type Exposure struct {
	Address string // host:port
	TLS     bool   // with a certificate of its own
	Tokens  int    // how many bearer tokens there are
	Certs   int    // how many client certificates are known by name
}

// Loopback reports whether only programs of the same machine can reach the address. A name other than localhost is not: what it leads to can change.
func (e Exposure) Loopback() bool {
	host, _, err := net.SplitHostPort(e.Address)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// Check refuses to listen where others than this machine's programs could come in without TLS or without authentication.
func (e Exposure) Check() error {
	if _, _, err := net.SplitHostPort(e.Address); err != nil {
		return fmt.Errorf("listen: %q is not host:port", e.Address)
	}
	switch {
	case e.Loopback():
		return nil
	case !e.TLS:
		return fmt.Errorf("listen: %s can be reached from other machines, and there is no certificate: tokens would travel in the clear. "+
			"Name a certificate and its key, or listen on 127.0.0.1", e.Address)
	case e.Tokens == 0 && e.Certs == 0:
		return fmt.Errorf("listen: %s can be reached from other machines, and nobody has to say who they are. "+
			"Make a token with `trueup token new`, or name client certificates, or listen on 127.0.0.1", e.Address)
	}
	return nil
}

// Open reports whether reading needs no authentication: on loopback, while there are neither tokens nor certificates.
func (e Exposure) Open() bool { return e.Loopback() && e.Tokens == 0 && e.Certs == 0 }

// Certificates are client certificates by the common name of their subject, which a CA of ours has signed.
type Certificates map[string]Role

// ParseCertificates reads lines of a common name and a role: NAME ROLE.
func ParseCertificates(text string) (Certificates, error) {
	out := Certificates{}
	err := eachLine(text, func(line string) (string, error) {
		f := strings.Fields(line)
		if len(f) != 2 {
			return "", errors.New("expected NAME ROLE")
		}
		if err := check(f[0], Role(f[1])); err != nil {
			return "", err
		}
		out[f[0]] = Role(f[1])
		return f[0], nil
	})
	if err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	return out, nil
}

// LoadCertificates reads a file of names and roles. One that others may write is refused.
func LoadCertificates(path string) (Certificates, error) {
	text, err := readPrivate(path)
	if err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	return ParseCertificates(text)
}

// Who returns whose verified certificate the connection has shown.
func (c Certificates) Who(state *tls.ConnectionState) (Identity, bool) {
	if state == nil || len(state.VerifiedChains) == 0 || len(state.PeerCertificates) == 0 {
		return Identity{}, false
	}
	name := state.PeerCertificates[0].Subject.CommonName
	role, ok := c[name]
	return Identity{Name: name, Role: role}, ok && name != ""
}

// TLSConfig makes a server's configuration: TLS 1.3 alone, and client certificates, if a file of CAs is named, for those that have one.
func TLSConfig(certFile, keyFile, clientCAFile string) (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13}
	if clientCAFile == "" {
		return c, nil
	}
	pem, err := os.ReadFile(clientCAFile) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	c.ClientCAs = x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, errors.New("TLS: " + clientCAFile + " holds no certificate in PEM")
	}
	c.ClientAuth = tls.VerifyClientCertIfGiven
	return c, nil
}

// HostAllowed reports whether a request's Host header may be answered. A page elsewhere can have its own name lead to this server (DNS rebinding), but
// can't make a browser send another name: an IP address, localhost, and the names that were configured are answered, each with any port.
func HostAllowed(header string, names []string) bool {
	host := header
	if h, _, err := net.SplitHostPort(header); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	if _, err := netip.ParseAddr(host); err == nil || host == "localhost" {
		return true
	}
	for _, n := range names {
		if host != "" && strings.EqualFold(n, host) {
			return true
		}
	}
	return false
}
