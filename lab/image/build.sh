#!/usr/bin/env bash
# build.sh KUBERNETES-FOLDER: builds the guest image (root disk, kernel, initrd) once into a cache outside the checkout.
#
# Prints the folder that holds root.qcow2, vmlinuz and initrd as the only line on stdout; progress goes to stderr.
# The cache key is the hash of everything here, of the pause program and of the Kubernetes folder's name (itself a
# hash of its inputs). Debian's archive is not in the key: an image stays as it was built until something here
# changes or the folder is deleted. An interrupted build leaves no folder that looks finished.
set -euo pipefail
[ $# = 1 ] || { echo "usage: build.sh KUBERNETES-FOLDER" >&2; exit 2; }
kubernetes=$(cd "$1" && pwd)
cd "$(dirname "$0")"

release=bookworm
cache=${TRUEUP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/trueup}
key=$({ find . ../pause -type f -print0 | sort -z | xargs -0 sha256sum; basename "$kubernetes"; } | sha256sum | cut -c1-16)
out=$cache/guest/$release-$key
done_already() {
	[ -f "$out/.complete" ] || return 1
	echo "$out"
}
done_already && exit 0

mkdir -p "$cache/guest"
# One builder at a time: a second one waits, then finds the work done.
exec 9>"$cache/guest/.lock"
flock 9
done_already && exit 0

say() { printf '%s\n' "$*" >&2; }
die() { say "build.sh: $*"; exit 1; }
[ "$(id -u)" = 0 ] || die "building a guest image needs root (it makes files of other users and device nodes): run this once as root, later starts need no root"

began=$SECONDS
say "Building the guest image (Debian $release, kubelet from $(basename "$kubernetes")), once: 40 to 90 s when measured on 2 busy cores."
# A builder that was killed left its folder behind; the lock says that nobody works in it.
rm -rf "$cache"/guest/.build-*
work=$(mktemp -d "$cache/guest/.build-XXXXXX")
trap 'rm -rf "$work"' EXIT
root=$work/root

# sources prints the archive that this machine's own apt uses, as sources.list lines for the guest's release.
sources() {
	local targets
	# shellcheck disable=SC2016 # apt expands these
	targets=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' | sort -u)
	if grep -q " $release main$" <<<"$targets"; then
		awk -v r="$release" '$3 == "main" && ($2 == r || index($2, r "-") == 1) && $2 !~ /-backports/ { print "deb", $1, $2, $3 }' <<<"$targets"
	else
		awk -v r="$release" '$3 == "main" { print "deb", $1, r, "main"; exit }' <<<"$targets"
	fi
}

# bootstrap installs the packages and, without installing it, unpacks the newest cloud kernel: installed, it would
# build an initrd that nobody reads.
bootstrap() {
	local include
	include=$(sed 's/#.*//; /^[[:space:]]*$/d' packages | paste -sd,)
	# shellcheck disable=SC2016 # mmdebstrap's shell expands the hook
	sources | mmdebstrap --quiet --mode=root --variant=minbase --include="$include" \
		--aptopt='Acquire::Languages "none"' \
		--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
		--customize-hook='
			export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
			kernel=$(apt-cache depends linux-image-cloud-amd64 | sed -n "s/^ *Depends: *\(linux-image-[0-9].*\)$/\1/p" | head -n 1)
			mkdir -p "$1/../kernel" && cd "$1/../kernel" && apt-get -q download "$kernel" >/dev/null && dpkg -x linux-image-*.deb .' \
		"$release" "$root" - >&2
}

# configure lays our files over the root and makes the user that CKS nodes have.
configure() {
	local version=$1
	mkdir -p "$root/usr/lib/modules" "$root/opt/bin" "$root/opt/lab" "$root/etc/cni/net.d" "$root/etc/kubernetes/manifests" "$root/var/lib/kubelet"
	cp -a "$work/kernel/lib/modules/$version" "$root/usr/lib/modules/"
	chroot "$root" depmod "$version"
	cp -r --no-preserve=ownership rootfs/. "$root/"
	chmod 0440 "$root/etc/sudoers.d/cloud"
	install -m 0755 "$kubernetes/kubelet" "$kubernetes/kubectl" "$root/opt/bin/"
	cp "$work/images.tar" "$root/opt/lab/images.tar"
	: >"$root/etc/fstab"
	# Who a guest is comes with its seed; an image that had any of it would make guests alike.
	rm -f "$root"/etc/ssh/ssh_host_* "$root/etc/machine-id" "$root/var/lib/dbus/machine-id" "$root/etc/hostname"
	chroot "$root" useradd --create-home --shell /bin/bash --password '*' cloud
	chroot "$root" systemctl --quiet enable systemd-networkd ssh containerd lab-images kubelet
	sed 's/#.*//; /^[[:space:]]*$/d' masked-units | while read -r unit; do
		ln -sf /dev/null "$root/etc/systemd/system/$unit"
	done
}

# initrd packs busybox, the disk and network drivers and our init.
initrd() {
	local version=$1 tree=$work/initrd name
	mkdir -p "$tree"/{bin,dev,proc,mnt,modules}
	cp /bin/busybox "$tree/bin/busybox"
	for name in sh mount umount insmod sleep tar echo switch_root; do ln -s busybox "$tree/bin/$name"; done
	for name in virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci virtio_blk failover net_failover virtio_net; do
		find "$root/usr/lib/modules/$version" -name "$name.ko" -exec cp {} "$tree/modules/" \;
		[ -f "$tree/modules/$name.ko" ] || die "kernel $version has no module $name"
	done
	install -m 0755 initrd/init "$tree/init"
	(cd "$tree" && find . | cpio --quiet -o -H newc | gzip -1) >"$work/out/initrd"
}

# disk turns the root folder into a qcow2 image; it is sparse, guests write into overlays.
disk() {
	truncate -s 6G "$work/root.raw"
	mke2fs -q -t ext4 -O ^has_journal -E lazy_itable_init=1,root_owner=0:0 -d "$root" "$work/root.raw"
	qemu-img convert -O qcow2 "$work/root.raw" "$work/out/root.qcow2"
}

mkdir -p "$work/out"
say "  container images …"
CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$work/pause" ../pause/program >&2
go run ../pause/archive "$work/pause" /bin/busybox >"$work/images.tar"
say "  Debian packages and kernel …"
bootstrap
version=$(ls "$work/kernel/lib/modules")
say "  our files, initrd, disk …"
configure "$version"
initrd "$version"
cp "$work/kernel/boot/vmlinuz-$version" "$work/out/vmlinuz"
disk
touch "$work/out/.complete"
rm -rf "$out"
mv "$work/out" "$out"
say "The guest image is ready after $((SECONDS - began)) s: $out"
echo "$out"
