package cloudstack

import (
	"net/url"
	"regexp"
	"strings"
)

// signedParameter finds the parameters of a request that nobody else may see, as a proxy might quote them.
var signedParameter = regexp.MustCompile(`(?i)\b(apikey|signature|secretkey|sessionkey)(=|%3d|"?\s*:\s*"?)[^&\s"'<>]+`)

// redactor removes the account's keys and every request's signature from texts that come from elsewhere.
type redactor struct{ replace *strings.Replacer }

func newRedactor(secrets ...Secret) redactor {
	var pairs []string
	for _, s := range secrets {
		text := s.reveal()
		if text == "" {
			continue
		}
		for _, form := range []string{text, url.QueryEscape(text), url.PathEscape(text), strings.ToLower(text)} {
			pairs = append(pairs, form, hidden)
		}
	}
	return redactor{replace: strings.NewReplacer(pairs...)}
}

func (r redactor) clean(text string) string {
	return signedParameter.ReplaceAllString(r.replace.Replace(text), "$1$2"+hidden)
}
