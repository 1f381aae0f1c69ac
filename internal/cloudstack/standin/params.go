package standin

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// call is a permitted call of one command.
type call struct {
	m       *Model
	account *Account
	command command
	params  map[string]string // names in lower case
}

func (c *call) str(name string) string { return c.params[name] }
func (c *call) bool(name string) bool  { return strings.EqualFold(c.params[name], "true") }

// list returns the parts of a comma-separated parameter.
func (c *call) list(name string) []string {
	if c.params[name] == "" {
		return nil
	}
	return strings.Split(c.params[name], ",")
}

// int returns a number; 0 when it is absent.
func (c *call) int(name string) (int, *APIError) {
	if c.params[name] == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(c.params[name])
	if err != nil {
		return 0, apiErrorf(CodeMalformedParameter, "Unable to execute API command %s due to invalid value for parameter %s", c.command.lower(), name)
	}
	return n, nil
}

// time returns a time stamp; the zero time when it is absent.
func (c *call) time(name string) (time.Time, error) {
	s := c.params[name]
	if s == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{"2006-01-02T15:04:05-0700", time.RFC3339, time.DateTime, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, apiErrorf(CodeMalformedParameter, "Unable to parse date %s for command %s due to invalid format", name, c.command.lower())
}

// requireParams refuses a call that lacks a parameter or asks for an impossible page.
func (c *call) requireParams() *APIError {
	for _, p := range c.command.params {
		if p.Required && c.params[p.Name] == "" {
			return apiErrorf(CodeParameter, "Unable to execute API command %s due to missing parameter %s", c.command.lower(), p.Name)
		}
	}
	return c.checkPaging()
}

// indexed returns the maps of parameters like details[0].cpuNumber, in the order of their index.
func (c *call) indexed(name string) []map[string]string {
	byIndex := map[int]map[string]string{}
	for param, value := range c.params {
		rest, ok := strings.CutPrefix(param, name+"[")
		if !ok {
			continue
		}
		index, field, ok := strings.Cut(rest, "].")
		i, err := strconv.Atoi(index)
		if !ok || err != nil {
			continue
		}
		if byIndex[i] == nil {
			byIndex[i] = map[string]string{}
		}
		byIndex[i][field] = value
	}
	var out []map[string]string
	for _, i := range slices.Sorted(maps.Keys(byIndex)) {
		out = append(out, byIndex[i])
	}
	return out
}

// allProjects is the projectid that means all projects of the caller.
const allProjects = "-1"

// scope is the set of owners whose objects a list shows.
type scope struct {
	account  string
	all      bool // any account
	projects bool // objects of projects instead of those of accounts
	project  string
	member   []string
}

// scope works out what the call may see: the account's own objects; with listall or an id an admin sees all accounts';
// objects of projects are shown only with projectid.
func (c *call) scope() (scope, error) {
	s := scope{account: c.account.Name, member: c.account.Projects}
	s.all = c.account.Admin && (c.bool("listall") || c.str("id") != "" || c.str("ids") != "")
	id := c.str("projectid")
	if id == "" {
		return s, nil
	}
	s.projects, s.all = true, c.account.Admin
	if id != allProjects {
		s.project = id
		if !s.all && !slices.Contains(s.member, id) {
			return s, apiErrorf(CodeAccount, "Account %s is not authorized to access project id=%s", c.account.Name, id)
		}
	}
	return s, nil
}

func (s scope) includes(o Owner) bool {
	if !s.projects {
		return o.ProjectID == "" && (s.all || o.Account == s.account)
	}
	if o.ProjectID == "" || s.project != "" && o.ProjectID != s.project {
		return false
	}
	return s.all || slices.Contains(s.member, o.ProjectID)
}

// mayUse refuses to operate on what belongs to somebody else.
func (c *call) mayUse(o Owner, id string) *APIError {
	own := o.ProjectID == "" && o.Account == c.account.Name || o.ProjectID != "" && slices.Contains(c.account.Projects, o.ProjectID)
	if c.account.Admin || own {
		return nil
	}
	return apiErrorf(CodeAccount, "Acct[%s] does not have permission to operate with resource [%s]", c.account.Name, id)
}

// listReply is the answer of a list: {} when there is nothing, else the count of all and one page of them.
func listReply[T any](c *call, name string, all []T) any {
	if len(all) == 0 {
		return map[string]any{}
	}
	reply := map[string]any{"count": len(all)}
	if page := c.page(len(all)); page.to > page.from {
		reply[name] = all[page.from:page.to]
	}
	return reply
}

type window struct{ from, to int }

// page returns which part of n objects is asked for.
func (c *call) page(n int) window {
	limit := c.m.settingInt(SettingPageSize)
	if size, err := c.int("pagesize"); err == nil && size > 0 {
		limit = min(limit, size)
	}
	number, err := c.int("page")
	if err != nil || number < 1 {
		number = 1
	}
	from := min((number-1)*limit, n)
	return window{from: from, to: min(from+limit, n)}
}

// checkPaging refuses page parameters that are no numbers or ask for more than the server gives.
func (c *call) checkPaging() *APIError {
	for _, name := range []string{"page", "pagesize"} {
		n, err := c.int(name)
		if err != nil {
			return err
		}
		if name == "pagesize" && n > c.m.settingInt(SettingPageSize) {
			return apiErrorf(CodeParameter, "The parameter pagesize is %s, which is more than the maximum of %s", fmt.Sprint(n), c.m.setting(SettingPageSize, ""))
		}
	}
	return nil
}
