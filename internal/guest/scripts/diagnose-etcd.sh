# Prints the lines that tell a person why etcd or the hotplug failed, as source=line. It changes nothing. Best effort.
# No single quotes in this file.
LC_ALL=C
export LC_ALL
echo "trueup-begin diagnose-etcd"

# lines SOURCE COUNT: the last COUNT lines of stdin, cut to 500 bytes.
lines() {
	tail -n "$2" | cut -b 1-500 | while IFS= read -r line; do
		printf "%s=%s\n" "$1" "$line"
	done
}

systemctl show etcd.service -p ActiveState,SubState,Result,ExecMainCode,ExecMainStatus,NRestarts | lines unit 10
journalctl -b -u etcd.service --no-pager -q -o short-iso -n 10 | lines etcd-last 10

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
