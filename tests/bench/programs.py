# SPDX-License-Identifier: BSD-2-Clause
"""Programs that a benchmark starts: wait until they are ready, end them."""

import os
import signal
import subprocess
import time


class Failed(Exception):
    """A line for a person."""


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
    """Starts a program whose output goes to the file @log."""
    with open(log, 'ab') as out:
        process = subprocess.Popen([str(a) for a in args], stdout=out,
                                   stderr=out, stdin=subprocess.DEVNULL)
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
    """The standard output of a program that must succeed."""
    done = subprocess.run([str(a) for a in args], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        last = said.splitlines()[-1] if said else ''
        raise Failed(f'{args[0]} exited with {done.returncode}: {last}')
    return done.stdout


def first_line(*args):
    """What a program says of itself, or '' when it is not there."""
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
