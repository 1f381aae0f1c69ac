package guest

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Arrival is the coming up of one CPU or memory block, by the kernel's own event.
type Arrival struct {
	Device string        // cpu2, memory40
	At     time.Duration // since boot
}

// HotplugLog is a file in the guest that udevadm writes the kernel's events about CPUs and memory blocks to, with the time since boot.
const HotplugLog = "/run/hotplug.log"

// RecordHotplug starts the recorder of HotplugLog in this boot of the guest, and returns when it listens.
func (g *Guest) RecordHotplug(ctx context.Context) error {
	if _, err := g.Run(ctx, "systemd-run --quiet --unit=hotplug-recorder --property=StandardOutput=file:"+HotplugLog+
		" stdbuf -oL udevadm monitor --kernel --subsystem-match=cpu --subsystem-match=memory"); err != nil {
		return err
	}
	retry := time.NewTicker(100 * time.Millisecond)
	defer retry.Stop()
	for {
		log, err := g.Run(ctx, "cat "+HotplugLog)
		if err != nil || strings.Contains(log, "the kernel uevent") {
			return err
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
			return fmt.Errorf("guest %s: its recorder of hotplug events does not listen: %w", g.spec.Name, ctx.Err())
		}
	}
}

// cameUp matches what udevadm monitor prints: KERNEL[302.384615] online   /devices/system/memory/memory32 (memory).
var cameUp = regexp.MustCompile(`(?m)^KERNEL\[(\d+\.\d{6})\] online +/devices/system/(?:cpu|memory)/(\w+) `)

// Arrivals lists the CPUs and memory blocks that came up since the recorder of the log was started, oldest first.
func Arrivals(log string) (all []Arrival) {
	for _, match := range cameUp.FindAllStringSubmatch(log, -1) {
		at, err := time.ParseDuration(match[1] + "s")
		if err != nil {
			panic(err) // the pattern matches only digits
		}
		all = append(all, Arrival{Device: match[2], At: at})
	}
	return all
}

// BootTime is when the guest was booted by this machine's clock, as exactly as the quickest of a few questions allows.
func (g *Guest) BootTime(ctx context.Context) (boot time.Time, err error) {
	quickest := time.Minute
	for range 8 {
		asked := time.Now()
		up, err := g.Count(ctx, `sed -n 's/^now at \([0-9]*\) nsecs/\1/p;T;q' /proc/timer_list`, time.Nanosecond)
		if err != nil {
			return boot, err
		}
		if took := time.Since(asked); took < quickest {
			quickest, boot = took, asked.Add(took/2).Add(-up)
		}
	}
	return boot, nil
}

// Count runs a command that prints a count of units of time.
func (g *Guest) Count(ctx context.Context, command string, unit time.Duration) (time.Duration, error) {
	out, err := g.Run(ctx, command)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(out), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("guest %s: %q: %w", g.spec.Name, command, err)
	}
	return time.Duration(n) * unit, nil
}
