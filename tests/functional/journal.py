#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The journal of systemd, as far as a program sees it.

journal.py serve FILE: listens as the journal does. Each entry is a line of FILE, a JSON
object with its fields; a line that comes by a stream has the field STREAM alone.
journal.py run COMMAND...: runs COMMAND with a stream of the journal as its stderr.
"""
import json
import os
import selectors
import socket
import sys

JOURNAL = '/run/systemd/journal/'


def fields_of(datagram):
    """Systemd's "Native Journal Protocol"."""
    fields = {}
    while datagram:
        name, _, datagram = datagram.partition(b'\n')
        if b'=' in name:
            name, _, value = name.partition(b'=')
        else:
            size = int.from_bytes(datagram[:8], 'little')
            value = datagram[8:8 + size]
            assert datagram[8 + size:9 + size] == b'\n', 'a value is cut'
            datagram = datagram[9 + size:]
        fields[name.decode()] = value.decode()
    return fields


class Journal:
    def __init__(self, file):
        self.out = open(file, 'w')
        self.selector = selectors.DefaultSelector()
        self.watch(self.bound('stdout', socket.SOCK_STREAM), self.accept)
        self.watch(self.bound('socket', socket.SOCK_DGRAM), self.take)

    @staticmethod
    def bound(name, kind):
        s = socket.socket(socket.AF_UNIX, kind)
        s.bind(JOURNAL + name)
        # Targets may run as another user.
        os.chmod(JOURNAL + name, 0o666)
        if kind == socket.SOCK_STREAM:
            s.listen()
        return s

    def watch(self, s, handler):
        self.selector.register(s, selectors.EVENT_READ, handler)

    def accept(self, s):
        self.watch(s.accept()[0], self.read)

    def take(self, s):
        self.put(fields_of(s.recv(65536)))

    def read(self, s):
        text = s.recv(65536)
        if not text:
            self.selector.unregister(s)
        for line in text.decode().splitlines():
            self.put({'STREAM': line})

    def put(self, fields):
        print(json.dumps(fields, sort_keys=True), file=self.out, flush=True)

    def serve(self):
        while True:
            for key, _ in self.selector.select():
                key.data(key.fileobj)


def run(command):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(JOURNAL + 'stdout')
        # The least that there is, so that few lines fill it.
        s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        os.dup2(s.fileno(), 2)
    st = os.fstat(2)
    os.environ['JOURNAL_STREAM'] = f'{st.st_dev}:{st.st_ino}'
    os.execvp(command[0], command)


if sys.argv[1] == 'serve':
    Journal(sys.argv[2]).serve()
else:
    run(sys.argv[2:])
