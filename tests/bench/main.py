# SPDX-License-Identifier: BSD-2-Clause
"""scripts/bench."""

import argparse
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import counts
import guest
import host
import page
from programs import Failed, Skipped, first_line, output, say, undisturbed

TOP = os.path.realpath(os.path.join(os.path.dirname(__file__), '..', '..'))
PACKAGES = ['fio', 'nbdkit', 'libnbd-bin', 'qemu-system-common',
            'strace', 'valgrind', 'perftest', 'kmod']
# Without them, the guest measures without tgt.
MORE_PACKAGES = ['tgt', 'open-iscsi']


def usual(args):
    return [('rounds', 3), ('seconds', 1)] if args.quick else \
        [('rounds', 5), ('seconds', 2)]


def arguments():
    p = argparse.ArgumentParser(
        prog='scripts/bench', description='Measure rdma-target and rdma-fuse '
        'beside other systems, in turns. Write performance.md, bench.json and '
        'plots/*.svg in docs/evidence. Without --host, --vm and '
        '--counts, measure all three; a part that is not measured keeps its '
        'last figures. This takes about 45 minutes of a machine that does '
        'nothing else, and 20 with --quick.',
        epilog='An interrupt restores mounts, programs and settings; only '
        'finished parts are written.')
    p.add_argument('--host', action='store_true',
                   help='over TCP, on this machine (20 minutes; quick: 6)')
    p.add_argument('--vm', action='store_true',
                   help='over soft-RoCE, in the virtual machine of scripts/vm '
                   '(25 minutes; quick: 12)')
    p.add_argument('--counts', action='store_true',
                   help='system calls, instructions, memory (2 minutes)')
    p.add_argument('--check', action='store_true',
                   help='with --counts: only compare the instructions with '
                   'tests/bench/instructions.json; fail if there are 2 %% '
                   'more (10 seconds)')
    p.add_argument('--draw', action='store_true',
                   help='measure nothing: make page and plots again')
    p.add_argument('--update', action='store_true',
                   help='with --check: write that file')
    p.add_argument('--quick', action='store_true',
                   help='fewer jobs, fewer and shorter rounds')
    p.add_argument('--rounds', type=int, help='rounds of each job (5; quick: 3)')
    p.add_argument('--seconds', type=int,
                   help='seconds that a side runs in a round (2; quick: 1)')
    p.add_argument('--only', metavar='NAME', action='append', default=[],
                   help='only this comparison; may be repeated')
    p.add_argument('--build', default=os.path.join(TOP, 'build'),
                   help='build directory (build)')
    p.add_argument('--out', default=os.path.join(TOP, 'docs', 'evidence'),
                   help='where to write (docs/evidence)')
    p.add_argument('--no-install', action='store_true',
                   help='install nothing, build nothing')
    p.add_argument('--in-guest', choices=['times', 'instructions'],
                   help=argparse.SUPPRESS)
    p.add_argument('--only-round', type=int, help=argparse.SUPPRESS)
    args = p.parse_args()
    for name, number in usual(args):
        setattr(args, name, getattr(args, name) or number)
    if args.check and (args.host or args.vm or not args.counts):
        p.error('--check is for --counts alone')
    if not (args.host or args.vm or args.counts or args.draw):
        args.host = args.vm = args.counts = True
    args.build = os.path.realpath(args.build)
    return args


def install(packages):
    missing = [p for p in packages if subprocess.run(
        ['dpkg', '-s', p], stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, check=False).returncode]
    if missing:
        output('apt-get', 'install', '-y', '--no-install-recommends',
               *missing)


def prepare(args):
    if args.no_install:
        return
    say('packages and build')
    output(os.path.join(TOP, 'scripts', 'install-deps'), 'test')
    install(PACKAGES)
    try:
        install(MORE_PACKAGES)
    except Failed as e:
        say(f'without {" and ".join(MORE_PACKAGES)}: {e}')
    if not os.path.exists(os.path.join(args.build, 'build.ninja')):
        output('meson', 'setup', args.build, TOP)
    output('ninja', '-C', args.build)


def command(args):
    """Returns the command that makes these figures on another machine, without
    local paths."""
    words = ['scripts/bench']
    words += [f'--{w}' for w in ('host', 'vm', 'counts', 'quick')
              if getattr(args, w)]
    words += [f'--{name} {getattr(args, name)}' for name, number in usual(args)
              if getattr(args, name) != number]
    words += [f'--only {name}' for name in args.only]
    return ' '.join(words)


def versions(args):
    fio = first_line('fio', '--version')
    return {
        'rdma-block': first_line('git', '-C', TOP, 'rev-parse', '--short',
                                 'HEAD'),
        'kernel': platform.release(),
        'processors': os.cpu_count(),
        'cpu': next((line.split(':')[1].strip()
                     for line in open('/proc/cpuinfo', encoding='utf-8')
                     if line.startswith('model name')), ''),
        'fio': fio,
        'nbdkit': first_line('nbdkit', '--version'),
        'qemu-storage-daemon': first_line('qemu-storage-daemon', '--version'),
        'nbdfuse': first_line('nbdfuse', '--version'),
        'qemu': first_line('qemu-system-x86_64', '--version'),
        'valgrind': first_line('valgrind', '--version'),
        'perftest': first_line('dpkg-query', '-W', 'perftest'),
        'tgt': f'tgt {tgt}' if (tgt := first_line('tgtd', '-V')) else '',
        'date': time.strftime('%Y-%m-%d'),
        'load_before': os.getloadavg()[0],
        'command': command(args),
    }


def measure(args, work):
    """Writes each half when it is complete."""
    v = versions(args)
    for name, wanted, run in (
            ('host', args.host, lambda: host.run(args, work)),
            ('vm', args.vm, lambda: guest.run(args)),
            ('counts', args.counts, lambda: counts.run(args, work))):
        if wanted:
            found = dict(run(), versions=v)
            say(f'written: {page.write(args.out, {name: found})}')


def show_logs(work):
    for log in sorted(os.listdir(work)):
        if not log.endswith('.log'):
            continue
        with open(os.path.join(work, log), encoding='utf-8',
                  errors='replace') as f:
            for line in f.read().splitlines()[-5:]:
                say(f'{log}: {line}')


def interrupt(*_):
    raise KeyboardInterrupt


def main():
    args = arguments()
    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGHUP, interrupt)
    work = tempfile.mkdtemp(prefix='rdma-block.')
    try:
        if args.in_guest:
            guest.inside(args, work)
        elif args.draw:
            say(f'written: {page.write(args.out, {})}')
        elif args.check:
            counts.check(args, work)
        else:
            prepare(args)
            measure(args, work)
        return 0
    except Skipped as e:
        say(f'skipped: {e}')
        return 77
    except Failed as e:
        say(str(e))
        show_logs(work)
        return 1
    except KeyboardInterrupt:
        say('interrupted; what was not finished is not written')
        return 130
    finally:
        with undisturbed():
            shutil.rmtree(work, ignore_errors=True)


if __name__ == '__main__':
    sys.exit(main())
