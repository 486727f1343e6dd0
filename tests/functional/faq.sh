#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# docs/faq.md: our programs have the messages and options that it names.
. "$(dirname "$0")/lib.sh"
src=$(cd "$(dirname "$0")/../.." && pwd)
page=$src/docs/faq.md

# The strings of our sources, in one line each; a conversion is a blank.
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

# Of our programs and of what they say of targets; the kernel's are the kernel's.
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
