package guest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestArrivals(t *testing.T) {
	for name, c := range map[string]struct {
		log  string
		want []Arrival
	}{
		"nothing": {"KERNEL - the kernel uevent\n", nil},
		"plugged": {"KERNEL[80.000001] add      /devices/system/cpu/cpu2 (cpu)\n", nil},
		"two": {"KERNEL[80.5] x\nKERNEL[81.250000] online   /devices/system/memory/memory32 (memory)\nKERNEL[81.500000] online   /devices/system/cpu/cpu2 (cpu)\n",
			[]Arrival{{"memory32", 81250 * time.Millisecond}, {"cpu2", 81500 * time.Millisecond}}},
	} {
		if diff := cmp.Diff(c.want, Arrivals(c.log)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
