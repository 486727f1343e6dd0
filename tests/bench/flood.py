#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Measures whether a flood of discovery datagrams slows the I/O of a mount: random reads of
4 KiB of a RAM volume through rdma-fuse over TCP, at depth 8. In turns, nobody sends
("quiet"); a process sends as fast as it can to a socket that nobody reads, as the sender
itself takes processor time ("unread"); it sends the same to the target. The datagrams are queries from
30 hosts, forged announcements and byes, garbage, and messages that are cut off.

Usage: flood.py BUILD [ROUNDS [SECONDS]]

Prints the median of the rounds, the minimum and the maximum; the ratios are those of one
round.
"""

import itertools
import json
import os
import pathlib
import socket
import statistics
import struct
import sys
import tempfile
import time

from programs import Failed, output, stop, undisturbed, unmount
from scale import Target

HEAD = b'SRPd\x01'
QUERY, ANNOUNCE, BYE = 1, 2, 3
HOSTS = 30
SIDES = ('quiet', 'unread', 'target')


def datagrams():
    """Endless, hostile ones."""
    uri = b'srp+tcp://127.0.0.1:9'
    query = HEAD + bytes([QUERY]) + bytes(2 + 8 + 16 + 1)
    forged = [HEAD + bytes([kind, 0, 1]) + bytes(8) + struct.pack('>QQ', 1, 1) +
              b'\x06forged' + struct.pack('>H', len(uri)) + uri
              for kind in (ANNOUNCE, BYE)]
    return itertools.cycle([query.ljust(334, b'\0'), query, forged[0], query[:20],
                            forged[1], os.urandom(64), os.urandom(1400), b''])


def flood(port):
    """Starts a sender. Returns its process number."""
    pid = os.fork()
    if pid:
        return pid
    hosts = []
    for n in range(1, HOSTS + 1):
        host = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        host.bind((f'127.0.1.{n}', 0))
        host.setblocking(False)
        hosts.append(host)
    for host, data in zip(itertools.cycle(hosts), datagrams()):
        try:
            host.sendto(data, ('127.0.0.1', port))
        except OSError:
            pass
    os._exit(1)


def fio(path, seconds):
    found = json.loads(output(
        'fio', '--name=j', f'--filename={path}', '--rw=randread', '--bs=4k',
        '--iodepth=8', '--ioengine=libaio', '--direct=1', '--time_based',
        f'--runtime={seconds}', '--output-format=json'))
    return found['jobs'][0]['read']['iops']


def spent(pid):
    """The seconds of processor time of the target's thread for discovery."""
    for task in pathlib.Path(f'/proc/{pid}/task').iterdir():
        name, _, rest = (task / 'stat').read_text().rpartition(')')
        if name.endswith('(discovery'):
            user, system = rest.split()[11:13]
            return (int(user) + int(system)) / os.sysconf('SC_CLK_TCK')
    raise Failed('rdma-target has no thread for discovery')


def measure(path, port, seconds):
    """Returns the reads a second. @port: to flood; None: no flood."""
    pid = flood(port) if port else None
    try:
        return fio(path, seconds)
    finally:
        if pid:
            os.kill(pid, 9)
            os.waitpid(pid, 0)


def text(values, form):
    middle, low, high = (format(f(values), form)
                         for f in (statistics.median, min, max))
    return f'{middle} ({low} to {high})'


def run(target, path, rounds, seconds):
    unread = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    unread.bind(('127.0.0.1', 0))
    ports = {'quiet': None, 'unread': unread.getsockname()[1],
             'target': int(target.uri.rpartition(':')[2])}
    found = {side: [] for side in SIDES}
    loads = []
    for _ in range(rounds):
        for side in SIDES:
            before, began = spent(target.process.pid), time.monotonic()
            found[side].append(measure(path, ports[side], seconds))
            if side == 'target':
                loads.append((spent(target.process.pid) - before) /
                             (time.monotonic() - began))
    return found, loads


def report(found, loads):
    for side in SIDES:
        print(f'{side}: {text(found[side], ",.0f")} reads a second')
    for other in ('unread', 'quiet'):
        ratios = [a / b for a, b in zip(found['target'], found[other])]
        print(f'target beside {other}: {text(ratios, ".2f")}')
    print(f'processor time of the thread for discovery: {text(loads, ".1%")}')


def main():
    build = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    seconds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    with tempfile.TemporaryDirectory() as work:
        mount = os.path.join(work, 'mnt')
        os.mkdir(mount)
        target = Target(build, work, ['ram:256M,name=disk'])
        try:
            output(f'{build}/fuse/rdma-fuse', '-q', target.uri, mount)
            report(*run(target, f'{mount}/disk', rounds, seconds))
        finally:
            with undisturbed():
                unmount(mount)
                stop(target.process)


if __name__ == '__main__':
    try:
        main()
    except Failed as e:
        sys.exit(f'flood.py: {e}')
