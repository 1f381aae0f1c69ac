#!/usr/bin/env bash
# deps.sh: installs the Debian packages that the lab needs, if any is missing; otherwise it does nothing.
set -euo pipefail

# What each is for: guests (qemu-*), their image (mmdebstrap, e2fsprogs, busybox-static, cpio), the tests of the SSH port
# (openssh-*, sudo) and of the scripts (shellcheck).
packages=(qemu-system-x86 qemu-utils mmdebstrap e2fsprogs busybox-static cpio openssh-client openssh-server openssl shellcheck sudo)

missing=()
for package in "${packages[@]}"; do
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" != 0 ]; then
	echo "deps.sh: missing Debian packages; as root, run: apt-get install --no-install-recommends ${missing[*]}" >&2
	exit 1
fi
echo "Installing Debian packages: ${missing[*]} (about half a minute)" >&2
export DEBIAN_FRONTEND=noninteractive
# No daemon that a package brings is started: this machine's services are none of the lab's business.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 0755 "$policy"
	trap 'rm -f "$policy"' EXIT
fi
apt-get -qq update >&2
apt-get -qq install --no-install-recommends "${missing[@]}" >&2
