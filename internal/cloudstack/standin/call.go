package standin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Request is one call as the model saw it.
type Request struct {
	Time    time.Time
	Method  string // empty for Model.Call
	Command string
	Account string // empty for an unknown key
	// Params are the parameters without key, signature and expiry.
	Params map[string]string
	// Mutating says that the command changes something, whether or not the call succeeded.
	Mutating bool
	// Status is the HTTP status of the answer; 0 when the connection was cut.
	Status int
}

// Requests returns all calls so far, also those that were refused.
func (m *Model) Requests() []Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requests)
}

// ForgetRequests empties the record of calls.
func (m *Model) ForgetRequests() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests = nil
}

// exchange is one call on its way through the model.
type exchange struct {
	method, command string
	raw, params     map[string]string
	signed          bool // came over HTTP and must prove who it is
	account         *Account
}

func (x *exchange) accountName() string {
	if x.account == nil {
		return ""
	}
	return x.account.Name
}

// Call makes one API call as the account, without a signature, and decodes what the envelope holds into out (unless nil).
// An error answer is an *APIError; a connection that a fault cut is ErrConnectionCut.
func (m *Model) Call(ctx context.Context, account, command string, params map[string]string, out any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	x := &exchange{command: command, raw: params, params: fold(params)}
	a := m.serve(x.as(m, account))
	if a.cut {
		return ErrConnectionCut
	}
	if a.status != http.StatusOK {
		return decodeError(a)
	}
	return decodeInner(a.body, out)
}

func (x *exchange) as(m *Model, account string) *exchange {
	m.mu.Lock()
	defer m.mu.Unlock()
	x.account = m.account(account)
	return x
}

func decodeInner(body []byte, out any) error {
	if out == nil {
		return nil
	}
	var envelope map[string]json.RawMessage
	if err := json.Unmarshal(body, &envelope); err != nil {
		return err
	}
	for _, inner := range envelope {
		return json.Unmarshal(inner, out)
	}
	return errors.New("the answer has no envelope")
}

func decodeError(a answer) error {
	var e struct {
		Code   int    `json:"errorcode"`
		CSCode int    `json:"cserrorcode"`
		Text   string `json:"errortext"`
	}
	if err := decodeInner(a.body, &e); err != nil {
		return &APIError{Code: a.status, Text: http.StatusText(a.status)}
	}
	return &APIError{Code: e.Code, CSCode: e.CSCode, Text: e.Text}
}

// serve takes one call through faults, identity and permission to its command, and records it.
func (m *Model) serve(x *exchange) answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	if x.signed {
		x.account = m.accountByKey(x.params["apikey"])
	}
	at := m.placeOfCall(x)
	a, ok := m.disturb(x, at)
	if !ok {
		a = m.perform(x, at)
	}
	if _, lost := takeFault[LoseReply](m, at); lost {
		a.cut = true
	}
	m.record(x, a)
	return a
}

// disturb returns the answer of what stands before CloudStack, if anything does.
func (m *Model) disturb(x *exchange, at place) (answer, bool) {
	if m.now().Before(m.downUntil) {
		return answer{cut: true}, true
	}
	if _, ok := takeFault[LoseRequest](m, at); ok {
		return answer{cut: true}, true
	}
	if f, ok := takeFault[ProxyError](m, at); ok {
		if f.Status == 0 {
			f.Status = http.StatusBadGateway
		}
		return m.html(f.Status), true
	}
	if f, ok := takeFault[TooManyRequests](m, at); ok {
		return m.tooMany(x.command, f.RetryAfter), true
	}
	return answer{}, false
}

// perform checks who calls and whether they may, and runs the command.
func (m *Model) perform(x *exchange, at place) answer {
	if err := m.identify(x); err != nil {
		return m.failure(x.command, err)
	}
	if wait := m.throttle(x.account.Name); wait > 0 {
		return m.tooMany(x.command, wait)
	}
	cmd, err := m.permit(x)
	if err != nil {
		return m.failure(x.command, err)
	}
	if err := m.checkMethod(x); err != nil {
		return m.failure(x.command, err)
	}
	if f, ok := takeFault[Refuse](m, at); ok {
		return m.failure(x.command, apiErrorf(f.Code, "%s", f.Text))
	}
	return m.run(&call{m: m, account: x.account, command: cmd, params: x.params})
}

func (m *Model) run(c *call) answer {
	if err := c.requireParams(); err != nil {
		return m.failure(c.command.name, err)
	}
	payload, err := c.command.run(c)
	var refused *APIError
	switch {
	case errors.As(err, &refused):
		return m.failure(c.command.name, refused)
	case err != nil:
		return m.failure(c.command.name, refusedf("%s", err))
	}
	return m.json(http.StatusOK, c.command.lower()+"response", payload)
}

// identify refuses a call whose sender is unknown. Only calls over HTTP must prove who they are.
func (m *Model) identify(x *exchange) *APIError {
	switch {
	case x.signed:
		return m.verify(x.account, x.raw)
	case x.account == nil:
		return errUnauthorized()
	}
	return nil
}

// checkMethod refuses an HTTP method that doesn't fit the command.
func (m *Model) checkMethod(x *exchange) *APIError {
	switch {
	case !x.signed:
		return nil
	case x.method != http.MethodGet && x.method != http.MethodPost:
		return apiErrorf(CodeMethodNotAllowed, "Method %s is not allowed for the API", x.method)
	case x.method == http.MethodGet && mutates(x.command) && m.settingBool(SettingEnforcePost, ""):
		return apiErrorf(CodeMethodNotAllowed, "Method GET is not allowed for command %s, use POST", x.command)
	}
	return nil
}

// permit returns the command if it exists and the role of the account allows it. CloudStack doesn't tell the two apart.
func (m *Model) permit(x *exchange) (command, *APIError) {
	cmd, known := m.commands[strings.ToLower(x.command)]
	if !known || !x.account.may(cmd) {
		return command{}, apiErrorf(CodeUnsupportedAction, "The given command '%s' either does not exist, is not available for user, or not available from ip address.", x.command)
	}
	return cmd, nil
}

func (a *Account) may(cmd command) bool {
	if a.Commands != nil {
		return slices.ContainsFunc(a.Commands, func(name string) bool { return strings.EqualFold(name, cmd.name) })
	}
	return a.Admin || !cmd.admin
}

// mutates reports whether a command changes something, by CloudStack's own naming rule.
func mutates(command string) bool {
	for _, prefix := range []string{"list", "get", "query", "find", "is"} {
		if strings.HasPrefix(strings.ToLower(command), prefix) {
			return false
		}
	}
	return true
}

func (m *Model) record(x *exchange, a answer) {
	params := map[string]string{}
	for name, value := range x.params {
		if !slices.Contains([]string{"apikey", "signature", "signatureversion", "expires", "response", "command"}, name) {
			params[name] = value
		}
	}
	r := Request{
		Time: m.now(), Method: x.method, Command: x.command, Account: x.accountName(),
		Params: params, Mutating: mutates(x.command), Status: a.status,
	}
	if a.cut {
		r.Status = 0
	}
	m.requests = append(m.requests, r)
}

type rateWindow struct {
	start time.Time
	calls int
}

// throttle counts a call of the account and returns how long it must wait, or 0.
func (m *Model) throttle(account string) time.Duration {
	if m.cfg.RateLimit == 0 {
		return 0
	}
	now, w := m.now(), m.calls[account]
	if w == nil || now.Sub(w.start) >= m.cfg.RateInterval {
		w = &rateWindow{start: now}
		m.calls[account] = w
	}
	w.calls++
	if w.calls > m.cfg.RateLimit {
		return m.cfg.RateInterval - now.Sub(w.start)
	}
	return 0
}

func rateLimited(wait time.Duration) *APIError {
	return apiErrorf(CodeRateLimit, "The given user has reached his/her account api limit, please retry after %s ms.", strconv.FormatInt(wait.Milliseconds(), 10))
}
