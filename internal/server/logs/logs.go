// Package logs makes a server's log: text for people or JSON for machines, with the same stable keys. No line holds a secret.
package logs

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// The keys of a line, beside slog's own time, level and msg. They are documented in docs/observability.md and don't change.
const (
	KeyEndpoint  = "endpoint"   // the CloudStack endpoint's name in the configuration
	KeyCluster   = "cluster"    // name
	KeyClusterID = "cluster_id" // id in CloudStack
	KeyNode      = "node"       // name of the Node
	KeyRole      = "role"       // control, worker, etcd
	KeyRun       = "run"        // id of the rollout
	KeyActor     = "actor"      // who began it
	KeyMove      = "move"       // claim, resize, online, restart, verify, release
	KeyAction    = "action"     // what is done in it
	KeyWhat      = "what"       // in words
	KeyView      = "view"       // record, instance, guest, node
	KeyLayer     = "layer"      // where a check failed
	KeyExpected  = "expected"
	KeyObserved  = "observed"
	KeyNext      = "next"    // the command for a person
	KeyResult    = "result"  // how something ended, in one word
	KeyTook      = "took"    // seconds
	KeyChannel   = "channel" // for notices
	KeyError     = "error"
	KeyComponent = "component" // a library that speaks for itself
)

// New returns a log in the format text or json, from the level debug, info, warn or error on. Times are in UTC, durations in seconds.
func New(w io.Writer, format, level string) (*slog.Logger, error) {
	var from slog.Level
	switch level {
	case "debug", "info", "warn", "error":
		_ = from.UnmarshalText([]byte(level)) // it knows these four
	default:
		return nil, fmt.Errorf("log level %q: expected debug, info, warn or error", level)
	}
	options := &slog.HandlerOptions{Level: from, ReplaceAttr: plain}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, fmt.Errorf("log format %q: expected text or json", format)
}

// Adopt makes the Kubernetes client write into the log, which else writes lines of its own form to standard error. That is one setting for the
// whole process: it belongs into a server's start.
func Adopt(log *slog.Logger) { klog.SetSlogLogger(log.With(KeyComponent, "client-go")) }

// plain writes values in one way, whatever the format and the machine's time zone.
func plain(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindTime:
		a.Value = slog.TimeValue(a.Value.Time().UTC())
	case slog.KindDuration:
		a.Value = slog.Float64Value(a.Value.Duration().Round(time.Millisecond).Seconds())
	}
	return a
}

// Rollout writes a rollout's events: what is done at info, waits at debug, faults at error.
type Rollout struct {
	log *slog.Logger

	mu   sync.Mutex
	last string
}

// NewRollout returns the writer for one rollout.
func NewRollout(log *slog.Logger, cluster, clusterID, run string) *Rollout {
	return &Rollout{log: log.With(KeyCluster, cluster, KeyClusterID, clusterID, KeyRun, run)}
}

// Watch writes one event: a wait once, not at each look, and so an action that is tried again at once.
func (r *Rollout) Watch(e rollout.Event) {
	key := fmt.Sprint(e.Target.InstanceID, e.Move, e.Action, e.Check.What, e.Done, e.Fault != nil)
	r.mu.Lock()
	again := r.last == key
	r.last = key
	r.mu.Unlock()
	if again {
		return
	}
	level, text, attrs := line(e)
	if text != "" {
		attrs = append([]slog.Attr{slog.String(KeyNode, e.Target.Name), slog.String(KeyRole, string(e.Target.Role)), slog.String(KeyMove, string(e.Move))}, attrs...)
		r.log.LogAttrs(context.Background(), level, text, attrs...)
	}
}

func line(e rollout.Event) (slog.Level, string, []slog.Attr) {
	switch {
	case e.Fault != nil:
		return slog.LevelError, "node failed", []slog.Attr{slog.String(KeyLayer, string(e.Fault.Layer)), slog.String(KeyWhat, e.Fault.Summary),
			slog.String(KeyExpected, e.Fault.Expected), slog.String(KeyObserved, e.Fault.Observed), slog.String(KeyNext, e.Fault.Recover), slog.String(KeyError, e.Fault.Error())}
	case e.Done:
		return slog.LevelInfo, "node done", nil
	case e.Action != "":
		return slog.LevelInfo, "action", []slog.Attr{slog.String(KeyAction, string(e.Action)), slog.String(KeyWhat, e.Text)}
	case e.Check.What != "":
		return slog.LevelDebug, "waiting", []slog.Attr{slog.String(KeyLayer, string(e.Check.Layer)), slog.String(KeyWhat, e.Check.What),
			slog.String(KeyExpected, e.Check.Expected), slog.String(KeyObserved, e.Check.Observed)}
	}
	return 0, "", nil
}
