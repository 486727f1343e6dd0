#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A mount of all volumes of a target: volumes are added, removed, resized and
# replaced while fio verifies one of them.
. "$(dirname "$0")/lib.sh"
t_needs_fuse
command -v rdma-ctl >/dev/null || t_skip_all 'built without jansson'
command -v fio >/dev/null || t_skip_all 'no fio here'

M=$T/mnt
S=$T/control
L=$T/client.log
mkdir "$M"
truncate -s 64M "$T/busy.img"
truncate -s 8M "$T/grows.img"
truncate -s 8M "$T/swap.img"
truncate -s 8M "$T/other.img"
printf 'the other disk' | dd of="$T/other.img" conv=notrunc status=none

ctl() { rdma-ctl --control "$S" "$@" >/dev/null; }
serve() { # ARG...: starts a target at the address of the last one
	t_new_log
	rdma-target --listen "$URI" --control "$S" "$@" >"$T/target.log" 2>&1 &
	T_TARGET=$!
	t_pids="$t_pids $T_TARGET"
	t_wait_for 10 t_target_is_up || t_bail "$(cat "$T/target.log")"
}
# soon CMD...: within the time that events need; the mount gets no I/O for it
soon() { t_wait_for 10 "$@" || { cat "$L"; return 1; }; }
shows() { [ "$(ls "$M" | xargs)" = "$*" ]; }
has_size() { [ "$(stat -c %s "$M/$1")" = $(($2 << 20)) ]; }
said() { grep -Eq "$1" "$L" || { cat "$L"; return 1; }; }
# A read of the open descriptor 7 gives EIO.
open_file_fails() {
	! dd bs=4k count=1 status=none <&7 >/dev/null 2>"$T/.err" &&
		cat "$T/.err" && grep -q 'Input/output error' "$T/.err"
}
open_file_has_no_name() { [ "$(stat -Lc %h /dev/fd/7)" = 0 ]; }
# fio verifies one volume without an error, again and again, until the end.
verify_on() {
	while [ ! -e "$T/stop" ]; do
		(cd "$T" && fio --name=verify --filename="$M/busy" --direct=1 \
			--size=4M --verify=crc32c --do_verify=1 --verify_fatal=1 \
			--rw=randwrite --bs=4k --ioengine=libaio --iodepth=8 \
			--output-format=terse) >"$T/fio.out" 2>&1 || return 1
		echo round >>"$T/rounds"
	done
}
rounds() { wc -l <"$T/rounds"; }
more_rounds() { [ "$(rounds)" -gt "$1" ]; }
goes_on() { soon more_rounds "$(rounds)"; }

t_target --control "$S" --backing "$T/busy.img,name=busy" \
	--backing "$T/grows.img,name=grows" --backing "$T/swap.img,name=swap" \
	--backing ram:4M,name=memory
t_mounts="$t_mounts $M"
rdma-fuse -f "$URI" "$M" 2>"$L" &
client=$!
t_pids="$t_pids $client"
t_wait_for 10 test -e "$M/busy" || t_bail "$(cat "$L")"
t_check 'it shows all volumes' shows busy grows memory swap

# ---- without I/O: the target sends an event

ctl volume add ram:2M,name=idle
t_check 'a new volume appears in an idle mount' soon shows busy grows idle memory swap
ctl volume remove --force idle
t_check 'a removed volume vanishes from an idle mount' soon shows busy grows memory swap

# ---- with I/O on another volume

: >"$T/rounds"
verify_on &
fio=$!
t_wait_for 30 more_rounds 0 || t_bail "$(cat "$T/fio.out")"

ctl volume add ram:8M,name=new
t_check 'a new volume appears' soon test -e "$M/new"
t_check 'it has its size' has_size new 8
t_check 'it can be written' dd if=/dev/zero of="$M/new" bs=64k count=16 \
	conv=notrunc oflag=direct
t_check 'the others go on' goes_on

truncate -s 16M "$T/grows.img"
ctl volume resize grows
t_check 'the file follows a resize' soon has_size grows 16

exec 7<>"$M/new"
t_check 'an open volume is removed by force' ctl volume remove --force new
t_check 'its file vanishes' soon shows busy grows memory swap
t_check 'the open file gives errors' open_file_fails
t_check 'it has no name any more' open_file_has_no_name
t_check 'the log says so' said "$M/new is gone: .*not show it.*have it open"
t_check 'the others go on' goes_on
ctl volume add ram:8M,name=new
t_check 'a volume of that name is a new file' soon test -e "$M/new"
t_check 'which can be read' dd if="$M/new" of=/dev/null bs=4k count=1 iflag=direct
t_check 'the file that was open still gives errors' open_file_fails
exec 7>&-

# ---- another volume under the same LUN and name

exec 7<>"$M/swap"
old=$(stat -c %i "$M/swap")
lun=$(rdma-info "$URI" | awk '$0 ~ /swap/ { print $1; exit }' | tr -dc 0-9)
ctl volume remove --force swap
ctl volume forget swap
ctl volume add "$T/other.img,name=swap,lun=${lun:-2}"
reads_other() { [ "$(head -c 14 "$M/swap")" = 'the other disk' ]; }
t_check 'another disk under the name is shown' soon reads_other
t_check 'it is another file' [ "$(stat -c %i "$M/swap")" != "$old" ]
t_check 'the old file is dead' open_file_fails
write_old() { ! printf 'stale' | dd conv=notrunc status=none >&7; }
t_check 'and does not write to the new one' write_old
t_check 'the new one is as it was' reads_other
exec 7>&-
t_check 'the others go on' goes_on

# ---- a volume that cannot describe itself

ctl volume add ram:1M,name=tray,removable
t_check 'a volume with a tray appears' soon test -e "$M/tray"
reads_tray() { dd if="$M/tray" of=/dev/null bs=4k count=1 iflag=direct status=none; }
t_check 'it can be read' reads_tray
ctl volume eject tray
kick() { ctl session kick "$(rdma-ctl --control "$S" session list | grep -o '0x[0-9a-f]*')"; }
t_check 'the session is ended' kick
t_check 'the log says that the volume is not ready' soon said 'volume tray: .* wait$'
t_check 'the others go on' goes_on
reads_tray &
reader=$!
ctl volume load tray
t_check 'it is back' soon said 'volume tray: it is back'
t_check 'a read has waited for it' wait $reader
ctl volume remove --force tray

# ---- a restart that replaces some volumes

dd if=/dev/urandom of="$M/memory" bs=64k count=1 conv=notrunc oflag=direct \
	status=none
exec 7<>"$M/memory"
kill -9 "$T_TARGET"
wait "$T_TARGET" 2>/dev/null
serve --backing "$T/busy.img,name=busy" --backing "$T/grows.img,name=grows" \
	--backing ram:4M,name=memory
t_check 'volumes that came back go on' goes_on
t_check 'volumes that did not come back vanish' soon shows busy grows memory
t_check 'memory that was lost is another file' open_file_fails
reads_zeroes() { cmp -n 65536 "$M/memory" /dev/zero; }
t_check 'the new one is empty' reads_zeroes
exec 7>&-

# ---- the last volume

touch "$T/stop"
wait $fio
t_result $? "fio verifies one volume all the while, $(rounds) times"
cp "$T/fio.out" "$T/.out"
exec 7<>"$M/busy"
# One after the other, when the mount is idle. A target without volumes refuses
# the login by which the mount would learn of the next change.
is_at_rest() {
	[ "$(grep -c 'writes wait up to' "$L")" = \
		"$(grep -v ': volume [^ ]*: ' "$L" | grep -c 'writes continue')" ]
}
ctl volume remove --force busy
t_check 'a volume goes' soon shows grows memory
t_check 'and the mount comes to rest' soon is_at_rest
ctl volume remove --force grows
t_check 'another one goes' soon shows memory
t_check 'and it comes to rest again' soon is_at_rest
ctl volume remove --force memory
t_check 'all volumes may go' soon shows
ctl volume add ram:1M,name=first
t_check 'and others come' soon shows first
t_check 'df works' stat -f "$M"
kill "$client"
wait "$client"
t_result $? 'the mount ends well, with a file open that is gone'
exec 7>&-
t_done
