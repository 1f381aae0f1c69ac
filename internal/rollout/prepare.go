package rollout

import (
	"fmt"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// Unprepared lists why a node can't be scaled live to anything bigger, as far as a stop and start of its instance mends that: CloudStack builds
// the machine's maxima and its slots for DIMMs at each start. A guest that was not inspected tells nothing of its slots.
func Unprepared(seen Observation) []capacity.Check {
	i, g := seen.Instance, seen.Guest
	checks := []capacity.Check{
		preflight("dynamic scaling of the instance", i.DynamicallyScalable, "isdynamicallyscalable true", fmt.Sprint(i.DynamicallyScalable)),
		preflight("CPUs that the guest can ever have in this boot", g.CPUsPossible > i.CPUs, fmt.Sprintf("more than %d", i.CPUs), fmt.Sprint(g.CPUsPossible)),
	}
	if in := seen.Inspection; in != nil && in.Unread == "" && in.ACPI {
		checks = append(checks, preflight("slots for DIMMs", in.DIMMSlots > in.DIMMsPlugged, "a free one", fmt.Sprintf("%d of %d taken", in.DIMMsPlugged, in.DIMMSlots)))
	}
	var out []capacity.Check
	for _, c := range checks {
		if !c.OK {
			out = append(out, c)
		}
	}
	return out
}
