package guest

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// Inspect reads what is looked at only before the first change. It takes a guest several times as long as a probe.
func (s *SSH) Inspect(ctx context.Context, target rollout.Target) (capacity.Inspection, error) {
	g, err := s.enter(ctx, target)
	if err != nil {
		return capacity.Inspection{}, err
	}
	return g.inspect(ctx)
}

func (g *guest) inspect(ctx context.Context) (capacity.Inspection, error) {
	lines, err := g.run(ctx, inspectCommand(), g.timeouts.Inspect, "")
	if err != nil {
		return capacity.Inspection{}, err
	}
	inspection, err := parseInspection(lines)
	if err != nil {
		return capacity.Inspection{}, fmt.Errorf("%v: inspect: %w", place{target: g.target}, err)
	}
	return inspection, nil
}

// inspected collects the answer of the inspect command.
type inspected struct {
	capacity.Inspection

	configs   [][]byte // kubelet's configuration, then its drop-ins
	arguments []string // of the kubelet process
}

// inspectFields are the keys of the answer; the ones that must be there exactly once, and the ones that may be there any number of times.
func inspectFields() (once, many map[string]func(*inspected, string) error) {
	text := func(at func(*inspected) *string) func(*inspected, string) error {
		return func(i *inspected, value string) error { *at(i) = oneLine(value); return nil }
	}
	once = map[string]func(*inspected, string) error{
		"acpi":             func(i *inspected, value string) error { i.ACPI = value == "1"; return nil },
		"mem_available":    memAvailable,
		"memmap_on_memory": func(i *inspected, value string) error { i.MemmapOnMemory = value != "" && value != "N"; return nil },
		"auto_online":      text(func(i *inspected) *string { return &i.AutoOnline }),
		"reload":           func(i *inspected, value string) error { i.Kubelet.NeedsReload = value == "yes"; return nil },
		"arguments":        arguments,
		"config_path":      text(func(i *inspected) *string { return &i.Kubelet.Path }),
	}
	many = map[string]func(*inspected, string) error{"slot": slot, "balloon_inflate": balloon(1), "balloon_deflate": balloon(-1), "kernel": kernelLine, "unit": otherUnit, "config": config, "file": configFile}
	return once, many
}

// parseInspection reads the answer, and refuses one with a missing, unknown or garbled key, or with one too many.
func parseInspection(lines []string) (capacity.Inspection, error) {
	var i inspected
	once, many := inspectFields()
	for _, line := range lines {
		key, value, ok := strings.Cut(line, "=")
		parse := many[key]
		if parse == nil {
			parse = once[key]
			delete(once, key)
		}
		if !ok || parse == nil {
			return capacity.Inspection{}, fmt.Errorf("unexpected line %q (unknown or repeated)", oneLine(line))
		}
		if err := parse(&i, value); err != nil {
			return capacity.Inspection{}, fmt.Errorf("%s: %w", key, err)
		}
	}
	if len(once) > 0 {
		return capacity.Inspection{}, fmt.Errorf("missing from the answer: %s", list(slices.Sorted(maps.Keys(once))))
	}
	readKubeletConfig(&i.Kubelet, i.configs, i.arguments)
	return i.Inspection, nil
}

func memAvailable(i *inspected, value string) error {
	var g capacity.Guest
	err := memTotal(&g, value)
	i.MemAvailable = g.MemTotal
	return err
}

// slot reads the ACPI status of a slot; its lowest bit says that something is in it.
func slot(i *inspected, value string) error {
	status, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		return fmt.Errorf("%q is not the status of an ACPI device", oneLine(value))
	}
	i.DIMMSlots++
	i.DIMMsPlugged += int(status & 1)
	return nil
}

// pageSize is what the kernel counts the balloon in, in bytes.
const pageSize = 4096

// balloon reads a count of pages that went into the balloon (1), or came out of it (-1).
func balloon(sign int64) func(*inspected, string) error {
	return func(i *inspected, value string) error {
		pages, err := strconv.ParseUint(value, 10, 40)
		if err != nil {
			return fmt.Errorf("%q is not a count of pages", oneLine(value))
		}
		i.Balloon += sign * int64(pages) * pageSize
		return nil
	}
}

// otherUnit reads a unit that would run a kubelet, and its state.
func otherUnit(i *inspected, value string) error {
	unit, state, ok := strings.Cut(value, " ")
	if !ok || unit == "" {
		return fmt.Errorf("%q is not a unit and its state", oneLine(value))
	}
	if state != "inactive" && state != "failed" {
		i.OtherKubelets = append(i.OtherKubelets, oneLine(unit+" is "+state))
	}
	return nil
}

// bootMemory is in the kernel's words at its boot: "Memory: 260860K/523768K available (14343K kernel code, …".
var bootMemory = regexp.MustCompile(`/(\d{1,15})K available \(`)

// refusedMemory are words of the kernel when it refuses a DIMM.
func refusedMemory() []string {
	return []string{"unaligned hotplug range", "add_memory failed", "acpi_memory_enable_device"}
}

func kernelLine(i *inspected, line string) error {
	k := &i.Kernel
	text := oneLine(withoutStamp(line))
	switch found := bootMemory.FindStringSubmatch(text); {
	case strings.Contains(text, "Linux version "):
		k.Whole = true
	case found != nil:
		kib, err := strconv.ParseInt(found[1], 10, 50)
		if err != nil {
			return err
		}
		k.BootMemory = kib << 10
	case slices.ContainsFunc(refusedMemory(), func(words string) bool { return strings.Contains(text, words) }):
		k.MemoryRefused = withNew(k.MemoryRefused, text)
	default:
		k.CPUsRefused = withNew(k.CPUsRefused, text)
	}
	return nil
}

// withNew adds a line unless it is there already: where the kernel's own log does not reach back to the boot, the journal tells part of it once more.
func withNew(lines []string, line string) []string {
	if slices.Contains(lines, line) {
		return lines
	}
	return append(lines, line)
}

// withoutStamp cuts "[    2.559933] " off a line of dmesg, and "[    2.559933] host kernel: " off one of the journal.
func withoutStamp(line string) string {
	if rest, ok := strings.CutPrefix(line, "["); ok {
		if _, text, ok := strings.Cut(rest, "] "); ok {
			line = text
		}
	}
	if _, text, ok := strings.Cut(line, " kernel: "); ok {
		return text
	}
	return line
}

// base64Text decodes what a script printed as base64:….
func base64Text(value string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(value, "base64:")
	content, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil {
		return nil, errors.New("the file did not arrive whole")
	}
	return content, nil
}

func arguments(i *inspected, value string) error {
	content, err := base64Text(value)
	for word := range bytes.SplitSeq(content, []byte{0}) {
		i.arguments = append(i.arguments, string(word))
	}
	return err
}

func config(i *inspected, value string) error {
	content, err := base64Text(value)
	i.configs = append(i.configs, content)
	return err
}

// configFile reads seconds since 1970 and a path.
func configFile(i *inspected, value string) error {
	seconds, path, ok := strings.Cut(value, " ")
	s, err := strconv.ParseInt(seconds, 10, 40)
	if !ok || err != nil || path == "" {
		return fmt.Errorf("%q is not a time and a path", oneLine(value))
	}
	i.Kubelet.Files = append(i.Kubelet.Files, capacity.ConfigFile{Path: oneLine(path), Modified: time.Unix(s, 0).UTC()})
	return nil
}
