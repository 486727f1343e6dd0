#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The Python package srpi, its examples and srpsh, as built in $BUILD/python.
. "$(dirname "$0")/lib.sh"

src=$(cd "$(dirname "$0")/../.." && pwd)
[ -z "${SANITIZED-}" ] ||
	t_skip_all 'built with a sanitizer, which the Python interpreter has not'
[ -e "$BUILD/python/srpsh" ] || t_skip_all 'built without python3-cffi'
python=$(sed -n '1s/^#!//p' "$BUILD/python/srpsh")
PATH=$BUILD/python:$PATH
PYTHONPATH=$BUILD/python
PYTHONDONTWRITEBYTECODE=1
export T PYTHONPATH PYTHONDONTWRITEBYTECODE

tests=$src/tests/functional/python_srpi.py
"$python" "$tests" --list >"$T/tests" || t_bail 'the package srpi cannot be imported'

prints() { # PATTERN CMD...
	pattern=$1
	shift
	"$@" >"$T/stdout" </dev/null || return 1
	cat "$T/stdout"
	grep -Eqe "$pattern" "$T/stdout"
}

example() { # NAME ARG...
	name=$1
	shift
	"$python" "$src/python/examples/$name.py" "$@"
}

# A copy has the same contents and the same holes.
copies() {
	example copy_volume "$URI/disk" "$T/copy.img" &&
		cmp "$T/disk.img" "$T/copy.img" &&
		[ "$(stat -c %b "$T/copy.img")" -le "$(stat -c %b "$T/disk.img")" ]
}

checksum_is_right() {
	[ "$(example checksum "$URI/disk")" = \
		"$(sha256sum <"$T/disk.img" | cut -d' ' -f1)" ]
}

# At a prompt: names, help, and an error that does not end srpsh.
talks() {
	printf '%s\n' v help 'v.read(1, 2)' 'print("size", v.size)' |
		srpsh -u "$URI/disk" >"$T/stdout" 2>"$T/stderr" || return 1
	cat "$T/stdout" "$T/stderr"
	grep -q '^v is volume disk, 16777216 bytes' "$T/stderr" &&
		grep -q "Volume 'disk'" "$T/stdout" &&
		grep -q 'read 4096 bytes at 0' "$T/stdout" &&
		grep -q 'Error: .*multiples of 512' "$T/stderr" &&
		grep -q 'size 16777216' "$T/stdout"
}

runs_from_stdin() {
	[ "$(echo 'for x in s.volumes: print(x.name)' |
		srpsh -u "$URI" -c 'n = 1' -c - -c 'print(n)' | paste -sd,)" = \
		disk,scratch,1 ]
}

# The manual page and the completions have every option of srpsh --help.
texts_have_all_options() {
	for option in $(srpsh --help | grep -oE -- '--[a-z]+' | sort -u); do
		for file in docs/srpsh.1.scd python/srpsh.bash python/_srpsh; do
			grep -qE -- "$option([^a-z]|$)" "$src/$file" || {
				echo "not in $file: $option"
				return 1
			}
		done
	done
}

types_are_right() {
	(cd "$src/python" && "$python" -m mypy --strict --cache-dir "$T/mypy" \
		srpi examples/*.py)
}

while read -r name what; do
	t_check "$what" timeout 120 "$python" "$tests" "$name"
done <"$T/tests"

truncate -s 16M "$T/disk.img"
dd if=/dev/urandom of="$T/disk.img" bs=1M seek=1 count=3 conv=notrunc 2>/dev/null
t_target --backing "$T/disk.img,name=disk" --backing ram:1M,name=scratch

t_check 'example: extents' prints '^  data 3145728 bytes at 1048576$' \
	example extents "$URI"
t_check 'example: checksum' checksum_is_right
t_check 'example: copy' copies
t_check 'example: 32 in flight' prints '^[1-9][0-9]* reads of 4096 bytes' \
	example inflight "$URI/disk" 0.5
t_refused 'an example fails with one line' 'connection refused' \
	example extents srp+tcp://127.0.0.1:9

t_check 'srpsh runs a command' prints '^16777216$' \
	srpsh -u "$URI/disk" -c 'print(v.size)'
t_check 'srpsh has no volume where there are several' prints '^None 2$' \
	srpsh -u "$URI" -c 'print(v, len(s.volumes))'
t_check 'srpsh without a target' prints '^True$' srpsh -c 'print(s is None)'
t_check 'srpsh runs standard input' runs_from_stdin
t_check 'srpsh as a prompt' talks
t_check 'srpsh --version' prints '^srpsh [0-9]+\.' srpsh --version
t_check 'manual page and completions have all options' texts_have_all_options
t_refused 'srpsh: unknown option' "unrecognized arguments: --colour; see --help" \
	srpsh --colour
t_refused 'srpsh: no target' 'srpsh: .*connection refused' \
	srpsh -u srp+tcp://127.0.0.1:9 -c 1
t_refused 'srpsh: no volume' "no volume 'x' on .*; it has: disk, scratch" \
	srpsh -u "$URI/x" -c 1
t_refused 'srpsh: a failed request' 'multiples of 512' \
	srpsh -u "$URI/disk" -c 'v.read(1, 1)'
t_refused 'srpsh: no Python' 'unterminated string|EOL' srpsh -u "$URI" -c 'print('"'"
if "$python" -m mypy --version >/dev/null 2>&1; then
	t_check 'the types are right' types_are_right
else
	t_skip 'the types are right' 'no mypy here'
fi
t_done
