# Brings up every plugged CPU and memory block that is offline. Safe to repeat. No single quotes in this file.
LC_ALL=C
export LC_ALL
echo "trueup-begin online"

# raise FILE OFFLINE ONLINE: writes ONLINE to a FILE that says OFFLINE; the write returns when the kernel has done it.
raise() {
	[ -e "$1" ] || return 0 # cpu0 often has no such file: it can not be taken offline
	state=
	{ read -r state <"$1"; } 2>/dev/null
	[ "$state" = "$2" ] || return 0

	why=
	if ! { printf "%s\n" "$3" >"$1"; } 2>/dev/null; then
		# The shell does not tell which error it was; tee does. A second try does no harm.
		why=$(printf "%s\n" "$3" | tee "$1" 2>&1 >/dev/null)
		why=${why##*: }
	fi

	# Somebody else (udev) may have been faster, and then our write is an error: what counts is the state.
	{ read -r state <"$1"; } 2>/dev/null
	if [ "$state" = "$3" ]; then
		raised=$((raised + 1))
		return 0
	fi
	device=${1%/*}
	failures="${failures}failed=${device##*/} ${why:-the write was accepted, but the state is still $state}
"
}

# Devices may still be arriving, and a block may need its neighbour first: again, as long as a pass brings something up.
pass=0
while [ "$pass" -lt 10 ]; do
	pass=$((pass + 1))
	raised=0
	failures=
	for dir in /sys/devices/system/memory/memory[0-9]*; do
		raise "$dir/state" offline online
	done
	for dir in /sys/devices/system/cpu/cpu[0-9]*; do
		raise "$dir/online" 0 1
	done
	[ "$raised" -gt 0 ] || break
done

printf "%s" "$failures"
echo "trueup-end"
