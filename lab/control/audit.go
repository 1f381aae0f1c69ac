package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// auditPolicy keeps what people and their tools ask of the API server: one entry a request, watches included, when it has been answered. Kubernetes' own
// parts ask all the time.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: None
  userGroups: ["system:nodes", "system:serviceaccounts"]
- level: None
  users: ["system:kube-scheduler", "system:kube-controller-manager", "system:apiserver"]
- level: Metadata
`

// Write is one request to the API server that would change something, whether or not it was allowed.
type Write = Request

// Request is one request to the API server, whether or not it was allowed.
type Request struct {
	At                    time.Time
	User, Agent           string // who the certificate says, and what program the request says
	Verb                  string // get, list, watch, create, update, patch, delete, deletecollection
	Resource, Subresource string
	Namespace, Name       string
	Code                  int // HTTP status of the answer
}

// Writes returns the requests since the start that would change something. See Requests.
func (p *Plane) Writes() ([]Write, error) {
	all, err := p.Requests()
	return slices.DeleteFunc(all, Request.looks), err
}

// looks reports whether the request only asks: a review of one's own rights is created, and kept nowhere.
func (r Request) looks() bool {
	return r.Verb == "get" || r.Verb == "list" || r.Verb == "watch" || r.Resource == "selfsubjectaccessreviews"
}

// Requests returns what was asked since the start, oldest answer first, from the API server's own audit log. Requests of
// kubelets, controllers, the scheduler and the API server itself are left out.
func (p *Plane) Requests() ([]Request, error) {
	file, err := os.Open(p.file(auditLog))
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	var all []Request
	for entries := json.NewDecoder(file); ; {
		var e auditEntry
		switch err := entries.Decode(&e); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", file.Name(), err)
		}
		all = append(all, e.request())
	}
}

const (
	auditLog        = "audit.log"
	auditPolicyFile = "audit-policy.yaml"
)

// auditEntry is what is used of audit.k8s.io/v1 Event.
type auditEntry struct {
	Verb      string    `json:"verb"`
	UserAgent string    `json:"userAgent"`
	At        time.Time `json:"requestReceivedTimestamp"`
	User      struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

func (e auditEntry) request() Request {
	return Request{
		At: e.At, User: e.User.Username, Agent: e.UserAgent, Verb: e.Verb, Resource: e.ObjectRef.Resource, Subresource: e.ObjectRef.Subresource,
		Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name, Code: e.ResponseStatus.Code,
	}
}
