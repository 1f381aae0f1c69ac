// Package cloudstack is the way to CloudStack: the rollout's port, the discovery of clusters, offerings and SSH endpoints, and
// the credentials for all of it.
//
// The official SDK does the signing and knows the shapes; one RoundTripper per call gives it what it lacks: a context, typed
// errors, retry of what is safe, a rate limit, CloudStack's own clock.
//
// The package's invariants: a request that changes something is sent at most once per call; a read answers what CloudStack
// said or an error, never a guess; and no error or log line holds an API key, a secret key or a signature.
package cloudstack
