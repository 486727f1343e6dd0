#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# srpcopy, killed and resumed, and with a target that goes away and comes back.
. "$(dirname "$0")/srpcopy_lib.sh"

truncate -s $SIZE v1 slow other
random image 0 $SIZE # without holes
t_target --backing v1 --backing slow
serve() { # SIGNAL [LAYER]: ends the target, and starts it with a layer above "slow"
	t_target_stop "$1"
	t_target_again --backing v1 --backing "slow${2:+,layer=$2}"
}
SLOW=qos,bps=8M # a copy takes 8 seconds; its first state is saved after 2

# ---- killed, and resumed

state() { sed -n "s/^$1: //p" state; }
is_on_the_way() { [ "$(state done)" -gt 0 ]; }
start() { # SOURCE DESTINATION: a slow copy in the background, with a state file
	serve TERM $SLOW
	rm -f state
	srpcopy --resume state "$1" "$2" 2>err &
	copy=$!
	t_wait_for 6 is_on_the_way || { cat err; return 1; }
}
ends() { # SIGNAL STATUS
	kill "-$1" $copy
	wait $copy
	status=$?
	cat err
	[ $status = "$2" ]
}
continues() { # SOURCE DESTINATION: only the rest is copied
	begin=$(state done)
	srpcopy -v --resume state "$1" "$2" 2>err || { cat err; return 1; }
	cat err
	python3 - "$begin" <<'END'
import re, sys
begin = int(sys.argv[1])
found = re.search(r'copied ([0-9.]+) MiB', open('err').read())
assert begin > 0 and float(found[1]) <= ((64 << 20) - begin) / (1 << 20), begin
END
}
killed() {
	old slow && start image "$URI/slow" && ends KILL 137 &&
		cmp -n "$(state done)" image slow && ! cmp -s image slow &&
		serve TERM && continues image "$URI/slow" && cmp image slow && [ ! -e state ]
}
t_check 'kill -9, and resumed' killed
interrupted() {
	old slow && start image "$URI/slow" && ends INT 1 &&
		[ "$(wc -l <err)" = 2 ] && tail -n 1 err |
		grep -q 'interrupted after .* run the same' &&
		[ "$(state last)" = 1 ] && cmp -n "$(state done)" image slow
}
t_check 'SIGINT leaves a state' interrupted
# ---- a state that is no longer valid
cp state saved
t_refused 'another destination' 'the destination has another identity' \
	srpcopy --resume state image "$URI/v1"
t_refused 'another source' 'the source has another identity' \
	srpcopy --resume state other "$URI/slow"
touch -r image time
touch image
t_refused 'a source that was touched' 'the source has another modification time' \
	srpcopy --resume state image "$URI/slow"
touch -r time image
truncate -s 63M image
touch -r time image
t_refused 'a source of another size' 'the source has another size now than in state .66060288, was 67108864.*remove state' \
	srpcopy --resume state image "$URI/slow"
t_refused 'a file that is no state' 'is not a state file' srpcopy --resume err image "$URI/slow"
head -n 5 saved >state
t_refused 'a part of a state' 'is not a state file' srpcopy --resume state image "$URI/slow"
t_refused 'a state in no directory' 'cannot write no/state: No such file' \
	srpcopy --resume no/state image "$URI/slow"
cp saved state
random image $((63 * MIB)) $MIB
touch -r time image
rest_continues() { serve TERM && continues image "$URI/slow" && cmp image slow; }
t_check 'the state still continues the copy' rest_continues

from_slow() {
	rm -f back && start "$URI/slow" back && ends KILL 137 &&
		cmp -n "$(state done)" slow back &&
		serve TERM && continues "$URI/slow" back && cmp slow back
}
t_check 'kill -9 of a copy to a file, and resumed' from_slow
# Killed after the first state was saved, and before the file got its size.
cat >first_state.py <<'END'
import os, sys
print('srpcopy state 1')
for what, st in zip(('source', 'destination'), map(os.stat, sys.argv[1:])):
    print(f'{what}: file {os.major(st.st_dev)}:{os.minor(st.st_dev)} {st.st_ino}')
    print(f'{what} size: {st.st_size}')
    print(f'{what} mtime: {st.st_mtime_ns // 10**9}.{st.st_mtime_ns % 10**9:09}')
print('done: 0\nlast: 0')
END
unsized() { # SIZE of the old file
	truncate -s 8M holes && random holes $MIB 4096 &&
		rm -f back && random back 0 "$1" &&
		python3 first_state.py holes back >state &&
		srpcopy --resume state holes back 2>err
	status=$?
	cat err
	[ $status = 0 ] && cmp holes back
}
t_check 'kill -9 before a longer file is cut, and resumed' unsized $((9 * MIB))
t_check 'kill -9 before a shorter file grows, and resumed' unsized 4096
# ramfs has no fallocate(2); all holes are zeroed at once.
cannot_zero() {
	mkdir -p ram && rm -f holes back && truncate -s 8M holes &&
		random back 0 $((8 * MIB)) || return 1
	for at in 1 3 5 7; do
		random holes $((at * MIB)) 4096
	done
	unshare -rm sh -c 'mount -t ramfs none ram && cp back ram &&
		python3 first_state.py holes ram/back >state &&
		srpcopy --resume state holes ram/back && cmp holes ram/back'
}
if unshare -rm mount -t ramfs none . 2>/dev/null; then
	t_check 'a file that cannot be zeroed without writing' cannot_zero
else
	t_skip 'a file that cannot be zeroed without writing' 'no unshare here'
fi
file_changes() {
	rm -f back && start "$URI/slow" back && ends INT 1 && touch back &&
		fails 'the destination has another modification time' \
			srpcopy --resume state "$URI/slow" back
}
t_check 'a destination that was touched' file_changes
without_state() {
	serve TERM $SLOW
	fallocate -p -o 0 -l $SIZE slow
	srpcopy image "$URI/slow" 2>err &
	copy=$!
	written() { ! cmp -s image slow && [ "$(du -k slow | cut -f1)" -gt 0 ]; }
	t_wait_for 20 written && ends TERM 1 && grep -q 'interrupted; the copy is not' err
}
t_check 'SIGTERM without a state file' without_state

# ---- a target that goes away

for signal in KILL TERM; do
	comes_back() {
		old slow && start image "$URI/slow" && serve $signal || return 1
		wait $copy || { cat err; return 1; }
		cat err
		grep -q 'the copy waits for the connection' err &&
			grep -q 'the copy continues' err && cmp image slow &&
			[ ! -e state ]
	}
	t_check "the target of the destination comes back after SIG$signal" comes_back
done
# Its cache is gone, and one flush says so. What it had is to be copied again.
shown() { grep -c ' copied' err; }
is_shown_more() { [ "$(shown)" -gt "$lines" ]; }
cache_is_lost() {
	serve TERM "volatile,layer=$SLOW" && old slow && rm -f state
	srpcopy --progress --resume state image "$URI/slow" 2>err &
	copy=$!
	t_wait_for 6 is_on_the_way && lines=$(shown) &&
		t_wait_for 6 is_shown_more || { cat err; return 1; }
	serve KILL volatile
	wait $copy
	status=$?
	cat err state
	[ $status = 1 ] && grep -q 'cannot flush .*/slow' err &&
		grep -qE '/s, [0-9]+:[0-5][0-9] left$' err &&
		cmp -n "$(state done)" image slow &&
		continues image "$URI/slow" && cmp image slow
}
t_check 'the cache of the destination is lost with its target' cache_is_lost
source_comes_back() {
	rm -f back
	start "$URI/slow" back && serve KILL || return 1
	wait $copy || { cat err; return 1; }
	cmp slow back
}
t_check 'the target of the source comes back' source_comes_back
stays_away() {
	serve TERM $SLOW && old slow && rm -f state
	srpcopy --wait 1 --resume state image "$URI/slow" 2>err &
	copy=$!
	t_wait_for 6 is_on_the_way || return 1
	t_target_stop KILL
	wait $copy
	status=$?
	t_target_again --backing slow
	cat err
	[ $status = 1 ] && tail -n 1 err | grep -q 'cannot .*/slow.*127.0.0.1' &&
		continues image "$URI/slow" && cmp image slow
}
t_check 'one that stays away ends the copy, which is resumed' stays_away
hangs() {
	start image "$URI/slow" || return 1
	kill -STOP "$T_TARGET"
	kill -INT $copy
	t_wait_for 6 grep -q 'a second signal ends at once' err
	kill -INT $copy
	wait $copy
	status=$?
	kill -CONT "$T_TARGET"
	[ $status = 1 ] && cat err && serve TERM && continues image "$URI/slow" && cmp image slow
}
t_check 'a second SIGINT ends at once' hangs

# A file of rdma-fuse keeps the size of its volume.
mount_resumes() {
	mkdir mnt && head -c 63M image >shorter && old slow && cp slow before &&
		t_mount "$URI" "$T/mnt" 2>err || return 1
	start shorter mnt/slow && ends KILL 137 && serve TERM &&
		continues shorter mnt/slow && [ ! -e state ]
	status=$?
	fusermount3 -u mnt
	[ $status = 0 ] && cmp -n $((63 * MIB)) shorter slow &&
		cmp -i $((63 * MIB)) before slow
}
if [ -e /dev/fuse ] && command -v fusermount3 >/dev/null; then
	t_check 'kill -9 of a copy to a larger file of rdma-fuse, and resumed' mount_resumes
else
	t_skip 'kill -9 of a copy to a larger file of rdma-fuse, and resumed' 'no FUSE here'
fi

# ---- a write of a copy that was killed

# A comparison goes on meanwhile. It must not have the identifier of copies.
t_target_stop TERM
cp v1 twin
t_target --backing v1,layer=qos,bps=16M,fault=write:stuck:count=1
has_login() { grep -q 'login of' "$T/target.log"; }
is_stuck() { grep -q 'is stuck' "$T/target.log"; }
srpcopy --compare twin "$URI/v1" 2>compare.err &
compare=$!
t_wait_for 10 has_login
kill -STOP $compare
leaves_a_write() {
	srpcopy back "$URI/v1" 2>err &
	copy=$!
	t_wait_for 10 is_stuck && ends KILL 137
}
random back 0 $((4 * MIB))
truncate -s $((4 * MIB)) back
t_check 'a copy is killed with a write that is stuck' leaves_a_write
kill -KILL $compare
wait $compare 2>/dev/null
random back 0 $((4 * MIB))
logins() { grep -c 'login of' "$T/target.log"; }
before=$(logins)
logs_in() { [ "$(logins)" -gt "$before" ]; }
srpcopy back "$URI/v1" 2>err &
copy=$!
t_check 'another copy begins, and waits for the write' t_wait_for 10 logs_in
kill -USR1 "$T_TARGET"
ends_and_stays() { wait $copy && cmp -n $((4 * MIB)) back v1; }
t_check 'its data stay' ends_and_stays
t_done
