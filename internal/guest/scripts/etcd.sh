# Asks etcd on this machine for the health of every member, itself included. It changes nothing. No single quotes in this file.
LC_ALL=C
export LC_ALL
echo "trueup-begin etcd"

systemctl show etcd.service -p ActiveState,SubState,InvocationID,MainPID || exit

# CKS unpacks etcdctl into /opt/bin, and lets etcd listen on 127.0.0.1:2379 without TLS, which is where etcdctl asks by default.
PATH=$PATH:/opt/bin
ETCDCTL_API=3
export PATH ETCDCTL_API
health=$(etcdctl --dial-timeout=2s --command-timeout=5s endpoint health --cluster -w json 2>/dev/null)
printf "exit=%s\nhealth=%s\n" "$?" "$health"
echo "trueup-end"
