#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Checks a text in the exposition format of Prometheus (version 0.0.4) on standard
input, by the rules of that format and of promtool. Also uses promtool if it is
installed.

    exposition.py                 exits with 1 and prints the errors, if any
    exposition.py --value SERIES  prints the value of a series, such as 'name{a="b"}'
    exposition.py --sum NAME      prints the sum of all series of that name
"""

import re
import shutil
import subprocess
import sys

NAME = r'[a-zA-Z_:][a-zA-Z0-9_:]*'
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
SAMPLE = re.compile(rf'({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (\S+)$')
SUFFIXES = {'histogram': ('_bucket', '_sum', '_count')}


class Bad(Exception):
    """The errors."""


def sample_of(line):
    found = SAMPLE.match(line)
    if not found:
        raise Bad(f'no sample: {line}')
    labels = re.findall(LABEL, found[2] or '')
    if len(dict(labels)) != len(labels):
        raise Bad(f'a label occurs twice: {line}')
    return found[1], tuple(sorted(labels)), float(found[len(found.groups())])


def families_of(text):
    """For each name: its type, and its samples in order."""
    families = {}
    last = None
    if not text.endswith('\n'):
        raise Bad('the last line has no end')
    for line in text.splitlines():
        head = re.match(rf'# (HELP|TYPE) ({NAME}) (.+)$', line)
        if head and head[1] == 'HELP':
            last = head[2]
            if last in families:
                raise Bad(f'{last} comes in two parts')
            families[last] = {'type': None, 'samples': []}
        elif head:
            if head[2] != last or families[last]['type']:
                raise Bad(f'TYPE without HELP before it: {line}')
            families[last]['type'] = head[3]
        else:
            name, labels, value = sample_of(line)
            kind = last and families[last]['type']
            if not kind or name not in [
                    last + s for s in SUFFIXES.get(kind, ('',))]:
                raise Bad(f'a sample without its TYPE before it: {line}')
            families[last]['samples'].append((name, labels, value))
    return families


def check_histogram(name, samples):
    series = {}
    for full, labels, value in samples:
        rest = tuple(x for x in labels if x[0] != 'le')
        le = dict(labels).get('le')
        if (le is None) == (full == name + '_bucket'):
            raise Bad(f'{full}: "le" is for buckets')
        series.setdefault(rest, []).append(
            (full[len(name) + 1:], float(le or 0), value))
    for labels, parts in series.items():
        buckets = [(le, v) for what, le, v in parts if what == 'bucket']
        count = [v for what, _, v in parts if what == 'count']
        if len(count) != 1 or sum(w == 'sum' for w, _, _ in parts) != 1:
            raise Bad(f'{name}{labels}: needs one sum and one count')
        if buckets != sorted(buckets) or \
                [v for _, v in buckets] != sorted(v for _, v in buckets):
            raise Bad(f'{name}{labels}: buckets do not grow')
        if buckets[-1] != (float('inf'), count[0]):
            raise Bad(f'{name}{labels}: +Inf is not the count')


def check(families):
    seen = set()
    for name, family in families.items():
        if family['type'] == 'counter' and not name.endswith('_total'):
            raise Bad(f'{name}: a counter ends with _total')
        if family['type'] != 'counter' and name.endswith('_total'):
            raise Bad(f'{name}: _total is for counters')
        if not family['samples']:
            raise Bad(f'{name} has no sample')
        for sample in family['samples']:
            if sample[:2] in seen:
                raise Bad(f'twice: {sample[:2]}')
            seen.add(sample[:2])
            if sample[2] < 0:
                raise Bad(f'negative: {sample}')
        if family['type'] == 'histogram':
            check_histogram(name, family['samples'])


def ask_promtool(text):
    if not shutil.which('promtool'):
        return
    done = subprocess.run(['promtool', 'check', 'metrics'], input=text,
                          text=True, capture_output=True, check=False)
    if done.returncode or done.stderr:
        raise Bad(f'promtool: {done.stdout}{done.stderr}')


def main():
    text = sys.stdin.read()
    try:
        families = families_of(text)
        check(families)
        ask_promtool(text)
    except Bad as e:
        sys.exit(f'exposition: {e}')
    samples = [s for f in families.values() for s in f['samples']]
    if sys.argv[1:2] == ['--value']:
        name, labels, _ = sample_of(sys.argv[2] + ' 0')
        print(next((f'{v:g}' for n, la, v in samples
                    if (n, la) == (name, labels)), 'none'))
    elif sys.argv[1:2] == ['--sum']:
        print(f'{sum(v for n, _, v in samples if n == sys.argv[2]):.0f}')
    elif len(samples) < 10:
        sys.exit(f'exposition: only {len(samples)} samples')


if __name__ == '__main__':
    main()
