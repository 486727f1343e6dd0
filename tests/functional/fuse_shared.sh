#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Several mounts of one volume: what each sentence of rdma-fuse(8), SEVERAL MOUNTS OF
# ONE VOLUME, says.
. "$(dirname "$0")/lib.sh"
t_needs_fuse
command -v python3 >/dev/null || t_skip_all 'no python3 here'

A=$T/a
B=$T/b
mkdir "$A" "$B"
truncate -s 16M "$T/disk.img"
t_target --backing "$T/disk.img,name=disk,block-size=4096"
t_mount "$URI" "$A"
t_mount "$URI" "$B"

# Two programs write 512 bytes each into the same blocks, again and again, and look at once
# whether their bytes are there. WRITES: how often.
cat >"$T/bytes.py" <<'END'
import os, sys
path, me, writes, how = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
fd = os.open(path, os.O_RDWR)
lost = 0
for i in range(writes):
    at = (i % 8) * 4096 + me * 512
    data = bytes([me * 16 + i % 16]) * 512
    if how == "zero":
        os.pwrite(fd, data, at)
        # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.fallocate(fd, 3, ctypes.c_long(at), ctypes.c_long(512)):
            sys.exit("fallocate")
        data = bytes(512)
    else:
        os.pwrite(fd, data, at)
    lost += os.pread(fd, 512, at) != data
print(lost)
sys.exit(lost != 0)
END
writers() { # HOW
	python3 "$T/bytes.py" "$A/disk" 0 "${WRITES:-1000}" "$1" >"$T/lost.a" &
	one=$!
	python3 "$T/bytes.py" "$B/disk" 1 "${WRITES:-1000}" "$1" >"$T/lost.b"
	second=$?
	wait $one && [ $second = 0 ]
}
t_check 'parts of one block, written by two mounts, are all there' writers write
t_check 'holes in parts of one block leave the bytes of the other mount' writers zero

sees() {
	printf '%s' "$1" | dd of="$A/disk" bs=4096 conv=notrunc status=none &&
		[ "$(head -c ${#1} "$B/disk")" = "$1" ]
}
t_check 'read(2) of one mount has what another one has written' sees first
t_check 'also again' sees again
t_check 'both unmount' sh -c "fusermount3 -u '$A' && fusermount3 -u '$B'"
t_done
