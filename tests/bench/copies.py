#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Compares srpcopy with nbdcopy (on nbdkit's file plugin) and dd (on a file of
rdma-fuse), over TCP on this machine, in turns. All of them flush at the end. A
round gives one ratio for each job. The table has the median of the rounds, the
minimum and the maximum. The files are in memory (/dev/shm) if that directory
exists.

Usage: copies.py BUILD [ROUNDS [MIB]]

MIB: the size of the image, 512 by default. The sparse image has data in 1 MiB of each
16 MiB.
"""

import os
import shutil
import statistics
import sys
import tempfile
import time

from programs import (Failed, free_port, output, start, stop, undisturbed,
                      unmount, wait_until)
from scale import Target

JOBS = {
    'volume to file': ('dense', False),
    'file to volume': ('dense', True),
    'sparse volume to file': ('sparse', False),
    'sparse file to volume': ('sparse', True),
}
SIDES = ('srpcopy', 'nbdcopy', 'dd')


def make_image(path, mib, step):
    with open(path, 'wb') as f:
        f.truncate(mib << 20)
        for i in range(0, mib, step):
            f.seek(i << 20)
            f.write(os.urandom(1 << 20))


class Bench:
    def __init__(self, build, work, mib):
        self.build = build
        self.work = work
        self.mib = mib
        self.mount = self.path('mnt')
        os.mkdir(self.mount)
        for name, step in (('dense', 1), ('sparse', 16)):
            make_image(self.path(name), mib, step)
        # Each side reads the images, and writes to a volume of its own.
        names = ['dense', 'sparse', 'srpcopy', 'dd']
        for name in names[2:] + ['nbdcopy']:
            with open(self.path(name), 'wb') as f:
                f.truncate(mib << 20)
        self.target = Target(build, work, [self.path(n) for n in names])
        self.nbd = {n: self.nbdkit(n) for n in ('dense', 'sparse', 'nbdcopy')}
        output(f'{build}/fuse/rdma-fuse', '-q', self.target.uri, self.mount)

    def path(self, name):
        return os.path.join(self.work, name)

    def nbdkit(self, name):
        port = free_port()
        pidfile = self.path(f'nbd-{name}.pid')
        server = start(self.path('log'), 'nbdkit', '-f', '-i', '127.0.0.1',
                       '-p', port, '-P', pidfile, 'file', self.path(name))
        Target.running.append(server)
        wait_until('nbdkit', lambda: os.path.exists(pidfile), process=server)
        return f'nbd://127.0.0.1:{port}'

    def command(self, side, image, writes):
        back = self.path('back')
        if side == 'srpcopy':
            volume = f'{self.target.uri}/' + ('srpcopy' if writes else image)
            ends = (self.path(image), volume) if writes else (volume, back)
            return [f'{self.build}/copy/srpcopy', '-q', *ends]
        if side == 'nbdcopy':
            volume = self.nbd['nbdcopy' if writes else image]
            ends = (self.path(image), volume) if writes else (volume, back)
            return ['nbdcopy', '--flush', *ends]
        volume = os.path.join(self.mount, 'dd' if writes else image)
        ends = (self.path(image), volume) if writes else (volume, back)
        return ['dd', f'if={ends[0]}', f'of={ends[1]}', 'bs=1M', 'conv=fsync',
                'status=none']

    def measure(self, side, job):
        """Returns MiB of the image per second."""
        image, writes = JOBS[job]
        back = self.path(side if writes else 'back')
        if not writes and os.path.exists(back):
            os.unlink(back)
        begin = time.monotonic()
        output(*self.command(side, image, writes))
        taken = time.monotonic() - begin
        output('cmp', self.path(image), back)
        return self.mib / taken

    def down(self):
        unmount(self.mount)


def show(rates):
    print('| job | srpcopy, MiB/s | beside nbdcopy (least to most) '
          '| beside dd (least to most) |\n|---|---|---|---|')
    for job, sides in rates.items():
        cells = [f'{statistics.median(sides["srpcopy"]):,.0f}']
        for side in SIDES[1:]:
            ratios = [a / b for a, b in zip(sides['srpcopy'], sides[side])]
            cells.append(f'**{statistics.median(ratios):.2f}** '
                         f'({min(ratios):.2f} to {max(ratios):.2f})')
        print(f'| {job} | ' + ' | '.join(cells) + ' |')


def compare(bench, rounds):
    rates = {job: {side: [] for side in SIDES} for job in JOBS}
    for i in range(rounds):
        for job, sides in rates.items():
            for side in SIDES[i % 3:] + SIDES[:i % 3]:
                sides[side].append(bench.measure(side, job))
    return rates


def main():
    if len(sys.argv) not in (2, 3, 4):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    build = os.path.realpath(sys.argv[1])
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    mib = int(sys.argv[3]) if len(sys.argv) > 3 else 512
    place = '/dev/shm' if os.path.isdir('/dev/shm') else None
    work = tempfile.mkdtemp(prefix='copies-', dir=place)
    load = os.getloadavg()[0]
    bench = None
    try:
        bench = Bench(build, work, mib)
        rates = compare(bench, rounds)
        print(f'{time.strftime("%Y-%m-%d %H:%M")}, load {load:.1f} before and '
              f'{os.getloadavg()[0]:.1f} after, {os.cpu_count()} processors, '
              f'{rounds} rounds of {mib} MiB')
        show(rates)
    except Failed as e:
        print(f'copies.py: {e}', file=sys.stderr)
        return 1
    finally:
        with undisturbed():
            if bench:
                bench.down()
            for process in Target.running:
                stop(process)
            shutil.rmtree(work, ignore_errors=True)
    return 0


if __name__ == '__main__':
    sys.exit(main())
