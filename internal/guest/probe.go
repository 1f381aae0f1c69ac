package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// field reads one value of the probe into the reading.
type field func(g *capacity.Guest, value string) error

// probeFields are the keys of the probe; each must be there exactly once. The last six are systemd's names for properties.
func probeFields() map[string]field {
	return map[string]field{
		"product_uuid":   uuidField(func(g *capacity.Guest) *string { return &g.ProductUUID }),
		"machine_id":     machineID,
		"boot_id":        uuidField(func(g *capacity.Guest) *string { return &g.BootID }),
		"cpu_online":     cpusField(func(g *capacity.Guest) *int { return &g.CPUsOnline }),
		"cpu_present":    cpusField(func(g *capacity.Guest) *int { return &g.CPUsPresent }),
		"cpu_possible":   cpusField(func(g *capacity.Guest) *int { return &g.CPUsPossible }),
		"block_size":     blockSize,
		"blocks_online":  countField(func(g *capacity.Guest) *int { return &g.BlocksOnline }),
		"blocks_offline": countField(func(g *capacity.Guest) *int { return &g.BlocksOffline }),
		"mem_total":      memTotal,

		"cpu_manager_state":    policyField(func(g *capacity.Guest) *string { return &g.CPUManagerPolicy }),
		"memory_manager_state": policyField(func(g *capacity.Guest) *string { return &g.MemoryManagerPolicy }),
		"kubepods_cpus":        kubepodsCPUs,
		"kubepods_memory":      kubepodsMemory,
		"cgroup":               countField(func(g *capacity.Guest) *int { return &g.CgroupVersion }),
		"clock":                clock,
		"monotonic":            monotonic,

		"ActiveState":                     textField(func(g *capacity.Guest) *string { return &g.Kubelet.ActiveState }),
		"SubState":                        textField(func(g *capacity.Guest) *string { return &g.Kubelet.SubState }),
		"InvocationID":                    invocationID,
		"MainPID":                         countField(func(g *capacity.Guest) *int { return &g.Kubelet.MainPID }),
		"ExecMainStartTimestampMonotonic": kubeletStart,
		"NRestarts":                       countField(func(g *capacity.Guest) *int { return &g.Kubelet.Restarts }),
	}
}

// parseProbe reads the answer of the probe, and refuses one with a missing, unknown, repeated or garbled key.
func parseProbe(lines []string) (capacity.Guest, error) {
	var reading capacity.Guest
	if err := parseFields(&reading, probeFields(), lines); err != nil {
		return capacity.Guest{}, err
	}
	return reading, nil
}

// parseFields reads key=value lines, each of the fields exactly once.
func parseFields(reading *capacity.Guest, missing map[string]field, lines []string) error {
	for _, line := range lines {
		key, value, ok := strings.Cut(line, "=")
		parse := missing[key]
		if !ok || parse == nil {
			return fmt.Errorf("unexpected line %q (unknown or repeated)", oneLine(line))
		}
		if err := parse(reading, value); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		delete(missing, key)
	}
	if len(missing) > 0 {
		return fmt.Errorf("missing from the answer: %s", list(slices.Sorted(maps.Keys(missing))))
	}
	return nil
}

func uuidField(at func(*capacity.Guest) *string) field {
	return func(g *capacity.Guest, value string) error {
		id, err := uuid.Parse(value)
		if err != nil || len(value) != len(id.String()) {
			return fmt.Errorf("%q is not a UUID", oneLine(value))
		}
		*at(g) = id.String() // lower case
		return nil
	}
}

func textField(at func(*capacity.Guest) *string) field {
	return func(g *capacity.Guest, value string) error {
		if value == "" || strings.Trim(value, "abcdefghijklmnopqrstuvwxyz-") != "" {
			return fmt.Errorf("%q is not a state of a systemd unit", oneLine(value))
		}
		*at(g) = value
		return nil
	}
}

func countField(at func(*capacity.Guest) *int) field {
	return func(g *capacity.Guest, value string) error {
		n, err := strconv.ParseUint(value, 10, 31)
		if err != nil {
			return fmt.Errorf("%q is not a count", oneLine(value))
		}
		*at(g) = int(n)
		return nil
	}
}

func cpusField(at func(*capacity.Guest) *int) field {
	return func(g *capacity.Guest, value string) error {
		n, err := countCPUs(value)
		if err == nil && n == 0 {
			err = errors.New("no CPU listed; the guest's sysfs can't be read")
		}
		*at(g) = n
		return err
	}
}

// policyField reads a state file of kubelet's. kubelet writes them whole, by renaming; one that can't be read would also stop kubelet.
func policyField(at func(*capacity.Guest) *string) field {
	return func(g *capacity.Guest, value string) error {
		if value == "absent" {
			return nil
		}
		content, err := base64Text(value)
		if err != nil {
			return err
		}
		policy, err := policyName(content)
		*at(g) = policy
		return err
	}
}

// policyName reads the policy from a state file of the CPU or memory manager. Up to Kubernetes 1.36 it is a field of the
// document; 1.37 has it in a document of its own, kept as a string in the field data.
func policyName(content []byte) (string, error) {
	var state struct {
		PolicyName string `json:"policyName"`
		Data       string `json:"data"`
	}
	if err := json.Unmarshal(content, &state); err != nil {
		return "", fmt.Errorf("kubelet's state file is not the JSON we know: %w", err)
	}
	if state.PolicyName == "" && state.Data != "" {
		if err := json.Unmarshal([]byte(state.Data), &state); err != nil {
			return "", fmt.Errorf("the field data of kubelet's state file is not the JSON we know: %w", err)
		}
	}
	if state.PolicyName == "" {
		return "", errors.New("kubelet's state file has no policyName")
	}
	return oneLine(state.PolicyName), nil
}

func machineID(g *capacity.Guest, value string) error {
	if !isHex32(value) {
		return fmt.Errorf("%q is not a machine id (32 hexadecimal digits)", oneLine(value))
	}
	g.MachineID = value
	return nil
}

func invocationID(g *capacity.Guest, value string) error {
	if value != "" && !isHex32(value) { // empty for a unit that never ran
		return fmt.Errorf("%q is not an InvocationID (32 hexadecimal digits)", oneLine(value))
	}
	g.Kubelet.InvocationID = value
	return nil
}

// blockSize reads hexadecimal digits without a prefix, as the kernel prints them.
func blockSize(g *capacity.Guest, value string) error {
	if value == "" {
		return errors.New("the guest's kernel has no memory blocks (/sys/devices/system/memory): it was built without memory hotplug, so its memory can't be verified")
	}
	n, err := strconv.ParseUint(value, 16, 63)
	if err != nil || n == 0 {
		return fmt.Errorf("%q is not a size in hexadecimal", oneLine(value))
	}
	g.BlockSize = int64(n)
	return nil
}

func memTotal(g *capacity.Guest, value string) error {
	digits, ok := strings.CutSuffix(value, " kB")
	kib, err := strconv.ParseUint(digits, 10, 52)
	if !ok || err != nil || kib == 0 {
		return fmt.Errorf("%q is not a size in kB", oneLine(value))
	}
	g.MemTotal = int64(kib) << 10
	return nil
}

func kubepodsCPUs(g *capacity.Guest, value string) (err error) {
	g.KubepodsCPUs, err = countCPUs(value)
	return err
}

// kubepodsMemory reads memory.max: bytes, or "max" for no limit; nothing where there is no such file.
func kubepodsMemory(g *capacity.Guest, value string) error {
	switch value {
	case "":
		return nil
	case "max":
		g.KubepodsMemory = capacity.Unlimited
		return nil
	}
	n, err := strconv.ParseUint(value, 10, 62)
	if err != nil {
		return fmt.Errorf("%q is not a memory limit", oneLine(value))
	}
	g.KubepodsMemory = int64(n)
	return nil
}

// clock reads seconds since 1970 and nanoseconds, with a point between.
func clock(g *capacity.Guest, value string) error {
	seconds, nanoseconds, _ := strings.Cut(value, ".")
	s, err := strconv.ParseUint(seconds, 10, 40)
	n, err2 := strconv.ParseUint(nanoseconds, 10, 30)
	if err != nil || err2 != nil || len(nanoseconds) != 9 {
		return fmt.Errorf("%q is not a time in seconds.nanoseconds", oneLine(value))
	}
	g.Clock = time.Unix(int64(s), int64(n)).UTC()
	return nil
}

func monotonic(g *capacity.Guest, value string) error {
	n, err := strconv.ParseUint(value, 10, 63)
	if err != nil || n == 0 {
		return fmt.Errorf("%q is not a time in nanoseconds; the guest's /proc/timer_list can't be read", oneLine(value))
	}
	g.Monotonic = time.Duration(n)
	return nil
}

func kubeletStart(g *capacity.Guest, value string) error {
	n, err := strconv.ParseUint(value, 10, 53)
	if err != nil {
		return fmt.Errorf("%q is not a time in microseconds", oneLine(value))
	}
	g.Kubelet.Start = time.Duration(n) * time.Microsecond
	return nil
}
