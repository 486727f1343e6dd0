# SPDX-License-Identifier: BSD-2-Clause
"""The jobs, and how fio runs one."""

import json
from dataclasses import dataclass

from programs import output


@dataclass(frozen=True)
class Job:
    rw: str         # fio's name
    block: str      # bytes per operation
    depth: int
    jobs: int = 1   # that run at the same time

    @property
    def name(self):
        many = f' x{self.jobs}' if self.jobs > 1 else ''
        return f'{self.block} {WORDS[self.rw]} d{self.depth}{many}'

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


def command(job, path, size, seconds=None, ios=None):
    """The command line of fio: for so long, or for so many operations."""
    args = ['fio', '--name=bench', f'--filename={path}', f'--size={size}',
            '--direct=1', '--ioengine=libaio', f'--rw={job.rw}',
            f'--bs={job.block}', f'--iodepth={job.depth}',
            f'--numjobs={job.jobs}', '--thread', '--group_reporting',
            '--norandommap', '--randrepeat=0', '--invalidate=0',
            '--output-format=json']
    if job.rw == 'randrw':
        args.append('--rwmixread=70')
    if ios is not None:
        args.append(f'--number_ios={ios}')
    if seconds is not None:
        args += ['--time_based', f'--runtime={seconds}']
    return args


@dataclass
class Result:
    iops: float
    mib_s: float
    lat_us: float   # mean
    p99_us: float

    def value(self, job):
        """The figure that a job is about."""
        return self.mib_s if job.sequential else self.iops


def parse(text):
    doc = json.loads(text[text.index('{'):])
    job = doc['jobs'][0]
    sides = [job['read'], job['write']]
    ios = sum(s['total_ios'] for s in sides) or 1
    return Result(
        iops=sum(s['iops'] for s in sides),
        mib_s=sum(s['bw_bytes'] for s in sides) / (1 << 20),
        lat_us=sum(s['clat_ns']['mean'] * s['total_ios']
                   for s in sides) / ios / 1000,
        p99_us=max(s['clat_ns'].get('percentile', {}).get('99.000000', 0)
                   for s in sides) / 1000)


def run(job, path, size, seconds):
    return parse(output(*command(job, path, size, seconds=seconds)))


def fill(path, size):
    """Writes everything once: memory that was never touched is slow."""
    output('fio', '--name=fill', f'--filename={path}', f'--size={size}',
           '--direct=1', '--ioengine=libaio', '--rw=write', '--bs=1m',
           '--iodepth=4', '--invalidate=0')
