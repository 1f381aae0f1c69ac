# Prints what is looked at only before the first change, as key=value lines. It changes nothing.
# It comes after refusals.sh. No single quotes in this file.
LC_ALL=C
export LC_ALL
echo "trueup-begin inspect"

# value KEY FILE: the first line of the file, or nothing if it can not be read.
value() {
	line=
	{ read -r line <"$2"; } 2>/dev/null
	printf "%s=%s\n" "$1" "$line"
}

# Every slot for a DIMM is an ACPI device PNP0C80. Its status is 15 if a DIMM is in it, even one that the kernel refused.
acpi=0
[ ! -d /sys/bus/acpi/devices ] || acpi=1
printf "acpi=%s\n" "$acpi"
for file in /sys/bus/acpi/devices/PNP0C80:*/status; do
	[ ! -e "$file" ] || value slot "$file"
done

available=
while read -r key amount unit; do
	if [ "$key" = MemAvailable: ]; then
		available="$amount $unit"
		break
	fi
done </proc/meminfo
printf "mem_available=%s\n" "$available"

# How many pages were taken into the balloon in this boot, and given back. A kernel without the support for balloons does not have these lines.
grep -E "^balloon_(inflate|deflate) " /proc/vmstat | while read -r key pages; do
	printf "%s=%s\n" "$key" "$pages"
done
value memmap_on_memory /sys/module/memory_hotplug/parameters/memmap_on_memory
value auto_online /sys/devices/system/memory/auto_online_blocks

# Lines of the kernel that tell of the boot memory, and of hardware that it refused. On a busy node the kernel has overwritten its oldest ones.
telling() {
	refusals -e "Linux version " -e "K available (" | head -n 100 | cut -b 1-300
}
log=$(dmesg 2>/dev/null | telling)
case $log in
*"Linux version "*) ;;
*)
	older=$(journalctl -k -b -q --no-pager -o short-monotonic 2>/dev/null | telling)
	log="$older
$log"
	;;
esac
while IFS= read -r line; do
	[ -z "$line" ] || printf "kernel=%s\n" "$line"
done <<END
$log
END

# Units that run a kubelet; the first one is the one that we restart.
units=$(systemctl show -p Id,ActiveState,MainPID,NeedDaemonReload,FragmentPath,DropInPaths,EnvironmentFiles \
	kubelet.service k3s.service k3s-agent.service rke2-server.service rke2-agent.service k0sworker.service k0scontroller.service \
	snap.microk8s.daemon-kubelite.service snap.microk8s.daemon-kubelet.service snap.k8s.kubelet.service snap.kubelet.daemon.service \
	snap.kubelet-eks.daemon.service) || exit
pid=0
files=
id=
active=
ours=yes
unit_ends() {
	[ "$ours" = yes ] || printf "unit=%s %s\n" "$id" "$active"
	ours=
}
while IFS= read -r line; do
	item=${line#*=}
	case $line in
	"") unit_ends ;;
	Id=*) id=$item ;;
	ActiveState=*) active=$item ;;
	*)
		[ "$ours" = yes ] || continue
		case $line in
		MainPID=*) pid=$item ;;
		NeedDaemonReload=*) printf "reload=%s\n" "$item" ;;
		FragmentPath=*) files="$files $item" ;;
		DropInPaths=*) files="$files $item" ;;
		EnvironmentFiles=*) files="$files ${item%% (*}" ;;
		esac
		;;
	esac
done <<END
$units
END
unit_ends

# What kubelet was started with. Its configuration file stands there; without a process it is where kubeadm puts it.
config=/var/lib/kubelet/config.yaml
folder=
arguments=
if [ "$pid" -gt 0 ] && [ -r "/proc/$pid/cmdline" ]; then
	arguments=$(base64 -w 0 <"/proc/$pid/cmdline")
	before=
	while IFS= read -r word; do
		case $before$word in
		--config=*) config=${word#*=} ;;
		--config-dir=*) folder=${word#*=} ;;
		"--config "*) config=$word ;;
		"--config-dir "*) folder=$word ;;
		esac
		before=
		case $word in --config | --config-dir) before="$word " ;; esac
	done <<END
$(tr "\000" "\n" <"/proc/$pid/cmdline")
END
fi
printf "arguments=base64:%s\n" "$arguments"

# document KEY FILE: the file, cut after 64 KiB and one byte.
document() {
	printf "%s=base64:" "$1"
	head -c 65537 -- "$2" 2>/dev/null | base64 -w 0
	echo
}
printf "config_path=%s\n" "$config"
[ ! -r "$config" ] || document config "$config"
set -f
set -- $files "$config"
set +f
if [ -n "$folder" ]; then
	for file in "$folder"/*.conf; do
		[ -r "$file" ] || continue
		document config "$file"
		set -- "$@" "$file"
	done
fi
stat -L -c "file=%Y %n" -- "$@" 2>/dev/null
echo "trueup-end"
