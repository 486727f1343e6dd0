#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# libsrpi as others use it: one header, one shared library, names that begin
# with srpi_.
. "$(dirname "$0")/lib.sh"

src=$(cd "$(dirname "$0")/../.." && pwd)
lib=$BUILD/initiator/libsrpi.so

# The name of a version is a symbol, too.
names() {
	nm -D --defined-only "$lib" | awk '$2 != "A" { print $NF }' |
		sed 's/@.*//' | sort -u >"$T/names"
}

exports_only_srpi() {
	names
	cat "$T/names"
	grep -q '^srpi_connect' "$T/names" && ! grep -qv '^srpi_' "$T/names"
}

# Every function of the header is there.
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
	t_target --backing "$T/disk.img,name=disk"
fi
t_check 'and lists volumes' lists
t_done
