#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# A failed write may still arrive until its mount has logged in again. There are
# two mounts, and the target holds a write of the second one. That mount gives
# the write up, but cannot log in before the target releases the write. A round
# that begins meanwhile must wait for this before any lane reads the final
# blocks.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/faults.sh"
t_needs_fuse

P_TIMES=io_timeout=1,fast_io_fail_tmo=1,reconnect_delay=0.2
mkdir "$T/one" "$T/two"
truncate -s 16M "$T/disk.img"
# Only lanes of the second mount write these blocks, after the 7 writes that
# fill them.
p_target --backing "$T/disk.img,name=disk\
,fault=write:stuck:lba=1600-2047:after=30:count=1"
p_client "$T/one"
p_client "$T/two"

is_stuck() { grep -q 'is stuck' "$T/target.log"; }
# A command fails if its connection is lost again fast_io_fail_tmo after the first time.
has_failed() { [ "$(grep -c 'WRITE .* had no answer' "$T/client.log")" -ge 2 ]; }
# A judge that does not wait has read all blocks by then.
let_go() { sleep 1 && kill -USR1 "$T_TARGET"; }

turns() {
	p_load --writers 1 --timeout 60 "$T/one/disk" "$T/two/disk" || return 1
	t_wait_for 5 is_stuck && t_wait_for 20 has_failed || return 1
	p_note the write has failed
	let_go &
	p_ask round && p_ask ops 50 && p_end
}
turns
t_result $? 'a write that arrives after it failed is no surprise to the judge'
t_check 'the mounts end well' fusermount3 -u "$T/one"
fusermount3 -u "$T/two"
t_done
