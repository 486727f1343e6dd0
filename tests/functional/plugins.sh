#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Third-party plugins: built out of the tree, in C and in C++, against the
# installed files; checked, served and mounted.
. "$(dirname "$0")/lib.sh"

src=$(cd "$(dirname "$0")/../.." && pwd)
root=$T/root

for program in meson make pkg-config c++; do
	command -v $program >/dev/null || t_skip_all "no $program here"
done

installs() {
	DESTDIR="$root" meson install -C "$BUILD" --no-rebuild --quiet &&
		pc=$(find "$root" -name rdma-block-plugin.pc) && [ -n "$pc" ]
}

# builds DIR MAKE-ARG...
builds() {
	dir=$1
	shift
	mkdir -p "$dir" && cp "$src"/plugins/examples/* "$dir" &&
		PKG_CONFIG_PATH=$(dirname "$pc") PKG_CONFIG_SYSROOT_DIR=$root \
			make -s -C "$dir" CFLAGS="-O2 -Wall -Wextra -Werror \
				-Wno-unused-parameter" "$@"
}

# The header needs no other one, in the oldest C and C++ that have its types.
header_stands_alone() {
	header=$(find "$root" -name rdma_block_plugin.h)
	echo "#include \"$header\"" >"$T/alone.c"
	cc -std=c99 -pedantic -Wall -Wextra -Werror -c -o "$T/alone.o" \
		"$T/alone.c" &&
		c++ -x c++ -std=c++11 -Wall -Wextra -Werror -c \
			-o "$T/alone.o" "$T/alone.c"
}

# keeps SPEC: it keeps every promise of the contract
keeps() {
	rdma-target --check-plugin "$1" >"$T/checked"
	status=$?
	cat "$T/checked"
	[ $status = 0 ] && grep -q '^opens .*ok' "$T/checked"
}

# The check detects a store that loses data.
finds_the_forgetful() {
	! rdma-target --check-plugin null:64M >"$T/checked"
	grep -q 'FAILED: .* are not what was written' "$T/checked"
}

verify() { # FILE
	(cd "$T" && fio --name=verify --filename="$T/mnt/$1" --direct=1 \
		--size=8M --verify=crc32c --do_verify=1 --verify_fatal=1 \
		--rw=randwrite --bs=4k --ioengine=libaio --iodepth=32 \
		--output-format=terse)
}

# The 8 MiB that fio wrote are deallocated.
zeroes_become_a_hole() {
	before=$(stat -c %b "$T/layered.img")
	dd if=/dev/zero of="$T/mnt/layered.img" bs=1M count=8 conv=notrunc,fsync \
		2>/dev/null
	after=$(stat -c %b "$T/layered.img")
	echo "$before blocks before, $after after"
	[ $((before - after)) -ge 16384 ]
}

# The same disk has the same identity after a restart.
serial_of() {
	rdma-info "$URI" | awk -v name="$1" '$2 == name { print $NF }'
}

t_check 'installs' installs
t_check 'the header stands alone' header_stands_alone
t_check 'the examples build in C++' builds "$T/cxx" CC=c++ LANG_FLAGS='-x c++'
t_check 'the examples build in C' builds "$T/c"
RDMA_BLOCK_PLUGIN_PATH=$T/nowhere:$T/c
export RDMA_BLOCK_PLUGIN_PATH

truncate -s 64M "$T/store.img" "$T/layered.img"
t_check 'the example store keeps the contract' \
	keeps "example-file:$T/store.img"
t_check 'the same, built in C++' \
	keeps "$T/cxx/rdma-block-plugin-example-file.so:$T/store.img"
t_check 'read-only, too' keeps "example-file:$T/store.img,ro"
t_check 'the example layer keeps the contract' \
	keeps "$T/layered.img,layer=example-zeroes,min=4k"
t_check 'two layers on each other' \
	keeps "ram:16M,layer=example-zeroes,layer=example-zeroes"
t_check 'so do the stores that come with rdma-target' keeps "ram:64M"
t_check 'so does a file' keeps "$T/store.img"
for way in watch both timer kick leave; do
	t_check "so does a store whose I/O ends by an event: $way" \
		keeps "$BUILD/tests/plugins/rdma-block-plugin-events.so:$way"
done
t_check 'the layer qos keeps the contract' keeps \
	"ram:64M,layer=$BUILD/plugins/qos/rdma-block-plugin-qos.so,iops=3000,bps=64M"
t_check 'a store that forgets is found out' finds_the_forgetful

t_refused 'a plugin that is not there' \
	"there is no plugin 'nosuch': .*; write \./nosuch:" \
	rdma-target --backing nosuch:x
t_refused 'a file of that name is one more word away' 'does not exist' \
	rdma-target --backing ./nosuch:x
t_refused 'a parameter that the plugin does not have' \
	"no parameter 'speed' of a volume or of plugin example-zeroes, which has min" \
	rdma-target --backing "$T/layered.img,layer=example-zeroes,speed=9"

# Without --user, the target also keeps no other capability.
no_thread_keeps_rights() {
	t_target --backing \
		"$BUILD/tests/plugins/rdma-block-plugin-starter.so:x,name=x"
	grep -H -e CapPrm -e CapEff "/proc/$T_TARGET"/task/*/status
	[ "$(grep -lx starter "/proc/$T_TARGET"/task/*/comm | wc -l)" = 2 ] &&
		! grep -h CapPrm "/proc/$T_TARGET"/task/*/status |
			grep -v '000000000000[04][04]00$'
}
if grep -q '^CapPrm:.*0$' /proc/self/status; then
	t_skip 'threads of a plugin keep no rights' 'this user has none'
else
	t_check 'threads of a plugin keep no rights' no_thread_keeps_rights
	kill "$T_TARGET" && wait "$T_TARGET"
	t_refused 'a plugin with rights that starts threads in open()' \
		'plugin starter-rights starts a thread in open()' \
		timeout 60 rdma-target --backing \
		"$BUILD/tests/plugins/rdma-block-plugin-starter-rights.so:x"
fi

if [ -n "${SANITIZED-}" ]; then
	t_done
fi
t_needs_fuse
command -v fio >/dev/null || t_skip_all 'no fio here'
mkdir "$T/mnt"
t_target --backing "example-file:$T/store.img" \
	--backing "$T/layered.img,layer=example-zeroes"
first=$(serial_of store.img)
t_mount "$URI" "$T/mnt" 2>"$T/mount.log" || t_bail "$(cat "$T/mount.log")"
t_check 'fio verifies on the store' verify store.img
t_check 'fio verifies on the layer' verify layered.img
t_check 'zeroes become a hole' zeroes_become_a_hole
t_check 'unmounts' fusermount3 -u "$T/mnt"
kill "$T_TARGET"
wait "$T_TARGET"
t_check 'ends with 0' [ $? = 0 ]
t_target --backing "example-file:$T/store.img"
t_check 'is the same disk after a restart' \
	[ -n "$first" -a "$(serial_of store.img)" = "$first" ]
t_done
