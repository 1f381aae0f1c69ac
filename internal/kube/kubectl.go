package kube

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// kubectlTransport carries requests by kubectl, so that everything above it is the same by every way.
type kubectlTransport struct{ run Kubectl }

// CloseIdleConnections has nothing to let go of: the connections are those of SSH.
func (kubectlTransport) CloseIdleConnections() {}

// request is one request as kubectl gets it: seven lines, then the body.
type request struct {
	method, path              string
	resource, namespace, name string // of an object, for a patch: kubectl patch takes no path
	kind, manager             string // of the patch
	body                      []byte
}

// The characters that a path with its query, and a name, may have. The other end refuses anything else too.
var (
	plainPath = regexp.MustCompile(`^/[A-Za-z0-9/._~%?&=:,+-]*$`)
	plainWord = regexp.MustCompile(`^[a-z0-9.][a-z0-9.-]*$`)
)

// patchKinds are kubectl's words for what a patch's content type says.
func patchKind(contentType string) string {
	switch types.PatchType(contentType) {
	case types.MergePatchType:
		return "merge"
	case types.StrategicMergePatchType:
		return "strategic"
	case types.JSONPatchType:
		return "json"
	}
	return ""
}

func newRequest(r *http.Request) (q request, err error) {
	q = request{method: r.Method, path: r.URL.RequestURI()}
	if r.Body != nil {
		if q.body, err = io.ReadAll(r.Body); err != nil {
			return q, err
		}
		_ = r.Body.Close()
	}
	if !plainPath.MatchString(q.path) {
		return q, fmt.Errorf("the path %q can't be handed to kubectl", q.path)
	}
	if q.method == http.MethodPatch {
		err = q.patch(r.URL, r.Header.Get("Content-Type"))
	}
	return q, err
}

// patch takes apart /api/v1[/namespaces/NS]/RESOURCE/NAME or /apis/GROUP/VERSION/….
func (q *request) patch(u *url.URL, contentType string) error {
	parts := strings.Split(strings.Trim(u.Path, "/"), "/")
	group := ""
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		group, parts = "."+parts[1], parts[3:]
	}
	if len(parts) == 4 && parts[0] == "namespaces" {
		q.namespace, parts = parts[1], parts[2:]
	}
	if len(parts) != 2 {
		return fmt.Errorf("%s is no object that kubectl can patch", u.Path)
	}
	q.resource, q.name, q.kind, q.manager = parts[0]+group, parts[1], patchKind(contentType), u.Query().Get("fieldManager")
	for _, word := range []string{q.resource, q.name, q.kind, q.manager} {
		if !plainWord.MatchString(word) {
			return fmt.Errorf("%q can't be handed to kubectl in a patch of %s", word, u.Path)
		}
	}
	if q.namespace != "" && !plainWord.MatchString(q.namespace) {
		return fmt.Errorf("namespace %q can't be handed to kubectl", q.namespace)
	}
	return nil
}

func (q request) encode() []byte {
	head := strings.Join([]string{q.method, q.path, q.resource, q.namespace, q.name, q.kind, q.manager}, "\n") + "\n"
	return append([]byte(head), q.body...)
}

// RoundTrip implements http.RoundTripper.
func (t kubectlTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	q, err := newRequest(r)
	if err != nil {
		return nil, err
	}
	out, err := t.run(r.Context(), q.encode())
	if err != nil {
		return nil, err
	}
	if r.URL.Query().Get("watch") != "" {
		return stream(r, out)
	}
	defer func() { _ = out.Close() }()
	body, err := io.ReadAll(out)
	if err != nil {
		return refused(r, err)
	}
	return answer(r, http.StatusOK, io.NopCloser(bytes.NewReader(body))), nil
}

// stream is a watch: it has begun once its first event, or its refusal, is there.
func stream(r *http.Request, out io.ReadCloser) (*http.Response, error) {
	buffered := bufio.NewReader(out)
	if _, err := buffered.Peek(1); err != nil && !errors.Is(err, io.EOF) {
		_ = out.Close()
		return refused(r, err)
	}
	return answer(r, http.StatusOK, struct {
		io.Reader
		io.Closer
	}{buffered, out}), nil
}

func answer(r *http.Request, code int, body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r, Body: body, ContentLength: -1,
		Header: http.Header{"Content-Type": {"application/json"}}}
}

// serverSaid matches how kubectl prints a Status of the API server: the word in parentheses is its reason, which is a code of the API
// (metav1.StatusReason), and the text after it its message.
var serverSaid = regexp.MustCompile(`(?s)^Error from server \((\w+)\): (.*)$`)

// serverRefused matches how kubectl prints a reason that it words itself, metav1.StatusReasonInvalid; and invalidField matches the fields that it
// lists then, which are the Status' causes.
var (
	serverRefused = regexp.MustCompile(`(?s)^The \S+ "[^"]*" is invalid: (.*)$`)
	invalidField  = regexp.MustCompile(`(?m)^(?:\* )?([A-Za-z][A-Za-z0-9.\[\]]*): `)
)

// notLoggedIn matches how kubectl words metav1.StatusReasonUnauthorized, by itself as well (k8s.io/kubectl/pkg/cmd/util, StandardErrorMessage).
var notLoggedIn = regexp.MustCompile(`(?s)^error: You must be logged in to the server \((.*)\)$`)

// What the API server says of an eviction that disruption budgets refuse (k8s.io/kubernetes/pkg/registry/core/pod/storage/eviction.go). The budget's name
// is in the Status' causes, which kubectl does not print; and a server that is overloaded has the same reason as the first one.
const (
	heldByBudget  = "Cannot evict pod as it would violate the pod's disruption budget."
	heldByBudgets = "Error from server: This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
)

// reasonOf takes apart what kubectl prints of a Status. Without a reason it did not come from the API server.
func reasonOf(text string) (reason metav1.StatusReason, message string, causes []metav1.StatusCause) {
	if said := serverSaid.FindStringSubmatch(text); said != nil {
		if said[2] == heldByBudget {
			causes = append(causes, metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: said[2]})
		}
		return metav1.StatusReason(said[1]), said[2], causes
	}
	if said := notLoggedIn.FindStringSubmatch(text); said != nil {
		return metav1.StatusReasonUnauthorized, said[1], nil
	}
	said := serverRefused.FindStringSubmatch(text)
	if said == nil {
		return "", "", nil
	}
	for _, field := range invalidField.FindAllStringSubmatch(strings.TrimSpace(said[1]), -1) {
		causes = append(causes, metav1.StatusCause{Field: field[1]})
	}
	return metav1.StatusReasonInvalid, text, causes
}

// refused is the answer to a request that kubectl did not carry out. What did not come from the API server is no answer at all: nobody knows then what became
// of a write.
func refused(r *http.Request, err error) (*http.Response, error) {
	complaint := (*Complaint)(nil)
	if !errors.As(err, &complaint) {
		return nil, err
	}
	reason, message, causes := reasonOf(strings.TrimSpace(complaint.Text))
	code, known := codes()[reason]
	switch {
	case strings.TrimSpace(complaint.Text) == heldByBudgets:
		code, message = http.StatusInternalServerError, strings.TrimPrefix(heldByBudgets, "Error from server: ")
	case !known:
		return nil, err
	}
	if !strings.HasPrefix(r.URL.Path, "/api") { // such as /readyz, whose answer is no Status but its text, which kubectl has quoted
		return answer(r, code, io.NopCloser(strings.NewReader(message))), nil
	}
	status := metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
		Details: &metav1.StatusDetails{Causes: causes}}
	body, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	return answer(r, code, io.NopCloser(bytes.NewReader(body))), nil
}

// codes are the HTTP status codes that belong to the API's reasons (k8s.io/apimachinery/pkg/apis/meta/v1, StatusReason).
func codes() map[metav1.StatusReason]int {
	return map[metav1.StatusReason]int{
		metav1.StatusReasonUnauthorized: 401, metav1.StatusReasonForbidden: 403, metav1.StatusReasonNotFound: 404, metav1.StatusReasonAlreadyExists: 409,
		metav1.StatusReasonConflict: 409, metav1.StatusReasonGone: 410, metav1.StatusReasonInvalid: 422, metav1.StatusReasonServerTimeout: 500,
		metav1.StatusReasonStoreReadError: 500, metav1.StatusReasonTimeout: 504, metav1.StatusReasonTooManyRequests: 429, metav1.StatusReasonBadRequest: 400,
		metav1.StatusReasonMethodNotAllowed: 405, metav1.StatusReasonNotAcceptable: 406, metav1.StatusReasonRequestEntityTooLarge: 413,
		metav1.StatusReasonUnsupportedMediaType: 415, metav1.StatusReasonInternalError: 500, metav1.StatusReasonExpired: 410, metav1.StatusReasonServiceUnavailable: 503,
	}
}
