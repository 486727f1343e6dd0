# SPDX-License-Identifier: BSD-2-Clause
"""The host's half, over TCP."""

import contextlib
import json
import os
import shutil
import tempfile

import compare
import jobs
import sides
from compare import Comparison
from jobs import Job
from programs import output

FEW = [Job('randread', '4k', 1), Job('randread', '4k', 32),
       Job('randwrite', '4k', 32), Job('read', '1m', 4)]
DEEP = [Job('randread', '4k', 32), Job('randread', '4k', 128),
        Job('randread', '4k', 8, 4)]
MIB = 512

# The setting: new mounts get their requests over io_uring.
RING = '/sys/module/fuse/parameters/enable_uring'


def ring():
    """Returns 'Y', 'N', or '' if this kernel does not offer it."""
    if not os.path.exists(RING):
        return ''
    with open(RING, encoding='ascii') as f:
        return f.read().strip()


@contextlib.contextmanager
def ring_set(value):
    before = ring()
    try:
        with open(RING, 'w', encoding='ascii') as f:
            f.write(value)
        yield
    finally:
        with open(RING, 'w', encoding='ascii') as f:
            f.write(before)


class OtherRing(sides.Ours):
    """rdma-fuse over io_uring if the other sides have none, and the reverse."""

    def up(self):
        with ring_set('N' if ring() == 'Y' else 'Y'):
            super().up()


def _made(path):
    with open(path, 'wb') as f:
        f.truncate(MIB << 20)
    return path


def _plan(args, work, shm):
    """Returns the sides, and the comparisons between them."""
    size = f'{MIB}M'
    tmpfs = _made(os.path.join(shm, 'disk.img'))
    ram = sides.Ours(work, 'ours-ram', args.build, f'ram:{size}')
    two = sides.Ours(work, 'ours-ram-2', args.build, f'ram:{size}')
    four = sides.Ours(work, 'ours-ram-4', args.build, f'ram:{size}')
    for side, n in ((two, 2), (four, 4)):
        side.options = ('--channels', str(n))
        side.label = f'rdma-fuse with {n} channels'
    never = sides.Ours(work, 'ours-ram-0', args.build, f'ram:{size}',
                       options=('--poll-us', '0'),
                       target_options=('--poll-us', '0'))
    never.label = 'rdma-fuse on rdma-target, --poll-us 0 at both'
    nbd = sides.Nbd(work, 'nbd-ram', 'memory', size)
    qemu = sides.QemuExport(work, 'qemu', tmpfs)
    file = sides.Ours(work, 'ours-file', args.build,
                      _made(os.path.join(work, 'a.img')))
    nbdf = sides.Nbd(work, 'nbd-file', 'file',
                     _made(os.path.join(work, 'b.img')))
    bare = sides.Bare(work, 'bare', tmpfs)
    everything = [ram, two, four, never, nbd, qemu, file, nbdf, bare]
    many = jobs.MAIN if args.quick else jobs.MAIN + jobs.MORE
    plan = [
        Comparison('host-ram', 'RAM volume, over TCP', '', ram, nbd, many,
                   bare),
        Comparison('host-qemu', 'RAM volume over TCP against a local export',
                   'B has no network in between; its backing is a file on '
                   'tmpfs.', ram, qemu, FEW, bare),
        Comparison('host-bare',
                   'RAM volume over TCP against the bare backing',
                   'B is fio on the file on tmpfs: the limit.', ram, bare,
                   FEW, bare),
        Comparison('host-2ch', 'Two channels against one', '', two, ram, DEEP,
                   bare),
        Comparison('host-4ch', 'Four channels against one', '', four, ram,
                   DEEP, bare),
        Comparison('host-crowd',
                   'RAM volume, over TCP, beside programs that never rest',
                   f'One or two of `{" ".join(jobs.NEVER_RESTS)}`, on '
                   f'{len(os.sched_getaffinity(0))} processors.', ram, nbd,
                   jobs.CROWDED, bare),
        Comparison('host-poll', 'Polling against never polling', '', ram,
                   never, jobs.MAIN[:1] + jobs.CROWDED, bare),
        Comparison('host-file', 'File volume, over TCP',
                   'The file is in the page cache of the host on both sides.',
                   file, nbdf, jobs.MAIN, bare),
    ]
    if ring() and os.access(RING, os.W_OK):
        everything.insert(1, _add_ring(args, work, ram, nbd, bare, plan))
    return everything, plan


def _add_ring(args, work, ram, nbd, bare, plan):
    other = OtherRing(work, 'other-ring', args.build, ram.backing)
    on, off = (ram, other) if ring() == 'Y' else (other, ram)
    other.label = ('rdma-fuse, requests over io_uring' if other is on else
                   'rdma-fuse, requests by read()')
    plan += [
        Comparison('host-ring', 'FUSE over io_uring against FUSE by read()',
                   'RAM volume over TCP, the same target program.', on, off,
                   jobs.MAIN, bare),
        Comparison('host-ram-ring', 'RAM volume over TCP, FUSE over io_uring',
                   f'With {RING} = Y.', on, nbd, jobs.MAIN, bare),
    ]
    return other


def run(args, work):
    shm = tempfile.mkdtemp(prefix='rdma-block.', dir='/dev/shm')
    try:
        everything, plan = _plan(args, work, shm)
        try:
            sides.up(everything, jobs.fill)
            comparisons = compare.results(args, plan)
        finally:
            sides.down(everything)
        return {'comparisons': comparisons, 'enable_uring': ring(),
                'limits': {'libsrpi': libsrpi_alone(args, work)}}
    finally:
        shutil.rmtree(shm)


def libsrpi_alone(args, work):
    """Without FUSE: the remaining cost is the protocol and TCP."""
    side = sides.Ours(work, 'alone', args.build, 'ram:64M')
    found = {}
    try:
        side.up_target()
        for name, options in (('4k random read d1', ['-d', '1']),
                              ('4k random read d32', ['-d', '32']),
                              ('1m sequential read d4',
                               ['-b', '1m', '-d', '4', '-q'])):
            found[name] = srpi_bench(args, side, *options)
    finally:
        sides.down([side])
    return found


def srpi_bench(args, side, *options):
    command = ['srpi-bench', '-s', str(args.seconds), *options]
    text = output(f'{args.build}/tests/bench/{command[0]}', *command[1:],
                  side.uri + '/disk')
    return dict(json.loads(text), command=' '.join(command))
