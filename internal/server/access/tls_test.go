package access

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// authority signs certificates for a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) authority {
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	form := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, _ := x509.ParseCertificate(der)
	return authority{cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// issue returns a certificate with its key, both as files.
func (a authority) issue(t *testing.T, name string, usage x509.ExtKeyUsage) (certFile, keyFile string) {
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	form := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{usage}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, form, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, _ := x509.MarshalPKCS8PrivateKey(key)
	certFile, keyFile = filepath.Join(t.TempDir(), "cert"), filepath.Join(t.TempDir(), "key")
	for path, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

func TestClientCertificates(t *testing.T) {
	ca, stranger := newAuthority(t), newAuthority(t)
	caFile := filepath.Join(t.TempDir(), "ca")
	if err := os.WriteFile(caFile, ca.pem, 0o600); err != nil {
		t.Fatal(err)
	}
	serverCert, serverKey := ca.issue(t, "server", x509.ExtKeyUsageServerAuth)
	config, err := TLSConfig(serverCert, serverKey, caFile)
	if err != nil {
		t.Fatal(err)
	}
	known := Certificates{"alice": Operate}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, ok := known.Who(r.TLS)
		fmt.Fprintf(w, "%s %t", who.Role, ok)
	}))
	srv.TLS = config
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are what is tried
	srv.StartTLS()
	defer srv.Close()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.pem)
	for _, c := range []struct {
		name    string
		by      *authority
		subject string
		usage   x509.ExtKeyUsage
		version uint16
		want    string // empty: no connection
	}{
		{"known by name", &ca, "alice", x509.ExtKeyUsageClientAuth, tls.VersionTLS13, "operate true"},
		{"of our CA, not known by name", &ca, "mallory", x509.ExtKeyUsageClientAuth, tls.VersionTLS13, " false"},
		{"without a certificate", nil, "", 0, tls.VersionTLS13, " false"},
		{"the name, of another CA", &stranger, "alice", x509.ExtKeyUsageClientAuth, tls.VersionTLS13, ""},
		{"the name, in a server's certificate", &ca, "alice", x509.ExtKeyUsageServerAuth, tls.VersionTLS13, ""},
		{"TLS 1.2", &ca, "alice", x509.ExtKeyUsageClientAuth, tls.VersionTLS12, ""},
	} {
		client := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12, MaxVersion: c.version}
		if c.by != nil {
			pair, err := tls.LoadX509KeyPair(c.by.issue(t, c.subject, c.usage))
			if err != nil {
				t.Fatal(err)
			}
			client.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil } // also one that was not asked for
		}
		transport := &http.Transport{TLSClientConfig: client}
		res, err := (&http.Client{Transport: transport}).Get(srv.URL)
		got := ""
		if err == nil {
			text, _ := io.ReadAll(res.Body)
			res.Body.Close()
			got = string(text)
		}
		transport.CloseIdleConnections()
		if got != c.want {
			t.Errorf("%s: got %q, want %q (%v)", c.name, got, c.want, err)
		}
	}
}
