#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Measures rdma-target with many volumes, large volumes, deep queues and several
clients: the figures of docs/scaling.md. The cases are measured in turns. Prints
the median of the rounds.

Usage: scale.py BUILD sizes|cost|depth|fair [ROUNDS]
"""

import json
import os
import shutil
import statistics
import sys
import tempfile

from programs import Failed, output, start, stop, wait_until
from sides import free_port

TICK_US = 1e6 / os.sysconf('SC_CLK_TCK')


def cpu_us(pid):
    with open(f'/proc/{pid}/stat', encoding='ascii') as f:
        words = f.read().rsplit(')', 1)[1].split()
    return (int(words[11]) + int(words[12])) * TICK_US


class Target:
    """rdma-target over TCP with the volumes @backings."""

    running = []

    def __init__(self, build, work, backings, *options):
        self.build = build
        self.uri = f'srp+tcp://127.0.0.1:{free_port()}'
        pidfile = os.path.join(work, f'pid{free_port()}')
        args = [a for b in backings for a in ('-b', b)]
        self.process = start(os.path.join(work, 'log'),
                             f'{build}/target/rdma-target', '-q', '-P',
                             pidfile, '-l', self.uri, *options, *args)
        self.running.append(self.process)
        wait_until('rdma-target', lambda: os.path.exists(pidfile) and
                   os.path.getsize(pidfile) > 0, process=self.process)

    def cpu_us(self):
        return cpu_us(self.process.pid)

    def resident_kib(self):
        with open(f'/proc/{self.process.pid}/status', encoding='ascii') as f:
            return next(int(line.split()[1]) for line in f
                        if line.startswith('VmRSS'))

    def command(self, options, lun=0):
        return (f'{self.build}/tests/bench/srpi-bench', *options,
                f'{self.uri}/{lun}')

    def bench(self, options, lun=0):
        return json.loads(output(*self.command(options, lun)))

    def cpu_per_op(self, options):
        """Measures two seconds minus one, so that the login does not count."""
        seen = []
        for seconds in (1, 2):
            before = self.cpu_us()
            done = self.bench((*options, '-s', str(seconds)))['iops'] * seconds
            seen.append((self.cpu_us() - before, done))
        (cpu1, ops1), (cpu2, ops2) = seen
        return (cpu2 - cpu1) / max(1, ops2 - ops1)


def median(values):
    return statistics.median(values)


def sparse(work, name, size):
    path = os.path.join(work, name)
    with open(path, 'wb') as f:
        f.truncate(size)
    return f'{path},direct=on'


def sizes(build, work, rounds):
    """4 KiB random reads at depth 32: CPU time for each read, and memory."""
    cases = {
        'null:1G': ['null:1G'],
        'the same again': ['null:1G'],
        'null, 1 EiB': [f'null:{1 << 60}'],
        '256 times null:1G': ['null:1G'] * 256,
        'file, 1 GiB sparse': [sparse(work, 'small', 1 << 30)],
        # The largest file of ext4.
        'file, 16 TiB sparse': [sparse(work, 'large', (16 << 40) - 4096)],
    }
    targets = {n: Target(build, work, b) for n, b in cases.items()}
    seen = {n: [] for n in cases}
    for i in range(rounds):
        for name in sorted(cases, reverse=i % 2):
            seen[name].append(
                targets[name].cpu_per_op(('-b', '4k', '-d', '32')))
    print('| volume | us of a processor for each | resident KiB |')
    for name, target in targets.items():
        print(f'| {name} | {median(seen[name]):.2f} '
              f'| {target.resident_kib()} |')


def cost(build, work, rounds):
    """CPU time of the target for an operation on ram:256M, at depth 32."""
    target = Target(build, work, ['ram:256M'])
    jobs = [(size, how) for size in ('4k', '128k', '1m')
            for how in ((), ('-w',))]
    seen = {job: [] for job in jobs}
    for _ in range(rounds):
        for size, how in jobs:
            seen[size, how].append(
                target.cpu_per_op(('-b', size, '-d', '32', *how)))
    for (size, how), values in seen.items():
        print(f'| {size} {"write" if how else "read"} '
              f'| {median(values):.2f} us |')


def depth(build, work, rounds):
    """4 KiB random reads of ram:256M, at increasing depth."""
    target = Target(build, work, ['ram:256M'])
    jobs = [(1, 32), (2, 124), (17, 1024)]
    seen = {job: [] for job in jobs}
    for _ in range(rounds):
        for job in jobs:
            seen[job].append(target.bench(
                ('-b', '4k', '-c', job[0], '-d', job[1], '-s', '1'))['iops'])
    for (channels, deep), values in seen.items():
        print(f'| {channels} channels, depth {deep} '
              f'| {median(values):.0f} a second |')
    print(f'resident: {target.resident_kib()} KiB')


def fair(build, work, rounds):
    """A reader, 4 KiB at depth 1: alone; beside a writer of 1 MiB at depth
    32 to another volume of the target; and beside a writer to another
    target."""
    backings = ['ram:64M', 'ram:256M']
    # Otherwise the writer would get the other thread.
    one = ('--threads', '1')
    here = Target(build, work, backings, *one)
    there = Target(build, work, backings, *one)
    read = ('-b', '4k', '-d', '1', '-s', '1')
    write = ('-b', '1m', '-d', '32', '-w', '-q', '-s', '2')
    seen = {'alone': [], 'same target': [], 'another target': []}
    for _ in range(rounds):
        seen['alone'].append(here.bench(read)['us'])
        for name, target in (('same target', here),
                             ('another target', there)):
            writer = start(os.path.join(work, 'writer'),
                           *target.command(write, lun=1))
            seen[name].append(here.bench(read)['us'])
            writer.wait()
    for name, values in seen.items():
        print(f'| {name} | {median(values):.0f} us '
              f'({min(values):.0f} to {max(values):.0f}) |')


def main():
    what = {f.__name__: f for f in (sizes, cost, depth, fair)}
    if len(sys.argv) not in (3, 4) or sys.argv[2] not in what:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    rounds = int(sys.argv[3]) if len(sys.argv) == 4 else 5
    work = tempfile.mkdtemp(prefix='scale-')
    try:
        what[sys.argv[2]](sys.argv[1], work, rounds)
    except Failed as e:
        print(f'scale.py: {e}', file=sys.stderr)
        return 1
    finally:
        for process in Target.running:
            stop(process)
        shutil.rmtree(work)
    return 0


if __name__ == '__main__':
    sys.exit(main())
