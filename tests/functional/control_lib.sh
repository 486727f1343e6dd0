# SPDX-License-Identifier: BSD-2-Clause
# For tests of rdma-ctl and the control socket. Source this file in place of lib.sh, which
# it includes. The socket is $S.
. "$(dirname "$0")/lib.sh"
command -v rdma-ctl >/dev/null || t_skip_all 'built without jansson'
S=$T/control
export RDMA_BLOCK_PLUGIN_PATH=$BUILD/plugins/qos

ctl() { rdma-ctl --control "$S" "$@"; }
volume_list() { ctl volume list >"$T/list" && cat "$T/list"; }
# shows NAME...: the list has exactly these volumes
shows() {
	volume_list
	[ "$(awk 'NR > 1 { print $2 }' "$T/list" | sort | xargs)" = \
		"$(printf '%s\n' "$@" | sort | xargs)" ]
}
# exits STATUS CMD...
exits() {
	local want=$1 got
	shift
	"$@"
	got=$?
	[ $got = "$want" ] || {
		echo "exit status $got, wanted $want"
		return 1
	}
}
sees() { rdma-info "$URI" | tee "$T/info" && grep -qw "$1" "$T/info"; }
sees_not() { ! sees "$1"; }
# warned PATTERN CMD...: it is done, and its only line on standard error is a warning
warned() {
	local pattern=$1
	shift
	exits 0 "$@" 2>"$T/told" >/dev/null || return 1
	cat "$T/told"
	[ "$(wc -l <"$T/told")" = 1 ] &&
		grep -Eq "^rdma-ctl: warning: .*$pattern" "$T/told"
}
