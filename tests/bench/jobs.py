# SPDX-License-Identifier: BSD-2-Clause
"""The jobs, and how fio runs one."""

import contextlib
import json
import os
import signal
from dataclasses import dataclass

from programs import output, start, stop, undisturbed


@dataclass(frozen=True)
class Job:
    rw: str         # fio's name
    block: str      # bytes per operation
    depth: int
    jobs: int = 1   # number of jobs at the same time
    busy: int = 0   # number of busy programs beside them

    @property
    def name(self):
        many = f' x{self.jobs}' if self.jobs > 1 else ''
        beside = f' beside {self.busy}' if self.busy else ''
        return f'{self.block} {WORDS[self.rw]} d{self.depth}{many}{beside}'

    @property
    def sequential(self):
        return not self.rw.startswith('rand')


WORDS = {'randread': 'random read', 'randwrite': 'random write',
         'randrw': '70/30 mix', 'read': 'sequential read',
         'write': 'sequential write'}

MAIN = [Job('randread', '4k', 1), Job('randwrite', '4k', 1),
        Job('randread', '4k', 32), Job('randwrite', '4k', 32),
        Job('read', '128k', 8), Job('write', '128k', 8),
        Job('read', '1m', 4), Job('write', '1m', 4)]
MORE = [Job('randread', '4k', 8), Job('randwrite', '4k', 8),
        Job('randread', '4k', 128), Job('randwrite', '4k', 128),
        Job('randrw', '4k', 32),
        Job('randread', '4k', 8, 4), Job('randwrite', '4k', 8, 4)]
CROWDED = [Job('randread', '4k', 1, busy=1), Job('randwrite', '4k', 1, busy=1),
           Job('randread', '4k', 1, busy=2)]
NEVER_RESTS = ('sh', '-c', 'while :; do :; done')


def _options(job):
    args = ['--direct=1', '--ioengine=libaio', f'--rw={job.rw}',
            f'--bs={job.block}', f'--iodepth={job.depth}',
            f'--numjobs={job.jobs}', '--thread', '--group_reporting',
            '--norandommap', '--randrepeat=0', '--invalidate=0']
    if job.rw == 'randrw':
        args.append('--rwmixread=70')
    return args


def command(job, places):
    """Returns the command line of fio. It uses one place after the other. A
    place is a path, its size, and the seconds to run."""
    args = ['fio', '--output-format=json']
    for i, (path, size, seconds) in enumerate(places):
        args += [f'--name=place{i}', '--stonewall', f'--filename={path}',
                 f'--size={size}', '--time_based', f'--runtime={seconds}',
                 *_options(job)]
    return args


def command_of(job, places):
    """Returns the command line of fio. A place is a path, its size, and the
    number of operations."""
    args = ['fio', '--output-format=json']
    for i, (path, size, ios) in enumerate(places):
        args += [f'--name=place{i}', '--stonewall', f'--filename={path}',
                 f'--size={size}', f'--number_ios={ios}', *_options(job)]
    return args


@dataclass
class Result:
    iops: float
    mib_s: float
    lat_us: float   # mean
    p99_us: float

    def value(self, job):
        """Returns the main figure of a job."""
        return self.mib_s if job.sequential else self.iops


def _result(job):
    sides = [job['read'], job['write']]
    ios = sum(s['total_ios'] for s in sides) or 1
    return Result(
        iops=sum(s['iops'] for s in sides),
        mib_s=sum(s['bw_bytes'] for s in sides) / (1 << 20),
        lat_us=sum(s['clat_ns']['mean'] * s['total_ios']
                   for s in sides) / ios / 1000,
        p99_us=max(s['clat_ns'].get('percentile', {}).get('99.000000', 0)
                   for s in sides) / 1000)


def said(*command_line):
    """Returns what fio says of each of its jobs."""
    text = output(*command_line)
    return json.loads(text[text.index('{'):])['jobs']


@contextlib.contextmanager
def _crowd(cnt):
    programs = []
    try:
        for _ in range(cnt):
            programs.append(start(os.devnull, *NEVER_RESTS))
        yield
    finally:
        with undisturbed():
            for program in programs:
                stop(program, signal.SIGKILL)


def run(job, places):
    """Returns a result for each place."""
    with _crowd(job.busy):
        return [_result(j) for j in said(*command(job, places))]


def milliseconds(job, places):
    """Returns how long the operations took, for each place."""
    return [j['read']['runtime'] + j['write']['runtime']
            for j in said(*command_of(job, places))]


def fill(path, size):
    """Writes all of it once, because untouched memory is slow."""
    output('fio', '--name=fill', f'--filename={path}', f'--size={size}',
           '--direct=1', '--ioengine=libaio', '--rw=write', '--bs=1m',
           '--iodepth=4', '--invalidate=0')
