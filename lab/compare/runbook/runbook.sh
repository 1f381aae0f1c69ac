#!/usr/bin/env bash
# The runbook as operators write it: takes nodes to another offering, one after the other, looking every 5 seconds.
# usage: runbook.sh OFFERING_ID CPUS MEMORY_MIB NODE=VM_ID=SSH_PORT …
set -euo pipefail
poll=5 offering=$1 cpus=$2 mib=$3
shift 3

api() { # api KEY=VALUE …: one signed call
	local query signature
	query=$(printf '%s\n' "$@" "apiKey=$CLOUDSTACK_API_KEY" response=json signatureVersion=3 "expires=$(date -u -d '+1 min' +%FT%H%%3A%M%%3A%S%%2B0000)" |
		LC_ALL=C sort -f | paste -sd '&')
	signature=$(printf %s "${query,,}" | openssl dgst -sha1 -hmac "$CLOUDSTACK_SECRET_KEY" -binary | base64)
	curl -sS --fail-with-body -d "$query" --data-urlencode "signature=$signature" "$CLOUDSTACK_API_URL"
}

die() {
	echo "$node: $*; it stays cordoned" >&2
	exit 1
}

wait_for() { # wait_for WHAT COMMAND …
	local what=$1 deadline=$((SECONDS + 600))
	shift
	until "$@"; do
		[ "$SECONDS" -lt "$deadline" ] || die "$what: not within 10 minutes"
		sleep "$poll"
	done
}

in_guest() {
	ssh -n -i "$SSH_KEY" -p "$port" -o BatchMode=yes -o StrictHostKeyChecking=yes -o UserKnownHostsFile="$KNOWN_HOSTS" -o HostKeyAlias="$vm" "cloud@127.0.0.1" "$@"
}

job_ended() {
	status=$(api command=queryAsyncJobResult "jobid=$job" | jq .queryasyncjobresultresponse.jobstatus)
	[ "$status" != 0 ]
}
has_cpus() { [ "$(in_guest nproc)" = "$cpus" ]; }
has_memory() { # the kernel keeps some of it
	local total
	total=$(in_guest cat /proc/meminfo | awk '/^MemTotal:/ { print int($2 / 1024) }')
	[ "$total" -gt $((mib - mib / 12)) ]
}
node_has_cpus() { [ "$(kubectl get node "$node" -o jsonpath='{.status.capacity.cpu}')" = "$cpus" ]; }

for entry in "$@"; do
	IFS='=' read -r node vm port <<<"$entry"
	[ -z "$(kubectl get node "$node" -o jsonpath='{.spec.unschedulable}')" ] || die "somebody has cordoned it"
	kubectl cordon "$node"
	job=$(api command=scaleVirtualMachine "id=$vm" "serviceofferingid=$offering" | jq -r .scalevirtualmachineresponse.jobid)
	wait_for "CloudStack's job $job" job_ended
	[ "$status" = 1 ] || die "CloudStack's job $job failed"
	wait_for "CPUs in the guest" has_cpus
	wait_for "memory in the guest" has_memory
	in_guest sudo systemctl restart kubelet
	wait_for "CPUs of the Node" node_has_cpus
	kubectl wait --for=condition=Ready "node/$node" --timeout=10m
	kubectl uncordon "$node"
done
