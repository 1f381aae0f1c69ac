# Runs in a mount namespace of its own: puts the test's tree in the place of what the scripts read and write, then becomes the program.
# usage: unshare -m sh enter.sh TREE PROGRAM...
set -e
mount --make-rprivate /
for file in meminfo vmstat uptime timer_list sys/kernel/random/boot_id; do
	mount --bind "$1/proc/$file" "/proc/$file"
done
for file in "$1"/readonly/*; do
	[ -e "$file" ] || continue
	read -r name <"$file"
	mount --bind "$1/$name" "$1/$name"
	mount -o remount,ro,bind "$1/$name"
done
for dir in sys etc var run; do
	mount --rbind "$1/$dir" "/$dir"
done
mount --bind "$1/bin" /usr/local/bin
shift
exec "$@"
