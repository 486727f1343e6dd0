#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Measures what more threads and channels give, on a machine with many
processors: the figures of docs/evidence/scaling.md. The cases are measured in turns,
over TCP, with all data in memory. Prints the median of the rounds.

Usage: threads.py BUILD clients|mount [ROUNDS [SECONDS]]

clients: 1, 2, 4 and 8 programs (srpi-bench), each with one channel, on a
target with as many threads.
mount: one mount with 1, 2, 4 and 8 channels on a target with as many threads;
fio runs as many jobs on its file.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace

import jobs
import sides
from jobs import Job
from programs import Failed, stop
from scale import Target, cpu_us

COUNTS = (1, 2, 4, 8)
MIB = 256
JOBS = [Job('randread', '4k', 32), Job('randwrite', '4k', 32),
        Job('read', '128k', 8), Job('write', '128k', 8),
        Job('read', '1m', 4), Job('write', '1m', 4)]


@dataclass
class Done:
    """What one run of a job has done. The figures are of all clients
    together."""

    rate: float     # operations a second, or MiB if the job is sequential
    cpu_us: float   # processor time of the target for an operation
    fairness: float = 1 # Jain's index of what the clients got


def bench_options(job, seconds):
    return ['-b', job.block, '-d', str(job.depth), '-s', str(seconds)] + \
        ['-w'] * ('write' in job.rw) + ['-q'] * job.sequential


def clients_run(target, job, cnt, seconds):
    command = [str(a) for a in target.command(bench_options(job, seconds))]
    before = target.cpu_us()
    programs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
                for _ in range(cnt)]
    said = [program.communicate()[0] for program in programs]
    used = target.cpu_us() - before
    if any(program.returncode for program in programs):
        raise Failed('srpi-bench has failed')
    parts = [json.loads(text) for text in said]
    iops = [part['iops'] for part in parts]
    return Done(
        sum(part['mib_per_s' if job.sequential else 'iops']
            for part in parts),
        used / (sum(iops) * seconds),
        sum(iops) ** 2 / cnt / sum(x * x for x in iops))


def clients(build, work, cnt):
    target = Target(build, work, [f'ram:{MIB}M'], '--threads', str(cnt))
    return lambda job, seconds: clients_run(target, job, cnt, seconds)


def mount_run(side, job, cnt, seconds):
    job = replace(job, jobs=cnt)
    before = cpu_us(side.target.pid)
    done = jobs.run(job, [(side.path, side.size, seconds)])[0]
    used = cpu_us(side.target.pid) - before
    return Done(done.value(job), used / (done.iops * seconds))


def mount(build, work, cnt):
    side = sides.Ours(work, f'ours{cnt}', build, f'ram:{MIB}M',
                      options=('--channels', str(cnt)),
                      target_options=('--threads', str(cnt)))
    mounted.append(side)
    sides.up([side], jobs.fill)
    return lambda job, seconds: mount_run(side, job, cnt, seconds)


mounted = []


def show(found, fair):
    print('| job | threads | of all | for a thread, of that with one '
          '| us of the target |' + " Jain's index (least) |" * fair +
          '\n|---|---|---|---|---|' + '---|' * fair)
    for job in JOBS:
        one = statistics.median(d.rate for d in found[job, COUNTS[0]])
        for cnt in COUNTS:
            runs = found[job, cnt]
            rate = statistics.median(d.rate for d in runs)
            unit = ' MiB/s' if job.sequential else '/s'
            row = (f'| {job.name} | {cnt} | {rate:,.0f}{unit} '
                   f'| {rate / cnt / one:.2f} '
                   f'| {statistics.median(d.cpu_us for d in runs):.1f} |')
            if fair:
                index = [d.fairness for d in runs]
                row += f' {statistics.median(index):.3f} ({min(index):.3f}) |'
            print(row)


def main():
    what = {f.__name__: f for f in (clients, mount)}
    if len(sys.argv) not in (3, 4, 5) or sys.argv[2] not in what:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    seconds = int(sys.argv[4]) if len(sys.argv) > 4 else 2
    work = tempfile.mkdtemp(prefix='threads-')
    found = {(job, cnt): [] for job in JOBS for cnt in COUNTS}
    load = os.getloadavg()[0]
    try:
        ready = {cnt: what[sys.argv[2]](sys.argv[1], work, cnt)
                 for cnt in COUNTS}
        for _ in range(rounds):
            for job, cnt in found:
                found[job, cnt].append(ready[cnt](job, seconds))
        print(f'{time.strftime("%Y-%m-%d %H:%M")}, load {load:.1f} before, '
              f'{os.cpu_count()} processors')
        show(found, sys.argv[2] == 'clients')
    except Failed as e:
        print(f'threads.py: {e}', file=sys.stderr)
        return 1
    finally:
        sides.down(mounted)
        for process in Target.running:
            stop(process)
        shutil.rmtree(work)
    return 0


if __name__ == '__main__':
    sys.exit(main())
