package guest

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// Every function of this package that makes a command is one of those from which the sudoers file is made.
func TestCommandsAreComplete(t *testing.T) {
	files, err := filepath.Glob("*.go")
	must(t, err)
	made, listed, literals := map[string]bool{}, map[string]bool{}, 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		must(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Type.Results != nil && isCommand(n.Type.Results.List[0].Type) {
					made[n.Name.Name] = true
				}
				if n.Name.Name == "commands" || n.Name.Name == "administrative" {
					maps.Copy(listed, called(n.Body))
				}
			case *ast.CompositeLit:
				if isCommand(n.Type) {
					literals++
				}
			}
			return true
		})
	}
	if diff := cmp.Diff(made, listed); diff != "" || len(made) < 6 || literals != len(made) {
		t.Errorf("%d commands are made, by the functions that are not in commands() (-made +listed): %s", literals, diff)
	}
}

func isCommand(e ast.Expr) bool {
	kind, is := e.(*ast.Ident)
	return is && kind.Name == "command"
}

// called are the functions that are called by their bare name.
func called(body ast.Node) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(body, func(n ast.Node) bool {
		if call, is := n.(*ast.CallExpr); is {
			if f, is := call.Fun.(*ast.Ident); is {
				names[f.Name] = true
			}
		}
		return true
	})
	return names
}

// sudo compares the arguments joined with spaces, and as a pattern: neither may leave a choice.
func TestArgumentsLeaveNoChoice(t *testing.T) {
	for _, c := range commands() {
		for _, arg := range c.arguments() {
			if strings.ContainsAny(arg, " \t\n*?[]!\\^'") || arg == "" {
				t.Errorf("%s: the argument %q is not safe in sudoers, or between single quotes", c.name, arg)
			}
		}
		if n := len(c.sudoers()); n > 1024 { // the limit of sudo-rs
			t.Errorf("%s: %d bytes", c.name, n)
		}
	}
}

// named is a user or a host.
type named struct {
	Username string `json:"username"`
	Hostname string `json:"hostname"`
}

// spec is what cvtsudoers makes of a line of a sudoers file.
type spec struct {
	Users    []named `json:"User_List"`
	Hosts    []named `json:"Host_List"`
	Commands []struct {
		RunAs    []named           `json:"runasusers"`
		Options  []map[string]bool `json:"Options"`
		Commands []struct {
			Command string `json:"command"`
		} `json:"Commands"`
	} `json:"Cmnd_Specs"`
}

// sudo's own programs read from the file exactly the commands, for one user, to be run as root.
func TestSudoersSaysWhatTheProgramDoes(t *testing.T) {
	file, err := Sudoers("cloud", "1.2.3")
	must(t, err)
	check := exec.Command("visudo", "-c", "-f", "-")
	check.Stdin = strings.NewReader(file)
	if out, err := check.CombinedOutput(); err != nil {
		t.Fatalf("visudo (it needs package sudo): %v: %s", err, out)
	}
	convert := exec.Command("cvtsudoers", "-f", "json", "-c", "")
	convert.Stdin = strings.NewReader(file)
	out, err := convert.Output()
	must(t, err)
	var got map[string][]spec
	must(t, json.Unmarshal(out, &got))
	if len(got) != 1 {
		t.Errorf("more than commands: %s", out)
	}
	var commandsGot, commandsWant []string
	for _, s := range got["User_Specs"] {
		c := s.Commands[0]
		if len(s.Users) != 1 || s.Users[0].Username != "cloud" || len(s.Commands) != 1 || len(c.RunAs) != 1 || c.RunAs[0].Username != "root" || len(c.Commands) != 1 ||
			!cmp.Equal(c.Options, []map[string]bool{{"authenticate": false}, {"setenv": false}}) {
			t.Errorf("%+v", s)
		}
		commandsGot = append(commandsGot, c.Commands[0].Command)
	}
	for _, c := range commands() {
		commandsWant = append(commandsWant, strings.Join(c.arguments(), " "))
	}
	if diff := cmp.Diff(commandsWant, commandsGot); diff != "" {
		t.Errorf("commands (-program +sudoers):\n%s", diff)
	}
	if !strings.HasPrefix(file, "# What trueup 1.2.3 runs ") {
		t.Errorf("the file does not name its version: %.80s", file)
	}
}

// What the comments show of each script is what its SHA-256 stands for.
func TestSudoersShowsTheScripts(t *testing.T) {
	file, err := Sudoers("cloud", "1.2.3")
	must(t, err)
	n, shown := 0, ""
	for line := range strings.Lines(file) {
		text, is := strings.CutPrefix(line, "#   ")
		switch {
		case is:
			shown += text
		case strings.HasPrefix(line, "cloud "), strings.HasPrefix(line, "#cloud "):
			n++
			if sum := fmt.Sprintf("%x", sha256.Sum256([]byte(strings.TrimSuffix(shown, "\n")))); !strings.Contains(line, sum) {
				t.Errorf("the script shown has the SHA-256 %s, which is not in: %s", sum, line)
			}
			shown = ""
		}
	}
	if n != len(commands())+len(administrative()) {
		t.Errorf("%d scripts", n)
	}
}

func TestSudoersNamesOneUser(t *testing.T) {
	for _, user := range []string{"", "root", "ALL", "TRUEUP", "%sudo", "+ops", "#0", "a b", "a,b", "a=b", "cloud ALL=(ALL) ALL\n", "!cloud", "@x", strings.Repeat("a", 33)} {
		if file, err := Sudoers(user, "1.2.3"); err == nil {
			t.Errorf("%q is taken for a user:\n%s", user, file)
		}
	}
}

// Under the real sudo, with the sudoers file of these commands, all of them do their work, and sudo's log shows which.
func TestEveryCommandUnderSudo(t *testing.T) {
	m := newMachine(t)
	m.write("sys/devices/system/cpu/cpu2/online", "0")
	m.write("state/journal", "")
	m.write("state/dmesg", "")
	m.write("state/units", "")
	m.write("state/etcd-unit", "ActiveState=active\nSubState=running\nInvocationID="+firstInvocation+"\nMainPID=1")
	g := m.guest(m.as("cloud"))
	for _, c := range commands() {
		input := ""
		if c.name == "restart" {
			input = firstInvocation + "\n"
		}
		if _, err := g.run(t.Context(), c, defaultOnlineTimeout, input); err != nil {
			t.Error(err)
		}
	}
	if got := m.read("state/restarts"); got != "restart kubelet.service" {
		t.Errorf("restarts: %q", got)
	}
	if got := m.read("sys/devices/system/cpu/cpu2/online"); got != "1" {
		t.Errorf("cpu2: %q", got)
	}
	var names []string
	for _, match := range regexp.MustCompile(` cloud : .*USER=root ; COMMAND=/usr/bin/timeout -s KILL .* (trueup-\w+)`).FindAllStringSubmatch(m.read("state/sudo"), -1) {
		names = append(names, match[1])
	}
	if want := []string{"trueup-probe", "trueup-inspect", "trueup-online", "trueup-restart", "trueup-etcd", "trueup-diagnose", "trueup-diagnose"}; !slices.Equal(names, want) {
		t.Errorf("sudo's log has %v, want %v", names, want)
	}
}

// session runs a command line as the user and returns its standard output and exit status.
func (m *machine) session(t *testing.T, user, line, input string) (string, int) {
	t.Helper()
	session, _, release, err := m.guest(m.as(user)).way.(*link).session(t.Context())
	must(t, err)
	defer release()
	session.Stdin = strings.NewReader(input)
	out, err := session.Output(line)
	if exit := (*ssh.ExitError)(nil); errors.As(err, &exit) {
		return string(out), exit.ExitStatus()
	}
	must(t, err)
	return string(out), 0
}

func quoted(args []string) string { return "'" + strings.Join(args, "' '") + "'" }

// neighbours are command lines that differ from the command in one byte, or by an argument more or less.
func neighbours(c command) (lines []string) {
	args := c.arguments()
	line := strings.Join(args, "\x00")
	for i, b := range []byte(line) {
		if b != 0 && i%13 == 0 {
			other := []byte(line)
			other[i] = 'x'
			if b == 'x' {
				other[i] = 'y'
			}
			lines = append(lines, quoted(strings.Split(string(other), "\x00")))
		}
	}
	return append(lines, quoted(args[:len(args)-1]), quoted(append(slices.Clone(args), "")), quoted(append(slices.Clone(args), "more")), quoted(args[:1]), quoted(args[4:]), "/bin/sh", "-i", "id")
}

// sudo allows the commands to the one user, and nothing beside them. Nothing is run here: sudo -l with a command only judges it.
func TestSudoAllowsNothingElse(t *testing.T) {
	m := newMachine(t)
	for _, c := range commands() {
		var script strings.Builder
		others := neighbours(c)
		for i, line := range others {
			fmt.Fprintf(&script, "! sudo -n -l %s >/dev/null 2>&1 || echo allowed %d\n", line, i)
		}
		fmt.Fprintf(&script, "sudo -n -l %s >/dev/null && echo own\n", quoted(c.arguments()))
		if out, _ := m.session(t, "cloud", "sh", script.String()); out != "own\n" || len(others) < 25 {
			t.Errorf("%s: %s (of %d)", c.name, out, len(others))
		}
		if out, exit := m.session(t, "other", "sudo -n -l "+quoted(c.arguments()), ""); exit != 1 {
			t.Errorf("another user may run %s: %s", c.name, out)
		}
	}
}

// Since sudo compares the joined arguments, the caller may join some of them; whatever is made of them, nothing but the very script runs.
func TestJoinedArgumentsRunNothingElse(t *testing.T) {
	c := command{name: "say", script: "echo ran\n", bound: 5}
	args := c.arguments()
	for mask := 1; mask < 1<<(len(args)-1); mask++ {
		joined := args[0]
		for i, arg := range args[1:] {
			separator := "\x00"
			if mask>>i&1 == 1 {
				separator = " "
			}
			joined += separator + arg
		}
		line := strings.Split(joined, "\x00")
		if !strings.HasPrefix(line[0], args[0]+" ") { // else it is no program at all
			cmd := exec.Command(line[0], line[1:]...)
			cmd.Stdin = strings.NewReader(c.text())
			if out, err := cmd.Output(); err == nil || len(out) > 0 && string(out) != "ran\n" {
				t.Errorf("%q: %v, %q", line, err, out)
			}
		}
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin = strings.NewReader(c.text())
	if out, err := cmd.Output(); err != nil || string(out) != "ran\n" {
		t.Errorf("as it is: %v, %q", err, out)
	}
}

// The shells that are /bin/sh on nodes (Debian's and Ubuntu's, and that of the others) load a script alike, and leave its standard input to it.
func TestShellsLoadAlike(t *testing.T) {
	c := command{name: "say", script: "read -r word\nf() {\n\tprintf \"%s\\n\" \"got $word \\\\\"\n}\nf\nexit 7\n", bound: 5}
	for _, shell := range []string{"dash", "bash", "bash --posix"} {
		args := append(strings.Fields(shell), "-c", c.loader(), "trueup-say")
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Stdin = strings.NewReader(c.text() + "word\n")
		out, err := cmd.Output()
		if cmd.ProcessState.ExitCode() != 7 || string(out) != "got word \\\n" {
			t.Errorf("%s: %v, %q", shell, err, out)
		}
	}
}

// A script that is not the one of the sudoers file is not evaluated, not even in part.
func TestOtherScriptsAreNotEvaluated(t *testing.T) {
	m := newMachine(t)
	c := probeCommand()
	for name, input := range map[string]string{
		"another": strings.Repeat("echo ran\n", 1000), "none": "", "half": c.text()[:len(c.text())/2], "one byte": strings.Replace(c.text(), "LC_ALL=C", "LC_ALL=D", 1),
	} {
		out, exit := m.session(t, "cloud", c.remote("cloud"), input)
		if out != shellMark+"\n" || exit != exitGarbled {
			t.Errorf("%s: exit status %d: %s", name, exit, out)
		}
	}
}

// The environment and the folder of the caller have no say in what a script finds.
func TestScriptsFindTheirOwnPrograms(t *testing.T) {
	m := newMachine(t)
	m.write("home/systemctl", "#!/bin/sh\necho evil >"+filepath.Join(m.tree, "state/evil"))
	must(t, exec.Command("cp", "-a", filepath.Join(m.tree, "home/systemctl"), filepath.Join(m.tree, "home/head")).Run())
	must(t, exec.Command("chmod", "-R", "a+rx", filepath.Join(m.tree, "home")).Run())
	m.write("etc/sudoers", strings.Replace(m.read("etc/sudoers"), "Defaults secure_path", "#", 1))
	must(t, exec.Command("chmod", "0440", filepath.Join(m.tree, "etc/sudoers")).Run())
	home := filepath.Join(m.tree, "home")
	c := probeCommand()
	out, exit := m.session(t, "cloud", fmt.Sprintf("cd %s; PATH=%s:$PATH IFS=x ENV=%s/head BASH_ENV=%s/head; export PATH IFS ENV BASH_ENV; %s", home, home, home, home, c.remote("cloud")), c.text())
	if exit != 0 || !strings.HasSuffix(out, endMark+"\n") {
		t.Errorf("exit status %d: %s", exit, out)
	}
	if got := m.read("state/evil"); got != "" {
		t.Error("a program of the caller was run as root")
	}
}

// What sudo refuses is told from other failures, and with what to do.
func TestSudoRefuses(t *testing.T) {
	const remedy = "put what `trueup rights sudoers --user cloud` prints into /etc/sudoers.d/trueup there"
	m := newMachine(t)
	file := m.read("etc/sudoers.d/trueup")
	m.allow(strings.Replace(file, fmt.Sprintf("%x", sha256.Sum256([]byte(onlineCommand().text()))), strings.Repeat("0", 64), 1))
	g := m.guest(m.as("cloud"))
	_, err := g.Probe(t.Context())
	must(t, err)
	for name, broken := range map[string]string{"of another version": "", "none": "# nothing", "with a password": strings.ReplaceAll(file, "NOPASSWD: ", "")} {
		if broken != "" {
			m.allow(broken)
		}
		if err := g.Online(t.Context()); !errors.Is(err, rollout.ErrDenied) || !strings.Contains(err.Error(), remedy) || !strings.Contains(err.Error(), "the online command of this version") {
			t.Errorf("%s: %v, want ErrDenied with the remedy", name, err)
		}
	}
	m.allow("cloud ALL=(root) NOPASSWD: ALL") // as CKS has it
	must(t, g.Online(t.Context()))
}
