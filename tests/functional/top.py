# SPDX-License-Identifier: BSD-2-Clause
"""
rdma-ctl top on a terminal: `top.py TARGET END COMMAND...` runs COMMAND on a
pseudo-terminal, types keys, waits for their effect, and ends it. TARGET is the
process of its target. END is "key" or the name of a signal. The terminal must have
its old state then.
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios

LEAVE = b'\x1b[?1049l'  # of the alternate screen, in xterm
SHOW_CURSOR = b'\x1b[?25h'


class Terminal:
    def __init__(self, command):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ['TERM'] = 'xterm'
            os.execvp(command[0], command)
        self.seen = b''
        self.resize(24, 120)

    def resize(self, lines, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ,
                    struct.pack('HHHH', lines, columns, 0, 0))

    def read(self, what):
        try:
            self.seen += os.read(self.fd, 65536)
        except OSError:
            sys.exit(f'it ended before {what}: {self.seen!r}')

    def wait_for(self, pattern, what):
        """The output since the last one."""
        while not re.search(pattern, self.seen):
            if not select.select([self.fd], [], [], 60)[0]:
                sys.exit(f'no {what}: {self.seen!r}')
            self.read(what)
        self.seen = b''

    def is_drawn(self):
        if not select.select([self.fd], [], [], 1)[0]:
            return False
        self.read('the target went on')
        return True

    def type(self, keys, pattern, what):
        os.write(self.fd, keys)
        self.wait_for(pattern, what)

    def end(self, how):
        mode = termios.tcgetattr(self.fd)
        if how == 'key':
            os.write(self.fd, b'q')
        elif how != 'gone':
            os.kill(self.pid, getattr(signal, how))
        while True:
            try:
                more = os.read(self.fd, 65536)
            except OSError:
                break
            if not more:
                break
            self.seen += more
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]), mode


def main():
    target = int(sys.argv[1])
    t = Terminal(sys.argv[3:])
    t.wait_for(rb'VOLUME', 'head of volumes')
    t.type(b'?', rb'limits \(layer qos\) count here', 'help')
    t.type(b'?', rb'total', 'total of the volumes')
    t.type(b's', rb'INITIATOR', 'head of initiators')
    t.type(b'v', rb'VOLUME', 'head of volumes again')
    t.type(b'p', rb'max', 'longest times')
    t.type(b'>', rb'READ/s', 'other column')
    t.type(b'r', rb'reversed', 'other order')
    t.type(b'/', rb'filter', 'question for the filter')
    os.write(t.fd, b'nothing\n')
    t.wait_for(rb'nothing', 'filter')
    # It waits for a target that does not answer, and gets another size.
    os.kill(target, signal.SIGSTOP)
    columns = 100
    t.resize(24, columns)
    while t.is_drawn():
        columns ^= 1
        t.resize(24, columns)
    t.wait_for(rb'no answer for [0-9]+ s', 'word that it does not answer')
    os.kill(target, signal.SIGCONT)
    t.wait_for(rb'requests in flight', 'screen after a wait for the target')
    # The stages fit a terminal of the usual width.
    t.resize(24, 80)
    t.wait_for(rb'VOLUME[^\r\n]* queue +fetch +backend +respond', 'all stages')
    # What has no room is counted, and comes by scrolling.
    t.type(b'/', rb'filter', 'question for the filter')
    os.write(t.fd, b'\x1b')
    t.resize(7, 80)
    t.wait_for(rb'1 more', 'number of volumes without room')
    # In reverse order, a comes after b. It is in the fifth line.
    t.type(b'\x1bOB', rb'\[5da', 'next volume')
    t.resize(10, 60)
    t.wait_for(rb'VOLUME|rdma-target', 'screen of another size')
    code, during = t.end(sys.argv[2])
    if code != 0:
        sys.exit(f'it ended with {code}: {t.seen!r}')
    if LEAVE not in t.seen or SHOW_CURSOR not in t.seen:
        sys.exit(f'the screen was left as it was: {t.seen!r}')
    if during[3] & termios.ICANON:
        sys.exit('it never took the keys one by one')


main()
