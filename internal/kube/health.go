package kube

import (
	"context"
	"errors"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ControlPlane asks the API server's /readyz, whose checks include its etcd. It returns "" if all pass, else the checks that do not. The
// path is open to every authenticated user by the cluster's default roles.
func (c *Client) ControlPlane(ctx context.Context) (string, error) {
	body, err := c.core.RESTClient().Get().AbsPath("/readyz").Param("verbose", "").DoRaw(ctx)
	if err == nil {
		return "", nil
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Code == http.StatusInternalServerError {
		return notReady(string(body)), nil
	}
	return "", c.classify(ctx, call{verb: "get", resource: "/readyz"}, err)
}

// notReady picks the failed checks out of the verbose answer: lines that begin with [-].
func notReady(body string) string {
	var out []string
	for line := range strings.Lines(body) {
		if name, failed := strings.CutPrefix(strings.TrimSpace(line), "[-]"); failed {
			out = append(out, name)
		}
	}
	if out == nil {
		return "not ready, without saying why"
	}
	return strings.Join(out, ", ")
}
