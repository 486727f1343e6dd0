#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# rdma-info: what it prints about a target, and how it fails: one line on stderr
# which names the object, exit status 1.
. "$(dirname "$0")/lib.sh"

if [ -z "${URI-}" ]; then
	truncate -s 256M "$T/disk.img"
	t_target --backing "$T/disk.img,name=disk" \
		--backing "ram:64M,name=scratch,block-size=4096,ro"
fi
addr=${URI#*://}

prints() { # PATTERN ARG...
	pattern=$1
	shift
	rdma-info "$@" >"$T/stdout" || return 1
	cat "$T/stdout"
	grep -Eqe "$pattern" "$T/stdout"
}

prints_not() {
	pattern=$1
	shift
	rdma-info "$@" >"$T/stdout" || return 1
	cat "$T/stdout"
	! grep -Eqe "$pattern" "$T/stdout"
}

fails_writing() {
	rdma-info "$@" >/dev/full
}
has_no_stdout() {
	rdma-info "$@" >&-
}

# --- output ---

t_check 'volumes' prints '^ +0 +disk +256 MiB +512 +rw,.*discard' "$URI"
t_check 'a second volume' prints '^ +1 +scratch +64 MiB +4096 +ro' "$URI"
t_check 'where the target is' prints "^target $addr over TCP" "$URI"
t_check 'one volume by name' prints_not disk "$URI/scratch"
t_check 'one volume by LUN' prints scratch "$URI/1"
if rdma-info --json "$URI" 2>&1 | grep -q 'without jansson'; then
	t_skip 'JSON' 'built without jansson'
else
	t_check 'JSON' prints '"size": 268435456' --json "$URI"
	t_check 'JSON of one volume' prints_not '"disk"' --json "$URI/scratch"
fi
t_check 'help' prints '^Usage: rdma-info' --help
t_check 'version' prints '^rdma-info [0-9]' --version

t_check 'from a source address' prints "^target $addr over TCP from 127.0.0.2:" \
	"$URI?source=127.0.0.2"

# --- options ---

t_refused 'no URI' 'no URI.*srp://' rdma-info
t_refused 'two URIs' "unexpected 'srp://b'" rdma-info srp://a srp://b
t_refused 'unknown option' "unknown option '--colour'.*--help" rdma-info --colour
t_refused 'unknown letter' "unknown option '-Z'.*--help" rdma-info -Z "$URI"
t_refused 'no value' "missing after '--timeout'" rdma-info --timeout
t_refused 'no number' "--timeout 'soon': not a number of seconds from 1 to 3600" \
	rdma-info --timeout soon "$URI"
t_refused 'scheme' "scheme 'http'" rdma-info http://127.0.0.1
t_refused 'port' "port '70000'" rdma-info srp://127.0.0.1:70000
t_refused 'key' 'colour' rdma-info 'srp://127.0.0.1?colour=red'
t_refused 'identifier' 'initiator' rdma-info 'srp://127.0.0.1?initiator=xyz'
t_refused 'empty' 'bad address' rdma-info ''
t_refused 'GID over TCP' 'gid.* needs RDMA: TCP has no GIDs' \
	rdma-info "$URI?gid=::ffff:127.0.0.1"
t_refused 'P_Key over TCP' 'pkey.* needs RDMA: TCP has no .*P_Keys' \
	rdma-info "$URI?pkey=ffff"
t_refused 'service level over TCP' 'sl.* needs RDMA: TCP has no .*service levels' \
	rdma-info "$URI?sl=1"

# --- no login ---

t_refused 'unknown host' "'no.such.host.invalid'.*(not known|failure)" \
	rdma-info srp://no.such.host.invalid
t_refused 'refused port' \
	'127.0.0.1:9 over TCP from 127.0.0.1: connection refused; is rdma-target running.*rdma-doctor says more' \
	rdma-info srp+tcp://127.0.0.1:9
t_refused 'source that no interface has' \
	"$addr over TCP from 192.0.2.1: source=192.0.2.1: no interface of this machine" \
	rdma-info "$URI?source=192.0.2.1"
t_refused 'source of IPv6' \
	"$addr over TCP from ::1: source=::1 is an address of IPv6, that of the target" \
	rdma-info "$URI?source=::1"
t_refused 'source on an unknown interface' 'source=.*no such interface' \
	rdma-info "$URI?source=fe80::1%nosuch0"
t_refused 'another target port' \
	"$addr over TCP from 127.0.0.1:[0-9]*: .*no such target port.*id_ext" \
	rdma-info "$URI?id_ext=1"
t_refused 'no such volume' "no volume 'lost' on $addr; it has: disk, scratch" \
	rdma-info "$URI/lost"
t_refused 'no such LUN' "no volume '7'" rdma-info "$URI/7"
if unshare -rn true 2>/dev/null; then
	t_refused 'unreachable host' \
		'10.1.2.3:5555 over TCP: no route to that address; check' \
		unshare -rn rdma-info srp+tcp://10.1.2.3
else
	t_skip 'unreachable host' 'no network namespace of our own possible'
fi
# What an address means to the routes: NAME|TYPE of the route|the message
cat >"$T/routes" <<'END'
rejected as if without a route|unreachable|no route to that address; check .* the target's firewall
blackhole|blackhole|.*failed: Invalid argument; a route of type blackhole .*link-local
prohibit|prohibit|.*failed: Permission denied; a route of type prohibit or a firewall
END
cat >"$T/in_route" <<-END
	#!/bin/sh
	ip link set lo up && ip route add "\$1" 10.9.0.0/16 || exit 99
	exec rdma-info srp+tcp://10.9.0.1
END
chmod +x "$T/in_route"
while IFS='|' read -r name type says; do
	if unshare -rn ip link set lo up 2>/dev/null; then
		t_refused "route: $name" "10.9.0.1:5555 over TCP.*: $says" \
			unshare -rn "$T/in_route" "$type"
	else
		t_skip "route: $name" 'no network namespace of our own possible'
	fi
done <"$T/routes"
t_refused 'a link-local address without its interface' \
	'\[fe80::1\]:5555 over TCP.*as in \[fe80::1%eth0\]' \
	rdma-info 'srp+tcp://[fe80::1]'
if [ -n "$(ls /sys/class/infiniband 2>/dev/null)" ]; then
	t_skip 'no RDMA device' 'there is one'
	t_skip 'why it is not RDMA' 'there is an RDMA device'
	t_skip 'a P_Key demands RDMA' 'there is an RDMA device'
else
	t_check 'why it is not RDMA' prints \
		'RDMA is not used: this machine has no RDMA device' "srp://$addr"
	t_refused 'no RDMA device' 'over RDMA.*no RDMA device.*srp\+tcp' \
		rdma-info "srp+rdma://$addr"
	t_refused 'a P_Key demands RDMA' 'over RDMA.*no RDMA device' \
		rdma-info "srp://$addr?pkey=ffff"
fi
t_refused 'full disk behind stdout' 'standard output: No space' \
	fails_writing "$URI"
t_refused 'full disk behind the help' 'standard output: No space' \
	fails_writing --help
t_refused 'no stdout' 'standard output: Bad file' has_no_stdout "$URI"

# A stopped target accepts the connection and sends nothing.
if [ -n "${T_TARGET-}" ]; then
	kill -STOP "$T_TARGET"
	t_refused 'target stopped' "$addr over TCP from 127.0.0.1:[0-9]*: it took the connection, but sends no answer; .* the target hangs" \
		rdma-info --timeout 1 "$URI"
	kill -CONT "$T_TARGET"
	t_check 'and continued' prints disk "$URI"
fi
t_done
