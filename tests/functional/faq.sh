#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# docs/faq.md: the messages and options that it names exist in our programs.
. "$(dirname "$0")/lib.sh"
src=$(cd "$(dirname "$0")/../.." && pwd)
page=$src/docs/faq.md

# Prints each string of our sources on one line, with a blank for each
# conversion.
python3 - "$src" >"$T/strings" <<'END'
import pathlib, re, sys
for room in ('base', 'transport', 'target', 'initiator', 'fuse'):
    for file in sorted(pathlib.Path(sys.argv[1], room).rglob('*.c')):
        text = file.read_text(encoding='utf-8')
        for run in re.findall(r'(?:"(?:[^"\\\n]|\\.)*"\s*)+', text):
            print(re.sub(r'%[a-z0-9.*-]+', 'N', ''.join(
                re.findall(r'"((?:[^"\\\n]|\\.)*)"', run))))
END

has_message() { grep -Fq -- "${1//NAME/N}" "$T/strings"; }
has_option() {
	for program in rdma-target rdma-fuse; do
		! "$program" --help | grep -q -- "$1" || return 0
	done
	return 1
}

# Messages of our programs, and messages that they receive from targets.
# Messages of the kernel are not checked.
while IFS= read -r message; do
	t_check "message: $message" has_message "$message"
done < <(sed -n '/^## rdma-target/,/^## The kernel.s initiator/p' "$page" |
	sed -n 's/^### `\(.*\)`$/\1/p')
for option in $(grep -oE -- '`--[a-z-]+' "$page" | tr -d '`' | sort -u); do
	t_check "option: $option" has_option "$option"
done
[ $t_cnt -gt 12 ]
t_result $? 'there are some'
t_done
