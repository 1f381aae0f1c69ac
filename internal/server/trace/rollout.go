package trace

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	api "go.opentelemetry.io/otel/trace"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// Rollout is the open spans of one rollout. It follows the runner's events, which come one after the other. Methods of a nil *Rollout do
// nothing.
type Rollout struct {
	tracer api.Tracer

	ctx   context.Context //nolint:containedctx // it carries the span to its children, no deadline
	whole api.Span
	last  time.Time // of the latest event

	instance string          // whose turn it is
	nodeCtx  context.Context //nolint:containedctx // as above
	node     api.Span
	name     rollout.Move
	move     api.Span
}

// Watch follows one event.
func (r *Rollout) Watch(e rollout.Event) {
	if r == nil {
		return
	}
	r.last = e.At
	if e.Target.InstanceID != r.instance || r.node == nil {
		r.endNode()
		r.beginNode(e)
	}
	if e.Move != "" && (e.Move != r.name || r.move == nil) && !e.Done && e.Fault == nil {
		r.endMove()
		r.beginMove(e)
	}
	switch {
	case e.Fault != nil:
		attributes := api.WithAttributes(attribute.String("trueup.layer", string(e.Fault.Layer)), attribute.String("trueup.expected", e.Fault.Expected),
			attribute.String("trueup.observed", e.Fault.Observed))
		for _, span := range []api.Span{r.move, r.node} {
			if span != nil {
				span.AddEvent("fault", api.WithTimestamp(e.At), attributes)
				span.SetStatus(codes.Error, e.Fault.Error())
			}
		}
		r.endNode()
	case e.Done:
		r.endNode()
	case e.Action != "" && r.move != nil:
		r.move.AddEvent(string(e.Action), api.WithTimestamp(e.At), api.WithAttributes(attribute.String("trueup.what", e.Text)))
	}
}

// End ends all spans with the rollout's outcome.
func (r *Rollout) End(report rollout.Report, err error, at time.Time) {
	if r == nil {
		return
	}
	r.last = at
	r.endNode()
	for _, n := range report.Nodes {
		r.whole.AddEvent("node", api.WithTimestamp(at), api.WithAttributes(attribute.String("k8s.node.name", n.Target.Name), attribute.String("trueup.outcome", string(n.Outcome))))
	}
	if err != nil {
		r.whole.SetStatus(codes.Error, err.Error())
	}
	r.whole.End(api.WithTimestamp(at))
}

func (r *Rollout) beginNode(e rollout.Event) {
	r.instance = e.Target.InstanceID
	attributes := api.WithAttributes(attribute.String("k8s.node.name", e.Target.Name), attribute.String("trueup.role", string(e.Target.Role)),
		attribute.String("trueup.instance.id", e.Target.InstanceID))
	r.nodeCtx, r.node = r.tracer.Start(r.ctx, "node", api.WithTimestamp(e.At), attributes) //nolint:spancheck // endNode ends it
}

func (r *Rollout) beginMove(e rollout.Event) {
	r.name = e.Move
	attributes := api.WithAttributes(attribute.String("k8s.node.name", e.Target.Name))
	_, r.move = r.tracer.Start(r.nodeCtx, string(e.Move), api.WithTimestamp(e.At), attributes) //nolint:spancheck // endMove ends it
}

func (r *Rollout) endMove() {
	if r.move != nil {
		r.move.End(api.WithTimestamp(r.last))
		r.move = nil
	}
}

func (r *Rollout) endNode() {
	r.endMove()
	if r.node != nil {
		r.node.End(api.WithTimestamp(r.last))
		r.node = nil
	}
}
