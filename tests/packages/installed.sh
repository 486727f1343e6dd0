#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The files that `meson install` puts into a DESTDIR: headers that compile
# alone, pkg-config files with correct paths, the symbols that debian/ lists,
# and a manual page and completions for every program.
. "$(dirname "$0")/lib.sh"
p_needs meson pkg-config cc nm readelf

R=$T/root
installs() {
	DESTDIR="$R" meson install -C "$BUILD" --no-rebuild --quiet
}

compiles_alone() { # HEADER COMPILER ARG...
	p_header=$(find "$R" -name "$1")
	shift
	echo "#include \"$p_header\"" |
		"$@" -pedantic -Wall -Wextra -Wstrict-prototypes -Werror \
			-fsyntax-only - 2>&1
}
compiles_alone_cxx() { # HEADER COMPILER
	echo "#include \"$(find "$R" -name "$1")\"" |
		"$2" -x c++ -std=c++17 -pedantic -Wall -Wextra -Werror \
			-fsyntax-only -
}

# Every directory and library that pkg-config prints exists.
resolves() { # PACKAGE
	p_flags=$(pkg-config --cflags --libs "$1") || return 1
	echo "$p_flags"
	p_libs=
	for p_flag in $p_flags; do
		case $p_flag in
		-I* | -L*) [ -d "${p_flag#-?}" ] || return 1 ;;
		-l*) p_libs="$p_libs ${p_flag#-l}" ;;
		esac
	done
	for p_lib in $p_libs; do
		[ -n "$(find "$R" -name "lib$p_lib.so")" ] || return 1
	done
}
leads_to_plugins() {
	p_dir=$(pkg-config --variable=plugindir rdma-block-plugin)
	echo "$p_dir"
	ls "$R$p_dir"/rdma-block-plugin-qos.so ||
		ls "$p_dir"/rdma-block-plugin-qos.so
}
needs_nothing_more() {
	pkg-config --print-requires srpi
	[ -z "$(pkg-config --print-requires srpi)" ]
}

exports_what_debian_lists() {
	nm -D --defined-only "$(find "$R" -name 'libsrpi.so.0')" | awk '{ print $NF }' |
		sed 's/@@*/@/; s/^SRPI_0$/&@&/' | sort >"$T/exported"
	sed -n 's/^ \([^ ]*\) .*/\1/p' "$SRC/debian/libsrpi0.symbols" |
		sort >"$T/listed"
	[ -s "$T/listed" ] && diff "$T/listed" "$T/exported"
}
has_soname() {
	readelf -d "$(find "$R" -name 'libsrpi.so.0')" |
		grep 'SONAME.*\[libsrpi\.so\.0\]'
}

# The flags of meson.build have arrived: the loader's tables are read-only, the program is
# position-independent, and it has canaries and checked functions of the C library.
is_hardened() { # FILE
	readelf -W -h -l -d -s "$1" >"$T/elf"
	grep -q 'Type: *DYN' "$T/elf" || echo 'not position-independent'
	grep -q GNU_RELRO "$T/elf" || echo 'no RELRO'
	grep -Eq 'FLAGS.*NOW' "$T/elf" || echo 'no BIND_NOW'
	grep -q __stack_chk_fail "$T/elf" || echo 'no stack protector'
	grep -Eq ' __[a-z]+_chk(@|$)' "$T/elf" || echo 'no FORTIFY'
}
# The linker drops the mark of a program if one object has none, such as those of the C
# library of Debian 12.
has_shadow_stack() {
	find "$BUILD" -name '*.c.o' -path '*target*' | head -n 1 | xargs readelf -Wn |
		grep 'x86 feature:.*SHSTK'
}

is_documented() { # PROGRAM
	[ -n "$(find "$R" -name "$1.[18]")" ] || echo 'no manual page'
	[ -n "$(find "$R" -path "*/bash-completion/completions/$1")" ] ||
		echo 'no completion for bash'
	[ -n "$(find "$R" -path "*/zsh/site-functions/_$1")" ] ||
		echo 'no completion for zsh'
}
runs() { # PROGRAM
	LD_LIBRARY_PATH=$(dirname "$(find "$R" -name libsrpi.so)") \
		PYTHONPATH=$(dirname "$(find "$R" -path '*-packages/srpi')") \
		"$1" --version
}

has_no_warnings() { # PAGE
	MANWIDTH=80 man --warnings -E UTF-8 -l "$1" 2>&1 >/dev/null
}
is_in_whatis() { # PAGE
	p_name=${1##*/}
	lexgrog "$1" | tee /dev/stderr | grep -q ": \"${p_name%.*} - "
}
refers_to_pages() { # PAGE: those of ours
	sed 's/\\f[BIR]//g; s/\\-/-/g; s/\\&//g' "$1" |
		grep -oE '\b(rdma-(block|ctl|discover|doctor|fuse|info|target)|srp)[a-z.-]*\([0-9]\)' |
		sort -u | while IFS='()' read -r p_name p_section _; do
		[ -n "$(find "$R" -name "$p_name.$p_section")" ] ||
			echo "$p_name($p_section)"
	done
}

# A user may install without root, into a directory of his own.
stays_in_prefix() {
	meson setup --prefix="$T/own" "$T/own-build" "$SRC" >"$T/setup" 2>&1 ||
		{ cat "$T/setup" && return 1; }
	meson introspect --installed "$T/own-build" >"$T/own.json"
	grep -q "\"$T/own/bin/rdma-target\"" "$T/own.json" &&
		! grep -oE '": "[^"]*"' "$T/own.json" | grep -vF ": \"$T/own/"
}

# The plugin of the store srp, that of nbdkit, and the Python package.
find_libsrpi() {
	p_libdir=$(dirname "$(find "$R" -name libsrpi.so)")
	p_libdir=${p_libdir#"$R"}
	for p_file in $(find "$R" -name '*srp*.so' -type f); do
		readelf -d "$p_file" | grep -q 'NEEDED.*libsrpi' || continue
		p_path=$(readelf -d "$p_file" | sed -n 's/.*RUNPATH.*\[\(.*\)\]/\1/p')
		case $p_libdir in
		/usr/lib*) [ -z "$p_path" ] ;;
		*) [ "$p_path" = "$p_libdir" ] ;;
		esac || echo "${p_file#"$R"}: '$p_path'"
	done
}
# srpsh of a prefix of its own names the folder of the package.
finds_package() {
	p_dir=$(find "$R" -path '*-packages/srpi')
	p_dir=${p_dir#"$R"}
	case $p_dir in
	'' | /usr/lib*) ;;
	*) grep -F "\"${p_dir%/srpi}\"" "$(find "$R" -path '*/bin/srpsh')" ;;
	esac
}

# The numbers of the release are the same everywhere.
versions_agree() {
	p_version=$(sed -n "s/^  version: '\(.*\)',/\1/p" "$SRC/meson.build")
	echo "meson.build: $p_version"
	head -n 1 "$SRC/debian/changelog"
	grep -m 1 '^[0-9]' "$SRC/NEWS"
	head -n 1 "$SRC/debian/changelog" | grep -qF "($p_version)" &&
		grep -m 1 '^[0-9]' "$SRC/NEWS" | grep -q "^$p_version,"
}

t_check 'installs into a DESTDIR' installs
t_check 'installs nothing outside of a prefix of its own' stays_in_prefix
for header in srp_initiator.h rdma_block_plugin.h; do
	for cc in gcc clang; do
		if command -v $cc >/dev/null; then
			t_check "$header compiles alone in C17 ($cc)" \
				compiles_alone $header $cc -x c -std=c17
		fi
	done
	for cxx in g++ clang++; do
		if command -v $cxx >/dev/null; then
			t_check "$header compiles alone in C++17 ($cxx)" \
				compiles_alone_cxx $header $cxx
		fi
	done
done

PKG_CONFIG_LIBDIR=$(dirname "$(find "$R" -name srpi.pc)")
PKG_CONFIG_SYSROOT_DIR=$R
export PKG_CONFIG_LIBDIR PKG_CONFIG_SYSROOT_DIR
t_check 'srpi.pc leads to the header and the library' resolves srpi
t_check 'programs that use it need nothing more' needs_nothing_more
t_check 'rdma-block-plugin.pc leads to the header' resolves rdma-block-plugin
t_check 'and to the plugins' leads_to_plugins
unset PKG_CONFIG_LIBDIR PKG_CONFIG_SYSROOT_DIR

t_check 'libsrpi exports what debian/libsrpi0.symbols lists' \
	exports_what_debian_lists
t_check 'its soname is libsrpi.so.0' has_soname
t_check 'what is linked with it finds it' p_is_silent find_libsrpi
t_check 'srpsh finds its package' finds_package
for program in $(find "$R" -path "*/bin/*" -type f | sort); do
	name=${program##*/}
	t_check "$name runs" runs "$program"
	! readelf -h "$program" >/dev/null 2>&1 ||
		t_check "$name is hardened" p_is_silent is_hardened "$program"
	if [ -n "$(find "$R" -name 'srpi.3')" ]; then
		t_check "$name has a manual page and completions" \
			p_is_silent is_documented "$name"
	else
		t_skip "$name has a manual page and completions" 'no scdoc here'
	fi
done
[ "$(uname -m)" != x86_64 ] ||
	t_check 'a processor with a shadow stack checks returns' has_shadow_stack
t_check 'all files name the same version' versions_agree
if command -v lexgrog >/dev/null; then
	for page in $(find "$R" -path '*/man/man?/*' | sort); do
		name=${page##*/}
		t_check "$name: man has no warnings" p_is_silent has_no_warnings "$page"
		t_check "$name: whatis finds it by its name" is_in_whatis "$page"
		t_check "$name: it refers to pages that exist" p_is_silent refers_to_pages "$page"
	done
else
	t_skip 'manual pages' 'no man-db here'
fi
t_done
