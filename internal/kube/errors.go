package kube

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// call names a request as RBAC does: verb, resource, namespace, object.
type call struct {
	verb, resource, namespace, name string
}

// String prints for example "get nodes/worker-1" or "patch leases/trueup in kube-system".
func (c call) String() string {
	s := c.verb + " " + c.resource
	if c.name != "" {
		s += "/" + c.name
	}
	if c.namespace != "" {
		s += " in " + c.namespace
	}
	return s
}

// classify turns a client's error into one of rollout's, with what was asked of which server.
// It goes by types and status codes, never by text.
func (c *Client) classify(ctx context.Context, what call, err error) error {
	if err == nil {
		return nil
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return c.classifyStatus(what, status, err)
	}
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w at %s: %w", what, rollout.ErrUnreachable, c.server, ctx.Err())
	case errors.As(err, &certificate):
		return fmt.Errorf("%s: %w: the certificate of %s can't be verified with the kubeconfig's certificate authority: %w",
			what, rollout.ErrDenied, c.server, certificate.Err)
	}
	if errors.Is(err, rollout.ErrDenied) { // by what leads to the API server
		return fmt.Errorf("%s: %w", what, err)
	}
	// Whatever is left came from the transport: there was no answer.
	return fmt.Errorf("%s: %w at %s: %w", what, rollout.ErrUnreachable, c.server, err)
}

func (c *Client) classifyStatus(what call, status apierrors.APIStatus, err error) error {
	code := int(status.Status().Code)
	switch {
	case code == http.StatusUnauthorized:
		return fmt.Errorf("%s: %w: %s does not accept the kubeconfig's credentials (expired, or revoked): %w",
			what, rollout.ErrDenied, c.server, err)
	case code == http.StatusForbidden:
		return fmt.Errorf("%s: %w: this account lacks the verb %q on %q (docs/rbac.md lists what trueup needs, `trueup rights rbac` grants it): %w",
			what, rollout.ErrDenied, what.verb, what.resource, err)
	case code == http.StatusNotFound:
		return fmt.Errorf("%s: %w: %w", what, rollout.ErrNotFound, err)
	case code == http.StatusConflict, isAnother(status):
		return fmt.Errorf("%s: %w: %w", what, rollout.ErrConflict, err)
	case code == http.StatusTooManyRequests, code == http.StatusRequestTimeout, code >= http.StatusInternalServerError:
		return fmt.Errorf("%s: %w at %s: %w", what, rollout.ErrUnreachable, c.server, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// isAnother reports whether a patch was refused because its uid is another object's: the API server
// checks this precondition as a change of an immutable field, not as a conflict.
func isAnother(status apierrors.APIStatus) bool {
	details := status.Status().Details
	if details == nil {
		return false
	}
	return slices.ContainsFunc(details.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}
