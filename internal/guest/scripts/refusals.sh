# For the scripts that come after this file. No single quotes in this file.

# refusals [-e WORDS ...]: the lines of stdin in which the kernel refuses a CPU or a DIMM that the hypervisor reports as plugged; and those with WORDS.
refusals() {
	grep -F "$@" \
		-e "unaligned hotplug range" \
		-e "add_memory failed" \
		-e "acpi_memory_enable_device" \
		-e "possible_cpus limit" \
		-e "Unable to map lapic" \
		-e "failed to come online" \
		-e "do_boot_cpu failed"
}
