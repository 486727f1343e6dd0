# SPDX-License-Identifier: BSD-2-Clause
# For tests of srpcopy. Source this file in place of lib.sh, which it includes. The
# directory is $T.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || t_skip_all 'no python3 here'
RDMA_BLOCK_PLUGIN_PATH=$BUILD/plugins/qos:$BUILD/tests/plugins
export RDMA_BLOCK_PLUGIN_PATH
cd "$T" || exit 1

MIB=$((1 << 20))
SIZE=$((64 * MIB))
random() { # FILE OFFSET LEN
	dd if=/dev/urandom of="$1" bs=64k conv=notrunc oflag=seek_bytes \
		iflag=count_bytes seek="$2" count="$3" status=none
}
old() { # FILE...: fills the files with old data
	for file; do random "$file" 0 $SIZE; done
}
fails() { # PATTERN CMD...: exits with 1, and the last line matches PATTERN
	pattern=$1
	shift
	"$@" >out 2>err
	[ $? = 1 ] && cat err && tail -n 1 err | grep -Eq "$pattern"
}
