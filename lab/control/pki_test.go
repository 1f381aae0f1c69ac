package control

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
)

func TestCertificates(t *testing.T) {
	ca, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	server, err := ca.server("kube-apiserver", []string{"127.0.0.1", HostInGuests}, "localhost")
	if err != nil {
		t.Fatal(err)
	}
	client, err := ca.client("system:node:w1", "system:nodes")
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		pair pair
		by   *authority
		host string
		use  x509.ExtKeyUsage
		ok   bool
	}{
		{"server on loopback", server, ca, "127.0.0.1", x509.ExtKeyUsageServerAuth, true},
		{"server as guests see it", server, ca, HostInGuests, x509.ExtKeyUsageServerAuth, true},
		{"server elsewhere", server, ca, "192.0.2.1", x509.ExtKeyUsageServerAuth, false},
		{"client", client, ca, "", x509.ExtKeyUsageClientAuth, true},
		{"client as a server", client, ca, "", x509.ExtKeyUsageServerAuth, false},
		{"another lab's client", client, stranger, "", x509.ExtKeyUsageClientAuth, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			loaded, err := tls.X509KeyPair(test.pair.cert, test.pair.key)
			if err != nil {
				t.Fatal(err)
			}
			_, err = loaded.Leaf.Verify(x509.VerifyOptions{Roots: test.by.pool(), DNSName: test.host, KeyUsages: []x509.ExtKeyUsage{test.use}})
			if (err == nil) != test.ok {
				t.Errorf("verify: %v, want ok = %v", err, test.ok)
			}
		})
	}
}
