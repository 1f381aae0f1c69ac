#!/usr/bin/env bash
# Checks what is shipped beside the program: alerts by promtool and their unit tests, the unit by systemd-analyze.
#   packaging/check.sh PROMTOOL
set -euo pipefail
promtool=$1
cd "$(dirname "$0")"

"$promtool" check rules --lint=all --lint-fatal prometheus/trueup.rules.yml
"$promtool" test rules prometheus/trueup.rules.test.yml

if ! command -v systemd-analyze >/dev/null; then
	echo "packaging: no systemd-analyze here (Debian: apt-get install systemd), trueup.service is not checked" >&2
	exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The program and its user need not be installed to judge the unit.
sed -e 's|^ExecStart=/usr/bin/trueup|ExecStart=/bin/true|' -e 's|^User=.*|User=nobody|' -e 's|^Group=.*|Group=nogroup|' trueup.service >"$work/trueup.service"
# Messages about the machine's own units are none of ours.
SYSTEMD_LOG_LEVEL=warning systemd-analyze verify --man=no "$work/trueup.service" 2>"$work/said" || true
if grep -F "trueup.service" "$work/said"; then
	echo "packaging: systemd-analyze verify complains about trueup.service" >&2
	exit 1
fi
# Exposure 0 is best, 10 worst; the argument is ten times as much.
systemd-analyze security --offline=true --no-pager --threshold=15 trueup.service >"$work/score" || { cat "$work/score" >&2; exit 1; }
tail -n 1 "$work/score"
