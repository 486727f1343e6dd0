#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# README.md: each command is run; over TCP, and by vm/tutorial over RDMA. And of all
# documents: each command is run by a test.
. "$(dirname "$0")/doc_lib.sh"
[ "$D_AS" = vm/tutorial ] || d_alone
. "$(dirname "$0")/lib.sh"
SRC=$(realpath "$(dirname "$0")/../..")

# Its commands are run by the test of that page, or by one that the page names.
has_a_test() { # PAGE
	"$d_dir/commands.py" "$SRC/$1" | grep -q '^\(sh\|console\)' || return 0
	grep -l "$1" "$d_dir"/*.sh | xargs grep -l '^d_page'
}
is_a_test() { # NAME
	grep -qE "^ +'${1##*/}'" "$SRC"/tests/{functional,vm}/meson.build
}
# Pages that one reads at once, in an order.
is_short_and_named() { # PAGE
	wc -l "$SRC/$1"
	[ "$(wc -l <"$SRC/$1")" -le "$2" ] && grep -qF "(${1#docs/})" "$SRC/docs/README.md"
}
has_no_marks() { ! grep -n '<!--' "$SRC"/*.md "$SRC"/docs/*.md; }
# A mark of a heading that is not there has no effect.
marks_have_headings() {
	sed '/^#/d; s/ | /\t/g' "$d_dir/doc_marks" | while IFS=$'\t' read -r page heading _; do
		grep -qE "^#+ $heading\$" "$SRC/$page" || { echo "$page: $heading" && exit 1; }
	done
}
# Commands in the text: `rdma-ctl volume list`, `rdma-fuse --channels N`.
commands_exist() { # PAGE
	grep -ohE '`(rdma-(target|fuse|info|discover|doctor|ctl)|srpcopy) [^`]+`' "$SRC/$1" |
		tr -d '`' | while read -r program words; do
		command -v "$program" >/dev/null || continue
		"$program" --help >"$T/help"
		for option in $(grep -oE -- '(^| )--?[a-z-]+' <<<"$words"); do
			grep -qE -- "^ .*$option( |,|$)" "$T/help" ||
				{ echo "$1: $program $option" && exit 1; }
		done
		# A verb of one word or two.
		read -r first second _ <<<"$words"
		case $program$first in
		rdma-ctl[a-z]*)
			grep -qE "^  $first( $second)?(  | [[A-Z]|$)" "$T/help" ||
				{ echo "$1: $program $words" && exit 1; }
			;;
		esac
	done
}

# Pages and plots of the evidence are what its figures make.
evidence_is_made() {
	cp -r "$SRC/docs/evidence" "$T/evidence" &&
		python3 "$SRC/tests/bench/main.py" --draw --out "$T/evidence" &&
		diff -r "$SRC/docs/evidence" "$T/evidence"
}

t_needs_fuse
if [ -z "$D_AS" ]; then
	t_check 'the evidence is what its figures make' evidence_is_made
	for page in README.md CONTRIBUTING.md $(cd "$SRC" && echo docs/*.md); do
		t_check "$page has a test" has_a_test "$page"
		t_check "$page: the commands in its text exist" commands_exist "$page"
	done
	for page in $(cd "$SRC" && echo docs/[a-z]*.md); do
		t_check "$page has at most 250 lines, and its place" is_short_and_named "$page" 250
	done
	t_check 'README.md has at most 100 lines' [ "$(wc -l <"$SRC/README.md")" -le 100 ]
	t_check 'links lead somewhere' "$d_dir/links.py" "$SRC"
	if meson introspect --installed "$BUILD" >/dev/null 2>&1; then
		t_check 'where they are installed, too' "$d_dir/links.py" --build "$BUILD"
	fi
	t_check 'marks have headings' marks_have_headings
	t_check 'readers see no marks' has_no_marks
	for name in $(sed -n 's/.* | run by //p' "$d_dir/doc_marks" | sort -u); do
		t_check "$name is a test" is_a_test "$name"
	done
	ip address add 10.0.0.1/24 dev lo
	D_AS=vm/tutorial
fi
cd "$T" || t_bail "no $T"
d_page "$SRC/README.md"
cd /
t_done
