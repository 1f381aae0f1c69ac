package cloudstack

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// Whatever a server answers to any command, the client gives a value or an error, never a panic, and never a secret in it.
func FuzzAnswers(f *testing.F) {
	f.Add(200, []byte(`{"listvirtualmachinesresponse":{"count":1,"virtualmachine":[{"id":"vm","cpunumber":2,"memory":"2048","nic":[{}]}]}}`))
	f.Add(200, []byte(`{"queryasyncjobresultresponse":{"jobid":"j","jobstatus":2,"jobresult":{"errorcode":530,"errortext":"no"}}}`))
	f.Add(200, []byte(`{"listkubernetesclustersresponse":{"count":1,"kubernetescluster":[{"id":"c","name":"c","virtualmachines":[{"id":"vm"}]}]}}`))
	f.Add(431, []byte(`{"errorresponse":{"uuidList":[],"errorcode":431,"cserrorcode":9999,"errortext":"%s %d"}}`))
	f.Add(502, []byte("<html>Bad gateway</html>"))
	f.Add(200, []byte(`{`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		if status < 200 || status > 599 || status == http.StatusNoContent || status == http.StatusNotModified {
			return
		}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = w.Write(body)
		}))
		defer server.Close()
		const secret = "canary-secret-key"
		c, err := New(Credentials{URL: server.URL, APIKey: NewSecret("canary-api-key"), SecretKey: NewSecret(secret)}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // retries are not the subject
		defer cancel()
		for _, err := range askAll(ctx, c) {
			if err != nil && (strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "canary-api-key")) {
				t.Errorf("a secret in an error: %v", err)
			}
		}
	})
}

// askAll calls everything that parses an answer.
func askAll(ctx context.Context, c *Client) []error {
	_, e1 := c.Instance(ctx, "vm")
	_, e2 := c.Job(ctx, "j")
	_, e3 := c.FindJob(ctx, "vm")
	_, e4 := c.Clusters(ctx, ClusterFilter{})
	_, e5 := c.Cluster(ctx, "c")
	_, e6 := c.Offering(ctx, "o")
	_, e7 := c.Kubeconfig(ctx, "c")
	_, e8 := c.Endpoints(ctx, Cluster{ID: "c", VMs: []VM{{}}}, Way{})
	_, e9 := c.Facts(ctx, Cluster{ID: "c"})
	_, e10 := c.Resize(ctx, "vm", "o", time.Now().Add(time.Minute))
	return []error{e1, e2, e3, e4, e5, e6, e7, e8, e9, e10}
}

// Whatever stands in CloudMonkey's file, it gives credentials or an error; the error never quotes the secret key.
func FuzzProfile(f *testing.F) {
	f.Add("[core]\nprofile = p\n[p]\nurl = https://h/client/api\napikey = k\nsecretkey = canary-secret\n")
	f.Add("profile = p\n[p\nsecretkey = canary-secret")
	f.Add("[p]\nverifycert = maybe\nsecretkey = canary-secret\n")
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Resolve(Sources{ConfigFile: path, Profile: "p", Env: func(string) (string, bool) { return "", false }})
		if err != nil && strings.Contains(err.Error(), "canary-secret") && !strings.Contains(strings.Join(sections(text), " "), "canary-secret") {
			t.Errorf("the secret key in an error: %v", err)
		}
		if errors.Is(err, rollout.ErrUnreachable) {
			t.Errorf("reading a file has nothing to do with the network: %v", err)
		}
	})
}

// sections are the names that an error may rightly list: whatever stands between brackets.
func sections(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, "[") {
			out = append(out, line)
		}
	}
	return out
}
