# SPDX-License-Identifier: BSD-2-Clause
"""Prints the lines of some folders that were never executed, according to an
lcov file.

    uncovered.py FILE FOLDER...
"""
import os
import sys


def main(path, folders):
    name, lines, missed = None, 0, {}
    for line in open(path):
        line = line.strip()
        if line.startswith("SF:"):
            name = os.path.relpath(line[3:])
        elif line.startswith("DA:") and name.startswith(folders):
            number, count = map(int, line[3:].split(",")[:2])
            lines += 1
            if count == 0:
                missed.setdefault(name, set()).add(number)
    for name in sorted(missed):
        source = open(name).read().splitlines()
        for number in sorted(missed[name]):
            print("%s:%d: %s" % (name, number, source[number - 1].strip()))
    total = sum(len(numbers) for numbers in missed.values())
    print("%d of %d lines are not reached" % (total, lines))


main(sys.argv[1], tuple(f + os.sep for f in sys.argv[2:]))
