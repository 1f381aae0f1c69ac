package guest

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/cks-trueup/trueup/internal/rollout"
)

func (m *machine) ask(t *testing.T, request string) (string, error) {
	t.Helper()
	answer, err := open(t, m.config()).Kubectl(t.Context(), target(), []byte(request))
	must(t, err)
	defer func() { _ = answer.Close() }()
	out, err := io.ReadAll(answer)
	return string(out), err
}

// What is no request is none of kubectl's.
func TestKubectlTakesNothingElse(t *testing.T) {
	m := newMachine(t)
	for name, request := range map[string]string{
		"no path":             "GET\nnodes\n\n\n\n\n\n",
		"a command":           "GET\n/api/$(id)\n\n\n\n\n\n",
		"a quote":             "GET\n/api/'\n\n\n\n\n\n",
		"a space":             "GET\n/api/v1/nodes --kubeconfig=/x\n\n\n\n\n\n",
		"an unknown method":   "OPTIONS\n/api/v1/nodes/a\n\n\n\n\n\n",
		"no pod to delete":    "DELETE\n/api/v1/nodes/a\n\n\n\n\n\n",
		"an option as a name": "PATCH\n/api/v1/nodes/a\nnodes\n\n--all\nmerge\ntrueup\n",
		"a path as a name":    "PATCH\n/api/v1/nodes/a\nnodes\n\na/b\nmerge\ntrueup\n",
		"nothing":             "",
	} {
		out, err := m.ask(t, request)
		if failed := (*CommandError)(nil); !errors.As(err, &failed) || failed.Exit != 64 || out != "" {
			t.Errorf("%s: %q, %v; want exit status 64", name, out, err)
		}
	}
}

// A guest without an administrator's kubeconfig says so, and asks nobody.
func TestKubectlWithoutAdminConf(t *testing.T) {
	m := newMachine(t)
	out, err := m.ask(t, "GET\n/readyz\n\n\n\n\n\n")
	if failed := (*CommandError)(nil); !errors.As(err, &failed) || failed.Exit != 66 || !strings.Contains(failed.Said, "no /etc/kubernetes/admin.conf") || out != "" {
		t.Errorf("%q, %v; want exit status 66", out, err)
	}
}

// A connection that breaks leaves it open what became of the request.
func TestKubectlCutShort(t *testing.T) {
	m := newMachine(t)
	answer, err := open(t, m.config()).Kubectl(t.Context(), target(), nil) // it waits for a request that never comes
	must(t, err)
	m.breakConnections()
	if _, err := io.ReadAll(answer); !errors.Is(err, rollout.ErrUnreachable) && !errors.As(err, new(*CommandError)) {
		t.Errorf("err = %v, want ErrUnreachable", err)
	}
}

func TestDial(t *testing.T) {
	m := newMachine(t)
	s := open(t, m.config())
	conn, err := s.Dial(t.Context(), target(), m.endpoint().Address) // its own sshd
	must(t, err)
	greeting := make([]byte, 4)
	_, err = io.ReadFull(conn, greeting)
	must(t, err)
	if string(greeting) != "SSH-" {
		t.Errorf("%q", greeting)
	}
	must(t, conn.Close())
	if _, err := s.Dial(t.Context(), target(), "127.0.0.1:1"); !errors.Is(err, rollout.ErrUnreachable) {
		t.Errorf("err = %v, want ErrUnreachable", err)
	}
	m.write("ssh/config", m.read("ssh/config")+"\nAllowTcpForwarding no")
	if _, err := open(t, m.config()).Dial(t.Context(), target(), m.endpoint().Address); !errors.Is(err, rollout.ErrUnreachable) || !strings.Contains(err.Error(), "administratively prohibited") {
		t.Errorf("err = %v, want ErrUnreachable and sshd's reason", err)
	}
}
