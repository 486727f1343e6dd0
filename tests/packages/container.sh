#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The Containerfile: what it copies, installs and starts is there. Does not build the
# image: that needs an image of Debian from a registry.
. "$(dirname "$0")/lib.sh"

F=$SRC/Containerfile
# Commands over several lines become one.
sed -e '/^#/d' -e ':a' -e '/\\$/{N;s/\\\n//;ba' -e '}' "$F" >"$T/lines"

# Every COPY from the tree names files that are there.
copies_what_is_there() {
	sed -n 's/^COPY \([^-].*\) [^ ]*$/\1/p' "$T/lines" | tr ' ' '\n' >"$T/copied"
	cat "$T/copied"
	[ -s "$T/copied" ] || return 1
	while read -r p_file; do
		[ -e "$SRC/$p_file" ] || return 1
	done <"$T/copied"
}
build_dep_finds_control() {
	grep -q '^COPY .*debian/control' "$T/lines" && grep -q 'build-dep .* \./$' "$T/lines"
}
# debian/control makes each package that it takes from the build.
takes_our_packages() {
	sed -n 's/^Package: //p' "$SRC/debian/control" >"$T/made"
	grep -o '/[a-z0-9*-]*_\*\.deb' "$T/lines" | sed 's,^/,,; s,_.*,,' >"$T/taken"
	cat "$T/taken"
	grep -qx rdma-block-target "$T/taken" || return 1
	while read -r p_pattern; do
		p_found=
		while read -r p_name; do
			# shellcheck disable=SC2254
			case $p_name in
			$p_pattern) p_found=1 ;;
			esac
		done <"$T/made"
		[ -n "$p_found" ] || return 1
	done <"$T/taken"
}
entrypoint_runs() {
	mkdir "$T/state"
	p_state=$(sed -n 's/^VOLUME //p' "$T/lines")
	# shellcheck disable=SC2046
	set -- $(sed -n 's/^ENTRYPOINT \[\(.*\)\]$/\1/p' "$T/lines" | tr -d '",' |
		sed "s,$p_state,$T/state,") $(sed -n 's/^CMD \["\(.*\)"\]$/\1/p' "$T/lines")
	echo "$*"
	[ "$1" = rdma-target ] && shift && "$BUILD/target/rdma-target" "$@" |
		grep -e --backing
}
# The state directory is one that the user may write.
state_belongs_to_user() {
	p_user=$(sed -n 's/^USER //p' "$T/lines")
	grep -q "useradd .*[ ]$p_user " "$T/lines" &&
		grep -q "install -d -o $p_user .*$(sed -n 's/^VOLUME //p' "$T/lines")" "$T/lines"
}

t_check 'COPY names files of the tree' copies_what_is_there
t_check 'build-dep reads debian/control' build_dep_finds_control
t_check 'it takes packages that debian/control makes' takes_our_packages
t_check 'rdma-target takes the arguments of ENTRYPOINT' entrypoint_runs
t_check 'the state belongs to the user' state_belongs_to_user
t_done
