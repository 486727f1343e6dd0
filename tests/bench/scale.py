#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Measures rdma-target with many volumes, large volumes, deep queues, many clients
and channels, and how fast it starts: the figures of docs/evidence/scaling.md. The cases
are measured in turns. Prints the median of the rounds.

Usage: scale.py BUILD WHAT [ROUNDS [OUT]]

WHAT: sizes, cost, depth, fair, initiators, volumes, channels or start.
OUT: docs/evidence, for initiators, volumes and channels: keeps the figures in its
scale.json, and draws them.
"""

import json
import os
import shutil
import statistics
import sys
import tempfile
import time

import pictures
from programs import Failed, output, start, stop, unmount, wait_until
from sides import free_port

TICK_US = 1e6 / os.sysconf('SC_CLK_TCK')


def cpu_us(pid):
    with open(f'/proc/{pid}/stat', encoding='ascii') as f:
        words = f.read().rsplit(')', 1)[1].split()
    return (int(words[11]) + int(words[12])) * TICK_US


class Target:
    """rdma-target over TCP with the volumes @backings."""

    running = []
    address = '127.0.0.1'

    def __init__(self, build, work, backings, *options):
        self.build = build
        self.uri = f'srp+tcp://{self.address}:{free_port()}'
        pidfile = os.path.join(work, f'pid{free_port()}')
        args = [a for b in backings for a in ('-b', b)]
        self.process = start(os.path.join(work, 'log'),
                             f'{build}/target/rdma-target', '-q', '-P',
                             pidfile, '--state-dir', 'none', '-l', self.uri,
                             *options, *args)
        self.running.append(self.process)
        wait_until('rdma-target', lambda: os.path.exists(pidfile) and
                   os.path.getsize(pidfile) > 0, process=self.process)

    def cpu_us(self):
        return cpu_us(self.process.pid)

    def resident_kib(self, which='VmRSS'):
        """VmHWM: the most so far."""
        with open(f'/proc/{self.process.pid}/status', encoding='ascii') as f:
            return next(int(line.split()[1]) for line in f
                        if line.startswith(which))

    def command(self, options, lun=0):
        """@lun: None for all volumes in turn."""
        volume = '' if lun is None else f'/{lun}'
        return (f'{self.build}/tests/bench/srpi-bench', *options,
                self.uri + volume)

    def bench(self, options, lun=0):
        return json.loads(output(*self.command(options, lun)))

    def cpu_per_op(self, options, lun=0):
        """Measures two seconds minus one, so that the login does not count."""
        seen = []
        for seconds in (1, 2):
            before = self.cpu_us()
            done = self.bench((*options, '-s', str(seconds)),
                              lun)['iops'] * seconds
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
    """A reader, 4 KiB at depth 1: alone; beside a client that reads or writes
    1 MiB at depth 32 on another volume of the target; and beside a client of
    another target."""
    backings = ['ram:64M', 'ram:256M']
    # Otherwise the other client would get the other thread.
    one = ('--threads', '1')
    here = Target(build, work, backings, *one)
    there = Target(build, work, backings, *one)
    small = ('-b', '4k', '-d', '1', '-s', '1')
    large = ('-b', '1m', '-d', '32', '-q', '-s', '2')
    seen = {'alone': []}
    for _ in range(rounds):
        seen['alone'].append(here.bench(small)['us'])
        for what, how in (('reader', ()), ('writer', ('-w',))):
            for where, target in (('the same', here), ('another', there)):
                other = start(os.path.join(work, 'other'),
                              *target.command((*large, *how), lun=1))
                seen.setdefault(f'{what} on {where} target', []).append(
                    here.bench(small)['us'])
                other.wait()
    for name, values in seen.items():
        print(f'| {name} | {median(values):.0f} us '
              f'({min(values):.0f} to {max(values):.0f}) |')


def spread(cases, lun, rounds):
    """Prints a row for each of @cases, which are options of srpi-bench by
    name. Returns the medians of each."""
    print('| | a second | median, us | p99, us | fairness (least) '
          '| us of the target for each | most resident KiB |\n'
          '|---|---|---|---|---|---|---|')
    seen = {name: [] for name in cases}
    for _ in range(rounds):
        for name, (to, options) in cases.items():
            done = to.bench((*options, '-s', '2'), lun)
            done['cpu_us'] = to.cpu_per_op(options, lun)
            done['kib'] = to.resident_kib('VmHWM')
            seen[name].append(done)
    rows = {name: {key: median([done[key] for done in runs])
                   for key in ('iops', 'us_median', 'us_p99', 'fairness',
                               'cpu_us', 'kib')}
            for name, runs in seen.items()}
    for name, row in rows.items():
        least = min(done['fairness'] for done in seen[name])
        print(f'| {name} | {row["iops"]:,.0f} | {row["us_median"]:,.0f} '
              f'| {row["us_p99"]:,.0f} | {row["fairness"]:.3f} ({least:.3f}) '
              f'| {row["cpu_us"]:.1f} | {row["kib"]:,.0f} |')
    return rows


def keep(what, rows, out):
    """Puts the figures into @out, and draws them."""
    path = os.path.join(out, 'scale.json')
    with open(path, encoding='utf-8') as f:
        doc = json.load(f)
    doc[what] = rows
    with open(path, 'w', encoding='utf-8') as f:
        json.dump(doc, f, indent=1)
        f.write('\n')
    pictures.draw_scale(doc, os.path.join(out, 'plots'))


def initiators(build, work, rounds):
    """4 KiB random reads of ram:256M by more and more initiators, each at depth
    1."""
    cases = {f'{n} initiators': (Target(build, work, ['ram:256M']),
                                 ('-i', str(n)))
             for n in (1, 16, 256, 1024)}
    return spread(cases, 0, rounds)


def volumes(build, work, rounds):
    """The same by 16 initiators, which take the volumes in turn."""
    cases = {f'{n} volumes': (Target(build, work, ['ram:1M'] * n),
                              ('-i', '16'))
             for n in (1, 16, 256)}
    return spread(cases, None, rounds)


def channels(build, work, rounds):
    """The same by one initiator at depth 32, with 1 to 8 channels."""
    cases = {f'{n} channels': (Target(build, work, ['ram:256M']),
                               ('-c', str(n), '-d', '32'))
             for n in (1, 2, 4, 8)}
    return spread(cases, 0, rounds)


def milliseconds(begun):
    return (time.monotonic() - begun) * 1000


def start_times(build, work, rounds):
    """Until the target has written its PID file, and until rdma-fuse, which
    becomes a daemon, has mounted."""
    mount = os.path.join(work, 'mnt')
    os.mkdir(mount)
    seen = {'target': [], 'mount': []}
    for _ in range(rounds):
        begun = time.monotonic()
        target = Target(build, work, ['ram:64M'])
        seen['target'].append(milliseconds(begun))
        begun = time.monotonic()
        output(f'{build}/fuse/rdma-fuse', '-q', target.uri, mount)
        seen['mount'].append(milliseconds(begun))
        unmount(mount)
        stop(target.process)
    for name, values in seen.items():
        print(f'| {name} | {median(values):.0f} ms '
              f'({min(values):.0f} to {max(values):.0f}) |')


def main():
    what = {f.__name__: f for f in (sizes, cost, depth, fair, initiators,
                                    volumes, channels)}
    what['start'] = start_times
    if len(sys.argv) not in (3, 4, 5) or sys.argv[2] not in what:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    work = tempfile.mkdtemp(prefix='scale-')
    try:
        rows = what[sys.argv[2]](sys.argv[1], work, rounds)
        if len(sys.argv) > 4:
            keep(sys.argv[2], rows, sys.argv[4])
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
