package compare

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/cks-trueup/trueup/lab/cluster"
)

// selfOnlining makes a guest bring up what is plugged, as many images' udev rules do: the contenders other than trueup leave that to the guest. The
// recorder writes down when. The login user gets the rights that a runbook takes for granted; the lab itself has none but trueup's.
const selfOnlining = `
printf '%s\n' 'SUBSYSTEM=="cpu", ACTION=="add", TEST=="online", ATTR{online}="1"' 'SUBSYSTEM=="memory", ACTION=="add", TEST=="state", ATTR{state}="online"' |
	sudo tee /etc/udev/rules.d/80-hotplug.rules >/dev/null
sudo udevadm control --reload
echo 'cloud ALL=(ALL) NOPASSWD:ALL' >/etc/sudoers.d/runbook # a runbook knows no narrower rights
sudo systemd-run --quiet --unit=hotplug-recorder --property=StandardOutput=file:/run/hotplug.log \
	stdbuf -oL udevadm monitor --kernel --subsystem-match=cpu --subsystem-match=memory
for try in $(seq 100); do grep -q "the kernel uevent" /run/hotplug.log && exit 0; done
exit 1
`

// cameUp matches what udevadm monitor prints: KERNEL[302.384615] online   /devices/system/memory/memory32 (memory).
var cameUp = regexp.MustCompile(`(?m)^KERNEL\[(\d+\.\d{6})\] online +/devices/system/(?:cpu|memory)/\w+ `)

// lastArrival is when the last CPU or memory block came up, since the guest's boot; 0 if none did.
func lastArrival(log string) (last time.Duration, err error) {
	for _, match := range cameUp.FindAllStringSubmatch(log, -1) {
		if last, err = time.ParseDuration(match[1] + "s"); err != nil {
			return 0, err
		}
	}
	return last, nil
}

// bootTime is when the guest was booted by this machine's clock, as exactly as the quickest of a few questions allows.
func bootTime(ctx context.Context, node *cluster.Node) (boot time.Time, err error) {
	quickest := time.Minute
	for range 8 {
		asked := time.Now()
		up, err := number(ctx, node, `sudo sed -n 's/^now at \([0-9]*\) nsecs/\1/p;T;q' /proc/timer_list`, time.Nanosecond)
		if err != nil {
			return boot, err
		}
		if took := time.Since(asked); took < quickest {
			quickest, boot = took, asked.Add(took/2).Add(-up)
		}
	}
	return boot, nil
}

// number runs a command that prints a count of units.
func number(ctx context.Context, node *cluster.Node, command string, unit time.Duration) (time.Duration, error) {
	out, err := node.Run(ctx, command)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(out), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %q: %w", node.Name(), command, err)
	}
	return time.Duration(n) * unit, nil
}

// guestTimes are the guest's own records of a growth, by this machine's clock.
func guestTimes(ctx context.Context, node *cluster.Node) (plugged, started time.Time, err error) {
	boot, err := bootTime(ctx, node)
	if err != nil {
		return plugged, started, err
	}
	log, err := node.Run(ctx, "cat /run/hotplug.log")
	if err != nil {
		return plugged, started, err
	}
	last, err := lastArrival(log)
	if err != nil || last == 0 {
		return plugged, started, fmt.Errorf("%s: nothing came up: %w", node.Name(), err)
	}
	start, err := number(ctx, node, "systemctl show --property=ExecMainStartTimestampMonotonic --value kubelet", time.Microsecond)
	return boot.Add(last), boot.Add(start), err
}
