package store

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/cks-trueup/trueup/internal/server/notice"
)

// receiverURL is the environment variable that makes this test program a sender of notices, which is killed; writerPath names its store.
const receiverURL = "TRUEUP_STORE_TEST_RECEIVER"

// toldNotices is how many notices each sender posts, the same ones each time.
const toldNotices = 12

// send posts the notices, as a server does that finds the same drift again after its start, and sends until it is killed.
func send(path, url string) error {
	ctx := context.Background()
	s, err := Open(ctx, path, Options{})
	if err != nil {
		return err
	}
	hook, err := notice.NewWebhook(notice.WebhookOptions{Name: "ops", URL: func() (string, error) { return url, nil },
		Key: func() (string, error) { return "a-key-of-at-least-24-bytes", nil }})
	if err != nil {
		return err
	}
	sender, err := notice.New(notice.Options{Outbox: s, Routes: []notice.Route{{Channel: hook}}})
	if err != nil {
		return err
	}
	for i := range toldNotices {
		if err := sender.Post(ctx, notice.Notice{Kind: notice.Drift, ClusterID: fmt.Sprint("c", i), Cluster: "prod", About: "n1/guest"}); err != nil {
			return err
		}
	}
	sender.Run(ctx)
	return nil
}

// TestKilledSenderTellsAll kills a server again and again while it sends. In the end each notice has been told, and none twice but those that were
// under way at a kill: with the same id, by which a receiver knows them.
func TestKilledSenderTellsAll(t *testing.T) {
	type taken struct{ cluster, id string }
	requests := make(chan taken, 1000)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var n notice.Notice
		body, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(body, &n) != nil {
			return // the sender was killed before it had said all
		}
		requests <- taken{n.ClusterID, r.Header.Get("Webhook-Id")}
	}))
	defer server.Close()
	path := filepath.Join(t.TempDir(), "store.db")
	ids, times, kills := map[string]map[string]bool{}, 0, 0
	count := func(r taken) {
		times++
		if ids[r.cluster] == nil {
			ids[r.cluster] = map[string]bool{}
		}
		ids[r.cluster][r.id] = true
	}
	for ; len(ids) < toldNotices; kills++ {
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(os.Environ(), writerPath+"="+path, receiverURL+"="+server.URL)
		child.Stderr = os.Stderr
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		for seen := 0; seen <= kills%3 && len(ids) < toldNotices; seen++ {
			select {
			case r := <-requests:
				count(r)
			case <-time.After(20 * time.Second):
				t.Fatalf("%d of %d told after %d kills, and nothing comes", len(ids), toldNotices, kills)
			}
		}
		_ = child.Process.Kill()
		_ = child.Wait()        // it was killed
		for len(requests) > 0 { // sent after the last one that was counted, before the kill
			count(<-requests)
		}
	}
	for cluster, of := range ids {
		if len(of) != 1 {
			t.Errorf("the notice about %s was told with the ids %v, want one", cluster, of)
		}
	}
	if most := toldNotices + kills; times > most {
		t.Errorf("%d notices in %d requests with %d kills: at most one may be told twice at each", toldNotices, times, kills)
	}
}
