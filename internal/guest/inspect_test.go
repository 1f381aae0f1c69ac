package guest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// kubeletProcess is a process with kubelet's arguments, and its id.
func kubeletProcess(t *testing.T, arguments ...string) int {
	t.Helper()
	cmd := exec.Command("/bin/sh") // a shell that waits keeps the arguments that it was started with
	cmd.Args = append([]string{"/opt/bin/kubelet", "-c", "read -r never", "sh"}, arguments...)
	wait, err := cmd.StdinPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = wait.Close()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

// units is what systemctl says of kubelet.service, and of every other unit that would run a kubelet.
func units(pid int, lines ...string) string {
	ours := append([]string{fmt.Sprintf("MainPID=%d", pid), "Id=kubelet.service", "ActiveState=active"}, lines...)
	blocks := []string{strings.Join(ours, "\n")}
	for _, name := range []string{"k3s", "k3s-agent", "rke2-server"} {
		blocks = append(blocks, "MainPID=0\nId="+name+".service\nActiveState=inactive\nFragmentPath=\nDropInPaths=\nNeedDaemonReload=no")
	}
	return strings.Join(blocks, "\n\n")
}

const (
	bootLog = `[    0.000000] Linux version 6.1.0-57-cloud-amd64 (debian-kernel@lists.debian.org)
[    0.438886] Memory: 1868000K/2096632K available (14343K kernel code, 2327K rwdata, 119132K reserved, 0K cma-reserved)
[    1.100000] systemd[1]: Hostname set to <demo-node-1>.`
	kubeletYAML = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}}
cgroupDriver: systemd
cpuManagerPolicy: none
`
)

// layOutInspection adds to the machine what an inspection looks at: 16 slots with three DIMMs, a kubelet as kubeadm sets it up.
func (m *machine) layOutInspection(pid int) {
	for i := range 16 {
		m.write(fmt.Sprintf("sys/bus/acpi/devices/PNP0C80:%02x/status", i), map[bool]string{true: "15", false: "0"}[i < 3])
	}
	m.write("sys/bus/acpi/devices/PNP0C0A:00/status", "15")
	m.write("proc/meminfo", "MemTotal:        1960208 kB\nMemFree:          123456 kB\nMemAvailable:     900000 kB")
	m.write("sys/devices/system/memory/auto_online_blocks", "offline")
	m.write("sys/module/memory_hotplug/parameters/memmap_on_memory", "N")
	m.write("state/dmesg", bootLog)
	m.write("state/journal", "")
	m.write("var/lib/kubelet/config.yaml", kubeletYAML)
	m.write("var/lib/kubelet/kubeadm-flags.env", "KUBELET_KUBEADM_ARGS=")
	m.write("etc/systemd/system/kubelet.service", "[Service]")
	m.write("etc/systemd/system/kubelet.service.d/10-kubeadm.conf", "[Service]")
	m.write("state/units", units(pid, "NeedDaemonReload=no", "FragmentPath=/etc/systemd/system/kubelet.service",
		"DropInPaths=/etc/systemd/system/kubelet.service.d/10-kubeadm.conf",
		"EnvironmentFiles=/var/lib/kubelet/kubeadm-flags.env (ignore_errors=yes)", "EnvironmentFiles=/etc/default/kubelet (ignore_errors=yes)"))
	for _, path := range configFiles() {
		m.age(path, stamp)
	}
}

func configFiles() []string {
	return []string{"/etc/systemd/system/kubelet.service", "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf", "/var/lib/kubelet/kubeadm-flags.env", "/var/lib/kubelet/config.yaml"}
}

var stamp = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// age sets a file's time of modification.
func (m *machine) age(path string, at time.Time) {
	m.t.Helper()
	must(m.t, os.Chtimes(filepath.Join(m.tree, path), at, at))
}

// inspection is what the machine of layOutInspection shows.
func inspection() capacity.Inspection {
	want := capacity.Inspection{DIMMSlots: 16, DIMMsPlugged: 3, ACPI: true, MemAvailable: 900000 << 10, AutoOnline: "offline",
		Kernel:  capacity.KernelLog{Whole: true, BootMemory: 2096632 << 10},
		Kubelet: capacity.KubeletConfig{Path: "/var/lib/kubelet/config.yaml", CPUManagerPolicy: "none"}}
	for _, path := range configFiles() {
		want.Kubelet.Files = append(want.Kubelet.Files, capacity.ConfigFile{Path: path, Modified: stamp})
	}
	return want
}

// inspect reads the machine as the user.
func (m *machine) inspect(user string) (capacity.Inspection, error) {
	m.t.Helper()
	return open(m.t, m.as(user)).Inspect(m.t.Context(), target())
}

func TestInspect(t *testing.T) {
	pid := kubeletProcess(t, "--config=/var/lib/kubelet/config.yaml")
	for name, test := range map[string]struct {
		change func(*machine)
		want   func(*capacity.Inspection)
	}{
		"as CKS and kubeadm set it up": {func(*machine) {}, func(*capacity.Inspection) {}},
		"a machine that was started without slots": {
			func(m *machine) {
				m.remove("sys/bus/acpi/devices")
				m.write("sys/bus/acpi/devices/PNP0C0A:00/status", "15")
			},
			func(i *capacity.Inspection) { i.DIMMSlots, i.DIMMsPlugged = 0, 0 }},
		"no ACPI": {
			func(m *machine) { m.remove("sys/bus/acpi") },
			func(i *capacity.Inspection) { i.DIMMSlots, i.DIMMsPlugged, i.ACPI = 0, 0, false }},
		"the kernel refused a DIMM and a CPU": {
			func(m *machine) {
				m.write("state/dmesg", bootLog+`
[    2.559933] Block size [0x8000000] unaligned hotplug range: start 0x100000000, size 0x3e800000
[    2.560183] acpi PNP0C80:00: add_memory failed
[    2.560740] acpi PNP0C80:00: acpi_memory_enable_device() error
[    9.100000] APIC: NR_CPUS/possible_cpus limit of 4 reached. Processor 4/0x4 ignored.`)
			},
			func(i *capacity.Inspection) {
				i.Kernel.MemoryRefused = []string{"Block size [0x8000000] unaligned hotplug range: start 0x100000000, size 0x3e800000",
					"acpi PNP0C80:00: add_memory failed", "acpi PNP0C80:00: acpi_memory_enable_device() error"}
				i.Kernel.CPUsRefused = []string{"APIC: NR_CPUS/possible_cpus limit of 4 reached. Processor 4/0x4 ignored."}
			}},
		"the log was overwritten, the journal tells": {
			func(m *machine) {
				m.write("state/dmesg", "[90000.560183] acpi PNP0C80:00: add_memory failed")
				m.write("state/journal", `[    0.000000] demo-node-1 kernel: Linux version 6.1.0-57-cloud-amd64 (debian-kernel@lists.debian.org)
[    0.438886] demo-node-1 kernel: Memory: 1868000K/2096632K available (14343K kernel code)
[90000.560183] demo-node-1 kernel: acpi PNP0C80:00: add_memory failed`)
			},
			func(i *capacity.Inspection) { i.Kernel.MemoryRefused = []string{"acpi PNP0C80:00: add_memory failed"} }},
		"the log was overwritten, and so was the journal": {
			func(m *machine) { m.write("state/dmesg", "[90000.1] veth1: link up") },
			func(i *capacity.Inspection) { i.Kernel = capacity.KernelLog{} }},
		"an inflated balloon": {
			func(m *machine) {
				m.write("proc/vmstat", "balloon_inflate 107776\nballoon_deflate 42240\nballoon_migrate 7")
			},
			func(i *capacity.Inspection) { i.Balloon = 256 << 20 }},
		"a kernel that knows no balloon": {func(m *machine) { m.write("proc/vmstat", "nr_free_pages 20000") }, func(*capacity.Inspection) {}},
		"page structs on the DIMM, blocks go online as movable": {
			func(m *machine) {
				m.write("sys/module/memory_hotplug/parameters/memmap_on_memory", "Y")
				m.write("sys/devices/system/memory/auto_online_blocks", "online_movable")
			},
			func(i *capacity.Inspection) { i.MemmapOnMemory, i.AutoOnline = true, "online_movable" }},
		"a static policy in the configuration": {
			func(m *machine) {
				m.write("var/lib/kubelet/config.yaml", "cpuManagerPolicy: static\nmemoryManagerPolicy: Static\nevictionHard: {memory.available: 5%, nodefs.available: 10%}")
				m.age("var/lib/kubelet/config.yaml", stamp.Add(time.Hour))
			},
			func(i *capacity.Inspection) {
				i.Kubelet.CPUManagerPolicy, i.Kubelet.MemoryManagerPolicy, i.Kubelet.Percentages = "static", "Static", []string{"evictionHard memory.available 5%"}
				i.Kubelet.Files[3].Modified = stamp.Add(time.Hour)
			}},
		"no configuration file": {
			func(m *machine) { m.remove("var/lib/kubelet/config.yaml") },
			func(i *capacity.Inspection) {
				i.Kubelet.Unread, i.Kubelet.CPUManagerPolicy, i.Kubelet.Files = "there is no such file, or it can't be read", "", i.Kubelet.Files[:3]
			}},
		"an endless configuration file": {
			func(m *machine) {
				m.write("var/lib/kubelet/config.yaml", strings.Repeat("#", 70<<10))
				m.age("var/lib/kubelet/config.yaml", stamp)
			},
			func(i *capacity.Inspection) {
				i.Kubelet.Unread, i.Kubelet.CPUManagerPolicy = "it is longer than 64 KiB", ""
			}},
		"kubelet runs inside k3s": {
			func(m *machine) {
				text := strings.Replace(units(0, "NeedDaemonReload=no", "FragmentPath=", "DropInPaths="), "ActiveState=active", "ActiveState=inactive", 1)
				m.write("state/units", strings.Replace(text, "Id=k3s-agent.service\nActiveState=inactive", "Id=k3s-agent.service\nActiveState=active", 1))
			},
			func(i *capacity.Inspection) {
				i.OtherKubelets, i.Kubelet.Files = []string{"k3s-agent.service is active"}, i.Kubelet.Files[3:]
			}},
		"the unit was changed, and systemd was not told": {
			func(m *machine) {
				m.write("state/units", strings.Replace(m.read("state/units"), "NeedDaemonReload=no", "NeedDaemonReload=yes", 1))
			},
			func(i *capacity.Inspection) { i.Kubelet.NeedsReload = true }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			m.layOutInspection(pid)
			test.change(m)
			want := inspection()
			test.want(&want)
			overSSH, err := m.inspect("cloud")
			must(t, err)
			inPod, err := NewPods(m.host(), Timeouts{}).Inspect(t.Context(), target())
			must(t, err)
			for way, got := range map[string]capacity.Inspection{"over SSH": overSSH, "in a pod": inPod} {
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("inspection %s (-want +got):\n%s", way, diff)
				}
			}
		})
	}
}

// kubelet's arguments say where its configuration is, and win over it.
func TestInspectFollowsKubeletsArguments(t *testing.T) {
	m := newMachine(t)
	pid := kubeletProcess(t, "--config", "/etc/kubernetes/kubelet.yaml", "--config-dir=/etc/kubernetes/kubelet.d", "--memory-manager-policy=None", "--eviction-hard=memory.available<3%,nodefs.available<1%")
	m.layOutInspection(pid)
	m.write("etc/kubernetes/kubelet.yaml", "memoryManagerPolicy: Static\ncpuManagerPolicy: static\nsystemReserved: {cpu: 1, memory: 1Gi}")
	m.write("etc/kubernetes/kubelet.d/10-a.conf", "cpuManagerPolicy: none")
	m.write("etc/kubernetes/kubelet.d/20-b.conf", "kubeReserved: {memory: 10%}")
	m.write("etc/kubernetes/kubelet.d/30-c.yaml", "cpuManagerPolicy: static")
	got, err := m.inspect("root")
	must(t, err)
	k := got.Kubelet
	if k.Path != "/etc/kubernetes/kubelet.yaml" || k.CPUManagerPolicy != "none" || k.MemoryManagerPolicy != "None" || k.Unread != "" {
		t.Errorf("%+v", k)
	}
	if diff := cmp.Diff([]string{"kubeReserved memory 10%", "evictionHard memory.available 3%"}, k.Percentages); diff != "" {
		t.Error(diff)
	}
	var paths []string
	for _, f := range k.Files[3:] {
		paths = append(paths, f.Path)
	}
	if diff := cmp.Diff([]string{"/etc/kubernetes/kubelet.yaml", "/etc/kubernetes/kubelet.d/10-a.conf", "/etc/kubernetes/kubelet.d/20-b.conf"}, paths); diff != "" {
		t.Error(diff)
	}
}

// A dedicated etcd machine has no kubelet.
func TestInspectWithoutKubelet(t *testing.T) {
	m := newMachine(t)
	m.layOutInspection(0)
	m.remove("var/lib/kubelet")
	m.write("state/units", strings.Replace(units(0, "NeedDaemonReload=no", "FragmentPath=", "DropInPaths="), "ActiveState=active", "ActiveState=inactive", 1))
	got, err := m.inspect("root")
	must(t, err)
	if got.DIMMSlots != 16 || got.Kubelet.Unread == "" || got.Kubelet.Files != nil || got.OtherKubelets != nil {
		t.Errorf("%+v", got)
	}
}

// inspectAnswer is a good answer of the inspect command.
func inspectAnswer() []string {
	return []string{"acpi=1", "slot=15", "slot=0", "mem_available=900000 kB", "memmap_on_memory=N", "auto_online=offline",
		"kernel=[    0.000000] Linux version 6.1.0", "kernel=[    0.4] Memory: 1868000K/2096632K available (14343K kernel code)",
		"reload=no", "unit=k3s.service inactive", "arguments=base64:", "config_path=/var/lib/kubelet/config.yaml", "config=base64:Y3B1TWFuYWdlclBvbGljeTogc3RhdGljCg==", "file=1767355200 /var/lib/kubelet/config.yaml"}
}

func TestParseInspectionIsStrict(t *testing.T) {
	got, err := parseInspection(inspectAnswer())
	must(t, err)
	if got.Kubelet.CPUManagerPolicy != "static" || !got.Kernel.Whole || got.DIMMSlots != 2 || got.DIMMsPlugged != 1 || !got.Kubelet.Files[0].Modified.Equal(stamp) {
		t.Errorf("%+v", got)
	}
	for i, line := range inspectAnswer() {
		key, _, _ := strings.Cut(line, "=")
		if once, _ := inspectFields(); once[key] == nil {
			continue
		}
		if _, err := parseInspection(slices.Delete(inspectAnswer(), i, i+1)); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("without %s: err = %v", key, err)
		}
		if _, err := parseInspection(append(inspectAnswer(), line)); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s twice: err = %v", key, err)
		}
	}
	for _, bad := range []string{"slot=", "slot=on", "slot=-1", "balloon_inflate=", "balloon_deflate=-1", "unit=k3s.service", "unit= active", "config=", "config=base64:###", "file=", "file=now /x", "file=1 ", "surprise=1", "", "words",
		"kernel=Memory: 1K/999999999999999999K available ("} {
		_, err := parseInspection(append(inspectAnswer(), bad))
		if wantErr := !strings.HasPrefix(bad, "kernel="); (err != nil) != wantErr {
			t.Errorf("with %q: err = %v", bad, err)
		}
	}
}

func TestReadKubeletConfig(t *testing.T) {
	for name, test := range map[string]struct {
		file string
		args []string
		want capacity.KubeletConfig
	}{
		"empty":                          {"", nil, capacity.KubeletConfig{}},
		"kubeadm's":                      {kubeletYAML, nil, capacity.KubeletConfig{CPUManagerPolicy: "none"}},
		"JSON is YAML":                   {`{"cpuManagerPolicy":"static"}`, nil, capacity.KubeletConfig{CPUManagerPolicy: "static"}},
		"a flag in two words wins":       {"cpuManagerPolicy: static", []string{"kubelet", "--cpu-manager-policy", "none"}, capacity.KubeletConfig{CPUManagerPolicy: "none"}},
		"the last flag wins":             {"", []string{"--cpu-manager-policy=none", "--cpu-manager-policy=static"}, capacity.KubeletConfig{CPUManagerPolicy: "static"}},
		"a flag without its value":       {"", []string{"--cpu-manager-policy"}, capacity.KubeletConfig{}},
		"another flag that begins so":    {"", []string{"--cpu-manager-policy-options=static"}, capacity.KubeletConfig{}},
		"reservations in percent":        {"systemReserved: {memory: 5%}\nevictionHard: {memory.available: 100Mi, nodefs.available: 10%}", nil, capacity.KubeletConfig{Percentages: []string{"systemReserved memory 5%"}}},
		"reservations by flags":          {"evictionHard: {memory.available: 5%}", []string{"--eviction-hard=memory.available<200Mi", "--kube-reserved=cpu=10%,memory=1Gi"}, capacity.KubeletConfig{Percentages: []string{"kubeReserved cpu 10%"}}},
		"not YAML":                       {"\t- {", nil, capacity.KubeletConfig{Unread: "it is not the YAML we know"}},
		"another shape":                  {"cpuManagerPolicy: [static]", nil, capacity.KubeletConfig{Unread: "it is not the YAML we know"}},
		"escapes for a terminal are cut": {"cpuManagerPolicy: \"st\\x1batic\"", nil, capacity.KubeletConfig{CPUManagerPolicy: "st atic"}},
	} {
		var got capacity.KubeletConfig
		readKubeletConfig(&got, [][]byte{[]byte(test.file)}, test.args)
		got.Unread, _, _ = strings.Cut(got.Unread, ":")
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func FuzzParseInspection(f *testing.F) {
	f.Add(strings.Join(inspectAnswer(), "\n"))
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseInspection(strings.Split(text, "\n"))
		if err != nil {
			return
		}
		if got.DIMMsPlugged > got.DIMMSlots || got.MemAvailable < 1 || got.Kernel.BootMemory < 0 {
			t.Errorf("accepted an impossible inspection: %+v", got)
		}
	})
}

func FuzzReadKubeletConfig(f *testing.F) {
	f.Add([]byte(kubeletYAML), "--eviction-hard=memory.available<5%")
	f.Add([]byte("{"), "")
	f.Fuzz(func(t *testing.T, file []byte, argument string) {
		var k capacity.KubeletConfig
		readKubeletConfig(&k, [][]byte{file}, []string{"kubelet", argument})
		for _, p := range k.Percentages {
			if !strings.HasSuffix(p, "%") {
				t.Errorf("%q is no percentage", p)
			}
		}
	})
}
