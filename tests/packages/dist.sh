#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# `meson dist`: the archive has every file of the commit, and can be configured.
. "$(dirname "$0")/lib.sh"
p_needs meson git xz
git -C "$SRC" rev-parse HEAD >/dev/null 2>&1 || t_skip_all 'not a git repository'

D=$T/build
configures() {
	(cd "$1" && meson setup "$2")
}
# Changes that are not committed are not in the archive.
makes_an_archive() {
	(cd "$D" && meson dist --no-tests --allow-dirty) &&
		archive=$(ls "$D"/meson-dist/rdma-block-*.tar.xz)
}
has_all_files() {
	tar -tf "$archive" | grep -v '/$' | sed 's,^[^/]*/,,' | sort >"$T/archived"
	git -C "$SRC" ls-tree -r --name-only HEAD | sort | diff - "$T/archived"
}
unpacks() {
	tar -C "$T" -xf "$archive" && unpacked=$(echo "$T"/rdma-block-*) &&
		[ -e "$unpacked/meson.build" ]
}
is_a_release() {
	configures "$unpacked" "$T/build-dist" &&
		ninja -C "$T/build-dist" -n >/dev/null
}

t_check 'a build directory' configures "$SRC" "$D"
t_check 'meson dist makes an archive' makes_an_archive
t_check 'it has every file of the commit' has_all_files
t_check 'it unpacks' unpacks
t_check 'what is in it can be configured' is_a_release
t_done
