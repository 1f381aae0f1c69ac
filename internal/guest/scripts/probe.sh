# Prints one reading of the guest as key=value lines. It changes nothing.
# Few forks: the shell reads values itself. No single quotes in this file (see command.remote).
LC_ALL=C
export LC_ALL
echo "trueup-begin probe"

# value KEY FILE: the first line of the file, or nothing if it can not be read.
value() {
	line=
	{ read -r line <"$2"; } 2>/dev/null
	printf "%s=%s\n" "$1" "$line"
}

# document KEY FILE: the whole file.
document() {
	if [ -e "$2" ]; then
		printf "%s=base64:" "$1"
		base64 -w 0 <"$2" || exit 1
		echo
	else
		printf "%s=absent\n" "$1"
	fi
}

value product_uuid /sys/class/dmi/id/product_uuid
value machine_id /etc/machine-id
value boot_id /proc/sys/kernel/random/boot_id
value cpu_online /sys/devices/system/cpu/online
value cpu_present /sys/devices/system/cpu/present
value cpu_possible /sys/devices/system/cpu/possible
value block_size /sys/devices/system/memory/block_size_bytes

online=0
other=0
for file in /sys/devices/system/memory/memory[0-9]*/state; do
	[ -e "$file" ] || continue
	state=
	{ read -r state <"$file"; } 2>/dev/null
	if [ "$state" = online ]; then
		online=$((online + 1))
	else
		other=$((other + 1))
	fi
done
printf "blocks_online=%s\nblocks_offline=%s\n" "$online" "$other"

total=
while read -r key amount unit; do
	if [ "$key" = MemTotal: ]; then
		total="$amount $unit"
		break
	fi
done </proc/meminfo
printf "mem_total=%s\n" "$total"

document cpu_manager_state /var/lib/kubelet/cpu_manager_state
document memory_manager_state /var/lib/kubelet/memory_manager_state

# The cgroup of all pods: the first name is that of the systemd driver, the second that of the cgroupfs driver.
pods=/sys/fs/cgroup/kubepods.slice
[ -e "$pods/cpuset.cpus.effective" ] || pods=/sys/fs/cgroup/kubepods
value kubepods_cpus "$pods/cpuset.cpus.effective"
value kubepods_memory "$pods/memory.max"
cgroup=1
[ ! -e /sys/fs/cgroup/cgroup.controllers ] || cgroup=2 # only the unified hierarchy has this file at its root
printf "cgroup=%s\n" "$cgroup"

# The unit before the clocks, so that its start is never later than they are.
systemctl show kubelet.service -p ActiveState,SubState,InvocationID,MainPID,ExecMainStartTimestampMonotonic,NRestarts || exit

# CLOCK_MONOTONIC, which is what systemd stamps with, is to be had from /proc/timer_list. /proc/uptime is CLOCK_BOOTTIME:
# it also counts the time asleep, so a start computed from it would be too early, and an old heartbeat could pass for a new one.
# The wall clock first: the few milliseconds between the two make a computed start earlier, never later, than it was.
date +clock=%s.%N
monotonic=
while read -r word at nanoseconds rest; do
	if [ "$word $at" = "now at" ]; then
		monotonic=$nanoseconds
		break
	fi
done </proc/timer_list
printf "monotonic=%s\n" "$monotonic"
echo "trueup-end"
