package guest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// reading is what the machine of layOut shows.
func reading() capacity.Guest {
	return capacity.Guest{
		ProductUUID: vmID, MachineID: "0123456789abcdef0123456789abcdef", BootID: "0b6e1c2d-3f4a-4b5c-8d7e-9f0a1b2c3d4e",
		CPUsOnline: 2, CPUsPresent: 2, CPUsPossible: 8,
		BlockSize: 128 << 20, BlocksOnline: 16, MemTotal: 1960208 << 10,
		Monotonic: 1234567890123 * time.Nanosecond,
		Kubelet: capacity.Unit{ActiveState: "active", SubState: "running", InvocationID: firstInvocation, MainPID: 812,
			Start: 34567890 * time.Microsecond},
		CPUManagerPolicy: "none", MemoryManagerPolicy: "None", KubepodsCPUs: 2, KubepodsMemory: 1960208 << 10, CgroupVersion: 2,
	}
}

func TestProbe(t *testing.T) {
	byEachWay(t, func(t *testing.T, enter func(*machine) *guest) {
		m := newMachine(t)
		g := enter(m)
		before := time.Now()
		got, err := g.Probe(t.Context())
		must(t, err)
		if got.Clock.Before(before.Truncate(time.Microsecond)) || got.Clock.After(time.Now()) {
			t.Errorf("Clock = %v, want between %v and now", got.Clock, before)
		}
		got.Clock = time.Time{}
		if diff := cmp.Diff(reading(), got); diff != "" {
			t.Errorf("reading (-want +got):\n%s", diff)
		}
	})
}
