# Prints the lines that tell a person why kubelet or the hotplug failed, as source=line. It changes nothing. Best effort.
# No single quotes in this file.
LC_ALL=C
export LC_ALL
echo "trueup-begin diagnose"

# lines SOURCE COUNT: the last COUNT lines of stdin, cut to 500 bytes.
lines() {
	tail -n "$2" | cut -b 1-500 | while IFS= read -r line; do
		printf "%s=%s\n" "$1" "$line"
	done
}

systemctl show kubelet.service -p ActiveState,SubState,Result,ExecMainCode,ExecMainStatus,NRestarts | lines unit 10

# What kubelet says when it refuses to start on a machine that has grown, and when the runtime is not ready.
journal() { journalctl -b -u kubelet.service --no-pager -q -o short-iso -n "$1"; }
journal 2000 | grep -F \
	-e "match with CPUs in state" \
	-e "please drain node" \
	-e "please drain this node" \
	-e "Policy start error" \
	-e "Failed to start ContainerManager" \
	-e "reserved cpus" \
	-e "default cpuset" \
	-e "expected machine state is different" \
	-e "Node Allocatable feature" \
	-e "failed to run Kubelet" \
	-e "failed to load kubelet config" \
	-e "PLEG is not healthy" | lines kubelet 30
journal 10 | lines kubelet-last 10

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
