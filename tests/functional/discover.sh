#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# rdma-discover, in network namespaces of its own, so that no other target
# answers.
T_ALONE=${T_ALONE:-1}
. "$(dirname "$0")/lib.sh"
[ "$T_ALONE" = yes ] || t_skip_all 'network namespaces cannot be made'

target_json() { # PATH-IN-PYTHON of the only target
	rdma-discover --json "$@" | python3 -c '
import json, sys
t, = json.load(sys.stdin)["targets"]
print(t["instance"], *t["answered_by"], *[a["uri"] for a in t["addresses"]])'
}
is() { # WANT GOT
	[ "$1" = "$2" ] || {
		echo "'$2', not '$1'"
		return 1
	}
}

ctl() { rdma-ctl --control "$T/control" "$@"; }

truncate -s 16M "$T/disk.img"
has_ctl=
! command -v rdma-ctl >/dev/null || has_ctl=1
t_target --backing "$T/disk.img,name=disk" ${has_ctl:+--control "$T/control"}
NAME=$(hostname | cut -d. -f1)
NAME=$NAME:$T_PORT
t_check 'by multicast over loopback' \
	is "$NAME multicast srp+tcp://127.0.0.1:$T_PORT" \
	"$(target_json --carrier multicast)"
t_check 'by unicast' \
	is "$NAME unicast srp+tcp://127.0.0.1:$T_PORT" \
	"$(target_json --carrier unicast "127.0.0.1:$T_PORT")"
t_check 'by name' \
	is "$NAME unicast srp+tcp://127.0.0.1:$T_PORT" \
	"$(target_json "localhost:$T_PORT")"
text() {
	rdma-discover >"$T/text" &&
		grep -qx "$NAME" "$T/text" &&
		grep -q "srp+tcp://127.0.0.1:$T_PORT .* by 127.0.0.1" "$T/text" &&
		grep -q "rdma-info srp+tcp://127.0.0.1:$T_PORT" "$T/text"
}
t_check 'the text has what to do next' text
t_check 'no line for the kernel: it needs RDMA' is '' "$(rdma-discover -c)"
t_check 'two clients at once' eval '
	rdma-discover --json >"$T/1" & rdma-discover --json >"$T/2"
	wait $!; grep -q "$NAME" "$T/1" && cmp "$T/1" "$T/2"'

# ---- the process that answers

is_responder() { # PID
	grep -qx discovery "/proc/$1/comm"
}
# It has its own filter, no capability, and nothing of the target: no volume and no ring.
has_own_rights() {
	RESPONDER=$(pgrep -P "$T_TARGET" -x discovery)
	is_responder "$RESPONDER" || return 1
	grep -E '^(Cap(Prm|Eff|Amb)|Seccomp):' "/proc/$RESPONDER/status"
	ls -l "/proc/$RESPONDER/fd"
	# Locked memory may need a capability (000...4000).
	[ "$(grep -Ec '^Cap(Prm|Eff|Amb):.0+(4000)?$' "/proc/$RESPONDER/status")" = 3 ] &&
		{ [ -n "${SANITIZED-}" ] || grep -q '^Seccomp:.2$' "/proc/$RESPONDER/status"; } &&
		! ls -l "/proc/$RESPONDER/fd" | grep -E 'io_uring|signalfd|disk.img'
}
t_check 'a process of its own answers' has_own_rights
if [ "$has_ctl" ]; then
	# Another program has the port of UDP: the process says so as a notice.
	take_ports() {
		python3 -c 'import signal, socket
taken = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for i in range(2)]
for s in taken:
    s.bind(("127.0.0.1", 0))
print(*[s.getsockname()[1] for s in taken], flush=True)
signal.pause()' >"$T/taken" &
		t_pids="$t_pids $!"
		t_wait_for 10 test -s "$T/taken"
	}
	take_ports
	read -r first second <"$T/taken"
	level_reaches_it() {
		ctl loglevel error && ctl listen add "srp+tcp://127.0.0.1:$first" &&
			ctl loglevel notice && ctl listen add "srp+tcp://127.0.0.1:$second" &&
			t_wait_for 10 grep -q "discovery: .*:$second:" "$T/target.log" &&
			! grep "discovery: .*:$first:" "$T/target.log"
	}
	t_check 'a level of the log is its level, too' level_reaches_it
	ctl listen remove "srp+tcp://127.0.0.1:$first"
	ctl listen remove "srp+tcp://127.0.0.1:$second"
	no_end_is_told() {
		! ctl status | grep discovery &&
			ctl metrics | grep -qx 'rdma_target_discovery_ended_seconds 0'
	}
	t_check 'while it goes on, no end of it is told' no_end_is_told
fi
goes_on() {
	kill -9 "$RESPONDER"
	t_wait_for 10 grep -q 'discovery has ended (signal 9)' "$T/target.log" &&
		rdma-info "$URI" && [ -z "$(pgrep -P "$T_TARGET" -x discovery)" ]
}
t_check 'if it dies, the target says so, and goes on' goes_on
if [ "$has_ctl" ]; then
	t_check 'the status says since when, why, and what ends that' eval '
		ctl status | tee "$T/status"
		grep -Eq "^health +discovery has ended since 2.*: signal 9, until the target is started" \
			"$T/status"'
	t_check 'so do the metrics' eval '
		ctl metrics | grep -E "^rdma_target_discovery_ended_seconds [1-9][0-9]+"'
fi
t_refused 'nobody answers then' 'no target has answered' rdma-discover -t 0.3
t_target_stop TERM
t_target_again --backing "$T/disk.img,name=disk"
RESPONDER=$(pgrep -P "$T_TARGET" -x discovery)
t_check 'another start has another' is_responder "$RESPONDER"
t_target_stop KILL
t_check 'it dies with the target' t_wait_for 10 t_is_gone "$RESPONDER"
t_target_again --backing "$T/disk.img,name=disk"

# ---- a flood

"$(dirname "$0")/flood.py" "$T_PORT" >"$T/flood" &
FLOOD=$!
t_pids="$t_pids $FLOOD"
t_wait_for 10 grep -q ready "$T/flood"
answers_elsewhere() {
	for n in 1 2 3 4; do
		is "$NAME multicast srp+tcp://127.0.0.1:$T_PORT" \
			"$(target_json --carrier multicast)" || return 1
	done
}
t_check 'a flood at its port does not silence it elsewhere' answers_elsewhere
kill "$FLOOD"
wait "$FLOOD" 2>/dev/null

# ---- wrong use

t_refused 'a carrier that there is not' "carrier.*not unicast, multicast or rdma" \
	rdma-discover --carrier pigeon
t_refused 'an interface that there is not' "'nope0'.*no interface.*ip link" \
	rdma-discover -i nope0
t_refused 'a host without a name' "no.such.host.invalid" \
	rdma-discover no.such.host.invalid
t_refused 'RDMA without a device' 'this machine has no RDMA device' \
	rdma-discover --carrier rdma
t_refused 'nobody answers' 'no target has answered.*rdma-doctor srp:' \
	rdma-discover -t 0.2 "127.0.0.1:1"
t_refused 'two forms of output' 'only one of --json' rdma-discover --json -c
t_refused 'an interface that a target has not' "discovery 'nope0'.*no interface" \
	rdma-target --backing ram:1M --discovery nope0
t_refused 'a key that everybody can read' 'chmod 600' eval '
	echo "a $(head -c 32 /dev/urandom | base64)" >"$T/open"; chmod 644 "$T/open"
	rdma-target --backing ram:1M --keys "$T/open"'

# ---- ibsrpdm

mkdir "$T/bin"
cat >"$T/bin/ibsrpdm" <<'END'
#!/bin/sh
printf 'name \033[2Jof %s\n' "$*"
END
chmod +x "$T/bin/ibsrpdm"
in_fabric() { # ARG...: runs as if there were an InfiniBand device
	unshare -m sh -c 'mount -t tmpfs none /dev && mkdir /dev/infiniband &&
		: >/dev/infiniband/umad0 &&
		PATH=$1:$PATH && shift && exec rdma-discover -t 0.2 "$@"' \
		sh "$T/bin" "$@"
}
fabric() { in_fabric "$@" | grep '^name'; }
t_check 'what ibsrpdm alone finds is found' in_fabric 127.0.0.1:1
t_check 'ibsrpdm is asked, and cannot control the terminal' \
	is 'name ?[2Jof -d /dev/infiniband/umad0' "$(fabric)"
t_check 'ibsrpdm is asked for lines for the kernel' \
	is 'name ?[2Jof -c -d /dev/infiniband/umad0' "$(fabric -c)"

# ---- mount

t_needs_fuse
mkdir "$T/mnt"
t_mounts="$t_mounts $T/mnt"
mounts() { grep -c " $T/mnt fuse.rdma-block " /proc/self/mounts; }
t_check 'mount what is named' rdma-discover -m "disk=$T/mnt"
t_check 'it is there' test "$(stat -c %s "$T/mnt/disk")" = $((16 << 20))
fusermount3 -u "$T/mnt"
t_refused 'a volume that there is not' "no target .* has a volume 'dusk'" \
	rdma-discover -m "dusk=$T/mnt"

# ---- forgeries

forger() { # ARG...: sets $FORGER to the process number
	t_new_log "$T/forger"
	"$(dirname "$0")/forged_target.py" "$@" >"$T/forger" 2>&1 &
	FORGER=$!
	t_pids="$t_pids $FORGER"
	t_wait_for 10 grep -q ready "$T/forger"
}
forger 00000000deadbeef "srp+tcp://127.0.0.1:$T_PORT"
t_check 'a forgery is seen beside the target' eval '
	rdma-discover | grep -qx forged && rdma-discover | grep -qx "$NAME"'
refused_login() {
	! rdma-discover -m "forged/disk=$T/mnt" 2>"$T/err" &&
		grep -q 'forged: .*no such target port' "$T/err" && is 0 "$(mounts)"
}
t_check 'it leads to a login that is refused' refused_login
t_check 'the real one is mounted' rdma-discover -m "disk=$T/mnt"
fusermount3 -u "$T/mnt"
kill "$FORGER"
wait "$FORGER" 2>/dev/null
forger 00000000deadbeef "srp+tcp://127.0.0.1:$T_PORT" forget
t_check 'an answer that does not repeat the nonce counts for nothing' eval '
	! rdma-discover | grep -qx forged'
kill "$FORGER"
wait "$FORGER" 2>/dev/null
# Enough for any place: the real target is one of them, or of those left out.
forger 00000000deadbe00 "srp+tcp://127.0.0.1:$T_PORT" 300
left_out() {
	rdma-discover --json -t 3 >"$T/json" 2>"$T/err"
	cat "$T/err"
	grep -q 'left out: 45 of the targets' "$T/err" &&
		grep -q '"left_out": 45$' "$T/json" && is 256 "$(grep -c instance "$T/json")"
}
t_check 'targets that are left out are counted' t_wait_for 20 left_out
kill "$FORGER"
wait "$FORGER" 2>/dev/null

# ---- a key, --off, targets that start and stop

key() { (umask 077; echo "$1 $(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')" >"$T/$1"); }
key right
key wrong
key first
(umask 077; cat "$T/first" "$T/right" >"$T/keys")
PORT=$T_PORT
stop() {
	kill "$1"
	wait "$1"
}
# serve ARG...: uses the port from before; sets $SERVER to the process number
serve() {
	t_new_log "$T/log.t"
	rdma-target --backing "$T/disk.img,name=disk" "$@" >"$T/log.t" 2>&1 &
	SERVER=$!
	t_pids="$t_pids $SERVER"
	t_wait_for 10 eval 'grep -A 1 "^To mount" "$T/log.t" | grep "^  "'
}
stop "$T_TARGET"
serve --listen "srp+tcp://127.0.0.1:$PORT" --keys "$T/keys"
t_check 'with the key' is "$NAME multicast srp+tcp://127.0.0.1:$PORT" \
	"$(target_json --carrier multicast --key "$T/right")"
t_refused 'without the key' 'no target has answered.*rdma-discover HOST' rdma-discover -t 0.3
t_refused 'with another key' 'no target has answered' \
	rdma-discover -t 0.3 --key "$T/wrong"
stop "$SERVER"
serve --listen "srp+tcp://127.0.0.1:$PORT" --discovery off
t_refused 'a target that is silent' 'no target has answered' \
	rdma-discover -t 0.3 "127.0.0.1:$PORT"
stop "$SERVER"

# ---- between two namespaces

t_check 'a second host' eval '
	unshare -n sleep 1000 & OTHER=$!
	t_pids="$t_pids $OTHER"
	t_wait_for 5 eval "! [ /proc/$OTHER/ns/net -ef /proc/self/ns/net ]" &&
	ip link add v0 type veth peer name v1 netns /proc/$OTHER/ns/net &&
	ip addr add 192.0.2.1/24 dev v0 && ip link set v0 up &&
	nsenter -t $OTHER -n sh -c "ip link set lo up; ip addr add 192.0.2.2/24 dev v1;
		ip link set v1 up"'
there() { nsenter -t "$OTHER" -n "$@"; }
serve --listen "srp+tcp://0.0.0.0:$PORT"
over_v1() { there rdma-discover --json "$@" | grep -q "srp+tcp://192.0.2.1:$PORT"; }
t_check 'by multicast, where it listens on all addresses' \
	over_v1 --carrier multicast -i v1
t_check 'by unicast' over_v1 "192.0.2.1:$PORT"
stop "$SERVER"
{ echo 1 >/proc/sys/net/ipv6/bindv6only; } 2>/dev/null
for host in 0.0.0.0 '[::]'; do
	serve --listen "srp+tcp://$host:5555"
	t_check "by multicast, where it listens at $host and the group's port" \
		is 'multicast srp+tcp://192.0.2.1:5555' \
		"$(there rdma-discover --json --carrier multicast -i v1 | python3 -c '
import json, sys
t, = json.load(sys.stdin)["targets"]
print(*t["answered_by"], t["addresses"][0]["uri"])')"
	t_check 'and by unicast' there rdma-discover 192.0.2.1
	t_check 'and it takes logins over IPv4, whatever bindv6only says' \
		there rdma-info srp+tcp://192.0.2.1:5555
	stop "$SERVER"
done
serve --listen "srp+tcp://0.0.0.0:$PORT"
no_route() {
	there ip route add unreachable 192.0.2.1/32
	there rdma-discover -t 0.5 --carrier multicast | grep -q 'not usable here: No route'
	no_route_res=$?
	there ip route del unreachable 192.0.2.1/32
	return $no_route_res
}
t_check 'an address without a route says why' no_route
stop "$SERVER"

# Two interfaces in one network: the route back leads by the first one.
ip link add w0 type veth peer name w1 netns "/proc/$OTHER/ns/net"
ip addr add 192.0.2.11/24 dev w0
ip link set w0 up
there ip addr add 192.0.2.12/24 dev w1
there ip link set w1 up
serve --listen "srp+tcp://0.0.0.0:$PORT"
by_second() {
	there rdma-discover --json --carrier multicast -i w1 | tee "$T/json"
	grep "srp+tcp://192.0.2.11:$PORT" "$T/json"
}
t_check 'an answer leaves by the interface that the question came by' by_second
stop "$SERVER"
ip link del w0

# More addresses than one target answers at, or than fit into its announcement.
for n in $(seq 70); do
	ip addr add "198.51.100.$n/32" dev v0
done
says_once() { # PATTERN: and an answer is still possible
	over_v1 --carrier unicast "192.0.2.1:$PORT" && is 1 "$(grep -c "$1" "$T/log.t")"
}
serve --listen "srp+tcp://0.0.0.0:$PORT" --discovery v0
t_check 'more addresses than it can answer at are told, once' \
	says_once 'discovery: .* too many addresses'
stop "$SERVER"
serve --listen "srp+tcp://0.0.0.0:$PORT" --keys "$T/keys"
t_check 'more addresses than an announcement has place for are told, once' \
	is 1 "$(grep -c 'discovery: .* leaves out some addresses' "$T/log.t")"
stop "$SERVER"
for n in $(seq 70); do
	ip addr del "198.51.100.$n/32" dev v0
done

# A host that receives a query can forward it, and the answer, too.
cat >"$T/relay" <<'END'
import socket, sys
here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
here.bind(("192.0.2.2", int(sys.argv[1])))
there = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
print("ready", flush=True)
while True:
    query, peer = here.recvfrom(2048)
    there.sendto(query, ("192.0.2.1", int(sys.argv[1])))
    here.sendto(there.recv(2048), peer)
END
serve --listen "srp+tcp://0.0.0.0:$PORT" --keys "$T/keys"
t_check 'with the key, where it listens on all addresses' \
	over_v1 --carrier multicast -i v1 --key "$T/right"
nsenter -t "$OTHER" -n python3 "$T/relay" "$PORT" >"$T/relay.log" 2>&1 &
t_pids="$t_pids $!"
t_wait_for 10 grep -q ready "$T/relay.log"
t_check 'with the key, nobody who hands an answer on is taken for the target' \
	is "$NAME unicast srp+tcp://192.0.2.1:$PORT" \
	"$(target_json --key "$T/right" "192.0.2.2:$PORT")"
stop "$SERVER"

# ---- by IPv6 alone, and how far the messages go

nsenter -t "$OTHER" -n "$(dirname "$0")/hops.py" v1 >>"$T/hops" &
HOPS=$!
t_pids="$t_pids $HOPS"
t_wait_for 10 grep -q ready "$T/hops"
link_local() { ip -6 -o addr show dev v0 scope link -tentative; }
have_ipv6() {
	V0=$(link_local | sed -n 's,.*inet6 \(fe80:[^/]*\)/.*,\1,p')
	[ -n "$V0" ] && there ip -6 -o addr show dev v1 scope link -tentative |
		grep inet6
}
t_check 'both have an address of IPv6' t_wait_for 10 have_ipv6
passes() { # FAMILY KIND
	t_wait_for 10 grep -q "^$1 .* $2 " "$T/hops" || {
		echo "no $2 by $1"
		return 1
	}
}
passes_all() {
	for kind in query announcement bye; do
		passes IPv4 $kind && passes IPv6 $kind || return 1
	done
}
one_hop() {
	cat "$T/hops"
	! grep -v ready "$T/hops" | grep -v ' 1$'
}
serve --listen "srp+tcp://[::]:$PORT"
t_check 'by both' there rdma-discover --carrier multicast -i v1
stop "$SERVER"
t_check 'queries, announcements and byes go by IPv4 and IPv6' passes_all
t_check 'one hop far' one_hop

ip addr del 192.0.2.1/24 dev v0
there ip addr del 192.0.2.2/24 dev v1
: >"$T/hops"
serve --listen "srp+tcp://[::]:$PORT"
# The target says how to mount, and that works here.
link_local_line() {
	cat "$T/log.t"
	is "  rdma-fuse srp+tcp://[$V0%v0]:$PORT MOUNTPOINT" \
		"$(grep rdma-fuse "$T/log.t")" &&
		grep -q 'another machine names its own interface' "$T/log.t" &&
		rdma-info "srp+tcp://[$V0%v0]:$PORT"
}
t_check 'with a link-local address alone, it says how to mount' link_local_line
by_ipv6() { # URI ARG...
	uri=$1
	shift
	there rdma-discover --json --carrier multicast "$@" >"$T/json"
	cat "$T/json"
	grep -qF "\"uri\": \"$uri\"" "$T/json" && grep -q '"usable": true' "$T/json" &&
		there rdma-info "$uri" && passes IPv6 query && ! grep IPv4 "$T/hops"
}
t_check 'by IPv6 alone, where it listens on all addresses' \
	by_ipv6 "srp+tcp://[$V0%v1]:$PORT"
stop "$SERVER"
serve --listen "srp+tcp://[$V0%v0]:$PORT" --discovery v0
t_check 'where it listens on one' by_ipv6 "srp+tcp://[$V0%v1]:$PORT" -i v1
stop "$SERVER"
kill "$HOPS"
wait "$HOPS" 2>/dev/null

ip link set v0 down
serve --listen "srp+tcp://[::]:$PORT"
t_check 'without an address but loopback, it says so' \
	grep -q 'no address that another machine can reach' "$T/log.t"
stop "$SERVER"

# ---- the daemon

cat >"$T/rules" <<END
# not for other targets
d instance=another
a dest=127.0.0.1:$PORT,mount=$T/mnt,volume=disk
END
t_refused 'a rule with a key that there is not' "rules.bad:1: 'mout': no such key" eval '
	echo "a mout=/mnt" >"$T/rules.bad"
	rdma-discover --daemon -f "$T/rules.bad"'
t_refused 'a rule with a wrong value' "rules.bad:2: 'id_ext=0xyz': not a hex" eval '
	printf "\na id_ext=0xyz\n" >"$T/rules.bad"
	rdma-discover --daemon -f "$T/rules.bad"'
t_refused 'no rules' 'rules.*none.*No such file' \
	rdma-discover --daemon -f "$T/none"

t_new_log "$T/log.daemon"
rdma-discover --daemon -f "$T/rules" --period 0.5 -t 0.3 -v >"$T/log.daemon" 2>&1 &
DAEMON=$!
t_pids="$t_pids $DAEMON"
reads() { dd if="$T/mnt/disk" of="$T/dd" bs=4k count=1 iflag=direct status=none; }
serve --listen "srp+tcp://127.0.0.1:$PORT"
t_check 'the daemon mounts a target that comes' t_wait_for 10 reads
once() { is 1 "$(mounts)"; }
t_check 'once' once
restarts() { # COUNT
	for n in $(seq "$1"); do
		kill -"$([ $((n % 2)) = 0 ] && echo 9 || echo TERM)" "$SERVER"
		wait "$SERVER" 2>/dev/null
		serve --listen "srp+tcp://127.0.0.1:$PORT" || return 1
		t_wait_for 20 reads && once || {
			cat "$T/log.daemon"
			return 1
		}
	done
}
t_check 'after each of eight restarts it is there, once' restarts 8
killed_mount() {
	pkill -9 -f "^rdma-fuse.*$T/mnt" && t_wait_for 20 reads && once
}
t_check 'rdma-fuse that was killed is mounted again' killed_mount
# The child that reads what peers send. Builds with a sanitizer have no filter.
has_no_rights() {
	ear=$(pgrep -P "$DAEMON" | head -n 1)
	grep -E '^(Cap(Prm|Eff|Amb)|NoNewPrivs|Seccomp):' "/proc/$ear/status"
	[ "$(grep -Ec '^Cap(Prm|Eff|Amb):.0+$' "/proc/$ear/status")" = 3 ] &&
		grep -q '^NoNewPrivs:.1$' "/proc/$ear/status" &&
		{ [ -n "${SANITIZED-}" ] || grep -q '^Seccomp:.2$' "/proc/$ear/status"; }
}
t_check 'who reads the datagrams has no rights' t_wait_for 5 has_no_rights
# A server that does not answer (here: rdma-fuse, stopped) holds up whoever asks for
# its mount.
hang_is_no_end() {
	fuse=$(pgrep -f "^rdma-fuse.*$T/mnt")
	kill -STOP $fuse
	t_wait_for 20 grep -q "$T/mnt does not answer" "$T/log.daemon" &&
		kill "$DAEMON" && t_wait_for 5 t_has_ended "$DAEMON"
	res=$?
	kill -CONT $fuse
	return $res
}
t_check 'a mount that hangs does not hang the daemon' hang_is_no_end
adopts() {
	kill "$DAEMON" 2>/dev/null
	wait "$DAEMON"
	once || return 1
	t_new_log "$T/log.daemon"
	rdma-discover --daemon -f "$T/rules" --period 0.5 -t 0.3 -v >"$T/log.daemon" 2>&1 &
	DAEMON=$!
	t_pids="$t_pids $DAEMON"
	t_wait_for 10 grep -q 'is there already' "$T/log.daemon" && reads && once
}
t_check 'a daemon that starts takes over what it finds' adopts
moves() {
	stop "$SERVER"
	sed -i "s/dest=127.0.0.1:$PORT,/dest=127.0.0.2:$PORT,/" "$T/rules"
	kill -HUP "$DAEMON"
	serve --listen "srp+tcp://127.0.0.2:$PORT"
	t_wait_for 10 grep -q 'another address' "$T/log.daemon" &&
		t_wait_for 10 reads && once &&
		grep -q "^srp+tcp://127.0.0.2:$PORT" /proc/self/mounts
}
t_check 'a target that moves to another address is followed' moves
# What is mounted stays. When it ends, the present rules apply.
reload() {
	: >"$T/log.daemon"
	kill -HUP "$DAEMON"
	t_wait_for 10 grep -q 'rules: . rule' "$T/log.daemon"
}
mkdir "$T/mnt2"
t_mounts="$t_mounts $T/mnt2"
is_mounted() { grep -q " $T/$1 fuse.rdma-block " /proc/self/mounts; }
other_directory() {
	sed -i "s,mount=$T/mnt\\>,mount=$T/mnt2," "$T/rules"
	reload && reads && fusermount3 -u "$T/mnt" &&
		t_wait_for 20 is_mounted mnt2 && ! is_mounted mnt
}
t_check 'a rule with another directory holds when the mount ends' other_directory
no_rule() {
	echo d >"$T/rules"
	reload && is_mounted mnt2 && fusermount3 -u "$T/mnt2" &&
		t_wait_for 20 grep -q "$NAME: no rule allows it any more" "$T/log.daemon" &&
		! is_mounted mnt2
}
t_check 'a mount that no rule allows any more is not made again' no_rule
back_again() {
	echo "a dest=127.0.0.2:$PORT,mount=$T/mnt,volume=disk" >"$T/rules"
	reload && t_wait_for 20 reads && once
}
t_check 'a rule allows it again' back_again
# An announcement is only a hint: no mount ends because of it.
id_of() { grep " $T/mnt " /proc/self/mounts | sed -n 's/.*?id_ext=\([0-9a-f]*\)&ioc_guid=.*/\1/p'; }
keeps() {
	stop "$SERVER"
	serve --listen "srp+tcp://127.0.0.2:$PORT" --discovery off
	reads || return 1
	# The forgery answers instead of the target, from an address without a
	# target.
	forger "$(id_of | head -n 1)" "srp+tcp://127.0.0.3:$PORT"
	printf 'a mount=%s,volume=disk,gone=remove\n' "$T/mnt" >"$T/rules"
	kill -HUP "$DAEMON"
	t_wait_for 20 grep -q 'stays; the target serves where it was' "$T/log.daemon" &&
		reads && once && grep -q "^srp+tcp://127.0.0.2:$PORT" /proc/self/mounts
	keeps_res=$?
	kill "$FORGER"
	wait "$FORGER" 2>/dev/null
	return $keeps_res
}
t_check 'a forged address removes no mount of a target that serves' keeps
silent() {
	: >"$T/log.daemon"
	t_wait_for 30 grep -q 'stays; the target serves where it was' "$T/log.daemon" &&
		reads && once
}
t_check 'nor does a target that does not answer, but serves' silent
serves_says() { # STATUS URI
	rdma-discover -q --serves "$2"
	is "$1" $?
}
t_check '--serves: it does' serves_says 0 "srp+tcp://127.0.0.2:$PORT"
t_check '--serves: nobody is there' serves_says 1 "srp+tcp://127.0.0.3:$PORT"
t_check '--serves: another target is there' \
	serves_says 1 "srp+tcp://127.0.0.2:$PORT?id_ext=1"
stop "$SERVER"
serve --listen "srp+tcp://127.0.0.2:$PORT"
gone() {
	printf 'a mount=%s,volume=disk,gone=remove\n' "$T/mnt" >"$T/rules"
	fusermount3 -uz "$T/mnt"
	kill -HUP "$DAEMON"
	stop "$SERVER"
	t_wait_for 20 grep -q ': gone' "$T/log.daemon" || return 1
	serve --listen "srp+tcp://127.0.0.2:$PORT"
	t_wait_for 10 reads || return 1
	stop "$SERVER"
	t_wait_for 20 eval '[ "$(mounts)" = 0 ]'
}
t_check 'gone=remove unmounts when the target is gone' gone
is_unmounted() { is 0 "$(mounts)"; }
killed_target() {
	serve --listen "srp+tcp://127.0.0.2:$PORT"
	t_wait_for 20 reads || return 1
	: >"$T/log.daemon"
	kill -9 "$SERVER"
	wait "$SERVER" 2>/dev/null
	t_wait_for 20 is_unmounted &&
		t_wait_for 20 grep -q "$NAME: gone" "$T/log.daemon"
}
t_check 'so does it when the target is killed, and cannot say so' killed_target
kill "$DAEMON"
wait "$DAEMON"
t_check 'the daemon ends well' test $? = 0
# It asks once an hour.
by_bye() {
	t_new_log "$T/log.daemon"
	rdma-discover --daemon -f "$T/rules" --period 3600 -t 0.3 -v >"$T/log.daemon" 2>&1 &
	DAEMON=$!
	t_pids="$t_pids $DAEMON"
	t_wait_for 10 grep -q 'looking for targets' "$T/log.daemon"
	serve --listen "srp+tcp://127.0.0.2:$PORT"
	t_wait_for 20 reads || return 1
	stop "$SERVER"
	t_wait_for 20 is_unmounted
	by_bye_res=$?
	cat "$T/log.daemon"
	kill "$DAEMON"
	wait "$DAEMON"
	return $by_bye_res
}
t_check 'a target that comes is mounted, and one that says bye unmounted, at once' by_bye
# The target itself no longer says anything, and the daemon does not ask of its own
# accord.
by_forged_bye() {
	t_new_log "$T/log.daemon"
	rdma-discover --daemon -f "$T/rules" --period 3600 -t 0.3 -v >"$T/log.daemon" 2>&1 &
	DAEMON=$!
	t_pids="$t_pids $DAEMON"
	t_wait_for 10 grep -q 'looking for targets' "$T/log.daemon"
	serve --listen "srp+tcp://127.0.0.2:$PORT"
	t_wait_for 20 reads || return 1
	kill -9 "$SERVER"
	wait "$SERVER" 2>/dev/null
	serve --listen "srp+tcp://127.0.0.2:$PORT" --discovery off
	t_wait_for 20 reads || return 1
	"$(dirname "$0")/forged_target.py" "$(id_of | head -n 1)" "srp+tcp://127.0.0.2:$PORT" bye
	t_wait_for 20 grep -q 'stays; the target serves where it was' "$T/log.daemon" &&
		reads && once
	by_forged_bye_res=$?
	cat "$T/log.daemon"
	kill "$DAEMON"
	wait "$DAEMON"
	fusermount3 -uz "$T/mnt"
	stop "$SERVER"
	return $by_forged_bye_res
}
t_check 'a forged bye ends no mount of a target that serves' by_forged_bye

# ---- more interfaces than it asks by

for n in $(seq 40); do
	ip link add "m$n" type veth peer name "n$n"
	ip link set "m$n" up
	ip link set "n$n" up
done
asks_by_some() {
	rdma-discover -t 0.2 --carrier multicast 2>"$T/err"
	cat "$T/err"
	grep -q 'too many interfaces or addresses: [1-9][0-9]* of them are left out' "$T/err"
}
t_check 'more interfaces than it asks by are told' t_wait_for 20 asks_by_some
for n in $(seq 40); do
	ip link del "m$n"
done

# ---- the directory of the daemon

daemon() { # RULE...: starts two daemons with the same rules
	printf '%s\n' "$@" >"$T/rules"
	for n in 1 2; do
		t_new_log "$T/log.daemon$n"
		rdma-discover --daemon -f "$T/rules" --period 0.5 -t 0.3 -v \
			>"$T/log.daemon$n" 2>&1 &
		eval "DAEMON$n=$!"
		t_pids="$t_pids $!"
	done
}
daemons_end() {
	kill "$DAEMON1" "$DAEMON2"
	wait "$DAEMON1" "$DAEMON2"
	fusermount3 -uz "$T/mnt"
}
both_see() {
	t_wait_for 20 reads && t_wait_for 20 grep -Eq ": (done|is there already)" \
		"$T/log.daemon1" && t_wait_for 20 grep -Eq \
		": (done|is there already)" "$T/log.daemon2" && once
}
serve --listen "srp+tcp://127.0.0.2:$PORT"
ln -s "$T" "$T/link"
daemon "a mount=$T/link//mnt/,volume=disk"
t_check 'two daemons, and a directory by another name: one mount' both_see
daemons_end
forger 00000000deadbeef "srp+tcp://127.0.0.2:$PORT"
daemon "a mount=$T/mnt,volume=disk"
t_check 'a forgery that was first does not keep the directory' both_see
daemons_end
rdma-fuse -q "srp+tcp://127.0.0.2:$PORT/disk" "$T/mnt"
daemon "a instance=forged,mount=$T/mnt,volume=disk"
t_check 'a mount that somebody else has made is taken for good' both_see
daemons_end
real=$(rdma-discover --json | sed -n 's/.*"id_ext": "\(.*\)".*/\1/p' | grep -v deadbeef)
rdma-fuse -q "srp+tcp://127.0.0.2:$PORT/disk?id_ext=$real" "$T/mnt"
daemon "a instance=forged,mount=$T/mnt,volume=disk"
stays() {
	t_wait_for 20 grep -q 'mount of another target, and stays' "$T/log.daemon1" &&
		reads && once
}
t_check 'the mount of another target stays' stays
daemons_end
kill "$FORGER"
wait "$FORGER" 2>/dev/null

# ---- a crowd

# Each mount lasts until "go", and then fails.
C=$T/crowd
mkdir -p "$C/bin" "$C/running"
cat >"$C/bin/rdma-fuse" <<END
#!/bin/sh
me=$C/running/\${2##*/}
mkdir "\$me" || echo "\$2" >>"$C/doubled"
ls "$C/running" | wc -l >>"$C/most"
until [ -e "$C/go" ]; do sleep 0.05; done
rmdir "\$me"
exit 1
END
chmod +x "$C/bin/rdma-fuse"
forger 00000000deadbe00 "srp+tcp://127.0.0.2:$PORT" 20
for n in $(seq 20); do
	echo "a instance=forged$n,mount=$C/$n"
done >"$T/rules"
t_new_log "$T/log.daemon"
PATH="$C/bin:$PATH" rdma-discover --daemon -f "$T/rules" --period 0.5 -t 0.3 -v \
	>"$T/log.daemon" 2>&1 &
DAEMON=$!
t_pids="$t_pids $DAEMON"
running() { ls "$C/running" | wc -l; }
queries() { grep -c query "$T/forger"; }
few_at_once() {
	t_wait_for 60 eval '[ "$(running)" -ge 8 ]' || return 1
	# Until it has gone through all targets once more.
	more=$(($(queries) + 5))
	t_wait_for 60 eval '[ "$(queries)" -ge $more ]' && is 8 "$(running)"
}
t_check 'of twenty targets, eight are mounted at once' few_at_once
others_follow() {
	touch "$C/go"
	for n in $(seq 20); do
		t_wait_for 60 grep -q "^.*forged$n: .* failed; trying again in 1 s" \
			"$T/log.daemon" || return 1
	done
	is 8 "$(sort -n "$C/most" | tail -n 1)"
}
t_check 'then the others, never more' others_follow
t_check 'one that fails waits longer each time' \
	t_wait_for 20 grep -q 'forged20: .* failed; trying again in 4 s' "$T/log.daemon"
t_check 'no mount is begun twice' test ! -e "$C/doubled"
kill "$DAEMON"
wait "$DAEMON"
kill "$FORGER"
wait "$FORGER" 2>/dev/null
t_done
