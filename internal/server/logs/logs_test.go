package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"k8s.io/klog/v2"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

func TestFormats(t *testing.T) {
	berlin := time.FixedZone("", 3600)
	for format, want := range map[string]string{
		"text": `level=INFO msg=hello took=1.5 since=2026-12-01T12:00:00.000Z error="no answer"` + "\n",
		"json": `"level":"INFO","msg":"hello","took":1.5,"since":"2026-12-01T12:00:00Z","error":"no answer"}` + "\n",
	} {
		t.Run(format, func(t *testing.T) {
			var b bytes.Buffer
			log, err := New(&b, format, "info")
			if err != nil {
				t.Fatal(err)
			}
			log.Debug("not shown")
			log.Info("hello", KeyTook, 1500*time.Millisecond, "since", time.Date(2026, 12, 1, 13, 0, 0, 0, berlin), KeyError, errors.New("no answer"))
			if !strings.HasSuffix(b.String(), want) || strings.Count(b.String(), "\n") != 1 {
				t.Errorf("got %q, want one line that ends with %q", b.String(), want)
			}
		})
	}
}

func TestLevels(t *testing.T) {
	for level, lines := range map[string]int{"debug": 4, "info": 3, "warn": 2, "error": 1} {
		var b bytes.Buffer
		log, err := New(&b, "json", level)
		if err != nil {
			t.Fatal(err)
		}
		log.Debug("d")
		log.Info("i")
		log.Warn("w")
		log.Error("e")
		if got := strings.Count(b.String(), "\n"); got != lines {
			t.Errorf("%s: %d lines, want %d", level, got, lines)
		}
	}
	for _, bad := range [][2]string{{"xml", "info"}, {"text", "loud"}, {"text", ""}, {"", "info"}} {
		if _, err := New(nil, bad[0], bad[1]); err == nil {
			t.Errorf("format %q with level %q was taken", bad[0], bad[1])
		}
	}
}

func TestRollout(t *testing.T) {
	target := rollout.Target{Name: "prod-node-1", InstanceID: "vm-1", Role: rollout.RoleWorker}
	wait := rollout.Event{Target: target, Move: rollout.MoveResize, Check: capacity.Check{Layer: capacity.LayerCloudStack, What: "offering", Expected: "large", Observed: "small"}}
	act := rollout.Event{Target: target, Move: rollout.MoveResize, Action: rollout.ActionResize, Text: "scale it"}
	fault := rollout.Event{Target: target, Move: rollout.MoveOnline, Fault: &rollout.Fault{Layer: capacity.LayerGuest, Node: "prod-node-1", Summary: "blocks are offline",
		Expected: "16", Observed: "8", Recover: "trueup resume prod"}}
	var b bytes.Buffer
	log, err := New(&b, "json", "debug")
	if err != nil {
		t.Fatal(err)
	}
	r := NewRollout(log, "prod", "c1", "run-1")
	for _, e := range []rollout.Event{act, act, wait, wait, wait, {Target: target, Move: rollout.MoveResize}, {Target: target, Done: true}, fault} {
		r.Watch(e)
	}
	common := map[string]any{"cluster": "prod", "cluster_id": "c1", "run": "run-1", "node": "prod-node-1", "role": "worker"}
	want := []map[string]any{
		{"level": "INFO", "msg": "action", "move": "resize", "action": "resize", "what": "scale it"},
		{"level": "DEBUG", "msg": "waiting", "move": "resize", "layer": "cloudstack", "what": "offering", "expected": "large", "observed": "small"},
		{"level": "INFO", "msg": "node done", "move": ""},
		{"level": "ERROR", "msg": "node failed", "move": "online", "layer": "guest", "what": "blocks are offline", "expected": "16", "observed": "8", "next": "trueup resume prod",
			"error": "prod-node-1: guest: blocks are offline: expected 16, observed 8"},
	}
	var got []map[string]any
	for line := range strings.Lines(b.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		delete(m, "time")
		got = append(got, m)
	}
	for _, w := range want {
		maps.Copy(w, common)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestClientGoSpeaksInOurForm(t *testing.T) {
	var b bytes.Buffer
	log, err := New(&b, "json", "info")
	if err != nil {
		t.Fatal(err)
	}
	Adopt(log)
	defer klog.ClearLogger()
	klog.ErrorS(errors.New("no answer"), "Watch failed", "type", "Node")
	klog.Flush()
	var line map[string]any
	if err := json.Unmarshal(b.Bytes(), &line); err != nil {
		t.Fatalf("%q: %v", b.String(), err)
	}
	if line["component"] != "client-go" || line["level"] != "ERROR" || line["msg"] != "Watch failed" || line["type"] != "Node" {
		t.Errorf("got %v", line)
	}
}

func TestEveryKeyIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), "logs.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	keys := 0
	ast.Inspect(file, func(n ast.Node) bool {
		if v, is := n.(*ast.ValueSpec); is && strings.HasPrefix(v.Names[0].Name, "Key") {
			keys++
			key, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil || !strings.Contains(string(page), "| `"+key+"` |") {
				t.Errorf("docs/observability.md does not list the key %q (%v)", key, err)
			}
		}
		return true
	})
	if keys < 10 {
		t.Errorf("only %d keys found", keys)
	}
}
