# Prints the lines that tell a person why kubelet, or etcd, or the hotplug failed, as source=line. It changes nothing. Best effort.
# After this file comes that of the service, then that of the kernel.
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
