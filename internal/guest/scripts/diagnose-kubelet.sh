# Part of the diagnosis, after diagnose.sh. No single quotes in this file.
systemctl show kubelet.service -p ActiveState,SubState,Result,ExecMainCode,ExecMainStatus,NRestarts | lines unit 10

# What kubelet says when it refuses to start on a machine that has grown, and when the runtime is not ready.
journal() { journalctl -b -u kubelet.service --no-pager -q -o short-iso -n "$1"; }
journal 2000 | grep -F \
	-e "match with CPUs in state" \
	-e "please drain node" \
	-e "please drain this node" \
	-e "Policy start error" \
	-e "Failed to start ContainerManager" \
	-e "reserved cpus" \
	-e "default cpuset" \
	-e "expected machine state is different" \
	-e "Node Allocatable feature" \
	-e "failed to run Kubelet" \
	-e "failed to load kubelet config" \
	-e "PLEG is not healthy" | lines kubelet 30
journal 10 | lines kubelet-last 10
