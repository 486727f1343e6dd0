#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Measures the latency of disks over soft-RoCE, and what they take of the
processors, in the guest of scripts/vm: the figures of docs/evidence/scaling.md. fio runs
each job on all sides, one after the other. Each round has a guest of its own.
Prints the medians of the guests.

Usage: guest_tail.py BUILD [GUESTS [SECONDS]]

The processor time is that of the whole guest, with fio, and that of the target
if it is a program. fio has started when it begins to count, and has not ended.
"""

import os
import statistics
import sys
import tempfile
import time

import guest
import jobs
import sides
from programs import Failed, say
from scale import TICK_US
from tail import JOBS, latency

LOOK = 'cat /proc/uptime /proc/stat'


# ---- in the guest ----


def all_sides(work, build):
    tcp = sides.Ours(work, 'ours-tcp', build, '/dev/ram9', 'tcp',
                     guest.ADDRESS)
    tcp.label += ', over TCP'
    return guest.main_sides(work, build) + guest.tgt_sides(work) + [tcp]


def inside(build, seconds, number):
    work = tempfile.mkdtemp(prefix='tail-')
    # fio writes the output of its commands into the current directory.
    os.chdir(work)
    guest.prepare()
    every = all_sides(work, build)
    found = {side.label: {} for side in every}
    try:
        sides.up(every, jobs.fill)
        for job in JOBS:
            turn = every[::-1] if number % 2 else every
            for side, got in zip(turn, one_run(turn, job, seconds)):
                found[side.label][job.name] = got
                say(f'{job.name}, {side.label}: {got}')
    finally:
        sides.down(every)
    guest.report_back(found)


def one_run(turn, job, seconds):
    """Returns for each side what a job took, by name; times are in us."""
    words = jobs.command(job, [(s.path, s.size, seconds) for s in turn])
    for i, side in enumerate(turn):
        look = LOOK
        if hasattr(side, 'target'):
            look += f' /proc/{side.target.pid}/stat'
        here = words.index(f'--name=place{i}') + 1
        words[here:here] = [f'--exec_prerun={look}', f'--exec_postrun={look}']
    return [of_place(i, done['write' if 'write' in job.rw else 'read'])
            for i, done in enumerate(jobs.said(*words))]


def of_place(i, done):
    before, after = looked(f'place{i}.prerun.txt'), \
        looked(f'place{i}.postrun.txt')
    took = {what: after[what] - before[what] for what in after}
    return {'latency': latency(done),
            'bytes': done['io_bytes'] / done['total_ios'],
            **{what: us / done['total_ios'] for what, us in took.items()}}


def looked(name):
    """Returns the processor time until then. All that is not idle is taken:
    the kernel counts idle time exactly, and other time by its ticks."""
    with open(name, encoding='ascii') as f:
        lines = f.read().splitlines()
    uptime = float(lines[0].split()[0]) * 1e6
    idle = sum(map(int, lines[1].split()[4:6])) * TICK_US
    found = {'all': uptime * os.cpu_count() - idle}
    if lines[-1].split()[0].isdigit():
        words = lines[-1].rsplit(')', 1)[1].split()
        found['target'] = (int(words[11]) + int(words[12])) * TICK_US
    return found


# ---- on the host ----


def median(values):
    """Of numbers, or of lists of numbers."""
    if isinstance(values[0], list):
        return [statistics.median(v) for v in zip(*values)]
    return statistics.median(values)


def merged(guests):
    return {label: {job: {what: median([g[label][job][what] for g in guests])
                          for what in took}
                    for job, took in jobs_of.items()}
            for label, jobs_of in guests[0].items()}


def percentiles(took):
    return ', '.join(f'{us:,.0f}' for us in took['latency'])


def tail(took):
    p50, p99, _ = took['latency']
    return f'{p99 / p50:.1f}'


def for_a_million(took):
    return ', '.join(f'{took[what]:,.0f}' for what in ('all', 'target')
                     if what in took)


def for_a_gib(took):
    return ', '.join(f'{took[what] * 1073.741824 / took["bytes"]:,.2f}'
                     for what in ('all', 'target') if what in took)


TABLES = (('p50, p99, p99.9 in us', percentiles), ('p99 / p50', tail),
          ('s for a million: guest, target', for_a_million),
          ('s for a GiB: guest, target', for_a_gib))


def show(found, load):
    print(f'{time.strftime("%Y-%m-%d %H:%M")}, load {load:.1f} before and '
          f'{os.getloadavg()[0]:.1f} after, {os.cpu_count()} processors')
    letters = 'ABCDEFG'[:len(found)]
    for letter, label in zip(letters, found):
        print(f'{letter}: {label}')
    for title, cell in TABLES:
        print(f'\n{title}:\n\n| job | {" | ".join(letters)} |\n|---' +
              '|---' * len(letters) + '|')
        for job in JOBS:
            print(f'| {job.name} | ' + ' | '.join(
                cell(took[job.name]) for took in found.values()) + ' |')


def main():
    if sys.argv[1:2] == ['--inside']:
        inside(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
        return 0
    if len(sys.argv) not in (2, 3, 4):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    number = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    seconds = int(sys.argv[3]) if len(sys.argv) > 3 else 2
    load = os.getloadavg()[0]
    try:
        show(merged([guest.run_there(
            [os.path.realpath(__file__), '--inside',
             os.path.realpath(sys.argv[1]), seconds, i])
            for i in range(number)]), load)
    except Failed as e:
        print(f'guest_tail.py: {e}', file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
