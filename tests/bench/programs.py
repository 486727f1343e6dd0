# SPDX-License-Identifier: BSD-2-Clause
"""Programs that a benchmark starts: waits until they are ready, and ends
them."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time


class Failed(Exception):
    """The message is for a person."""


class Skipped(Exception):
    """The message is the reason."""


def say(text):
    print('bench: ' + text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def undisturbed():
    """A signal does not interrupt cleaning up."""
    before = [signal.signal(s, signal.SIG_IGN)
              for s in (signal.SIGINT, signal.SIGTERM)]
    try:
        yield
    finally:
        for s, handler in zip((signal.SIGINT, signal.SIGTERM), before):
            signal.signal(s, handler)


def wait_until(what, condition, seconds=60, process=None):
    deadline = time.monotonic() + seconds
    while not condition():
        if process is not None and process.poll() is not None:
            raise Failed(f'{what}: {process.args[0]} has ended with '
                         f'{process.returncode}; see {process.log}')
        if time.monotonic() > deadline:
            raise Failed(f'{what}: not within {seconds} s')
        time.sleep(0.02)


def start(log, *args):
    """Starts a program with its output in the file @log. Ctrl-C does not
    reach it: the caller ends it, in order."""
    with open(log, 'ab') as out:
        process = subprocess.Popen([str(a) for a in args], stdout=out,
                                   stderr=out, stdin=subprocess.DEVNULL,
                                   start_new_session=True)
    process.log = log
    return process


def stop(process, how=signal.SIGTERM):
    if process is None or process.poll() is not None:
        return
    process.send_signal(how)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def output(*args):
    """Returns the standard output of a program, which must succeed."""
    done = subprocess.run([str(a) for a in args], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        last = said.splitlines()[-1] if said else ''
        raise Failed(f'{args[0]} exited with {done.returncode}: {last}')
    return done.stdout


def attended(*args):
    """Runs a program that cleans up after itself when it is terminated.
    Terminates it when this process is. Returns its exit code."""
    process = subprocess.Popen([str(a) for a in args])
    try:
        return process.wait()
    finally:
        with undisturbed():
            stop(process)


def served(server, client, port):
    """Returns the output of @client, while @server, to which it connects, is
    running."""
    process = start(os.devnull, *server)
    try:
        wait_until(server[0], lambda: listens(port), process=process)
        return output(*client)
    finally:
        with undisturbed():
            stop(process, signal.SIGKILL)


def listens(port):
    """Does not connect: a server for one connection would take this for its
    client."""
    wanted = f':{port:04X} '
    for table in ('/proc/net/tcp', '/proc/net/tcp6'):
        with open(table, encoding='ascii') as f:
            for line in f:
                words = line.split()
                if (words[1] + ' ').endswith(wanted) and words[3] == '0A':
                    return True
    return False


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def first_line(*args):
    """Returns the version text of a program, or '' if there is none."""
    try:
        done = subprocess.run(args, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True,
                              check=False)
    except FileNotFoundError:
        return ''
    return done.stdout.strip().splitlines()[0] if done.stdout.strip() else ''


def unmount(path):
    if os.path.ismount(path):
        subprocess.run(['fusermount3', '-u', '-z', path], check=False)
