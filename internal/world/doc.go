// Package world simulates a CKS cluster around the engine: guests, kubelets, Nodes, the Lease and other people, around the stand-in
// for CloudStack, on a clock that may be virtual. The engine runs in it unchanged, behind the ports of package rollout; the CloudStack port is
// the real client, whose requests go to the stand-in without a network.
//
// The package's invariant: every call of the engine to the outside goes through one interceptor, which numbers its boundaries, may
// upset it or kill the program there; and every change of the world, whoever made it, is held against the promises at once, not at
// the end. What was broken is kept in Broken.
//
// It is for tests and for cmd/tour. What it does not prove: that the real systems behave as this model does.
package world
