# Restarts kubelet if its InvocationID is still the one that stdin names. No single quotes in this file.
#
# The id is sent only after "trueup-begin" was seen, and this script acts only within window seconds of having printed that.
# So a command or an id that was held up in the network can not restart kubelet after the sender has given up on it.
LC_ALL=C
export LC_ALL
window=10

# A lost connection must not end this half-way: the outcome is then seen in the unit, not read from here.
trap "" HUP INT PIPE TERM

# Whole seconds since boot, time asleep included.
uptime() {
	read -r seconds rest </proc/uptime
	seconds=${seconds%%.*}
}

answer() {
	printf "result=%s\ntrueup-end\n" "$1"
	exit 0
}

uptime
begun=$seconds
echo "trueup-begin restart"

wanted=
IFS= read -r wanted
case $wanted in
*[!0-9a-f]*) answer garbled ;;
esac
[ "${#wanted}" -eq 32 ] || answer garbled

exec 9>/run/trueup.lock
flock -n 9
case $? in
0) ;;
1) answer busy ;;
*) exit 70 ;;
esac

actual=$(systemctl show -p InvocationID --value kubelet.service) || exit
[ "$actual" = "$wanted" ] || answer not-ours

# The last look at the clock comes after everything that may have taken time.
uptime
[ "$((seconds - begun))" -le "$window" ] || answer expired
systemctl restart kubelet.service || exit
answer issued
