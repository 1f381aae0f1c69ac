// Package trace sends rollouts as OpenTelemetry traces, when the standard variables ask for it: one span for the rollout, one for each
// node's turn, one for each move.
//
// Without them there is no tracer, and everything here does nothing at no cost.
package trace

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"
)

// Tracer sends traces. Methods of a nil *Tracer do nothing.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   api.Tracer
}

// New returns a tracer if the variables of the OpenTelemetry specification ask for one, else nil: an endpoint for OTLP, or the exporter
// otlp by name. The exporter reads the rest of them (headers, certificate, time-out, sampler, resource) itself. What goes wrong with
// sending is logged, and never holds a rollout up. It is an error to ask for what there is not: another exporter or protocol.
func New(ctx context.Context, env func(string) (string, bool), version string, log *slog.Logger) (*Tracer, error) {
	asked, err := asks(env)
	if err != nil || !asked {
		return nil, err
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "trueup"), attribute.String("service.version", version)),
		resource.WithFromEnv()) // last: what the operator says stands
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	// The library has one place for such errors in a process; without this it writes them past our log.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces are not sent", "error", err) }))
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about))
	return &Tracer{provider: provider, tracer: provider.Tracer("github.com/cks-trueup/trueup")}, nil
}

// asks reads the variables that decide whether anything is sent.
func asks(env func(string) (string, bool)) (bool, error) {
	get := func(names ...string) string {
		for _, name := range names {
			if value, _ := env(name); value != "" {
				return value
			}
		}
		return ""
	}
	exporter := get("OTEL_TRACES_EXPORTER")
	endpoint := get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
	switch {
	case get("OTEL_SDK_DISABLED") == "true", exporter == "none", exporter == "" && endpoint == "":
		return false, nil
	case exporter != "" && exporter != "otlp":
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER is %q: trueup has otlp and none", exporter)
	}
	if protocol := get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"); protocol != "" && protocol != "http/protobuf" {
		return false, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q: trueup speaks http/protobuf", protocol)
	}
	return true, nil
}

// Close sends what is left, within ctx.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// About is what a rollout's span says of it.
type About struct {
	ClusterID, Cluster string
	Run                string
	// Command is what was called: reconcile, resume. Continues is the run that this one goes on with, if any.
	Command, Continues string
	At                 time.Time
}

// Rollout begins the span of a rollout.
func (t *Tracer) Rollout(a About) *Rollout {
	if t == nil {
		return nil
	}
	attributes := []attribute.KeyValue{attribute.String("k8s.cluster.name", a.Cluster), attribute.String("trueup.cluster.id", a.ClusterID),
		attribute.String("trueup.run", a.Run), attribute.String("trueup.command", a.Command)}
	if a.Continues != "" {
		attributes = append(attributes, attribute.String("trueup.continues", a.Continues))
	}
	r := &Rollout{tracer: t.tracer, last: a.At}
	r.ctx, r.whole = t.tracer.Start(context.Background(), "rollout", api.WithTimestamp(a.At), api.WithAttributes(attributes...)) //nolint:spancheck // End ends it
	return r
}
