# SPDX-License-Identifier: BSD-2-Clause
"""The goals, and the measured values."""

from dataclasses import dataclass
from typing import Callable


@dataclass(frozen=True)
class Goal:
    where: str
    what: str
    at_least: float
    reach_for: float
    got: Callable           # from all of bench.json; KeyError: not measured
    command: str
    less: bool = False      # smaller is better
    comparison: str = ''

    def verdict(self, value):
        if self._meets(value, self.reach_for):
            return 'yes, all of it'
        return 'yes' if self._meets(value, self.at_least) else '**no**'

    def _meets(self, value, aim):
        return value <= aim if self.less else value >= aim


def ratio(half, comparison, job):
    def got(doc):
        for c in doc[half]['comparisons']:
            for row in c['rows']:
                if (c['id'], row['job']) == (comparison, job):
                    return row['ratio']
        raise KeyError(comparison)
    return got


def _calls(half, job, who):
    def got(doc):
        for row in doc[half]['calls']:
            if row['job'] == job:
                return row[who]['all'] if who != 'both' else row['both']
        raise KeyError(job)
    return got


def _own(half, job, *counters):
    def got(doc):
        for row in doc[half]['own']:
            if row['job'] == job:
                return sum(row['each'][c] for c in counters)
        raise KeyError(job)
    return got


def _waits_for_locks(job):
    def got(doc):
        for row in doc['counts']['calls']:
            if row['job'] == job:
                return sum(row[who]['by_name'].get('futex', 0)
                           for who in ('target', 'client'))
        raise KeyError(job)
    return got


def _nothing():
    """Goals for the cost of one operation."""
    read, write = '4k random read d32', '4k random write d32'
    both = 'bytes copied', 'bytes copied on arrival'
    rows = [
        ('guest, verbs', 'bytes of payload copied by the target', read,
         _own('vm', read, *both), '--vm'),
        ('guest, verbs', 'bytes of payload copied by the target', write,
         _own('vm', write, *both), '--vm'),
        # For a read, only the command arrives.
        ('host, TCP', 'bytes of payload copied by the target', read,
         _own('counts', read, both[0]), '--counts'),
        ('host, TCP', 'bytes of payload copied by the target', write,
         _own('counts', write, *both), '--counts'),
        ('host, TCP', 'allocations of the target', read,
         _own('counts', read, 'allocations'), '--counts'),
        ('host, TCP', 'allocations of the target', write,
         _own('counts', write, 'allocations'), '--counts'),
        ('host, TCP', 'waits for locks (futex), client and target', read,
         _waits_for_locks(read), '--counts'),
        ('host, TCP', 'waits for locks (futex), client and target', write,
         _waits_for_locks(write), '--counts')]
    return [Goal(where, f'{what}, {job}', 0, 0, got, f'scripts/bench {half}',
                 less=True) for where, what, job, got, half in rows]


def _most_logins(key):
    def got(doc):
        return doc['counts']['logins'][-1][key]
    return got


def _ratios():
    small = '4k random read d1', '4k random write d1'
    deep = '4k random read d32', '4k random write d32'
    large = ('128k sequential read d8', '128k sequential write d8',
             '1m sequential read d4', '1m sequential write d4')
    nbd = 'against nbdkit + nbdfuse'
    nvme = 'against nvme-rdma on nvmet-rdma'
    srpt = 'ib_srp on rdma-target against ib_srp on ib_srpt'
    return [
        ('host, TCP', 'host-ram', small[:1], nbd, 1.5, 2),
        ('host, TCP', 'host-ram', deep, nbd, 3, 4),
        ('host, TCP', 'host-ram', large, nbd, 1.5, 2),
        ('host, TCP', 'host-qemu', deep[:1],
         "against qemu-storage-daemon's local FUSE export", 0.8, 1.6),
        ('guest, verbs', 'vm-nvme', small, nvme, 1, 1.2),
        ('guest, verbs', 'vm-nvme', deep, nvme, 1.15, 1.4),
        ('guest, verbs', 'vm-nvme', large, nvme, 1.15, 1.3),
        ('guest, verbs', 'vm-target', small + deep + large, srpt, 1, 1.2)]


def _all():
    found = []
    for where, name, jobs, against, least, reach in _ratios():
        half = name.split('-')[0]
        found += [Goal(where, f'{job}, {against}', least, reach,
                       ratio(half, name, job), f'scripts/bench --{half}',
                       comparison=name)
                  for job in jobs]
    return found + [
        Goal('guest, verbs', 'libsrpi 4 KiB read latency / (ib_send_lat + '
             'ib_write_lat 4 KiB)', 1.4, 1.2,
             lambda d: d['vm']['limits']['latency_ratio']['ratio'],
             'scripts/bench --vm', less=True),
        Goal('guest, verbs', 'libsrpi 1 MiB sequential read / ib_write_bw',
             0.9, 0.95,
             lambda d: d['vm']['limits']['bandwidth_ratio']['ratio'],
             'scripts/bench --vm'),
        *_nothing(),
        Goal('guest, verbs', 'system calls for a 4 KiB read, target, depth 32',
             1.2, 0.3, _calls('vm', '4k random read d32', 'target'),
             'scripts/bench --vm', less=True),
        *[Goal('host, TCP', f'system calls for a 4 KiB {kind}, client and '
               f'target, depth 32{way}', 2, 0.5,
               _calls('counts', f'4k random {kind} d32{way}', 'both'),
               'scripts/bench --counts', less=True)
          for way in ('', ', FUSE over io_uring')
          for kind in ('read', 'write')],
        Goal('target', 'user instructions for a 4 KiB read, RAM volume', 2500,
             1500, lambda d: d['counts']['instructions']['target'],
             'scripts/bench --counts', less=True),
        Goal('client', 'user instructions for a 4 KiB read of libsrpi', 1300,
             860, lambda d: d['counts']['instructions']['client'],
             'scripts/bench --counts', less=True),
        Goal('target', '% of a processor with the most idle logins', 0.2, 0,
             _most_logins('cpu_percent'), 'scripts/bench --counts', less=True),
        Goal('target', 'KiB of memory for an idle login', 64, 16,
             _most_logins('kib_per_login'), 'scripts/bench --counts', less=True)]


ALL = _all()


def of(comparison, job):
    """Returns the goal for a row of a comparison, or None."""
    return next((g for g in ALL
                 if g.comparison == comparison and
                 g.what.startswith(job + ',')), None)


def table(doc):
    lines = ['| where | what | at least | reach for | got | reached | command '
             '|', '|---|---|---|---|---|---|---|']
    for g in ALL:
        try:
            value = g.got(doc)
            got, verdict = f'{value:,.2f}', g.verdict(value)
        except KeyError:
            got, verdict = 'not measured', ''
        sign = '≤ ' if g.less else ''
        lines.append(f'| {g.where} | {g.what} | {sign}{g.at_least:g} '
                     f'| {sign}{g.reach_for:g} | {got} | {verdict} '
                     f'| `{g.command}` |')
    return lines
