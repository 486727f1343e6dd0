#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# libsrpi as other programs use it: one header, one shared library, and names
# that begin with srpi_.
. "$(dirname "$0")/lib.sh"

src=$(cd "$(dirname "$0")/../.." && pwd)
lib=$BUILD/initiator/libsrpi.so

# The name of a version is also a symbol.
names() {
	nm -D --defined-only "$lib" | awk '$2 != "A" { print $NF }' |
		sed 's/@.*//' | sort -u >"$T/names"
}

exports_only_srpi() {
	names
	cat "$T/names"
	grep -q '^srpi_connect' "$T/names" && ! grep -qv '^srpi_' "$T/names"
}

# The library has every function of the header.
exports_all_of_the_header() {
	grep -oE '\bsrpi_[a-z_]+\(' "$src/initiator/srp_initiator.h" |
		tr -d '(' | sort -u >"$T/wanted"
	names
	comm -23 "$T/wanted" "$T/names" >"$T/missing"
	cat "$T/missing"
	[ -s "$T/wanted" ] && [ ! -s "$T/missing" ]
}

lists() {
	LD_LIBRARY_PATH="$BUILD/initiator" "$T/list" "$URI" >"$T/stdout"
	status=$?
	cat "$T/stdout"
	[ $status = 0 ] && grep -q '^disk 268435456$' "$T/stdout"
}

# The header, the library and its .pc file have the same version.
versions_agree() {
	header=$(sed -n 's/^#define SRPI_VERSION[[:space:]]*"\(.*\)"$/\1/p' \
		"$src/initiator/srp_initiator.h")
	numbers=$(sed -n 's/^#define SRPI_VERSION_[MP][A-Z]* \([0-9]*\)$/\1/p' \
		"$src/initiator/srp_initiator.h" | paste -sd.)
	file=$(pkg-config --modversion srpi)
	echo "header $header, numbers $numbers, srpi.pc $file"
	[ -n "$header" ] && [ "$header" = "$numbers" ] && [ "$header" = "$file" ]
}

installs() {
	DESTDIR="$T/root" meson install -C "$BUILD" --no-rebuild --quiet &&
		pc=$(find "$T/root" -name srpi.pc) && [ -n "$pc" ] &&
		libdir=$(dirname "$(find "$T/root" -name libsrpi.so)")
}

# builds DIR MAKE-ARG...
builds() {
	dir=$1
	shift
	mkdir -p "$dir" && cp "$src"/initiator/examples/* "$dir" &&
		make -s -C "$dir" CFLAGS="-O2 -Wall -Wextra -Werror" "$@"
}

# 3 MiB of data after a hole of 1 MiB
prints_extents() { # DIR
	LD_LIBRARY_PATH=$libdir "$1/srpi-volumes" "$URI" >"$T/extents"
	status=$?
	cat "$T/extents"
	[ $status = 0 ] && grep -q '^disk: 268435456 bytes' "$T/extents" &&
		grep -q '^  hole 1048576 bytes at 0$' "$T/extents" &&
		grep -q '^  data 3145728 bytes at 1048576$' "$T/extents"
}

copies() { # DIR
	LD_LIBRARY_PATH=$libdir "$1/srpi-copy" "$URI/disk" "$T/copy.img" &&
		cmp "$T/disk.img" "$T/copy.img"
}

refuses_an_unknown_volume() { # DIR
	! LD_LIBRARY_PATH=$libdir "$1/srpi-copy" "$URI/nosuch" "$T/copy.img" \
		2>"$T/stderr" && grep -q '^name one volume of ' "$T/stderr"
}

cat >"$T/list.c" <<'END'
#include <srp_initiator.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	struct srpi_session *s;
	struct srpi_error e;
	struct srpi_ctx *ctx;
	unsigned int i;

	if (argc != 2 || srpi_ctx_create(NULL, &ctx, &e) ||
	    srpi_connect_wait(ctx, argv[1], NULL, &s, &e)) {
		fprintf(stderr, "%s\n", e.text);
		return 1;
	}
	for (i = 0; i < srpi_volume_cnt(s); i++) {
		const struct srpi_volume_info *v = srpi_volume_info(s, i);

		printf("%s %llu\n", v->name, (unsigned long long)v->size);
	}
	srpi_close_wait(ctx, s);
	srpi_ctx_destroy(ctx);
	return 0;
}
END

t_check 'nothing but srpi_ is exported' exports_only_srpi
t_check 'what the header says is exported' exports_all_of_the_header
t_check 'the header stands alone in C' cc -std=c99 -pedantic -Wall -Wextra \
	-Werror -fsyntax-only -I"$src/initiator" "$T/list.c"
if command -v c++ >/dev/null; then
	t_check 'and in C++' c++ -x c++ -Wall -Werror -fsyntax-only \
		-I"$src/initiator" "$T/list.c"
else
	t_skip 'and in C++' 'no C++ compiler here'
fi
if [ -n "${SANITIZED-}" ]; then
	t_skip 'a program links with it' 'built with a sanitizer'
	t_skip 'and lists volumes' 'built with a sanitizer'
	t_done
fi
t_check 'a program links with it' cc -I"$src/initiator" -o "$T/list" \
	"$T/list.c" -L"$BUILD/initiator" -lsrpi
if [ -z "${URI-}" ]; then
	truncate -s 256M "$T/disk.img"
	dd if=/dev/urandom of="$T/disk.img" bs=1M seek=1 count=3 conv=notrunc \
		2>/dev/null
	t_target --backing "$T/disk.img,name=disk"
fi
t_check 'and lists volumes' lists

for program in meson make pkg-config c++; do
	command -v $program >/dev/null || {
		t_skip 'the examples build and run' "no $program here"
		t_done
	}
done
t_check 'installs' installs
PKG_CONFIG_PATH=$(dirname "$pc")
PKG_CONFIG_SYSROOT_DIR=$T/root
export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR
t_check 'header, library and srpi.pc are of one version' versions_agree
t_check 'the examples build in C' builds "$T/c"
t_check 'the examples build in C++' builds "$T/cxx" CC=c++ LANG_FLAGS='-x c++'
if [ -e "$T/disk.img" ]; then
	t_check 'prints data and holes' prints_extents "$T/c"
	t_check 'copies a volume' copies "$T/c"
	t_check 'the same, built in C++' copies "$T/cxx"
	t_check 'refuses a volume that is not there' \
		refuses_an_unknown_volume "$T/c"
fi
t_done
