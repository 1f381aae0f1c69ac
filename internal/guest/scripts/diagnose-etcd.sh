# Part of the diagnosis, after diagnose.sh. No single quotes in this file.
systemctl show etcd.service -p ActiveState,SubState,Result,ExecMainCode,ExecMainStatus,NRestarts | lines unit 10
journalctl -b -u etcd.service --no-pager -q -o short-iso -n 10 | lines etcd-last 10
