# SPDX-License-Identifier: BSD-2-Clause
"""The pictures of docs/performance.md that show several comparisons at once."""

import os

import picture
import report


def about(half):
    v = half['versions']
    where = ('soft-RoCE in an emulated guest of' if 'kernel' in half
             else 'TCP, client and target on one machine with')
    rounds = half['comparisons'][0]['rows'][0]['rounds']
    return [f'{where[0].upper()}{where[1:]} {v["processors"]} processors ({v["cpu"]}). '
            f'fio, direct I/O, medians of {rounds} rounds, {v["date"]}.']


def _rows(half, comparison):
    rows = next(c['rows'] for c in half['comparisons'] if c['id'] == comparison)
    return {row['job']: row for row in rows}


def _tcp(doc, path):
    """The jobs that all three systems have."""
    nbd, qemu = (_rows(doc['host'], f'host-{name}') for name in ('ram', 'qemu'))
    picture.draw(
        path, 'A disk in memory, mounted over TCP', about(doc['host']), THREE,
        report.panels([(q['unit'], picture.job_words(job), [q['a'], nbd[job]['b'], q['b']],
                        f'{nbd[job]["ratio"]:.1f} × B, {q["ratio"]:.1f} × C')
                       for job, q in qemu.items()]))


THREE = ['rdma-fuse on rdma-target', 'nbdfuse on nbdkit',
         'qemu-storage-daemon’s FUSE export: no network in between']


def _latency(doc, path):
    nbd, qemu = (_rows(doc['host'], f'host-{name}') for name in ('ram', 'qemu'))
    groups = []
    for job, depth in (('4k random read d1', 1), ('4k random read d32', 32),
                       ('4k random write d32', 32)):
        for key, name in (('lat', 'mean'), ('p99', '99 of 100 within')):
            groups.append((f'µs at depth {depth}',
                           f'{"write" if "write" in job else "read"}, {name}',
                           [qemu[job][f'a_{key}_us'], nbd[job][f'b_{key}_us'],
                            qemu[job][f'b_{key}_us']], ''))
    picture.draw(path, 'Latency of 4 KiB at random, over TCP', about(doc['host']), THREE,
                 report.panels(groups, 'shorter is better'))


def _rdma(doc, path):
    nvme, target, ours = (_rows(doc['vm'], f'vm-{name}')
                          for name in ('nvme', 'target', 'srp'))
    picture.draw(
        path, 'A RAM disk over RDMA', about(doc['vm']) +
        ['An emulated machine is 10 to 100 times slower than a network card: compare the '
         'sides only.'],
        ['rdma-fuse on rdma-target', 'the kernel’s ib_srp on rdma-target',
         'the kernel’s ib_srp on its ib_srpt', 'the kernel’s nvme-rdma on its nvmet-rdma'],
        report.panels([(row['unit'], picture.job_words(job),
                        [row['a'], target[job]['a'], row['b'], nvme[job]['b']],
                        f'{row["ratio"]:.2f} × C, {nvme[job]["ratio"]:.2f} × D')
                       for job, row in ours.items()]))


SCALE = (('iops', 'reads a second; longer is better'),
         ('us_p99', 'µs, the latency that 99 of 100 do not exceed; shorter is better'),
         ('fairness', 'Jain’s index; 1: every initiator gets the same'),
         ('kib', 'KiB, the most memory that the target had; shorter is better'))
SCALE_TITLES = {'initiators': 'More and more initiators, each at depth 1',
                'volumes': '16 initiators on more and more volumes',
                'channels': 'One initiator at depth 32 over more and more channels'}


def draw_scale(doc, plots):
    """The figures of scale.py."""
    for what, title in SCALE_TITLES.items():
        picture.draw(
            os.path.join(plots, f'scale-{what}.svg'), title,
            ['4 KiB random reads over TCP on one machine with 2 processors, medians of 3 '
             'rounds.'], ['rdma-target'],
            [picture.Panel(axis, [(name, [row[key]], '')
                                  for name, row in doc[what].items() if row.get(key)])
             for key, axis in SCALE if any(key in row for row in doc[what].values())])


def draw(doc, plots):
    for half, name, draw_it in (('host', 'tcp', _tcp), ('host', 'latency', _latency),
                                ('vm', 'rdma', _rdma)):
        if half in doc:
            draw_it(doc, os.path.join(plots, f'{name}.svg'))
