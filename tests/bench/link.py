# SPDX-License-Identifier: BSD-2-Clause
"""
A network link with a limited rate, so that clients are as far from the servers
as on another machine. This program moves to a network namespace of its own, and
its clients run in a second one.
"""

import os
import sys

from programs import output, start, stop, wait_until

ADDRESS = '10.99.0.1'
CLIENT_ADDRESS = '10.99.0.2'
DEVICE = 'wire'
INSIDE = 'BENCH_LINK_INSIDE'


def enter():
    """Starts this program again, in a network namespace of its own. Call it
    before anything else is started."""
    if INSIDE not in os.environ:
        os.environ[INSIDE] = '1'
        os.execvp('unshare', ['unshare', '-n', sys.executable, *sys.argv])


def _network(pid):
    return os.readlink(f'/proc/{pid}/ns/net')


class Link:
    """After enter(). @rate is that of tc(8), in each direction."""

    def __init__(self, rate):
        self.rate = rate
        self.holder = start(os.devnull, 'unshare', '-n', 'sleep', 'infinity')
        wait_until('a network namespace', lambda: _network(
            self.holder.pid) != _network('self'), process=self.holder)
        output('ip', 'link', 'add', DEVICE, 'type', 'veth', 'peer', 'name',
               DEVICE, 'netns', self.holder.pid)
        self._up([], ADDRESS)
        self._up(self.there(), CLIENT_ADDRESS)

    def _up(self, prefix, address):
        output(*prefix, 'ip', 'link', 'set', 'lo', 'up')
        output(*prefix, 'ip', 'address', 'add', address + '/24', 'dev', DEVICE)
        output(*prefix, 'ip', 'link', 'set', DEVICE, 'up')
        output(*prefix, 'tc', 'qdisc', 'add', 'dev', DEVICE, 'root', 'tbf',
               'rate', self.rate, 'burst', '4mb', 'latency', '20ms')

    def there(self, *command):
        """The command that runs @command at the end of the clients."""
        return ['nsenter', '-t', str(self.holder.pid), '-n', *command]

    def down(self):
        stop(self.holder)
