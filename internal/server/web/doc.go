// Package web is the HTTP side of `trueup serve`: the API, the page, and who may use them.
//
// Whoever may operate it can resize every node of every cluster. Its invariants: no act without an authenticated operator, a request that is
// not cross-site, and a record in the audit that was kept before; a reader causes no work outside this process; and what is put out holds no
// secret and no markup that came from outside. docs/threat-model.md has the reasons, and the test for each.
package web
