#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Compares a volume of rdma-target, over TCP on this machine, with the same store
through its own client, in turns: the figures of docs/evidence/stores.md. A round gives
one ratio for each job. The tables have the median of the rounds, the minimum
and the maximum. The second table has the processor time that all programs
together take for an operation: other programs on the machine disturb it less.

Usage: stores.py BUILD nbd|rbd [ROUNDS [SECONDS [RATE]]]

nbd: nbdkit's memory plugin at a UNIX socket; its client is fio's engine nbd.
rbd: the cluster of scripts/ceph; its client is `rbd bench` without a cache,
like rdma-target. The server, the target and the client all run on this machine.

RATE, like 10gbit: both clients are at the other end of a network link of that
rate, and rdma-target is beside the server. fio's engine nbd then uses TCP.
"""

import json
import os
import re
import resource
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field

from link import ADDRESS, Link, enter
from programs import (Failed, free_port, listens, output, start, stop,
                      undisturbed, wait_until)
from scale import Target, cpu_us

TOP = os.path.realpath(os.path.join(os.path.dirname(__file__), '..', '..'))
MIB = 256
# The names of a job in srpi-bench, fio and rbd.
JOBS = {
    '4 KiB random read, depth 32': ('4k', 32, False),
    '4 KiB random write, depth 32': ('4k', 32, True),
    '1 MiB sequential read, depth 4': ('1m', 4, False),
    '1 MiB sequential write, depth 4': ('1m', 4, True),
}


@dataclass
class Row:
    """Figures of a job for each round."""

    ours: list = field(default_factory=list)
    theirs: list = field(default_factory=list)

    def text(self, name):
        ratios = [a / b for a, b in zip(self.ours, self.theirs)]
        return (f'| {name} | {statistics.median(self.ours):,.1f} '
                f'| {statistics.median(self.theirs):,.1f} '
                f'| **{statistics.median(ratios):.2f}** '
                f'({min(ratios):.2f} to {max(ratios):.2f}) |')


def op_bytes(job):
    return 4096 if job[0] == '4k' else 1 << 20


def srpi_bench(target, job, seconds):
    """Returns MiB per second, and the number of operations."""
    block, depth, writes = job
    options = ['-b', block, '-d', depth, '-s', seconds]
    options += ['-w'] * writes + ['-q'] * (block == '1m')
    done = target.bench(options)
    return done['mib_per_s'], done['iops'] * seconds


def here(*command):
    return command


class FarTarget(Target):
    """Its clients are at the other end of @link."""

    address = ADDRESS
    link = None

    def command(self, *args):
        return self.link.there(*super().command(*args))


class Nbd:
    """nbdkit at a UNIX socket. With a link, its client has an nbdkit of its
    own, at a TCP port."""

    plugins = 'nbd'
    tool = "fio's engine nbd"

    def __init__(self, work, link):
        self.there = link.there if link else here
        self.log = os.path.join(work, 'log')
        self.servers = []
        socket = os.path.join(work, 'nbd')
        near = f'nbd+unix:///?socket={socket}'
        self.uri = near
        self.backing = f'nbd:{near}'
        self.serve('-U', socket)
        wait_until('nbdkit', lambda: os.path.exists(socket),
                   process=self.servers[0])
        self.fill(near)
        if link:
            self.serve_far()

    def serve(self, *options):
        self.servers.append(start(self.log, 'nbdkit', '-f', *options,
                                  'memory', f'{MIB}M'))

    def serve_far(self):
        port = free_port()
        self.uri = f'nbd://{ADDRESS}:{port}'
        self.serve('-p', port)
        wait_until('nbdkit', lambda: listens(port), process=self.servers[1])
        self.fill(self.uri)

    def pids(self):
        return [server.pid for server in self.servers]

    def fill(self, uri):
        output('fio', '--name=fill', '--ioengine=nbd', f'--uri={uri}',
               '--rw=write', '--bs=1m', '--iodepth=4', f'--size={MIB}M')

    def command(self, job, seconds):
        block, depth, writes = job
        how = ('rand' if block == '4k' else '') + \
            ('write' if writes else 'read')
        return ['fio', '--name=nbd', '--ioengine=nbd', f'--uri={self.uri}',
                f'--rw={how}', f'--bs={block}', f'--iodepth={depth}',
                f'--size={MIB}M', '--time_based', f'--runtime={seconds}',
                '--norandommap', '--randrepeat=0']

    def measure(self, job, seconds):
        text = output(*self.there(*self.command(job, seconds),
                                  '--output-format=json'))
        done = json.loads(text[text.index('{'):])['jobs'][0]
        done = done['write' if job[2] else 'read']
        return done['bw_bytes'] / 2**20, done['total_ios']

    def down(self):
        for server in self.servers:
            stop(server)


class Rbd:
    """A cluster of one monitor and one OSD, which keeps all data in memory."""

    plugins = 'rbd'
    tool = '`rbd bench`'
    backing = 'rbd:rbd/img'

    def __init__(self, work, link):
        self.there = link.there if link else here
        self.dir = os.path.join(work, 'ceph')
        os.environ['CEPH_CONF'] = os.path.join(self.dir, 'ceph.conf')
        output(f'{TOP}/scripts/ceph', 'up', self.dir,
               *(['--address', ADDRESS] if link else []))
        output('rbd', 'create', '-s', f'{MIB}M', 'img')
        # Reads of blocks that were never written would not reach the OSD.
        self.bench(JOBS['1 MiB sequential write, depth 4'], MIB << 20)
        self.rates = {job: self.bench(job, 256 * op_bytes(job))
                      for job in JOBS.values()}

    def pids(self):
        with open(os.path.join(self.dir, 'osd.pid'), encoding='ascii') as f:
            return [int(f.read())]

    def command(self, job, total):
        block, depth, writes = job
        return ['rbd', 'bench', '--rbd-cache=false', '--io-type',
                'write' if writes else 'read', '--io-size', block.upper(),
                '--io-threads', str(depth), '--io-total', f'{total}B',
                '--io-pattern', 'rand' if block == '4k' else 'seq', 'img']

    def bench(self, job, total):
        said = output(*self.there(*self.command(job, total)))
        found = re.search(r'elapsed: *([0-9.]+)[^\n]*ops/sec: *([0-9.e+]+)',
                          said)
        if not found:
            raise Failed(f'rbd bench: {said.strip().splitlines()[-1]}')
        return float(found[2]) * op_bytes(job) / 2**20

    def measure(self, job, seconds):
        """rbd bench takes a number of bytes: as many as fit the time."""
        ops = max(64, int(self.rates[job] * 2**20 * seconds) // op_bytes(job))
        self.rates[job] = self.bench(job, ops * op_bytes(job))
        return self.rates[job], ops

    def down(self):
        output(f'{TOP}/scripts/ceph', 'down', self.dir)


def load_average():
    return f'{os.getloadavg()[0]:.1f}'


def total_us(pids):
    """The processor time of @pids and of the clients that have ended."""
    clients = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (sum(cpu_us(pid) for pid in pids) +
            (clients.ru_utime + clients.ru_stime) * 1e6)


def timed(pids, measure):
    """Returns MiB per second, and the processor time for an operation."""
    before = total_us(pids)
    rate, ops = measure()
    return rate, (total_us(pids) - before) / ops


def compare(store, target, rounds, seconds):
    """Returns the rows for speed and for processor time."""
    rows = {name: (Row(), Row()) for name in JOBS}
    for i in range(rounds):
        for name, job in JOBS.items():
            for ours in (True, False) if i % 2 else (False, True):
                if ours:
                    found = timed((*store.pids(), target.process.pid),
                                  lambda: srpi_bench(target, job, seconds))
                else:
                    found = timed(store.pids(),
                                  lambda: store.measure(job, seconds))
                for row, value in zip(rows[name], found):
                    (row.ours if ours else row.theirs).append(value)
    return rows


def show(store, rows, load, link):
    print(f'{time.strftime("%Y-%m-%d %H:%M")}, load {load} before and '
          f'{load_average()} after, {os.cpu_count()} processors')
    print(f'rdma-target --backing {store.backing}' +
          (f', clients behind a link of {link.rate}' if link else ''))
    for i, unit in enumerate(('MiB/s', 'us for each')):
        print(f'| job | srpi-bench, {unit} | {store.tool}, {unit} | ratio '
              '(least to most) |\n|---|---|---|---|')
        for name, both in rows.items():
            print(both[i].text(name))


def measure(build, kind, work, link, rounds, seconds):
    load = load_average()
    store = None
    try:
        os.environ['RDMA_BLOCK_PLUGIN_PATH'] = f'{build}/plugins/{kind.plugins}'
        store = kind(work, link)
        target = (FarTarget if link else Target)(
            build, work, [store.backing + ',name=disk'])
        show(store, compare(store, target, rounds, seconds), load, link)
    finally:
        with undisturbed():
            for process in Target.running:
                stop(process)
            if store:
                store.down()


def main():
    what = {'nbd': Nbd, 'rbd': Rbd}
    if len(sys.argv) not in (3, 4, 5, 6) or sys.argv[2] not in what:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    build = os.path.realpath(sys.argv[1])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    seconds = int(sys.argv[4]) if len(sys.argv) > 4 else 2
    link = None
    if len(sys.argv) > 5:
        enter()
    work = tempfile.mkdtemp(prefix='stores-')
    try:
        if len(sys.argv) > 5:
            link = FarTarget.link = Link(sys.argv[5])
        measure(build, what[sys.argv[2]], work, link, rounds, seconds)
    except Failed as e:
        print(f'stores.py: {e}', file=sys.stderr)
        return 1
    finally:
        with undisturbed():
            if link:
                link.down()
            shutil.rmtree(work, ignore_errors=True)
    return 0


if __name__ == '__main__':
    sys.exit(main())
