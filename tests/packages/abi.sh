#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# scripts/abi: the public headers are compatible with those of the last release,
# and the script notices if they are not.
. "$(dirname "$0")/lib.sh"

check() {
	"$SRC/scripts/abi" "$@"
}

# with SED-SCRIPT: both headers, edited, in $T/headers
edit() {
	mkdir -p "$T/headers"
	cp "$SRC/initiator/srp_initiator.h" "$SRC/plugins/rdma_block_plugin.h" \
		"$T/headers"
	sed -i "$1" "$T/headers"/*.h
	! { cmp "$T/headers/srp_initiator.h" "$SRC/initiator/srp_initiator.h" &&
		cmp "$T/headers/rdma_block_plugin.h" \
			"$SRC/plugins/rdma_block_plugin.h"; }
}
allows() {
	edit "$1" && check --headers "$T/headers"
}
refuses() {
	edit "$1" || return 1
	check --headers "$T/headers"
	[ $? = 1 ]
}

check >"$T/out" 2>&1
[ $? != 77 ] || t_skip_all "$(cat "$T/out")"
t_check 'the headers are compatible with the last release' check

t_check 'a function may be added' allows \
	's/^void srpi_submit(/int srpi_new(int x);\n&/'
t_check 'a structure with its size may grow' allows \
	'/^struct rbp_host {/,/^}/s/^};/int (*more)(void); };/'
t_check 'a constant may be added' allows 's/SRPI_EXTENT,/& SRPI_NEW,/'

t_check 'a function may not be removed' refuses 's/^int srpi_fork_init(void);//'
t_check 'nor get another parameter' refuses \
	's/^int srpi_fork_init(void);/int srpi_fork_init(int how);/'
t_check 'nor one of another structure' refuses \
	's/^void srpi_submit(struct srpi_session/void srpi_submit(struct srpi_ctx/'
t_check 'a structure without a size may not grow' refuses \
	'/^struct srpi_io {/,/^}/s/^};/int more; };/'
t_check 'a member may not move' refuses \
	'/^struct srpi_path_info {/,/^}/s/^\tsize_t struct_size;/& long more;/'
t_check 'a member may not change its type' refuses \
	's/^\tbool fua;/\tint fua;/'
t_check 'also in a structure that has grown' refuses \
	'/^struct rbp_blocking {/,/^}/{s/(\*flush)(void \*v)/(*flush)(int v)/
	s/^};/int (*more)(void); };/}'
t_check 'a constant may not get another value' refuses \
	's/RBP_CAN_FLUSH = 1 << 1/RBP_CAN_FLUSH = 1 << 20/'
t_check 'nor may a macro' refuses 's/^#define RBP_ABI 1/#define RBP_ABI 2/'
t_done
