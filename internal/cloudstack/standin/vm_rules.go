package standin

import (
	"fmt"
	"strconv"
	"strings"
)

// String is how CloudStack's messages name a VM.
func (vm *VM) String() string {
	return fmt.Sprintf(`VM instance {"instanceName":"%s","type":"User","uuid":"%s"}`, vm.InstanceName, vm.ID)
}

// checkResize holds a change of offering against CloudStack's rules, in its order.
func (m *Model) checkResize(vm *VM, o *Offering, goal size) *APIError {
	for _, rule := range []func(*VM, *Offering, size) *APIError{m.checkChange, m.checkCompatible, m.checkGrowth, m.checkLive} {
		if err := rule(vm, o, goal); err != nil {
			return err
		}
	}
	return nil
}

// checkChange is about the VM's state and the offering as such.
func (m *Model) checkChange(vm *VM, o *Offering, _ size) *APIError {
	switch {
	case o.Inactive:
		return refusedf("New service offering is inactive: [%s].", o.ID)
	case vm.State != VMStopped && vm.State != VMRunning:
		return refusedf("Unable to upgrade virtual machine %s  in state %s; make sure the virtual machine is stopped/running", vm, vm.State)
	case !o.Customized && vm.OfferingID == o.ID:
		return refusedf("Not upgrading vm %s since it already has the requested service offering (%s)", vm, o.Name)
	}
	return nil
}

// checkCompatible is about what both offerings must have in common.
func (m *Model) checkCompatible(vm *VM, o *Offering, _ size) *APIError {
	old := m.offering(vm.OfferingID)
	switch {
	case old == nil:
		return refusedf("Unable to find the service offering of %s", vm)
	case old.System != o.System:
		return refusedf("isSystem property is different for current service offering and new service offering")
	case old.LocalStorage != o.LocalStorage:
		return refusedf("Unable to upgrade virtual machine, cannot switch between local storage and shared storage use in service offerings. Current offering useLocalStorage=%t, target offering useLocalStorage=%t", old.LocalStorage, o.LocalStorage)
	case !includesTags(o.StorageTags, old.StorageTags):
		return refusedf("Unable to upgrade virtual machine; the current service offering should have tags as subset of new service offering tags. Current service offering tags: %s; new service offering tags: %s", old.StorageTags, o.StorageTags)
	case old.DiskStrict != o.DiskStrict:
		return refusedf("The disk offering strictness of current service offering and new service offering is not the same")
	case old.EncryptRoot != o.EncryptRoot:
		return refusedf("Cannot change the encryption of the root disk by a change of the service offering")
	case vm.State == VMRunning && old.DynamicScaling != o.DynamicScaling:
		return refusedf("Unable to Scale VM: since dynamic scaling enabled flag is not same for new service offering and old service offering")
	}
	return nil
}

// checkGrowth lets a running VM only grow.
func (m *Model) checkGrowth(vm *VM, _ *Offering, goal size) *APIError {
	old := m.sizeOf(vm)
	smaller := goal.CPUs < old.CPUs || goal.MHz < old.MHz || goal.MemoryMiB < old.MemoryMiB
	if vm.State != VMRunning || !smaller && goal != old {
		return nil
	}
	return refusedf("While the VM is running, only scalling up it is supported. New service offering %s should have at least one value (ram, speed or cpu) greater than the current values %s.", goal, old)
}

// String is how CloudStack's messages name a size.
func (s size) String() string {
	return fmt.Sprintf(`{"memory": %d, "speed": %d, "cpu": %d}`, s.MemoryMiB, s.MHz, s.CPUs)
}

// checkLive holds what a running VM needs besides.
func (m *Model) checkLive(vm *VM, _ *Offering, _ size) *APIError {
	if vm.State != VMRunning {
		return nil
	}
	switch old := m.offering(vm.OfferingID); {
	case !m.atLeast(4, 23) && !old.Customized:
		return refusedf(`Unable to live scale VM on KVM when current service offering is a "Fixed Offering". KVM needs the tag "maxMemory" to live scale and it is only configured when VM is deployed with a custom service offering and "Dynamic Scalable" is enabled.`)
	case !m.settingBool(SettingDynamicScaling, vm.ZoneID):
		return refusedf("Dynamically scaling Instances is disabled for this zone, please contact your admin.")
	case !vm.DynamicallyScalable:
		return refusedf("Unable to scale %s as it does not have tools to support dynamic scaling.", vm)
	}
	return nil
}

// atLeast compares the version of the model.
func (m *Model) atLeast(major, minor int) bool {
	parts := strings.SplitN(m.cfg.Version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	a, errA := strconv.Atoi(parts[0])
	b, errB := strconv.Atoi(parts[1])
	return errA == nil && errB == nil && (a > major || a == major && b >= minor)
}

// includesTags reports whether all comma-separated tags of want are in have.
func includesTags(have, want string) bool {
	set := map[string]bool{}
	for tag := range strings.SplitSeq(have, ",") {
		set[strings.TrimSpace(tag)] = true
	}
	for tag := range strings.SplitSeq(want, ",") {
		if tag = strings.TrimSpace(tag); tag != "" && !set[tag] {
			return false
		}
	}
	return true
}

// placeOnHost finds room for the growth: on the VM's host, else on another to which the VM is then live-migrated.
func (m *Model) placeOnHost(r *resize) *APIError {
	if h := m.host(r.vm.HostID); h != nil && !includesTags(h.Tags, r.offering.HostTags) {
		return refusedf("Failed to scale the VM")
	}
	if _, ok := takeFault[NoCapacity](m, r.place()); ok {
		return refusedf("Unable to scale %s due to insufficient resources.", r.vm)
	}
	if f, ok := takeFault[MoveHost](m, r.place()); ok {
		r.vm.HostID = f.HostID
		return nil
	}
	if h := m.host(r.vm.HostID); h != nil && m.fits(h, r.vm, r.goal) {
		return nil
	}
	for _, h := range m.hosts {
		if m.fits(h, r.vm, r.goal) && includesTags(h.Tags, r.offering.HostTags) {
			r.vm.HostID = h.ID
			return nil
		}
	}
	return refusedf("Unable to find suitable host for the vm %s", r.vm)
}

// fits reports whether the host can carry the VM at that size beside the others that take room on it.
func (m *Model) fits(h *Host, vm *VM, goal size) bool {
	used := goal
	for _, other := range m.vms {
		if other != vm && other.HostID == h.ID && other.State != VMStopped {
			s := m.sizeOf(other)
			used.CPUs += s.CPUs
			used.MemoryMiB += s.MemoryMiB
		}
	}
	return (h.VCPUs == 0 || used.CPUs <= h.VCPUs) && (h.MemoryMiB == 0 || used.MemoryMiB <= h.MemoryMiB)
}
