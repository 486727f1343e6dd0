#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Measures the latency of mounts, and what the programs behind them take of the
processors: the figures of docs/evidence/scaling.md.
fio runs each job on all sides in turns. Prints the medians of the rounds.

Usage: tail.py BUILD [ROUNDS [SECONDS]]

The sides are rdma-fuse on rdma-target, nbdfuse on nbdkit (both over TCP), and
qemu-storage-daemon's FUSE export, with all data in memory. The processor time
is that of server and client, without fio and without the kernel's threads.
"""

import os
import shutil
import statistics
import sys
import tempfile
import time

import jobs
import sides
from jobs import Job
from programs import Failed
from scale import cpu_us

MIB = 256
JOBS = [Job('randread', '4k', 1), Job('randwrite', '4k', 1),
        Job('randread', '4k', 32), Job('randwrite', '4k', 32),
        Job('read', '1m', 4), Job('write', '1m', 4)]


def all_sides(build, work, shm):
    file = os.path.join(shm, 'disk.img')
    with open(file, 'wb') as f:
        f.truncate(MIB << 20)
    return [sides.Ours(work, 'ours', build, f'ram:{MIB}M'),
            sides.Nbd(work, 'nbd', 'memory', f'{MIB}M'),
            sides.QemuExport(work, 'qemu', file)]


def latency(done):
    """Returns p50, p99 and p99.9 in us, of what fio says of a job."""
    percentiles = done['clat_ns']['percentile']
    return [percentiles[p] / 1000
            for p in ('50.000000', '99.000000', '99.900000')]


def one_run(side, job, seconds):
    """Returns the percentiles of the latency in us, and the processor time in
    us for an operation and for a MiB."""
    def spent():
        return sum(cpu_us(p.pid) for p in side.processes)

    before = spent()
    done = jobs.said(*jobs.command(job, [(side.path, side.size, seconds)]))[0]
    used = spent() - before
    done = done['write' if 'write' in job.rw else 'read']
    return latency(done) + [used / done['total_ios'],
                            used / (done['io_bytes'] / 2**20)]


def show(found, load):
    print(f'{time.strftime("%Y-%m-%d %H:%M")}, load {load:.1f} before and '
          f'{os.getloadavg()[0]:.1f} after, {os.cpu_count()} processors')
    print('| job | side | p50, µs | p99, µs | p99.9, µs | p99 / p50 '
          '| s for a million | s for a GiB |\n|---|---|---|---|---|---|---|---|')
    for (job, side), runs in found.items():
        p50, p99, p999, for_op, for_mib = map(statistics.median, zip(*runs))
        print(f'| {job.name} | {side.label} | {p50:,.0f} | {p99:,.0f} '
              f'| {p999:,.0f} | {p99 / p50:.1f} | {for_op:,.1f} '
              f'| {for_mib * 1024 / 1e6:.2f} |')


def main():
    if len(sys.argv) not in (2, 3, 4):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    seconds = int(sys.argv[3]) if len(sys.argv) > 3 else 2
    load = os.getloadavg()[0]
    work = tempfile.mkdtemp(prefix='tail-')
    shm = tempfile.mkdtemp(prefix='tail-', dir='/dev/shm')
    every = all_sides(os.path.realpath(sys.argv[1]), work, shm)
    found = {(job, side): [] for job in JOBS for side in every}
    try:
        sides.up(every, jobs.fill)
        for i in range(rounds):
            for job in JOBS:
                for side in every[::-1] if i % 2 else every:
                    found[job, side].append(one_run(side, job, seconds))
        show(found, load)
    except Failed as e:
        print(f'tail.py: {e}', file=sys.stderr)
        return 1
    finally:
        sides.down(every)
        shutil.rmtree(work, ignore_errors=True)
        shutil.rmtree(shm, ignore_errors=True)
    return 0


if __name__ == '__main__':
    sys.exit(main())
