package guest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

const mib = 1 << 20

// Hardware is a guest's size as QEMU has it, whatever the guest's kernel made of it.
type Hardware struct {
	MemoryMiB    int // at boot and plugged
	MaxMemoryMiB int
	VCPUs        int
	MaxVCPUs     int
	DIMMs        int // slots in use
	MaxDIMMs     int
}

// Hardware asks QEMU.
func (g *Guest) Hardware(context.Context) (Hardware, error) {
	var size struct {
		Base    int64 `json:"base-memory"`
		Plugged int64 `json:"plugged-memory"`
	}
	if err := g.QMP.Execute("query-memory-size-summary", nil, &size); err != nil {
		return Hardware{}, err
	}
	dimms, err := g.dimms()
	if err != nil {
		return Hardware{}, err
	}
	slots, err := g.cpuSlots()
	if err != nil {
		return Hardware{}, err
	}
	free := slices.DeleteFunc(slices.Clone(slots), cpuSlot.taken)
	return Hardware{
		MemoryMiB: int((size.Base + size.Plugged) / mib), MaxMemoryMiB: g.spec.MaxMemoryMiB,
		VCPUs: len(slots) - len(free), MaxVCPUs: len(slots),
		DIMMs: dimms, MaxDIMMs: g.spec.DIMMSlots,
	}, nil
}

func (g *Guest) dimms() (int, error) {
	var devices []struct {
		Type string `json:"type"`
	}
	if err := g.QMP.Execute("query-memory-devices", nil, &devices); err != nil {
		return 0, err
	}
	return len(devices), nil
}

// PlugMemory plugs one DIMM of the given size. QEMU takes any size; the guest's kernel refuses one that is not a
// multiple of its memory block size (128 MiB), and nothing on this side tells.
func (g *Guest) PlugMemory(_ context.Context, mebibytes int) error {
	g.plug.Lock()
	defer g.plug.Unlock()
	count, err := g.dimms()
	if err != nil {
		return err
	}
	backend, dimm := fmt.Sprintf("mem%d", count), fmt.Sprintf("dimm%d", count)
	err = g.QMP.Execute("object-add", map[string]any{"qom-type": "memory-backend-ram", "id": backend, "size": mebibytes * mib}, nil)
	if err != nil {
		return fmt.Errorf("guest %s: plug %d MiB: %w", g.spec.Name, mebibytes, err)
	}
	if err := g.QMP.Execute("device_add", map[string]any{"driver": "pc-dimm", "id": dimm, "memdev": backend}, nil); err != nil {
		_ = g.QMP.Execute("object-del", map[string]any{"id": backend}, nil)
		return fmt.Errorf("guest %s: plug %d MiB: %w", g.spec.Name, mebibytes, err)
	}
	return nil
}

// cpuSlot is one place for a vCPU.
type cpuSlot struct {
	Type  string         `json:"type"`
	Props map[string]int `json:"props"`
	Path  string         `json:"qom-path"` // set when the place is taken
}

func (s cpuSlot) taken() bool { return s.Path != "" }

// before orders places as the guest's kernel numbers CPUs.
func (s cpuSlot) before(o cpuSlot) int {
	return cmp.Or(
		cmp.Compare(s.Props["socket-id"], o.Props["socket-id"]),
		cmp.Compare(s.Props["core-id"], o.Props["core-id"]),
		cmp.Compare(s.Props["thread-id"], o.Props["thread-id"]),
	)
}

func (g *Guest) cpuSlots() ([]cpuSlot, error) {
	var slots []cpuSlot
	if err := g.QMP.Execute("query-hotpluggable-cpus", nil, &slots); err != nil {
		return nil, err
	}
	slices.SortFunc(slots, cpuSlot.before)
	return slots, nil
}

// SetVCPUs raises the number of vCPUs to count. It never lowers it: a vCPU that is unplugged under software emulation
// makes QEMU 7.2 crash at the next plug.
func (g *Guest) SetVCPUs(_ context.Context, count int) error {
	g.plug.Lock()
	defer g.plug.Unlock()
	slots, err := g.cpuSlots()
	if err != nil {
		return err
	}
	present := len(slots) - len(slices.DeleteFunc(slices.Clone(slots), cpuSlot.taken))
	if count < present || count > len(slots) {
		return fmt.Errorf("guest %s: %d vCPUs wanted, %d present: possible are %d to %d", g.spec.Name, count, present, present, len(slots))
	}
	for _, slot := range slots {
		if present == count {
			return nil
		}
		if slot.taken() {
			continue
		}
		if err := g.plugCPU(slot); err != nil {
			return err
		}
		present++
	}
	return nil
}

func (g *Guest) plugCPU(slot cpuSlot) error {
	arguments := map[string]any{"driver": slot.Type, "id": fmt.Sprintf("cpu-%d-%d", slot.Props["socket-id"], slot.Props["core-id"])}
	for name, value := range slot.Props {
		arguments[name] = value
	}
	if err := g.QMP.Execute("device_add", arguments, nil); err != nil {
		return fmt.Errorf("guest %s: plug a vCPU: %w", g.spec.Name, err)
	}
	return nil
}
