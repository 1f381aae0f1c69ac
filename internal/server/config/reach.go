package config

import (
	"path"
	"slices"
	"strings"

	"github.com/cks-trueup/trueup/internal/guest"
)

// The ways, in the words of the flags.
const (
	viaDirect = "direct"
	viaTunnel = "tunnel"
	viaThere  = "kubectl"
	viaPod    = "pod"
	viaSSH    = "ssh"
	forwarded = "forwarded"
)

func (v value) reach(r *Reach) {
	v.mapping(keys{
		"kubeconfig":        func(v value) { v.existing(&r.Kubeconfig) },
		"kubeContext":       func(v value) { v.text(&r.KubeContext) },
		"kubeVia":           func(v value) { v.word(&r.KubeVia, viaDirect, viaTunnel, viaThere) },
		"sshKey":            func(v value) { v.existing(&r.SSHKey) },
		"sshUser":           func(v value) { v.text(&r.SSHUser) },
		"sshVia":            func(v value) { v.sshVia(&r.SSHVia) },
		"sshPort":           func(v value) { v.whole(&r.SSHPort, 1, 65535) },
		"knownHosts":        func(v value) { v.file(&r.KnownHosts) },
		"acceptNewHostKeys": func(v value) { v.boolean(&r.AcceptNewHostKeys) },
		"guestVia":          func(v value) { v.word(&r.GuestVia, viaSSH, viaPod) },
		"guestImage":        func(v value) { v.text(&r.GuestImage) },
		"guestNamespace":    func(v value) { v.text(&r.GuestNamespace) },
	})
}

func (v value) sshVia(into *string) {
	var text string
	if !v.text(&text) {
		return
	}
	ok := text == viaDirect || text == forwarded
	if host, jump := strings.CutPrefix(text, "jump="); jump {
		_, ok = guest.ParseJump(host)
	}
	if !ok {
		v.problem("expected direct, forwarded, jump=USER@HOST or jump=USER@HOST:PORT")
		return
	}
	*into = text
}

// combination tells of ways that don't go together, as the command line does.
func (v value) combination(r Reach) {
	if r.KubeContext != "" && r.Kubeconfig == "" {
		v.problem("kubeContext is a context of a kubeconfig file: give kubeconfig as well")
	}
	if r.GuestVia == viaPod && (r.KubeVia == viaTunnel || r.KubeVia == viaThere) {
		v.problem("kubeVia: %s goes over SSH, and guestVia: pod is for nodes without it: the Kubernetes API must be reached directly", r.KubeVia)
	}
	if r.GuestVia != viaPod && r.GuestImage+r.GuestNamespace != "" {
		v.problem("guestImage and guestNamespace are for guestVia: pod")
	}
	if r.SSHPort != 0 && r.SSHVia == forwarded {
		v.problem("sshPort is for the nodes' own addresses, and sshVia: forwarded uses none")
	}
}

// Rule is the first rule that matches the cluster; false: it is not watched.
func (e Endpoint) Rule(c Cluster) (Rule, bool) {
	for _, r := range e.Rules {
		if r.matches(c) {
			return r, true
		}
	}
	return Rule{}, false
}

func (r Rule) matches(c Cluster) bool {
	if len(r.Names) > 0 && !anyMatches(r.Names, c.Name) || len(r.IDs) > 0 && !slices.Contains(r.IDs, c.ID) {
		return false
	}
	if len(r.Projects) > 0 && !anyMatches(r.Projects, c.ProjectID) && !anyMatches(r.Projects, c.Project) {
		return false
	}
	for key, pattern := range r.Labels {
		if text, has := c.Labels[key]; !has || !anyMatches([]string{pattern}, text) {
			return false
		}
	}
	return true
}

func anyMatches(patterns []string, text string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		is, err := path.Match(p, text)
		return is && err == nil
	})
}
