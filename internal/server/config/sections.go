package config

import (
	"net"
	"net/mail"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cks-trueup/trueup/internal/server/notice"
)

func (v value) config(c *Config) {
	found := v.mapping(keys{
		keyListen: func(v value) { v.listen(&c.Listen) },
		"pprof":   func(v value) { v.boolean(&c.PProf) },
		"log": func(v value) {
			v.mapping(keys{
				"format": func(v value) { v.word(&c.Log.Format, "text", "json") },
				"level":  func(v value) { v.word(&c.Log.Level, "debug", "info", "warn", "error") },
			})
		},
		"store": func(v value) {
			v.mapping(keys{
				"path":      func(v value) { v.file(&c.Store.Path) },
				"retention": func(v value) { v.duration(&c.Store.Retention, day, 3650*day) },
			})
		},
		"scan":      func(v value) { v.scan(&c.Scan) },
		"heal":      func(v value) { v.mapping(keys{"clusters": func(v value) { v.whole(&c.Heal.Clusters, 1, 100) }}) },
		"endpoints": func(v value) { v.endpoints(c) },
		"notices":   func(v value) { v.channels(c) },
	})
	if _, given := found["endpoints"]; !given {
		v.problem("endpoints is missing: at least one CloudStack must be named")
	}
}

// listen reads a loopback address: what is served there names clusters and asks nobody who they are.
func (v value) listen(into *string) {
	var text string
	if !v.text(&text) {
		return
	}
	host, port, err := net.SplitHostPort(text)
	n, numberErr := strconv.Atoi(port)
	switch {
	case err != nil || numberErr != nil || n < 0 || n > 65535:
		v.problem("%s: expected HOST:PORT, like 127.0.0.1:9464 or [::1]:9464", quote(text))
	case !notice.Loopback(host):
		v.problem("%s is no loopback address: the server asks nobody who they are, so put a proxy with authentication in front of 127.0.0.1:%d", quote(text), n)
	default:
		*into = text
	}
}

func (v value) scan(s *Scan) {
	found := v.mapping(keys{
		"every":    func(v value) { v.duration(&s.Every, 10*time.Second, day) },
		"clusters": func(v value) { v.whole(&s.Clusters, 1, 256) },
		"sample":   func(v value) { v.duration(&s.Sample, time.Minute, 90*day) },
		"timeout":  func(v value) { v.duration(&s.Timeout, time.Second, time.Hour) },
	})
	if at, given := found["sample"]; given && s.Sample < s.Every {
		at.problem("is shorter than scan.every, %s: a guest is read once in a scan at most", FormatDuration(s.Every))
	}
}

// file reads a path; one that is not absolute is seen from the folder of the configuration.
func (v value) file(into *string) bool {
	var text string
	if !v.text(&text) {
		return false
	}
	if strings.HasPrefix(text, "~") {
		v.problem("begins with ~, which is not replaced here: give the whole path")
		return false
	}
	*into = v.r.absolute(text)
	return true
}

// existing reads the path of a file that must be there.
func (v value) existing(into *string) {
	if v.file(into) {
		v.r.files = append(v.r.files, named{at: v, path: *into})
	}
}

// variableName is what can be the name of an environment variable.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// secret reads the place of a secret. Nothing of what stands here is repeated: it may be the secret itself.
func (v value) secret(into *Secret) {
	if len(v.node.Content) == 0 || v.kind() != "keys with values" {
		v.problem("a secret never stands in the configuration: write {file: PATH} or {env: NAME}. If one has stood here, change it")
		return
	}
	for _, e := range v.entries() {
		e.value.path = v.path
		var text string
		switch {
		case e.key != "file" && e.key != "env":
			v.problem("expected {file: PATH} or {env: NAME}, found another key")
		case !e.value.text(&text):
		case e.key == "env" && !variableName.MatchString(text):
			e.value.problem("env is no name of an environment variable; a secret itself does not belong here")
		case e.key == "env":
			into.Env = text
			if v.r.variable(text) == "" {
				e.value.warn("the environment variable that env names is not set here")
			}
		case e.value.file(&into.File):
			v.r.files = append(v.r.files, named{at: e.value, path: into.File, secret: true})
		}
	}
	if len(v.node.Content) > 2 {
		v.problem("expected one place, {file: PATH} or {env: NAME}, found several")
	}
}

// name reads a name that is unique in its list. It becomes a label of metrics and a key in the store.
func (v value) name(into *string, seen map[string]int) {
	if !v.text(into) {
		return
	}
	if first, twice := seen[*into]; twice {
		v.problem("%s is the name of another one too, in line %d", quote(*into), first)
	}
	if len(*into) > 63 || !plainWord.MatchString(*into) {
		v.problem("%s: a name begins with a letter and has up to 63 letters, digits, points, - and _", quote(*into))
	}
	seen[*into] = v.node.Line
}

// need tells of keys that are missing.
func (v value) need(found map[string]value, names ...string) {
	for _, name := range names {
		if _, given := found[name]; !given {
			v.problem("%s is missing", name)
		}
	}
}

func (v value) endpoints(c *Config) {
	seen := map[string]int{}
	v.list(func(_ int, v value) {
		e := Endpoint{RequestsPerSecond: 5}
		v.endpoint(&e, seen)
		c.Endpoints = append(c.Endpoints, e)
	})
	if v.kind() == "a list" && len(v.node.Content) == 0 {
		v.problem("is empty: at least one CloudStack must be named")
	}
}

func (v value) endpoint(e *Endpoint, seen map[string]int) {
	var reach Reach
	var rules *value
	found := v.mapping(keys{
		"name":              func(v value) { v.name(&e.Name, seen) },
		"profile":           func(v value) { v.text(&e.Profile) },
		"cmkConfig":         func(v value) { v.existing(&e.CMKConfig) },
		"url":               func(v value) { v.url(&e.URL) },
		"apiKey":            func(v value) { v.secret(&e.APIKey) },
		"secretKey":         func(v value) { v.secret(&e.SecretKey) },
		"caFile":            func(v value) { v.existing(&e.CAFile) },
		"requestsPerSecond": func(v value) { v.number(&e.RequestsPerSecond, 0.1, 1000) },
		"reach":             func(v value) { v.reach(&reach) },
		"clusters":          func(v value) { rules = &v },
	})
	v.need(found, "name", "clusters")
	_, profile := found["profile"]
	_, cmk := found["cmkConfig"]
	own := slices.ContainsFunc([]string{"url", "apiKey", "secretKey"}, func(k string) bool { _, is := found[k]; return is })
	switch {
	case profile && own:
		v.problem("has a profile and keys of its own: give profile, or url with apiKey and secretKey")
	case !profile && !own:
		v.problem("has no credentials: give profile, or url with apiKey and secretKey")
	case own:
		v.need(found, "url", "apiKey", "secretKey")
	}
	if cmk && !profile {
		found["cmkConfig"].problem("is of use with a profile only")
	}
	if rules != nil { // at the end, when the defaults for their reach are known
		rules.rules(e, reach)
	}
}

func (v value) url(into *string) {
	var text string
	if !v.text(&text) {
		return
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "":
		v.problem("expected the address of the API, like https://cloud.example.com/client/api")
	case u.User != nil || u.RawQuery != "":
		v.problem("has a user or a query in it, which does not belong into the address")
	case u.Scheme != "https" && (u.Scheme != "http" || !notice.Loopback(u.Hostname())):
		v.problem("must be https; http is for loopback addresses only")
	default:
		*into = text
	}
}

func (v value) rules(e *Endpoint, reach Reach) {
	var all int
	v.list(func(_ int, v value) {
		if all > 0 {
			v.warn("is never reached: the rule in line %d is for every cluster", all)
		}
		r := Rule{Policy: Observe, DriftAfter: 10 * time.Minute, Reach: reach}
		v.rule(&r)
		e.Rules = append(e.Rules, r)
		if all == 0 && len(r.Names)+len(r.IDs)+len(r.Projects)+len(r.Labels) == 0 {
			all = v.node.Line
		}
	})
	if v.kind() == "a list" && len(v.node.Content) == 0 {
		v.problem("is empty, so nothing would be watched: {} is the rule for every cluster")
	}
}

func (v value) rule(r *Rule) {
	found := v.mapping(keys{
		"names":      func(v value) { v.texts(&r.Names, value.pattern) },
		"ids":        func(v value) { v.texts(&r.IDs, func(value, string) {}) },
		"projects":   func(v value) { v.texts(&r.Projects, value.pattern) },
		"labels":     func(v value) { v.labels(r) },
		"policy":     func(v value) { v.word((*string)(&r.Policy), string(Observe), string(HealIt)) },
		"paused":     func(v value) { v.boolean(&r.Paused) },
		"driftAfter": func(v value) { v.duration(&r.DriftAfter, 0, 30*day) },
		"windows":    func(v value) { v.windows(&r.Windows) },
		"reach":      func(v value) { v.reach(&r.Reach) },
	})
	at, own := found["reach"]
	if !own {
		at = v
	}
	at.combination(r.Reach)
	if r.Reach.Kubeconfig != "" && !r.single() {
		at.warn("has a kubeconfig, which is of one cluster, but the rule may be for several")
	}
}

// single tells whether the rule can be for one cluster only.
func (r Rule) single() bool {
	return len(r.IDs) == 1 || len(r.Names) == 1 && !strings.ContainsAny(r.Names[0], `*?[\`)
}

func (v value) pattern(text string) {
	if _, err := path.Match(text, ""); err != nil {
		v.problem("%s is no pattern: * stands for any signs, ? for one, [a-z] for one of these", quote(text))
	}
}

func (v value) labels(r *Rule) {
	r.Labels = map[string]string{}
	for _, e := range v.entries() {
		var text string
		if _, twice := r.Labels[e.key]; twice {
			e.name.problem("stands twice")
		}
		if e.value.text(&text) {
			e.value.pattern(text)
		}
		r.Labels[e.key] = text
	}
	if v.kind() == "keys with values" && len(v.node.Content) == 0 {
		v.problem("is empty: give a label, or leave the key out")
	}
}

func (v value) channels(c *Config) {
	seen := map[string]int{}
	v.list(func(_ int, v value) {
		one := Channel{Kinds: notice.Kinds()}
		found := v.mapping(keys{
			"name":    func(v value) { v.name(&one.Name, seen) },
			"kinds":   func(v value) { v.kinds(&one.Kinds) },
			"webhook": func(v value) { v.webhook(&one) },
			"slack":   func(v value) { v.slack(&one) },
			"mail":    func(v value) { v.mail(&one) },
		})
		v.need(found, "name")
		ways := 0
		for _, way := range []string{"webhook", "slack", "mail"} {
			if _, given := found[way]; given {
				ways++
			}
		}
		if ways != 1 {
			v.problem("expected one of webhook, slack and mail, found %d", ways)
		}
		c.Notices = append(c.Notices, one)
	})
}

func (v value) kinds(into *[]notice.Kind) {
	var words []string
	for _, kind := range notice.Kinds() {
		words = append(words, string(kind))
	}
	var texts []string
	v.texts(&texts, func(v value, _ string) { v.word(new(string), words...) })
	*into = nil
	for _, text := range texts {
		*into = append(*into, notice.Kind(text))
	}
}

func (v value) webhook(c *Channel) {
	w := &Webhook{}
	c.Webhook = w
	v.need(v.mapping(keys{
		"url":    func(v value) { v.secret(&w.URL) },
		"key":    func(v value) { v.secret(&w.Key) },
		"caFile": func(v value) { v.existing(&w.CAFile) },
	}), "url", "key")
}

func (v value) slack(c *Channel) {
	s := &Slack{}
	c.Slack = s
	v.need(v.mapping(keys{
		"url":    func(v value) { v.secret(&s.URL) },
		"caFile": func(v value) { v.existing(&s.CAFile) },
	}), "url")
}

func (v value) mail(c *Channel) {
	m := &Mail{}
	c.Mail = m
	found := v.mapping(keys{
		"server":      func(v value) { v.hostPort(&m.Server) },
		"from":        func(v value) { v.mailbox(&m.From) },
		"to":          func(v value) { v.texts(&m.To, func(v value, _ string) { v.mailbox(new(string)) }) },
		"user":        func(v value) { v.text(&m.User) },
		"password":    func(v value) { v.secret(&m.Password) },
		"implicitTLS": func(v value) { v.boolean(&m.ImplicitTLS) },
		"caFile":      func(v value) { v.existing(&m.CAFile) },
	})
	v.need(found, "server", "from", "to")
	_, user := found["user"]
	if _, password := found["password"]; user != password {
		v.problem("user and password go together: give both, or none")
	}
}

func (v value) hostPort(into *string) {
	if !v.text(into) {
		return
	}
	host, port, err := net.SplitHostPort(*into)
	if n, numberErr := strconv.Atoi(port); err != nil || numberErr != nil || host == "" || n < 1 || n > 65535 {
		v.problem("expected HOST:PORT, like mail.example.com:587")
	}
}

func (v value) mailbox(into *string) {
	if v.text(into) {
		if _, err := mail.ParseAddress(*into); err != nil {
			v.problem("expected an address, like trueup@example.com")
		}
	}
}
