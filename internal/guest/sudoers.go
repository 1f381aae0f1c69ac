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
		c.describe(&b)
		fmt.Fprintf(&b, "#\n%s\n", c.rule(user))
	}
	for _, c := range administrative() {
		c.describe(&b)
		fmt.Fprintf(&b, "#\n# It makes %s an administrator of the cluster, and is run on control-plane nodes alone, where --kube-via kubectl asks for it or the API server\n"+
			"# can be reached in no other way. To allow it there, take the # away:\n#%s\n", user, c.rule(user))
	}
	return b.String(), nil
}

// describe shows the script as a comment.
func (c command) describe(b *strings.Builder) {
	fmt.Fprintf(b, "\n# trueup-%s evaluates these %d bytes, which come over standard input:\n", c.name, len(c.text()))
	for line := range strings.Lines(c.text() + "\n") {
		b.WriteString("#   " + line)
	}
}

// rule lets the user run the command, with exactly its arguments.
func (c command) rule(user string) string {
	return fmt.Sprintf("%s ALL=(root) NOPASSWD: NOSETENV: %s", user, c.sudoers())
}

// sudoers is the command as sudoers writes it.
func (c command) sudoers() string {
	return strings.NewReplacer(`\`, `\\`, `,`, `\,`, `:`, `\:`, `=`, `\=`, `#`, `\#`).Replace(strings.Join(c.arguments(), " "))
}
