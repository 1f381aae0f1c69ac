// Package standin is one model of how Apache CloudStack behaves towards a client that changes the size of the nodes of a
// CloudStack Kubernetes Service (CKS) cluster. It answers over HTTP (Handler), in memory through the same code
// (Transport), and to Go callers directly (Model.Call).
//
// The package keeps one invariant: an instance shows a new offering only after the hypervisor has done everything that
// the offering asks for. What happens in between (memory attached, CPUs refused, a restart of the management server) is
// left visible, as on a real system.
//
// Everything is guarded by one mutex, time comes from a Clock, ids from a seeded source, and the hypervisor is behind an
// interface. With a virtual clock and an in-memory hypervisor a run is therefore repeatable.
//
// The behaviour was read in the source of CloudStack 4.22/4.23, and not compared with a running CloudStack.
package standin
