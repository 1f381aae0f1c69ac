# The end of the diagnosis, after the part of the service. No single quotes in this file.
# What the kernel says when it refuses a CPU or a DIMM that the hypervisor reports as plugged.
dmesg | grep -F \
	-e "unaligned hotplug range" \
	-e "add_memory failed" \
	-e "acpi_memory_enable_device" \
	-e "possible_cpus limit" \
	-e "Unable to map lapic" \
	-e "failed to come online" \
	-e "do_boot_cpu failed" | lines kernel 20
echo "trueup-end"
