package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Missing asks the API server which of the rights that the client needs, and of further ones, this user lacks, all at once. Every user may ask about itself (ClusterRole system:basic-user).
func (c *Client) Missing(ctx context.Context, further ...Right) ([]Right, error) {
	rights := slices.Concat(c.rights, further)
	allowed := make([]bool, len(rights))
	group, ctx := errgroup.WithContext(ctx)
	for i, r := range rights {
		group.Go(func() (err error) {
			allowed[i], err = c.allowed(ctx, r)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var missing []Right
	for i, r := range rights {
		if !allowed[i] {
			missing = append(missing, r)
		}
	}
	return missing, nil
}

func (c *Client) allowed(ctx context.Context, r Right) (bool, error) {
	what := call{verb: "create", resource: "selfsubjectaccessreviews"}
	asked := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: r.attributes()}}
	var answer *authorizationv1.SelfSubjectAccessReview
	err := c.read(ctx, what, func(ctx context.Context) (err error) { // it is created, and kept nowhere
		answer, err = c.reviews.Create(ctx, asked, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return false, fmt.Errorf("%s: %w", r, err)
	}
	return answer.Status.Allowed, nil
}

// attributes are the right as reviews name it.
func (r Right) attributes() *authorizationv1.ResourceAttributes {
	resource, subresource, _ := strings.Cut(r.Resource, "/")
	return &authorizationv1.ResourceAttributes{Verb: r.Verb, Group: r.Group, Resource: resource, Subresource: subresource, Namespace: r.Namespace, Name: r.Name}
}
