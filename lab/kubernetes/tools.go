//go:build tools

// Package kubernetes pins the Kubernetes and etcd programs that the lab runs.
// Nothing imports it: the imports below only make `go mod tidy` keep what
// the build script compiles, so that one go.mod names one version of it all.
package kubernetes

import (
	_ "go.etcd.io/etcd/etcdctl/v3"
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
	_ "k8s.io/kubernetes/cmd/kubectl"
	_ "k8s.io/kubernetes/cmd/kubelet"
)
