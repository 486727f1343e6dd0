#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The file of a volume is made shorter, replaced or removed while it is served:
# the log of the target names it.
. "$(dirname "$0")/lib.sh"
t_needs_fuse

M=$T/mnt
mkdir "$M"
truncate -s 16M "$T/short" "$T/replaced" "$T/removed" "$T/moved" "$T/flushed"
t_target --backing "$T/short" --backing "$T/replaced" --backing "$T/removed" \
	--backing "$T/moved" --backing "$T/flushed"
t_mount -q "$URI" "$M" || t_bail 'no mount'

# A thread of the target writes the log: a line may come after the answer.
has() { grep -Eq "$1" "$T/target.log"; }
logged() { t_wait_for 10 has "$1"; }
not_logged() { ! has "$1"; }
lines() { [ "$(grep -Ec "$2" "$T/target.log")" = "$1" ]; }

# ---- shorter

reads() { dd if="$M/short" of="$T/read" bs=1M "$@"; }
fails_to_read() { ! reads skip=8 count=1; }
truncate -s 8M "$T/short"
t_check 'what is left can be read' reads count=8
t_check 'the rest cannot' fails_to_read
t_check 'the log says where the file ends' \
	logged "error: $T/short: the file has become shorter: it ends at byte 8388608"
t_check 'a second read fails, too' fails_to_read
t_check 'the log says it once' lines 1 "$T/short: .* shorter"

# ---- without a name

REMOVED='the file was removed or replaced while it is served; its data is gone'
: >"$T/new"
mv "$T/new" "$T/replaced"
mv "$T/moved" "$T/elsewhere"
rm "$T/flushed"
t_check 'a flush succeeds' dd if=/dev/zero of="$M/flushed" bs=4k count=1 \
	conv=notrunc,fsync
t_check 'and finds a file that was removed' \
	logged "warning: $T/flushed: $REMOVED when .* copy the volume"
t_check 'it says nothing of others' not_logged "$T/replaced: $REMOVED"
kill -HUP "$T_TARGET"
t_check 'a hang-up signal finds a file that was replaced' \
	logged "warning: $T/replaced: $REMOVED when .* copy the volume"
t_check 'its data can be copied until the target ends' \
	srpcopy "$URI/replaced" "$T/copy"
t_check 'a file that was moved keeps its data' not_logged "$T/moved: $REMOVED"
fusermount3 -u "$M"
# The mount flushes when it ends.
logged 'logout of'
rm "$T/removed"
t_target_stop TERM
t_check 'the end of the target finds a file that was removed' \
	logged "warning: $T/removed: $REMOVED now"
t_check 'and of those that the log has named before' lines 1 "$T/replaced: $REMOVED now"
t_check 'it said once that they can be copied' lines 1 "$T/replaced: .*copy the volume"
t_done
