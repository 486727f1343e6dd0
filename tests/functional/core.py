#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""core.py PID TEXT: prints the mappings of a process that have TEXT and that a core dump
would hold, so all but those that are left out of it (smaps: dd). Fails if there are any."""
import re
import sys

pid, text = sys.argv[1], sys.argv[2].encode()
found = 0
looked = 0
with open(f"/proc/{pid}/smaps") as smaps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
    for line in smaps:
        head = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+) (.*)", line)
        if head:
            begin, end = int(head[1], 16), int(head[2], 16)
            what = line.strip()
        if not line.startswith("VmFlags:"):
            continue
        flags = line.split()[1:]
        if "dd" in flags or "io" in flags or "rd" not in flags:
            continue
        try:
            for at in range(begin, end, 1 << 20):
                mem.seek(at)
                # The text may lie across two pieces.
                if text in mem.read(min(end - at, (1 << 20) + len(text))):
                    print(what)
                    found += 1
                    break
            looked += 1
        except OSError:  # [vvar]
            pass
print(f"{looked} mappings, {found} with the text")
sys.exit(found > 0 or not looked)
