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
	echo 'the key of this target' >"$T/key"
	chmod 600 "$T/key"
	yes 'what an initiator writes' | head -c 2M >"$T/data"
	t_target --discovery on --discovery-key "$T/key" --backing ram:4M,name=ram \
		--backing ram:4M,name=flips,fault=write:corrupt:count=1
	t_mount "$URI" "$T/mnt" 2>"$T/mount.log" || t_bail "$(cat "$T/mount.log")"
	for volume in ram flips; do
		t_check "volume $volume is written and read" writes $volume
	done
	# The test of the test: the name of a volume is in the memory that stays.
	t_check 'a core dump has the state of the target' sh -c \
		"! python3 '$core' $T_TARGET flips"
	t_check 'a core dump has no data' core_has_not 'what an initiator writes'
	t_check 'a core dump has no key' core_has_not 'the key of this target'
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
calls_not() { # CALL WHAT
	tries "$2" && grep -q "the system call $1 " "$T/target.log"
}
opens() { tries "$@" && grep -q 'takeover: done' "$T/target.log"; }
secret_is_whole() { grep -qx secret "$T/away/secret"; }

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
	mkdir "$T/from" "$T/conf"
	truncate -s 1M "$T/from/added" "$T/away/other"
	echo '{}' >"$T/conf/c.json"
	set -- --control "$T/ctl" --config "$T/conf/c.json" --volumes-from "$T/from"
	t_check 'with --volumes-from, it reads no other file' \
		opens_not "read:$T/away/secret" "$@"
	t_check 'it writes to none' opens_not "write:$T/away/secret" "$@"
	t_check 'it opens what may be added' opens "read:$T/from/added" "$@"
	t_check 'without, it reads any file of its user' \
		opens "read:$T/away/secret" --control "$T/ctl"
	t_target "$@" --backing ram:1M
	t_check 'a volume in the directory is added' \
		rdma-ctl --control "$T/ctl" volume add "$T/from/added,name=added"
	t_refused 'no other is' "only below --volumes-from $T/from" \
		rdma-ctl --control "$T/ctl" volume add "$T/away/other,name=other"
	t_check 'the configuration is saved' rdma-ctl --control "$T/ctl" save
	t_check 'and read again' rdma-ctl --control "$T/ctl" reload
	t_target_stop TERM
	t_check 'the control socket is removed' test ! -e "$T/ctl"
fi
t_check 'it makes no socket' calls_not socket socket
t_check 'it runs no program' calls_not execve exec
t_check 'it traces nobody' calls_not ptrace trace
t_check 'it signals nobody' calls_not kill kill
t_done
