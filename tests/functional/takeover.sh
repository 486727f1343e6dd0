#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# What a process that an attacker has taken over can do: the store takeover.so tries it
# inside rdma-target. And what a core dump of the target holds.
. "${0%/*}/lib.sh"

# ---- core dumps

core="${0%/*}/core.py"
core_has_not() { python3 "$core" "$T_TARGET" "$1"; }
writes() { # VOLUME
	dd if="$T/data" of="$T/mnt/$1" bs=4k count=16 oflag=direct conv=notrunc &&
		dd if="$T/data" of="$T/mnt/$1" bs=1M oflag=direct conv=notrunc,fsync &&
		dd if="$T/mnt/$1" bs=1M iflag=direct count=1 | cmp -n 1M - "$T/data"
}
cores() {
	mkdir "$T/mnt"
	# Of 32 bytes: "the key of this target, 32 bytes".
	key=dGhlIGtleSBvZiB0aGlzIHRhcmdldCwgMzIgYnl0ZXM=
	(umask 077; echo "host $key" >"$T/key")
	yes 'what an initiator writes' | head -c 2M >"$T/data"
	t_target --discovery on --keys "$T/key" --backing ram:4M,name=ram \
		--backing ram:4M,name=flips,fault=write:corrupt:count=1
	t_mount "srp+tls://127.0.0.1:$T_PORT?key=$T/key" "$T/mnt" 2>"$T/mount.log" || t_bail "$(cat "$T/mount.log")"
	for volume in ram flips; do
		t_check "volume $volume is written and read" writes $volume
	done
	# The test of the test: the name of a volume is in the memory that stays.
	t_check 'a core dump has the state of the target' sh -c \
		"! python3 '$core' $T_TARGET flips"
	t_check 'a core dump has no data' core_has_not 'what an initiator writes'
	t_check 'a core dump has no key' core_has_not 'the key of this target'
	t_check 'a core dump has no file of keys' core_has_not "$key"
	fusermount3 -u "$T/mnt"
	t_target_stop TERM
}
if [ -n "${SANITIZED-}" ] || ! [ -e /dev/fuse ]; then
	t_skip 'core dumps' 'needs /dev/fuse, and no sanitizer'
else
	cores
fi

# ---- attempts

tries() { # WHAT[:PATH] ARG...: until the log says what became of it
	what=$1
	shift
	t_target -v "$@" --backing \
		"$BUILD/tests/plugins/rdma-block-plugin-takeover.so:$what,name=t"
	srpcopy "$URI/t" "$T/copy" >/dev/null 2>&1 &
	client=$!
	t_pids="$t_pids $client"
	t_wait_for 10 grep -Eq 'takeover: |does not allow the system call' "$T/target.log"
	tried=$?
	kill -9 $client 2>/dev/null
	wait $client 2>/dev/null
	t_target_stop TERM
	cat "$T/target.log"
	return $tried
}
# Its files must be closed to it even if they are those of its own user.
opens_not() { # WHAT:PATH ARG...
	tries "$@" && grep -q 'takeover: Permission denied' "$T/target.log"
}
calls_not() { # CALL WHAT ARG...
	call=$1
	shift
	tries "$@" && grep -q "the system call $call " "$T/target.log"
}
opens() { tries "$@" && grep -q 'takeover: done' "$T/target.log"; }
secret_is_whole() { grep -qx secret "$T/away/secret"; }

# ---- files that rdma-ctl hands over

ctl() { rdma-ctl --control "$T/ctl" "$@"; }
# A client that hands over nothing.
adds_alone() { # PATH
	python3 -c '
import json, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(json.dumps({"method": "org.rdmablock.target.AddVolume",
    "parameters": {"volume": sys.argv[2]}}).encode() + b"\0")
r = json.loads(s.recv(65536)[:-1])
sys.exit(r["parameters"].get("reason", 0))' "$T/ctl" "$1"
}
writes_through() { # VOLUME FILE
	yes "$1" | head -c 1M >"$T/data"
	srpcopy "$T/data" "$URI/$1" && cmp -n 1M "$T/data" "$2"
}
# In a mount namespace where another file has its path.
adds_elsewhere() {
	unshare -m sh -c 'mount --bind "$1/away/other" "$1/away/given" &&
		rdma-ctl --control "$1/ctl" volume add "$1/away/given,name=elsewhere"' sh "$T"
}
opens_nothing_left() { ! ls -l /proc/"$T_TARGET"/fd | grep -F "$T/away/"; }
given() { # ARG...
	truncate -s 1M "$T/away/given" "$T/away/second" "$T/away/third"
	ln -s given "$T/away/link"
	mkfifo "$T/away/fifo"
	T_THREADS=3 t_target "$@" --backing ram:1M
	t_refused 'the target alone opens no new file' 'opens no new files: rdma-ctl' \
		adds_alone "$T/away/given"
	t_check 'rdma-ctl hands it over' ctl volume add "$T/away/given,name=given"
	t_check 'it is written' writes_through given "$T/away/given"
	t_check 'and made larger' ctl volume resize given 2M
	t_check 'the file is' [ "$(stat -c %s "$T/away/given")" = 2097152 ]
	t_refused 'the same file under another name is the same disk' 'is given twice' \
		ctl volume add "$T/away/given,name=again"
	t_refused 'and by a link' 'is given twice' \
		ctl volume add "$T/away/link,name=link"
	t_check 'a read-only one is handed over' ctl volume add "$T/away/second,name=second,ro"
	t_check 'both are removed' sh -c "rdma-ctl --control '$T/ctl' volume remove given &&
		rdma-ctl --control '$T/ctl' volume remove second"
	t_check 'a link to a file is handed over' ctl volume add "$T/away/link,name=link"
	t_check 'and removed' ctl volume remove link
	t_check 'nothing of them is left open' t_wait_for 10 opens_nothing_left
	t_refused 'what is no store is not opened' 'neither a regular file nor a block' \
		ctl volume add "$T/away/fifo"
	t_refused 'no character device, either' 'neither a regular file nor a block' \
		ctl volume add /dev/zero
	t_refused 'nor a directory' 'is a directory' ctl volume add "$T/away"
	t_refused 'a file that is missing is named' 'does not exist; make it' \
		ctl volume add "$T/away/none"
	if unshare -m true 2>/dev/null; then
		t_refused 'a file that has this path only for rdma-ctl is refused' \
			'is another file for the target' adds_elsewhere
	else
		t_skip 'a file that has this path only for rdma-ctl' 'no mount namespaces'
	fi
	echo "{ \"backing\": [ \"$T/away/given,name=given\" ] }" >"$T/more.json"
	t_check 'apply hands over files' ctl apply "$T/more.json"
	t_check 'they are written' writes_through given "$T/away/given"
	echo "{ \"backing\": [ \"../away/third,name=third\" ] }" >"$T/conf/new"
	mv "$T/conf/new" "$T/real/c.json"
	kill -HUP "$T_TARGET"
	t_check 'a hang-up signal cannot open them' t_wait_for 10 \
		grep -q 'not applied: .*third.*opens no new files: rdma-ctl' "$T/target.log"
	t_check 'reload hands them over' ctl reload
	t_check 'they are written, too' writes_through third "$T/away/third"
	t_target_stop TERM
}

# ---- sockets that rdma-ctl hands over

# adds_socket URI COMMAND...: as a client that hands over the socket that COMMAND, of Python,
# makes as s; or nothing.
adds_socket() {
	python3 -c '
import json, sys
from socket import *
c = socket(AF_UNIX)
c.connect(sys.argv[1])
def call(method, uri, fds):
    send_fds(c, [json.dumps({"method": "org.rdmablock.target." + method,
        "parameters": {"uri": uri}}).encode() + b"\0"], fds)
    return json.loads(c.recv(65536)[:-1])
s = None
exec(sys.argv[3])
if s:
    call("GiveSocket", sys.argv[2], [s.fileno()])
r = call("AddListener", sys.argv[2], [])
sys.exit(r["parameters"].get("reason", 0))' "$T/ctl" "$1" "$2"
}
is_no_socket() { # COMMAND: what it makes is refused for $OTHER
	t_refused "what is handed over must listen there: $1" 'is no socket that listens there' \
		adds_socket "$OTHER" "$1"
}
sockets() { # ARG...
	t_target "$@" --backing ram:1M
	OTHER=${URI%:*}:$((T_PORT - 12000))
	at="('127.0.0.1', ${OTHER##*:})"
	t_refused 'the target alone makes no socket' 'makes no sockets: rdma-ctl' \
		adds_socket "$OTHER" ''
	is_no_socket "s = socket(); s.bind($at)"
	is_no_socket "s = socket(AF_INET, SOCK_DGRAM); s.bind($at)"
	is_no_socket 's = socket(); s.listen()'
	is_no_socket "s = socket(); s.bind(('127.0.0.2', ${OTHER##*:})); s.listen()"
	is_no_socket "s = open('/dev/null')"
	if unshare -n true 2>/dev/null; then
		t_refused 'and in the network of the target' 'in another network namespace' \
			unshare -n sh -c 'ip link set lo up; rdma-ctl --control "$1" listen add "$2"' \
			sh "$T/ctl" "$OTHER"
	else
		t_skip 'sockets of another network' 'no network namespaces'
	fi
	t_check 'rdma-ctl hands one over' ctl listen add "$OTHER"
	t_check 'initiators come by it' rdma-info "$OTHER"
	t_check 'it goes' ctl listen remove "$OTHER"
	t_refused 'nobody listens there' 'refused' rdma-info "$OTHER"
	printf '{ "listen": [ "%s", "%s" ] }' "$URI" "$OTHER" >"$T/c.json"
	kill -HUP "$T_TARGET"
	t_check 'a hang-up signal adds none' t_wait_for 10 \
		grep -q 'not applied: .*makes no sockets: rdma-ctl' "$T/target.log"
	t_check 'reload hands it over' ctl reload
	t_check 'initiators come by that, too' rdma-info "$OTHER"
	t_target_stop TERM
}

# ---- what it can do

[ -z "${SANITIZED-}" ] || t_done
mkdir "$T/away" "$T/state"
echo secret >"$T/away/secret"
echo served >"$T/served"
truncate -s 1M "$T/served"
t_check 'without a sandbox, it reads any file of its user' \
	opens "read:$T/away/secret" --no-sandbox
if grep -q 'no Landlock' "$T/target.log"; then
	t_skip 'files' 'no Landlock here'
else
	t_check 'it reads no file that is not served' opens_not "read:$T/away/secret"
	t_check 'it writes to none' opens_not "write:$T/away/secret"
	t_check 'it reads no passwords' opens_not read:/etc/shadow
	t_check 'it reads none through its root' \
		opens_not "read:/proc/self/root$T/away/secret"
	for node in /dev/[lsvn][odv]*[0-9a-z]; do
		[ ! -b "$node" ] || break
	done
	if [ -b "$node" ]; then
		t_check 'it opens no block device' opens_not "read:$node"
	else
		t_skip 'it opens no block device' 'there is none here'
	fi
	t_check 'it may open again what it serves' \
		opens "read:$T/served" --backing "$T/served,name=s"
	t_check 'the file is whole' secret_is_whole

	# The same where a change may add volumes.
	mkdir "$T/from" "$T/conf" "$T/real"
	truncate -s 1M "$T/from/added" "$T/away/other"
	echo '{}' >"$T/real/c.json"
	ln -s ../real/c.json "$T/conf/c.json"
	set -- --control "$T/ctl" --config "$T/conf/c.json" --volumes-from "$T/from"
	t_check 'with --volumes-from, it reads no other file' \
		opens_not "read:$T/away/secret" "$@"
	t_check 'it writes to none' opens_not "write:$T/away/secret" "$@"
	t_check 'it opens what may be added' opens "read:$T/from/added" "$@"
	t_target "$@" --backing ram:1M
	t_check 'a volume in the directory is added' \
		rdma-ctl --control "$T/ctl" volume add "$T/from/added,name=added"
	t_refused 'no other is that the target must open' \
		"only below --volumes-from $T/from" adds_alone "$T/away/other"
	t_check 'the configuration is saved' rdma-ctl --control "$T/ctl" save
	t_check 'and read again' rdma-ctl --control "$T/ctl" reload
	t_target_stop TERM
	t_check 'the control socket is removed' test ! -e "$T/ctl"

	# Without it, other files come from rdma-ctl.
	t_check 'with --control, it reads no file that is not served' \
		opens_not "read:$T/away/secret" --control "$T/ctl"
	t_check 'nor with --config' \
		opens_not "read:$T/away/secret" --config "$T/conf/c.json"
	set -- --control "$T/ctl" --config "$T/conf/c.json"
	t_check 'with both, it reads no passwords' opens_not read:/etc/shadow "$@"
	t_check 'and writes to no other file' opens_not "write:$T/away/secret" "$@"
	mkdir "$T/etc"
	cp "$T/conf/c.json" "$T/etc"
	echo public >"$T/etc/hosts"
	echo secret >"$T/etc/shadow"
	chmod 640 "$T/etc/shadow"
	set -- --control "$T/ctl" --config "$T/etc/c.json"
	t_check 'it reads no secret beside the configuration' \
		opens_not "read:$T/etc/shadow" "$@"
	t_check 'the log says so' grep -q "beside it, so its directory is closed" "$T/target.log"
	t_check 'and writes to no file there' opens_not "write:$T/etc/hosts" "$@"
	set -- --control "$T/ctl" --config "$T/conf/c.json"
	given "$@"
fi
t_check 'it makes no socket of TCP' calls_not socket socket
t_check 'nor of UDP, with discovery' calls_not socket datagram --discovery on
echo '{}' >"$T/c.json"
set -- --control "$T/ctl" --config "$T/c.json" --discovery on
t_check 'addresses can be added, and it makes no socket of TCP' calls_not socket socket "$@"
t_check 'nor a raw one' calls_not socket raw "$@"
sockets "$@"
t_check 'it runs no program' calls_not execve exec
t_check 'it traces nobody' calls_not ptrace trace
t_check 'it signals nobody' calls_not kill kill
t_done
