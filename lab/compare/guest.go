package compare

import (
	"context"
	"fmt"
	"time"

	"github.com/cks-trueup/trueup/lab/cluster"
	"github.com/cks-trueup/trueup/lab/guest"
)

// selfOnlining makes a guest bring up what is plugged, as many images' udev rules do: the contenders other than trueup leave that to the guest. The
// login user gets the rights that a runbook takes for granted; the lab itself has none but trueup's.
const selfOnlining = `
printf '%s\n' 'SUBSYSTEM=="cpu", ACTION=="add", TEST=="online", ATTR{online}="1"' 'SUBSYSTEM=="memory", ACTION=="add", TEST=="state", ATTR{state}="online"' |
	sudo tee /etc/udev/rules.d/80-hotplug.rules >/dev/null
sudo udevadm control --reload
echo 'cloud ALL=(ALL) NOPASSWD:ALL' >/etc/sudoers.d/runbook # a runbook knows no narrower rights
`

// guestTimes are the guest's own records of a growth, by this machine's clock.
func guestTimes(ctx context.Context, node *cluster.Node) (plugged, started time.Time, err error) {
	boot, err := node.BootTime(ctx)
	if err != nil {
		return plugged, started, err
	}
	log, err := node.Run(ctx, "cat "+guest.HotplugLog)
	if err != nil {
		return plugged, started, err
	}
	came := guest.Arrivals(log)
	if len(came) == 0 {
		return plugged, started, fmt.Errorf("%s: nothing came up", node.Name())
	}
	start, err := node.Count(ctx, "systemctl show --property=ExecMainStartTimestampMonotonic --value kubelet", time.Microsecond)
	return boot.Add(came[len(came)-1].At), boot.Add(start), err
}
