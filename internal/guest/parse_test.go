package guest

import (
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

func TestScripts(t *testing.T) {
	for _, c := range commands() {
		if strings.Trim(c.text(), "\t\n !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~") != "" {
			t.Errorf("%s.sh contains a character that is not plain ASCII", c.name)
		}
		// It is sent without waiting for the guest to read it: OpenSSH's window is 2 MiB. A shell keeps it in a variable.
		if n := len(c.text()); n > 16<<10 {
			t.Errorf("the script of %s is %d bytes long", c.name, n)
		}
		for _, shell := range []string{"dash", "bash"} {
			check := exec.Command(shell, "-n")
			check.Stdin = strings.NewReader(c.script)
			if out, err := check.CombinedOutput(); err != nil {
				t.Errorf("%s -n %s.sh: %v\n%s", shell, c.name, err, out)
			}
		}
	}
}

func TestKeyFileErrors(t *testing.T) {
	_, private := newKey(t)
	raw, err := ssh.ParseRawPrivateKey(private)
	must(t, err)
	sealed, err := ssh.MarshalPrivateKeyWithPassphrase(raw, "", []byte("secret words"))
	must(t, err)
	open := keyFile(t, private)
	must(t, os.Chmod(open, 0o644))
	for name, test := range map[string]struct{ path, want string }{
		"passphrase":         {keyFile(t, pem.EncodeToMemory(sealed)), "ssh-add"},
		"readable by others": {open, "chmod 600"},
		"no key":             {keyFile(t, []byte("hello")), "SSH key"},
		"missing":            {open + ".gone", "no such file"},
		"neither":            {"", "SSH_AUTH_SOCK"},
	} {
		_, err := New(Config{Resolve: Endpoints{}.Resolve, KnownHosts: "x", KeyFile: test.path})
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret words") {
			t.Errorf("%s: err = %v, want one with %q", name, err, test.want)
		}
	}
}

func TestCountCPUs(t *testing.T) {
	for list, want := range map[string]int{"": 0, "0": 1, "0-3": 4, "0-3,8": 5, "1,3,5-6": 4, "7-7": 1, "0-8191": 8192} {
		if got, err := countCPUs(list); err != nil || got != want {
			t.Errorf("countCPUs(%q) = %d, %v, want %d", list, got, err, want)
		}
	}
	for _, list := range []string{"-", "0-", "-3", "3-1", "0,0", "0-3,2", "a", "0, 1", ",", "0,", "0-1-2", "8192", "99999999999999999999", "+1", "0x1", "(null)"} {
		if got, err := countCPUs(list); err == nil {
			t.Errorf("countCPUs(%q) = %d, want an error", list, got)
		}
	}
}

func TestPolicyName(t *testing.T) {
	for content, want := range map[string]string{
		`{"policyName":"none","defaultCpuSet":"","checksum":1353318690}`:                             "none",
		`{"policyName":"static","defaultCpuSet":"0-1","entries":{},"checksum":1}`:                    "static",
		`{"policyName":"None","machineState":{},"checksum":1}`:                                       "None",
		`{"data":"{\"policyName\":\"Static\",\"machineState\":{}}","checksum":18446744073709551615}`: "Static",
	} {
		if got, err := policyName([]byte(content)); err != nil || got != want {
			t.Errorf("policyName(%s) = %q, %v, want %q", content, got, err, want)
		}
	}
	for _, content := range []string{"", "{}", "null", `{"policyName":""}`, `{"policyName":3}`, `{"data":"nonsense"}`, `{"data":"{}"}`, `{"policyName":"none"`} {
		if got, err := policyName([]byte(content)); err == nil {
			t.Errorf("policyName(%s) = %q, want an error", content, got)
		}
	}
}

// answer is a good answer of the probe.
func answer() []string {
	return strings.Split(`product_uuid=6F0C1D5E-8A43-4A6B-9D27-3C1E5B7A9F10
machine_id=0123456789abcdef0123456789abcdef
boot_id=0b6e1c2d-3f4a-4b5c-8d7e-9f0a1b2c3d4e
cpu_online=0-1
cpu_present=0-3
cpu_possible=0-7
block_size=8000000
blocks_online=16
blocks_offline=0
mem_total=1960208 kB
cpu_manager_state=absent
memory_manager_state=base64:eyJwb2xpY3lOYW1lIjoiTm9uZSJ9
kubepods_cpus=
kubepods_memory=
cgroup=1
ActiveState=active
SubState=running
InvocationID=11111111111111111111111111111111
MainPID=812
ExecMainStartTimestampMonotonic=34567890
NRestarts=0
clock=1764557000.000000001
monotonic=1234567890123`, "\n")
}

func TestParseProbeIsStrict(t *testing.T) {
	if _, err := parseProbe(answer()); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{
		"product_uuid=", "product_uuid=Not Settable", "product_uuid={6F0C1D5E-8A43-4A6B-9D27-3C1E5B7A9F10}", "machine_id=uninitialized", "boot_id=",
		"cpu_online=", "cpu_present=x", "cpu_possible=3-0", "block_size=", "block_size=0", "block_size=0x8000000", "block_size=ffffffffffffffff",
		"blocks_online=", "blocks_online=-1", "blocks_offline=1.5", "mem_total=", "mem_total=1960208", "mem_total=0 kB", "mem_total=99999999999999999999 kB",
		"cpu_manager_state=", "cpu_manager_state=base64:", "memory_manager_state=base64:###", "kubepods_cpus=all", "kubepods_memory=-1", "kubepods_memory=1.5G", "kubepods_memory=9223372036854775807", "cgroup=", "cgroup=v2",
		"ActiveState=", "SubState=a b", "InvocationID=1", "MainPID=x", "ExecMainStartTimestampMonotonic=", "NRestarts=[not set]",
		"clock=", "clock=1764557000", "clock=1764557000.%N", "clock=1764557000.1", "clock=-1.000000001", "monotonic=", "monotonic=0", "monotonic=1.5",
	} {
		key, _, _ := strings.Cut(bad, "=")
		lines := answer()
		for i, line := range lines {
			if strings.HasPrefix(line, key+"=") {
				lines[i] = bad
			}
		}
		if _, err := parseProbe(lines); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: err = %v, want one that names the key", bad, err)
		}
	}
}

func TestParseProbeWantsEachKeyOnce(t *testing.T) {
	for i, line := range answer() {
		key, _, _ := strings.Cut(line, "=")
		without := slices.Delete(answer(), i, i+1)
		if _, err := parseProbe(without); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("without %s: err = %v", key, err)
		}
		if _, err := parseProbe(append(answer(), line)); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s twice: err = %v", key, err)
		}
	}
	for _, extra := range []string{"surprise=1", "", "words"} {
		if _, err := parseProbe(append(answer(), extra)); err == nil {
			t.Errorf("with %q: no error", extra)
		}
	}
}

func TestOnlineErrorIsShort(t *testing.T) {
	e := &OnlineError{Node: "n"}
	for i := range 32 {
		e.Refused = append(e.Refused, Refusal{fmt.Sprintf("memory%d", i), "Input/output error"})
	}
	const want = "node n: the guest's kernel left 32 device(s) offline: memory0: Input/output error, memory1: Input/output error, memory2: Input/output error, memory3: Input/output error, and 28 more"
	if got := e.Error(); got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
}

func TestParseRefusalsAndRestartAreStrict(t *testing.T) {
	for _, lines := range [][]string{{"failed=cpu2"}, {"failed="}, {"ok"}, {""}} {
		if got, err := parseRefusals(lines); err == nil {
			t.Errorf("parseRefusals(%q) = %v, want an error", lines, got)
		}
	}
	for _, lines := range [][]string{nil, {""}, {"result="}, {"result=Issued"}, {"result=issued", "more"}} {
		if got, err := parseRestart(lines); err == nil || got != 0 {
			t.Errorf("parseRestart(%q) = %v, want an error", lines, got)
		}
	}
}

func TestErrorsCarryNothingThatATerminalObeys(t *testing.T) {
	got := oneLine("a\x1b]0;title\x07\r\nb\u202e c\xff" + strings.Repeat("ü", 400))
	if strings.ContainsAny(got, "\x1b\x07\r\n\u202e") || len(got) > oneLineLimit+len("…") {
		t.Errorf("oneLine = %q", got)
	}
}

func FuzzCountCPUs(f *testing.F) {
	for _, seed := range []string{"0-3,8", "", "0", "3-1", "0,0", "8191", "0-99999"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, list string) {
		count, err := countCPUs(list)
		if err != nil {
			return
		}
		seen := map[int]bool{}
		for part := range strings.SplitSeq(list, ",") {
			var from, to int
			if n, _ := fmt.Sscanf(part, "%d-%d", &from, &to); n == 1 {
				to = from
			} else if n == 0 {
				continue // the empty list
			}
			for cpu := from; cpu <= to; cpu++ {
				seen[cpu] = true
			}
		}
		if len(seen) != count {
			t.Errorf("countCPUs(%q) = %d, but it has %d", list, count, len(seen))
		}
	})
}

func FuzzParseProbe(f *testing.F) {
	f.Add(strings.Join(answer(), "\n"))
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseProbe(strings.Split(text, "\n"))
		if err != nil {
			return
		}
		if got.CPUsOnline < 1 || got.BlockSize < 1 || got.MemTotal < 1 || got.Monotonic < 1 || got.BlocksOnline < 0 || got.Kubelet.Start < 0 ||
			got.BootID == "" || got.ProductUUID != strings.ToLower(got.ProductUUID) {
			t.Errorf("accepted an impossible reading: %+v", got)
		}
	})
}

func FuzzPolicyName(f *testing.F) {
	for _, seed := range []string{`{"policyName":"none"}`, `{"data":"{\"policyName\":\"static\"}"}`, "{}", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content string) {
		if policy, err := policyName([]byte(content)); err == nil && policy == "" {
			t.Errorf("policyName(%q) is empty without an error", content)
		}
	})
}
