# SPDX-License-Identifier: BSD-2-Clause
# For tests of packages and of installed files. Source this first; $BUILD is the
# build directory.
#
#   $SRC                  the top of the source tree
#   p_needs TOOL...       skip everything if a program is missing
#   p_sources DIR         copy the source tree to DIR, without what git ignores
#   p_is_silent CMD...    the command succeeds and prints nothing

SRC=$(cd "$(dirname "$0")/../.." && pwd)
. "$SRC/tests/functional/lib.sh"

p_needs() {
	for p_tool; do
		command -v "$p_tool" >/dev/null || t_skip_all "no $p_tool here"
	done
}

p_sources() {
	mkdir -p "$1"
	if [ -e "$SRC/.git" ]; then
		(cd "$SRC" && git ls-files -co --exclude-standard |
			while read -r p_file; do
				[ ! -e "$p_file" ] || echo "$p_file"
			done)
	else
		(cd "$SRC" && find . -path './build*' -prune -o -type f -print)
	fi | tar -C "$SRC" -c -T - | tar -C "$1" -x --no-same-owner
}

p_is_silent() {
	p_said=$("$@" 2>&1)
	p_status=$?
	printf '%s\n' "$p_said"
	[ $p_status = 0 ] && [ -z "$p_said" ]
}
