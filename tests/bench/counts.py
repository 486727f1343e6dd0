# SPDX-License-Identifier: BSD-2-Clause
"""Figures without noise: the cost of N operations and of 2 N operations is
measured. The difference divided by N is the cost of one operation, without
start and end.
"""

import glob
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time

import host
import jobs as fio
import sides
from jobs import Job
from programs import (Failed, Skipped, first_line, output, say, stop,
                      undisturbed, wait_until)

TRACED = [Job('randread', '4k', 1), Job('randread', '4k', 32),
          Job('randwrite', '4k', 1), Job('randwrite', '4k', 32),
          Job('read', '128k', 1), Job('read', '128k', 32),
          Job('write', '128k', 1), Job('write', '128k', 32)]
# These without FUSE, and with FUSE over io_uring, too.
TRACED_APART = [Job('randread', '4k', 32), Job('randwrite', '4k', 32)]


# ---- system calls ----


def _traced(pid, work, run):
    """Returns names and numbers of the system calls of @pid during run()."""
    out = os.path.join(work, 'strace')
    if os.path.exists(out):
        os.unlink(out)
    tracer = subprocess.Popen(['strace', '-f', '-c', '-U', 'calls,name', '-o',
                               out, '-p', str(pid)],
                              stderr=subprocess.PIPE, text=True)
    try:
        said = tracer.stderr.readline()
        if 'attached' not in said:
            raise Failed(f'strace: {said.strip()}')
        run()
    finally:
        with undisturbed():
            stop(tracer, signal.SIGINT)
            tracer.stderr.close()
    return _summary(out)


def _summary(out):
    """Reads what strace -c wrote."""
    calls = {}
    with open(out, encoding='ascii') as f:
        for line in f:
            words = line.split()
            if len(words) == 2 and words[0].isdigit() and words[1] != 'total':
                calls[words[1]] = int(words[0])
    return calls


def system_calls(side, job, work, n=4000):
    """For a side of ours: system calls per operation, of target and client."""
    per = {}
    for who, pid in (('target', side.target.pid), ('client', side.client.pid)):
        seen = []
        for ios in (n, 2 * n):
            args = fio.command_of(job, [(side.path, side.size, ios)])
            seen.append(_traced(pid, work, lambda a=args: output(*a)))
        names = set(seen[0]) | set(seen[1])
        per[who] = {name: (seen[1].get(name, 0) - seen[0].get(name, 0)) / n
                    for name in names}
    return _row(job.name, per)


def _row(name, per):
    """A row of report.calls_table(), from calls per operation by name."""
    row = {'job': name}
    for who, calls in per.items():
        row[who] = {'all': sum(calls.values()),
                    'by_name': {k: round(v, 3) for k, v in
                                sorted(calls.items(), key=lambda x: -x[1])
                                if abs(v) >= 0.005}}
    row['both'] = row['target']['all'] + row['client']['all']
    return row


def _calls_of_libsrpi(side, build, job, work):
    """Without FUSE: all calls of one second, as the start is few of them."""
    out = os.path.join(work, 'strace-client')
    said = []
    target = _traced(side.target.pid, work, lambda: said.append(output(
        'strace', '-f', '-c', '-U', 'calls,name', '-o', out,
        f'{build}/tests/bench/srpi-bench', '-s', 1, '-d', job.depth, '-b',
        job.block, *(['-w'] if 'write' in job.rw else []),
        side.uri + '/disk')))
    n = json.loads(said[0])['iops']
    return _row(f'{job.name}, libsrpi',
                {'target': {k: v / n for k, v in target.items()},
                 'client': {k: v / n for k, v in _summary(out).items()}})


def _calls_over_ring(build, work):
    """With FUSE over io_uring, if this kernel lets us choose it."""
    if host.ring() != 'N' or not os.access(host.RING, os.W_OK):
        return []
    side = host.OtherRing(work, 'counted-ring', build, 'ram:256M')
    rows = []
    try:
        side.up()
        fio.fill(side.path, side.size)
        for job in TRACED_APART:
            row = system_calls(side, job, work)
            rows.append(dict(row, job=f'{job.name}, FUSE over io_uring'))
    finally:
        sides.down([side])
    return rows


# ---- counters of the target ----


def _workers(pid):
    """Counts the main thread and the threads that are named workers."""
    names = []
    for path in glob.glob(f'/proc/{pid}/task/*/comm'):
        with open(path, encoding='ascii') as f:
            names.append(f.read())
    return 1 + sum(name.startswith('worker-') for name in names)


def _counted(side):
    """Returns the target's own counters by name, the sum of all workers, for
    one transport."""
    def lines():
        with open(side.log, encoding='utf-8') as f:
            return [line.split(': ', 2)[2] for line in f
                    if re.match(r'rdma-target: worker \d', line)]
    before = len(lines())
    new = 2 * _workers(side.target.pid)
    side.target.send_signal(signal.SIGUSR2)
    wait_until('counters', lambda: len(lines()) >= before + new,
               process=side.target)
    found = {}
    for line in lines()[-new:]:
        for value, name in re.findall(r'(\d+) ([A-Za-z][A-Za-z -]*)', line):
            found[name] = found.get(name, 0) + int(value)
    if side.allocations:
        with open(side.allocations, 'rb') as f:
            found['allocations'] = int.from_bytes(f.read(8), sys.byteorder)
    return found


def own(side, job, n=4000):
    """Returns the target's counters per command, and its allocations if they
    are counted."""
    run = fio.command_of(job, [(side.path, side.size, n)])
    output(*run)
    before = _counted(side)
    output(*run)
    after = _counted(side)
    diff = {name: after[name] - before.get(name, 0) for name in after}
    commands = diff.pop('commands')
    return {'job': job.name, 'commands': commands,
            'each': {name: round(v / commands, 3) for name, v in diff.items()}}


# ---- instructions ----


def _instructions(build, work, program, function, n=2048):
    """User instructions that @function of @program spends on one 4 KiB READ of
    a RAM volume, by file: callgrind, with the transport in process. @n is a
    multiple of the programs' depth, as they read so many at a time."""
    totals = []
    for ios in (n, 2 * n):
        out = os.path.join(work, 'callgrind.out')
        output('valgrind', '--tool=callgrind', f'--callgrind-out-file={out}',
               f'--toggle-collect={function}',
               f'{build}/tests/bench/{program}', ios)
        text = output('callgrind_annotate', '--threshold=100',
                      '--show-percs=no', '--auto=no', out)
        totals.append(_by_file(text))
    files = set(totals[0]) | set(totals[1])
    return {f: (totals[1].get(f, 0) - totals[0].get(f, 0)) / n for f in files}


def _by_file(text):
    """Returns the cost of functions by source file, from callgrind_annotate's
    list. Code that is inlined from a header counts for the file with the
    caller."""
    rows = []
    for line in text.splitlines():
        # A path may contain a space.
        found = re.match(r'\s*([\d,]+)\s+(?:\([^)]*\)\s+)?(\S.*?):(\S+)', line)
        if found:
            # The path before it depends on which build compiled the file:
            # ccache shares files.
            name = re.sub(r'^(.*/)?\.\./', '', found[2])
            rows.append((int(found[1].replace(',', '')), name, found[3]))
    home = {function: name for _, name, function in rows
            if name.endswith('.c')}
    cost = {}
    for number, name, function in rows:
        key = name if name != '???' else f'libc:{function}'
        if name.endswith('.h'):
            key = home.get(function, key)
        cost[key] = cost.get(key, 0) + number
    return cost


def target_instructions(build, work):
    return _instructions(build, work, 'engine-bench', 'target_turn')


def client_instructions(build, work):
    return _instructions(build, work, 'client-bench', 'client_turn')


TESTS = re.compile(r'(^|/)tests/')
OURS = re.compile(
    r'(^|/)(base|config|initiator|protocol|target|transport)/[^:]+\.[ch]$')


def our_share(per_file):
    return sum(v for f, v in per_file.items()
               if OURS.search(f) and not TESTS.search(f))


# ---- check for a regression ----

FIGURE = os.path.join(os.path.dirname(__file__), 'instructions.json')
# A higher ratio than this is a regression.
LIMIT = 1.02
# Another compiler or other options make other instructions.
OPTIONS = ['buildtype', 'optimization', 'b_lto', 'b_ndebug', 'b_pgo',
           'b_coverage', 'b_sanitize', 'c_args', 'fault_injection', 'fuzz']


def _made_by(build):
    options = json.loads(output('meson', 'introspect', '--buildoptions',
                                build))
    with open(f'{build}/compile_commands.json', encoding='utf-8') as f:
        words = json.load(f)[0]['command'].split()
    compiler = next(w for w in words if w != 'ccache')
    return dict({o['name']: o['value'] for o in options
                 if o['name'] in OPTIONS},
                compiler=first_line(compiler, '--version'),
                machine=platform.machine())


def check(args, work):
    """Compares with the figures in FIGURE. Raises Failed if one is higher,
    Skipped if the build cannot be compared. With args.update: writes them."""
    if not shutil.which('valgrind'):
        raise Skipped('needs valgrind (apt-get install valgrind)')
    made_by = _made_by(args.build)
    with open(FIGURE, encoding='utf-8') as f:
        before = json.load(f)
    if made_by != before['made_by'] and not args.update:
        raise Skipped('the figures are of another compiler, machine or build: '
                      f'{before["made_by"]}')
    figures = {'target_read_4k': target_instructions,
               'client_read_4k': client_instructions}
    now = {name: round(our_share(count(args.build, work)))
           for name, count in figures.items()}
    for name, number in now.items():
        say(f'{name}: {number} instructions; the figure is '
            f'{before.get(name, "not known")}')
    if args.update:
        with open(FIGURE, 'w', encoding='utf-8') as f:
            json.dump(dict(now, made_by=made_by), f, indent=2)
            f.write('\n')
    elif any(now[name] > before[name] * LIMIT for name in now):
        raise Failed(f'more than {LIMIT:.0%} of the figure. If that cannot be '
                     'avoided, say why in the commit and take the new figure: '
                     'scripts/bench --counts --check --update')


# ---- logins and idling ----


def _status(pid, key):
    with open(f'/proc/{pid}/status', encoding='ascii') as f:
        for line in f:
            if line.startswith(key):
                return int(line.split()[1])
    return 0


def _wakeups(pid):
    total = 0
    for thread in os.listdir(f'/proc/{pid}/task'):
        with open(f'/proc/{pid}/task/{thread}/status', encoding='ascii') as f:
            total += sum(int(line.split()[1]) for line in f
                         if 'ctxt_switches' in line)
    return total


def _cpu_s(pid):
    with open(f'/proc/{pid}/stat', encoding='ascii') as f:
        words = f.read().rsplit(')', 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf('SC_CLK_TCK')


def logins(side, build, counts, seconds=10):
    """Returns the resident memory of the target by number of idle logins,
    and its activity while they are idle. The first login makes the pools
    that all share."""
    rows = []
    for n in counts:
        holder = subprocess.Popen(
            [f'{build}/tests/bench/logins', str(n), side.uri],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if holder.stdout.readline().strip() != 'ready':
            raise Failed(f'{n} logins: not all succeeded')
        time.sleep(1)
        rss = _status(side.target.pid, 'VmRSS')
        woken, busy = _wakeups(side.target.pid), _cpu_s(side.target.pid)
        time.sleep(seconds)
        rows.append({
            'logins': n, 'rss_kib': rss,
            'kib_per_login': ((rss - rows[0]['rss_kib']) /
                              (n - rows[0]['logins'])) if rows else None,
            'wakeups_per_s': (_wakeups(side.target.pid) - woken) / seconds,
            'cpu_percent': 100 * (_cpu_s(side.target.pid) - busy) / seconds})
        holder.stdin.close()
        holder.wait()
        wait_until('logout', lambda: _sockets(side.target.pid) < 10)
    return rows


def _sockets(pid):
    count = 0
    for fd in os.listdir(f'/proc/{pid}/fd'):
        try:
            count += os.readlink(f'/proc/{pid}/fd/{fd}').startswith('socket')
        except OSError:
            pass
    return count


# ---- all counts ----


def run(args, work):
    side = sides.Ours(work, 'counted', args.build, 'ram:256M')
    found = {'calls': [], 'own': []}
    side.count_allocations()
    try:
        side.up()
        fio.fill(side.path, side.size)
        for job in TRACED:
            n = 4000 if job.block == '4k' else 500
            found['calls'].append(system_calls(side, job, work, n))
            say(f'{job.name}: {found["calls"][-1]["both"]:.2f} system calls')
            found['own'].append(own(side, job, n))
        for job in TRACED_APART:
            found['calls'].append(
                _calls_of_libsrpi(side, args.build, job, work))
    finally:
        sides.down([side])
    found['calls'] += _calls_over_ring(args.build, work)
    per_file = target_instructions(args.build, work)
    top = os.path.realpath(os.path.join(os.path.dirname(__file__), '..', '..'))
    found['instructions'] = {
        'target': our_share(per_file),
        'client': our_share(client_instructions(args.build, work)),
        'by_file': {os.path.relpath(k, top) if k.startswith('/') else k:
                    round(v, 1) for k, v in per_file.items() if v >= 1}}
    for who in ('target', 'client'):
        say(f'{found["instructions"][who]:.0f} instructions in the {who}')
    try:
        side.up_target()
        found['logins'] = logins(side, args.build,
                                 (1, 100) if args.quick else (1, 100, 1000))
    finally:
        sides.down([side])
    return found
