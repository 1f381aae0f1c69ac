package standin

import (
	"errors"
	"fmt"
)

// ErrConnectionCut says that the client saw its connection end without an answer. Whether there was an effect depends on
// the fault that caused it.
var ErrConnectionCut = errors.New("connection cut without an answer")

// The error codes of CloudStack's API; each is also the HTTP status of its answer.
const (
	CodeUnauthorized         = 401
	CodeMethodNotAllowed     = 405
	CodeRateLimit            = 429
	CodeMalformedParameter   = 430
	CodeParameter            = 431
	CodeUnsupportedAction    = 432
	CodeInternal             = 530
	CodeAccount              = 531
	CodeInsufficientCapacity = 533
	CodeUnavailable          = 534
)

// The numbers that CloudStack gives to a few exceptions beside the error code.
const (
	csInvalidParameter = 4350
	csServerAPI        = 9999
)

// APIError is an error answer of the API, or the result of a failed job.
type APIError struct {
	// Code is the HTTP status and `errorcode`.
	Code int
	// CSCode is `cserrorcode`; 0 leaves it out.
	CSCode int
	// Text is `errortext`.
	Text string
}

// Error implements error.
func (e *APIError) Error() string { return fmt.Sprintf("CloudStack error %d: %s", e.Code, e.Text) }

// body is the JSON of the error.
func (e *APIError) body() map[string]any {
	b := map[string]any{"uuidList": []string{}, "errorcode": e.Code, "errortext": e.Text}
	if e.CSCode != 0 {
		b["cserrorcode"] = e.CSCode
	}
	return b
}

func apiErrorf(code int, format string, args ...any) *APIError {
	cs := csServerAPI
	if code == CodeParameter || code == CodeMalformedParameter {
		cs = csInvalidParameter
	}
	return &APIError{Code: code, CSCode: cs, Text: fmt.Sprintf(format, args...)}
}

// refusedf is a refusal inside a job. CloudStack reports nearly all of them as internal errors.
func refusedf(format string, args ...any) *APIError { return apiErrorf(CodeInternal, format, args...) }

func unknownID(cmd, param, value string) *APIError {
	return apiErrorf(CodeParameter, "Unable to execute API command %s due to invalid value. Invalid parameter %s value=%s "+
		"due to incorrect long value format, or entity does not exist or due to incorrect parameter annotation for the field in api cmd class.",
		cmd, param, value)
}

func errUnauthorized() *APIError {
	return &APIError{Code: CodeUnauthorized, Text: "unable to verify user credentials and/or request signature"}
}
