#!/usr/bin/env bash
# demo.sh: a CKS cluster with real Kubernetes in software-emulated guests, scaled live before your eyes. Stops all that it started.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

mkdir -p bin
(cd lab && go build -o "$root/bin/lab" ./cmd/lab)
work=$(mktemp -d)
cleanup() {
	echo
	echo "Stopping the lab …"
	"$root/bin/lab" down --dir "$work/lab" || true
	rm -rf "$work"
}
trap cleanup EXIT

show() { # show COMMAND…: prints the command as typed, then runs it
	printf '\n$ %s\n' "$*"
	"$@"
}

echo "Starting the lab: a control plane on this machine and 3 guests with real kubelets (1 to 2 minutes on 2 cores) …"
"$root/bin/lab" up --dir "$work/lab" --workers 2 >"$work/env"
# shellcheck disable=SC1091
. "$work/env"
unset KUBECONFIG # trueup gets it from CloudStack

PATH=$root/bin:$PATH
show trueup status lab
show trueup scale lab --worker large --control medium --yes
show trueup status lab
echo
echo "Done. CloudStack is played here; the guests, their hot-plugged hardware, kubelets and the Kubernetes API are real."
