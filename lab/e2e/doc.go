// Package e2e tests the real trueup program on a lab: real Kubernetes in QEMU guests, behind a CloudStack that is played.
//
// Invariant: what trueup says is never its own proof. Each layer is read from its own source: QEMU over QMP, the stand-in's
// records, sysfs and the journal in the guest, the API server and its audit log. Nothing here imports trueup's engine or ports.
package e2e
