package guest

import (
	"fmt"
	"regexp"
	"strings"
)

// loginName is what may stand in a sudoers file as a user: no group, no netgroup, no id, no alias (those begin with a capital), not ALL.
var loginName = regexp.MustCompile(`^[a-z][a-z0-9_.-]{0,31}$`)

// Sudoers returns a sudoers file that lets the user run the commands of this package as root, each with exactly its arguments, and nothing
// else. The scripts themselves stand in it as comments. It belongs to this version of the program, which it names.
func Sudoers(user, version string) (string, error) {
	if user == "root" {
		return "", fmt.Errorf("user root needs no sudo: trueup uses none for it")
	}
	if !loginName.MatchString(user) {
		return "", fmt.Errorf("%q is not a login name that a sudoers file can name safely: expected a small letter, then small letters, digits, and . _ - (32 in all)", user)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# What trueup %s runs on nodes as root when it logs in as %s, and nothing else: for /etc/sudoers.d/trueup, mode 0440.\n", version, user)
	b.WriteString("# Written by `trueup rights sudoers`: write it anew after each upgrade of trueup. A script that is not the one shown here has another SHA-256,\n" +
		"# and is refused. Check the file with: visudo -cf FILE\n")
	for _, c := range commands() {
		fmt.Fprintf(&b, "\n# trueup-%s evaluates these %d bytes, which come over standard input:\n", c.name, len(c.text()))
		for line := range strings.Lines(c.text() + "\n") {
			b.WriteString("#   " + line)
		}
		fmt.Fprintf(&b, "#\n%s ALL=(root) NOPASSWD: NOSETENV: %s\n", user, c.sudoers())
	}
	return b.String(), nil
}

// sudoers is the command as sudoers writes it.
func (c command) sudoers() string {
	return strings.NewReplacer(`\`, `\\`, `,`, `\,`, `:`, `\:`, `=`, `\=`, `#`, `\#`).Replace(strings.Join(c.arguments(), " "))
}
