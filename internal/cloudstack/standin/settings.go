package standin

import "strconv"

// The settings that this model obeys.
const (
	SettingDynamicScaling = "enable.dynamic.scale.vm"                   // zone
	SettingEnforcePost    = "enforce.post.requests.and.timestamps"      // global
	SettingPageSize       = "default.page.size"                         // global
	SettingScaleTimeout   = "cloud.kubernetes.cluster.scale.timeout"    // global, seconds
	SettingMaxClusterSize = "cloud.kubernetes.cluster.max.size"         // account in CloudStack, global here
	SettingKubernetes     = "cloud.kubernetes.service.enabled"          // global
	SettingKVMMemory      = "kvm.memory.dynamic.scaling.capacity"       // cluster, MiB; shown, the Hypervisor enforces it
	SettingKVMCPU         = "kvm.cpu.dynamic.scaling.capacity"          // cluster; shown, the Hypervisor enforces it
	SettingDiskChange     = "allow.diskoffering.change.during.scale.vm" // zone; shown only
	SettingScaleRetry     = "scale.retry"                               // global; shown only
)

type settingKey struct{ name, zoneID string }

type settingInfo struct{ name, scope, fallback, category string }

// knownSettings lists the settings with CloudStack's defaults.
func knownSettings() []settingInfo {
	return []settingInfo{
		{SettingDiskChange, "Zone", "false", "Advanced"},
		{SettingKubernetes, "Global", "true", "Advanced"},
		{SettingMaxClusterSize, "Account", "10", "Advanced"},
		{SettingScaleTimeout, "Global", "3600", "Advanced"},
		{SettingPageSize, "Global", "500", "Advanced"},
		{SettingDynamicScaling, "Zone", "false", "Advanced"},
		{SettingEnforcePost, "Global", "true", "Advanced"},
		{SettingKVMCPU, "Cluster", "0", "Advanced"},
		{SettingKVMMemory, "Cluster", "0", "Advanced"},
		{SettingScaleRetry, "Global", "2", "Advanced"},
	}
}

// Set gives a setting a value, for one zone or (zoneID "") for all.
func (m *Model) Set(name, zoneID, value string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settings[settingKey{name, zoneID}] = value
}

// SetVersion makes the model another version of CloudStack.
func (m *Model) SetVersion(version string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cfg.Version = version
}

// setting returns the value for the zone, else the global one, else CloudStack's default.
func (m *Model) setting(name, zoneID string) string {
	for _, key := range []settingKey{{name, zoneID}, {name, ""}} {
		if v, ok := m.settings[key]; ok {
			return v
		}
	}
	for _, s := range knownSettings() {
		if s.name == name {
			return s.fallback
		}
	}
	return ""
}

func (m *Model) settingBool(name, zoneID string) bool { return m.setting(name, zoneID) == "true" }

// settingInt returns a setting as a number; what isn't one counts as 0.
func (m *Model) settingInt(name string) int {
	n, err := strconv.Atoi(m.setting(name, ""))
	if err != nil {
		return 0
	}
	return n
}
