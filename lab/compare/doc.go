// Package compare measures trueup beside what people do today: the same two workers of the same lab taken from the same small offering to the same
// bigger one, by trueup, by a runbook and by the loop of CloudStack's draft reconciler.
//
// Invariant: a contender is a program that runs outside and is given the same addresses, keys and rights as the others. What is measured comes from
// the machines' own records (CloudStack's job, the guests' kernels and systemd, the API server), from relays that every byte passes, and from the
// operating system's account of the process: never from what the contender says.
package compare
