package standin

// updateVirtualMachine changes the VM's flag alone. The flag may be set in any state, and acts at the next start. The texts are those of
// UserVmManagerImpl.validateDynamicScaling.
func updateVirtualMachine(c *call) (any, error) {
	vm := c.m.vm(c.str("id"))
	if vm == nil {
		return nil, unknownID(c.command.lower(), "id", c.str("id"))
	}
	if err := c.mayUse(vm.Owner, vm.ID); err != nil {
		return nil, err
	}
	if c.str("isdynamicallyscalable") != "" {
		scalable := c.bool("isdynamicallyscalable")
		if err := c.m.checkScalable(vm); scalable && err != nil {
			return nil, err
		}
		vm.DynamicallyScalable = scalable
	}
	return map[string]any{"virtualmachine": c.m.vmJSON(vm, c.account.Admin)}, nil
}

// checkScalable holds the wish to make a VM dynamically scalable against template, offering and zone.
func (m *Model) checkScalable(vm *VM) error {
	t, o := m.template(vm.TemplateID), m.offering(vm.OfferingID)
	var missing string
	switch {
	case t == nil || !t.DynamicallyScalable:
		missing = "the Instance since its Template does not have dynamic scaling enabled"
	case o == nil || !o.DynamicScaling:
		missing = "the Instance since its service offering does not have dynamic scaling enabled"
	case !m.settingBool(SettingDynamicScaling, vm.ZoneID):
		missing = "the VM since corresponding global setting is set to false"
	default:
		return nil
	}
	return apiErrorf(CodeParameter, "Dynamic Scaling cannot be enabled for %s", missing)
}
