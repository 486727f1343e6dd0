#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The plugin srp of nbdkit: NBD clients read and write volumes of our target.
. "$(dirname "$0")/lib.sh"

plugin=$BUILD/nbdkit/nbdkit-srp-plugin.so
[ -e "$plugin" ] || t_skip_all 'built without nbdkit-plugin-dev'
# Debian: nbdkit, libnbd-bin, qemu-utils.
for program in nbdkit nbdinfo nbdcopy qemu-img qemu-io fio; do
	command -v $program >/dev/null || t_skip_all "no $program here"
done
[ -z "${SANITIZED-}" ] || t_skip_all 'nbdkit cannot load sanitized code'
LD_LIBRARY_PATH=$BUILD/initiator
export LD_LIBRARY_PATH
S=$T/socket
U=nbd+unix:///?socket=$S

has_pid() { [ -s "$S.pid" ]; }

serve() { # URI-OF-TARGET FILTER...
	rm -f "$S" "$S.pid"
	uri=$1
	shift
	nbdkit -f -U "$S" -P "$S.pid" "$@" "$plugin" "$uri" >"$T/nbdkit.log" 2>&1 &
	SERVER=$!
	t_pids="$t_pids $SERVER"
	t_wait_for 10 has_pid || t_bail "$(cat "$T/nbdkit.log")"
}

info_has() { # KEY VALUE URI
	nbdinfo --json "$3" | jq -e --arg v "$2" \
		".exports[0].\"$1\" | tostring == \$v"
}

copy_in_and_out() {
	head -c 16777216 /dev/urandom >"$T/in" && nbdcopy "$T/in" "$U" &&
		nbdcopy "$U" "$T/out" && cmp "$T/in" "$T/out" &&
		cmp "$T/in" "$T/disk"
}

fio_verifies() {
	(cd "$T" && fio --name=v --ioengine=nbd --uri="$U" --size=16M \
		--rw=randwrite --bsrange=4k-2m --iodepth=16 --verify=crc32c \
		--do_verify=1 --verify_fatal=1 --output-format=terse)
}

has_nbd_engine() { fio --enghelp | grep -q '^[[:space:]]*nbd$'; }

is_hole() { # a zeroed range is deallocated, and reported as a hole
	qemu-io -f raw -c 'write -q -P 1 0 8M' -c 'write -q -z -u 4M 4M' \
		-c 'read -q -P 1 0 4M' -c 'read -P 0 4M 4M' "$U" &&
		nbdinfo --map "$U" | grep -q '4194304 .* 3 .*hole,zero'
}

trims() {
	qemu-io -f raw -c 'write -q -P 2 0 8M' -c 'discard -q 0 8M' \
		-c 'flush' "$U"
	[ "$(stat -c %b "$T/disk")" -lt 20000 ]
}

write_fua() {
	qemu-io -f raw -c 'write -q -f -P 3 1M 64k' -c 'read -P 3 1M 64k' "$U"
}

converts() {
	qemu-img create -q -f qcow2 "$T/a.qcow2" 16M &&
		qemu-io -f qcow2 -c 'write -q -P 7 1M 3M' "$T/a.qcow2" &&
		qemu-img convert -n -O raw "$T/a.qcow2" "$U" &&
		qemu-img compare -f qcow2 -F raw "$T/a.qcow2" "$U"
}

truncate -s 16M "$T/disk" "$T/ro.img"
t_target --backing "$T/disk,name=disk" --backing "$T/ro.img,name=ro,ro" \
	--backing ram:8M,name=mem
serve "$URI/disk"
# nbdkit logs in before the fork and after it, as it would after kill -9.
logs_in_as_one() {
	grep -o 'login of 0x[0-9a-f]*' "$T/target.log" | sort >"$T/logins"
	[ "$(wc -l <"$T/logins")" = 2 ] && [ "$(sort -u "$T/logins" | wc -l)" = 1 ]
}
t_check 'it is the same initiator at each login' t_wait_for 10 logs_in_as_one
t_check 'nbdinfo: the size' info_has export-size 16777216 "$U"
for flag in can_multi_conn can_flush can_fua can_trim can_zero; do
	t_check "nbdinfo: $flag" info_has $flag true "$U"
done
t_check 'nbdinfo: smallest block' info_has block_size_minimum 512 "$U"
t_check 'nbdcopy in and out' copy_in_and_out
t_check 'qemu-img converts and compares' converts
t_check 'zeroes may be a hole' is_hole
t_check 'trims' trims
t_check 'writes with FUA' write_fua
if has_nbd_engine; then
	t_check 'fio verifies' fio_verifies
else
	t_skip 'fio verifies' 'this fio has no engine nbd'
fi
kill "$SERVER"
wait "$SERVER"
t_check 'nbdkit ends' [ $? = 0 ]

serve "$URI"
lists_all() { nbdinfo --list "$U" | grep -c '^export="\(disk\|ro\|mem\)"' |
	grep -qx 3; }
t_check 'without a volume all are exports' lists_all
t_check 'one by its name' info_has export-size 8388608 \
	"nbd+unix:///mem?socket=$S"
t_check 'a read-only one' info_has is_read_only true \
	"nbd+unix:///ro?socket=$S"
fails() { ! "$@"; }
t_check 'none by another name' fails nbdinfo "nbd+unix:///nosuch?socket=$S"
t_check 'one by its LUN' info_has export-size 8388608 \
	"nbd+unix:///2?socket=$S"
kill "$SERVER"
wait "$SERVER"

# The name of one is the LUN of another.
kill "$T_TARGET"
wait "$T_TARGET"
t_target --backing ram:8M,name=1 --backing ram:16M,name=0
serve "$URI"
t_check 'a name goes before a LUN' info_has export-size 16777216 \
	"nbd+unix:///0?socket=$S"
kill "$SERVER"
wait "$SERVER"
serve "$URI/0"
t_check 'also in the URI' info_has export-size 16777216 "$U"
kill "$SERVER"
wait "$SERVER"

# The same volumes after a restart.
kill "$T_TARGET"
wait "$T_TARGET"
t_target --backing "$T/disk,name=disk"
serve "$URI/disk"
writes_on() { qemu-io -f raw -c 'write -P 9 0 64k' -c flush "$U"; }
restart() {
	kill -9 "$T_TARGET"
	wait "$T_TARGET" 2>/dev/null
	rdma-target --listen "$URI" --backing "$T/disk,name=disk" \
		>"$T/target2.log" 2>&1 &
	T_TARGET=$!
	t_pids="$t_pids $T_TARGET"
	writes_on
}
t_check 'writes' writes_on
t_check 'goes on after the target was killed' restart
kill "$SERVER"
wait "$SERVER"

# A flush that fails once.
if [ -x "$BUILD/tests/functional/nbd_clients" ]; then
	RDMA_BLOCK_PLUGIN_PATH=$BUILD/tests/plugins
	export RDMA_BLOCK_PLUGIN_PATH
	kill "$T_TARGET"
	wait "$T_TARGET"
	t_target --backing liar:away,name=l
	serve "$URI/l"
	t_check 'each client hears of a flush that has failed' \
		"$BUILD/tests/functional/nbd_clients" "$U"
	kill "$SERVER"
	wait "$SERVER"
else
	t_skip 'each client hears of a flush that has failed' \
		'built without libnbd'
fi

# In the background: nbdkit does not start, and says so before it leaves the shell.
t_refused 'a target that is not there' 'connection refused' \
	nbdkit -U "$T/other" "$plugin" srp+tcp://127.0.0.1:1/x
t_refused 'a volume that is not there' "no volume 'nosuch'" \
	nbdkit -U "$T/other" "$plugin" "$URI/nosuch"
t_done
