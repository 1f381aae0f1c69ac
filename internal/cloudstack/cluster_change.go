package cloudstack

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// requestTime is for how long the signature of a request is good that changes a cluster as a whole, by CloudStack's clock. Such a request is
// never sent again by itself.
const requestTime = time.Minute

// ScaleCluster starts scaleKubernetesCluster with an offering (its id) for each role, and returns the job's id without waiting for the job. CloudStack
// changes the machines of the role and then the cluster's record; in a Created cluster the record alone. Errors as of Resize.
func (c *Client) ScaleCluster(ctx context.Context, clusterID string, offerings map[rollout.Role]string) (string, error) {
	params := map[string]string{"id": clusterID}
	for i, role := range slices.Sorted(maps.Keys(offerings)) {
		params[fmt.Sprintf("nodeofferings[%d].node", i)] = string(role)
		params[fmt.Sprintf("nodeofferings[%d].offering", i)] = offerings[role]
	}
	return c.startJob(ctx, "scaleKubernetesCluster", params)
}

// StartCluster starts startKubernetesCluster and returns the job's id without waiting for the job. Errors as of Resize.
func (c *Client) StartCluster(ctx context.Context, clusterID string) (string, error) {
	return c.startJob(ctx, "startKubernetesCluster", map[string]string{"id": clusterID})
}

// startJob sends the request once, good for requestTime by CloudStack's own clock, which any answer of it tells.
func (c *Client) startJob(ctx context.Context, command string, params map[string]string) (string, error) {
	var capabilities struct{}
	served, err := c.get(ctx, "listCapabilities", nil, &capabilities)
	if err != nil {
		return "", err
	}
	return c.start(ctx, command, served.Add(requestTime), params)
}
