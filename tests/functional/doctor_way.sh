#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# rdma-doctor URI: the steps to a target that works. If a step cannot work, the
# report has the line of the step that fails.
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")

# says STATUS PATTERN ARG...: the report, joined to one line, matches PATTERN
says() {
	want=$1
	pattern=$2
	shift 2
	$T_IN rdma-doctor --timeout 1 "$@" >"$T/report" 2>&1
	status=$?
	cat "$T/report"
	[ $status = "$want" ] && tr -s ' \n' '  ' <"$T/report" |
		grep -Eqe "$pattern"
}
T_IN=

# peer HOW: starts a peer that is no target; sets $PORT
peer() {
	: >"$T/port"
	python3 "$here/doctor_peer.py" "$1" >"$T/port" 2>"$T/peer.log" &
	t_pids="$t_pids $!"
	t_wait_for 10 test -s "$T/port" || t_bail "no peer that $1"
	PORT=$(cat "$T/port")
}

# --- a target that works ---

truncate -s 16M "$T/disk.img"
sum=$(md5sum <"$T/disk.img")
t_target --backing "$T/disk.img,name=disk"
addr=${URI#*://}

t_check 'each step' says 0 \
	"^$addr ok name 127.0.0.1 ok route to 127.0.0.1 from 127.0.0.1, lo ok port .* ok path mtu .* ok login over TCP from 127.0.0.1:[0-9]+: 1 volume, .* ok echo 4096 bytes came back .* (ok|note) counters " \
	"$URI"
t_check 'latency and bandwidth' says 0 \
	' SEND 0 [0-9]+ [0-9.]+ [0-9.]+ - INQUIRY without data WRITE 4096 .* READ BUFFER, echo READ 4096 .* WRITE BUFFER, echo WRITE 65536 [0-9]+ [0-9.]+ [0-9.]+ [0-9.]+ READ BUFFER; 8 in flight READ 65536 [0-9]+ [0-9.]+ [0-9.]+ [0-9.]+ WRITE BUFFER; 8 in flight' \
	"$URI"
t_check 'a volume in the URI does no harm' says 0 'ok login' "$URI/disk"
t_check 'no volume is written' test "$sum" = "$(md5sum <"$T/disk.img")"
t_check 'two addresses, one of which nobody has' says 1 \
	"$addr ok name .* ok echo .*127.0.0.1:9 ok name .* problem port 127.0.0.1:9: connection refused.* 1 problem," \
	"$URI,127.0.0.1:9"
t_check 'only problems' says 1 \
	'^127.0.0.1:9 problem port 127.0.0.1:9: connection refused.* 1 problem, 0 notes' \
	--brief srp+tcp://127.0.0.1:9
if [ -n "$(ls /sys/class/infiniband 2>/dev/null)" ]; then
	t_skip 'no RDMA device' 'there is one'
	t_skip 'TCP is used without a device' 'there is one'
else
	t_check 'no RDMA device' says 1 \
		'problem rdma cm .*no RDMA device .*Try: rdma-doctor \(checks this machine\)' \
		"srp+rdma://$addr"
	t_check 'TCP is used without a device' says 0 'ok login over TCP' \
		"srp://$addr"
fi
if rdma-doctor --json 2>&1 | grep -q 'without jansson'; then
	t_skip 'JSON' 'built without jansson'
else
	t_check 'JSON' says 0 \
		'"problems": 0, .*"exchange": "READ", "by": "WRITE BUFFER; 8 in flight", "bytes": 65536, "count": [0-9]+, "p50_us": ' \
		--json "$URI"
fi

# --- no connection ---

t_check 'nobody listens' says 1 \
	'ok route .* problem port 127.0.0.1:9: connection refused: nobody listens on that port, or a firewall rejects .*Try: on the target: systemctl status rdma-target' \
	srp+tcp://127.0.0.1:9
t_check 'a name that there is not' says 1 \
	"problem name 'no.such.host.invalid': .*(not known|failure)" \
	srp://no.such.host.invalid
peer drops
t_check 'packets are dropped' says 1 \
	"problem port 127.0.0.1:$PORT: no answer: a firewall drops the packets, or the host is down" \
	"srp+tcp://127.0.0.1:$PORT"
if [ -e /proc/net/if_inet6 ]; then
	t_check 'a link-local address without interface' says 1 \
		'problem route \[fe80::1\]:5555: .*a link-local address has no interface' \
		'srp+tcp://[fe80::1]'
else
	t_skip 'a link-local address without interface' 'no IPv6 here'
fi
t_refused 'a wrong URI' "scheme 'http'" rdma-doctor http://127.0.0.1

# --- a port, but no target ---

peer silent
t_check 'a port that says nothing' says 1 \
	"ok port .* problem login no connection to 127.0.0.1:$PORT over TCP: no answer from .*nothing answers as an SRP target" \
	"srp+tcp://127.0.0.1:$PORT"
peer banner
t_check 'another program' says 1 \
	'ok port .* problem login .*does not speak SRP over TCP.* Another program has the port. Try: on the target: ss -tlnp' \
	"srp+tcp://127.0.0.1:$PORT"
peer closes
t_check 'a program that closes' says 1 \
	'ok port .* problem login .*closed the connection before it answered' \
	"srp+tcp://127.0.0.1:$PORT"
kill -STOP "$T_TARGET"
t_check 'a target that hangs' says 1 'ok port .* problem login .*: no answer from' \
	"$URI"
kill -CONT "$T_TARGET"

# --- a target that refuses ---

t_check 'another target port' says 1 \
	'ok port .* problem login .*the target says: no such target port.* has refused this initiator' \
	"$URI?id_ext=1"
t_target --backing ram:16M --allow 10.0.0.0/24
t_check 'an address that this machine does not have' says 1 \
	'ok port .* problem login .*source=192.0.2.77: no interface .*Try: ip address' \
	"$URI?source=192.0.2.77"
t_check 'access rules' says 1 \
	'ok port .* problem login .*the target says: .*access rules.*Try: on the target: journalctl -u rdma-target' \
	"$URI"

# --- routes ---

# Each command runs in a network namespace of its own, with these routes.
if unshare -rn true 2>/dev/null && command -v ip >/dev/null; then
	cat >"$T/in_routes" <<-END
		#!/bin/sh
		ip link set lo up &&
		ip route replace local 127.0.0.1 dev lo table local mtu 1400 &&
		ip route add unreachable 10.9.1.0/24 &&
		ip route add prohibit 10.9.2.0/24 &&
		ip route add blackhole 10.9.3.0/24 || exit 99
		if [ "\$1" = serve ]; then
			: >"$T/inner.log"
			rdma-target --listen srp+tcp://127.0.0.1:5555 -b ram:1M \\
				>"$T/inner.log" 2>&1 &
			target=\$!
			until grep -q 'rdma-fuse srp' "$T/inner.log"; do
				kill -0 \$target || exit 99
				sleep 0.02
			done
			shift
			"\$@"
			status=\$?
			kill \$target
			exit \$status
		fi
		exec "\$@"
	END
	chmod +x "$T/in_routes"
	T_IN="unshare -rn $T/in_routes"
	t_check 'no route' says 1 \
		'problem route 10.8.0.1:5555: there is no route to that network .*Try: ip route get 10.8.0.1' \
		srp+tcp://10.8.0.1
	t_check 'route of type unreachable' says 1 \
		'problem route 10.9.1.1:5555: no route to host: .*a route is of type unreachable' \
		srp+tcp://10.9.1.1
	t_check 'route of type prohibit' says 1 \
		'problem route 10.9.2.1:5555: a route of type prohibit, or a firewall, forbids it' \
		srp+tcp://10.9.2.1
	t_check 'route of type blackhole' says 1 \
		'problem route 10.9.3.1:5555: a route of type blackhole drops' \
		srp+tcp://10.9.3.1
	T_IN="unshare -rn $T/in_routes serve"
	t_check 'a path with a small MTU' says 0 \
		'note path mtu 1400 bytes; lo has 65536 .*ok login over TCP' \
		srp+tcp://127.0.0.1
else
	for name in 'no route' 'route of type unreachable' \
		'route of type prohibit' 'route of type blackhole' \
		'a path with a small MTU'; do
		t_skip "$name" 'no network namespace of our own possible'
	done
fi

# --- firewalls ---

# In front of a target that works: NAME|HOST|CHAIN|RULE|LINE of the report
cat >"$T/firewalls" <<'END'
drops what comes|127.0.0.1|input|tcp dport 5555 drop|problem port .*: no answer: a firewall drops the packets, or the host is down
drops what goes|127.0.0.1|output|tcp dport 5555 drop|problem port .*: no answer: a firewall drops the packets, or the host is down
drops what goes back|127.0.0.1|output|tcp sport 5555 drop|problem port .*: no answer: a firewall drops the packets, or the host is down
rejects by TCP|127.0.0.1|input|tcp dport 5555 reject with tcp reset|problem port .*: connection refused: nobody listens on that port, or a firewall rejects
rejects, as nft does|127.0.0.1|input|tcp dport 5555 reject|problem port .*: a firewall rejects: 127.0.0.1 has answered by ICMP .*Try: on 127.0.0.1: nft list ruleset; open port 5555
rejects, as firewalld does|127.0.0.1|input|tcp dport 5555 reject with icmpx admin-prohibited|problem port .*: a firewall rejects: 127.0.0.1 has answered by ICMP
says that the host is not there|127.0.0.1|input|tcp dport 5555 reject with icmpx host-unreachable|problem port .*: no route to host: .* or a firewall rejects
lets a connection be made, and no data pass|127.0.0.1|input|tcp dport 5555 tcp flags & psh == psh drop|ok port .*problem login .*: no answer
drops all to the host|127.0.0.1|input|drop|problem port .*: no answer: a firewall drops
rejects over IPv6, as nft does|[::1]|input|tcp dport 5555 reject|problem port .*: a firewall rejects: ::1 has answered by ICMP
rejects over IPv6, as firewalld does|[::1]|input|tcp dport 5555 reject with icmpx admin-prohibited|problem port .*: a firewall rejects: ::1 has answered by ICMP
END
cat >"$T/in_firewall" <<-END
	#!/bin/sh
	# in_firewall CHAIN RULE URI
	ip link set lo up || exit 99
	# Emptied now: the log of the row before must not count as this one.
	: >"$T/inner.log"
	rdma-target --listen "\$3" -b ram:1M >"$T/inner.log" 2>&1 &
	target=\$!
	until grep -q 'rdma-fuse srp' "$T/inner.log"; do
		kill -0 \$target || exit 99
		sleep 0.02
	done
	printf 'table inet t { chain c { type filter hook %s priority 0; %s; }; }\n' \
		"\$1" "\$2" | nft -f - || exit 99
	rdma-doctor --timeout 1 "\$3"
	status=\$?
	kill \$target
	exit \$status
END
chmod +x "$T/in_firewall"
behind() { # CHAIN RULE LINE URI
	unshare -rn "$T/in_firewall" "$1" "$2" "$4" >"$T/report" 2>&1
	status=$?
	cat "$T/report"
	[ $status = 1 ] && tr -s ' \n' '  ' <"$T/report" | grep -Eqe "$3"
}
why=
unshare -rn true 2>/dev/null && command -v ip >/dev/null ||
	why='no network namespace of our own possible'
[ -n "$why" ] || unshare -rn nft 'add table inet t' 2>/dev/null || why='nft does not work here'
while IFS='|' read -r name host chain rule line; do
	if [ -n "$why" ]; then
		t_skip "a firewall $name" "$why"
	elif [ "$host" = '[::1]' ] && [ ! -e /proc/net/if_inet6 ]; then
		t_skip "a firewall $name" 'no IPv6 here'
	else
		t_check "a firewall $name" behind "$chain" "$rule" "$line" "srp+tcp://$host"
	fi
done <"$T/firewalls"
t_done
