# SPDX-License-Identifier: BSD-2-Clause
"""
The guest's half, over soft-RoCE. For times, scripts/vm starts scripts/bench in
a new guest for each round. For instructions, it uses one guest whose clock
counts them (qemu's -icount: one instruction is one nanosecond). There, neither
the emulation nor other load on the machine has any effect.
"""

import json
import math
import os
import platform
import shutil
import statistics
import sys
import tempfile

import compare
import counts
import host
import iscsi
import jobs
import sides
from compare import Comparison
from jobs import Job
from programs import Failed, attended, free_port, output, say, served

HERE = os.path.dirname(os.path.realpath(__file__))
ADDRESS = '10.0.0.1'
PERFTEST_PORT = 18515

# (job, number of operations)
COUNTED = [(Job('randread', '4k', 1), 1000), (Job('randwrite', '4k', 1), 1000),
           (Job('randread', '4k', 32), 1000),
           (Job('randwrite', '4k', 32), 1000),
           (Job('read', '128k', 8), 80), (Job('write', '128k', 8), 80),
           (Job('read', '1m', 4), 16), (Job('write', '1m', 4), 16)]
TRACED = [Job('randread', '4k', 1), Job('randread', '4k', 32),
          Job('randwrite', '4k', 32)]


# ---- on the host ----


def run(args):
    """Each round has a guest of its own. In one guest the rounds agree; in the
    next one they agree on another value, up to a fifth away."""
    rounds = []
    for i in range(args.rounds):
        say(f'guest {i + 1} of {args.rounds}')
        rounds.append(_in_guest(args, 'times', '--only-round', i))
    found = dict(rounds[0], comparisons=compare.merge(
        [r['comparisons'] for r in rounds]))
    if not args.only:
        found['limits'] = _limit_figures([r['limits'] for r in rounds])
        found.update(_in_guest(args, 'instructions', vm_options=['--icount']))
    return found


def _in_guest(args, part, *options, vm_options=()):
    command = [os.path.join(HERE, 'main.py'), '--in-guest', part,
               '--no-install', '--build', args.build,
               '--rounds', args.rounds, '--seconds', args.seconds, *options]
    if args.quick:
        command.append('--quick')
    for name in args.only:
        command += ['--only', name]
    return run_there(command, vm_options)


def run_there(command, vm_options=()):
    """Runs a Python program in a new guest. Returns what it gave to
    report_back()."""
    out = tempfile.mkdtemp(prefix='rdma-block.')
    try:
        if attended(os.path.join(HERE, '..', '..', 'scripts', 'vm'),
                    '--timeout', '0', '--out', out, *vm_options, 'run',
                    sys.executable, *command) != 0:
            raise Failed('the half in the guest failed; see above')
        with open(os.path.join(out, 'bench.json'), encoding='utf-8') as f:
            return json.load(f)
    finally:
        shutil.rmtree(out)


# ---- in the guest ----


def report_back(found):
    with open(os.path.join(os.environ['VM_OUT'], 'bench.json'), 'w',
              encoding='utf-8') as f:
        json.dump(found, f)


def prepare():
    """Makes the RDMA device and the RAM disks."""
    sides.guest_function('vm_soft_roce')
    _let_fuse_use_io_uring()
    output('modprobe', 'brd', 'rd_nr=10', f'rd_size={64 << 10}', 'max_part=0')


def main_sides(work, build):
    """rdma-fuse on rdma-target, nvme-rdma on nvmet-rdma, ib_srp on ib_srpt,
    and ib_srp on rdma-target."""
    ours = sides.Ours(work, 'ours', build, '/dev/ram0', 'rdma', ADDRESS)
    nvme = sides.NvmeRdma(work, 'nvme', '/dev/ram1')
    theirs = sides.KernelSrp(
        work, 'ib_srpt', "the kernel's ib_srp on ib_srpt",
        'modprobe ib_srpt; vm_kernel_target --port 5556 /dev/ram2 >&2; '
        'vm_kernel_login $VM_ID_EXT $VM_IOC_GUID $VM_TARGET_DEST')
    mixed = sides.KernelSrpOnOurs(work, 'mixed', build, '/dev/ram3', 'rdma',
                                  ADDRESS)
    return [ours, nvme, theirs, mixed]


def tgt_sides(work):
    """tgt over RDMA and over TCP; none if it is not installed."""
    missing = iscsi.missing()
    if missing:
        say(f'without tgt: no {", ".join(missing)} here')
        return []
    return [iscsi.KernelIscsiOnTgt(work, 'iser', '/dev/ram7', 'RDMA', 0),
            iscsi.KernelIscsiOnTgt(work, 'iscsi', '/dev/ram8', 'TCP', 1)]


def inside(args, work):
    prepare()
    everything = main_sides(work, args.build)
    control = sides.Bare(work, 'bare', '/dev/ram4')
    if args.in_guest == 'instructions':
        everything += tgt_sides(work) + [control]
    else:
        everything += [control] + _narrow(args, work)
    try:
        sides.up(everything, jobs.fill)
        if args.in_guest == 'instructions':
            found = {'instructions': _instructions(args, everything)}
        else:
            found = _times(args, work, *everything)
    finally:
        sides.down(everything)
    report_back(dict(found, kernel=platform.release()))


def _let_fuse_use_io_uring():
    """Only if the kernel of the guest can, since Linux 6.14."""
    if os.path.exists(host.RING):
        with open(host.RING, 'w', encoding='utf-8') as f:
            f.write('Y')


def _narrow(args, work):
    """With one queue pair and one thread, instead of one for each of the two
    CPUs. ib_srp always has two queue pairs."""
    thread = ('--threads', '1')
    ours = sides.Ours(work, 'ours-1', args.build, '/dev/ram5', 'rdma', ADDRESS,
                      ('--channels', '1'), thread)
    ours.label = 'rdma-fuse with 1 channel on rdma-target with 1 thread'
    mixed = sides.KernelSrpOnOurs(work, 'mixed-1', args.build, '/dev/ram6',
                                  'rdma', ADDRESS, target_options=thread)
    mixed.label = "the kernel's ib_srp on rdma-target with 1 thread"
    return [ours, mixed]


def _times(args, work, ours, nvme, theirs, mixed, control, ours_1, mixed_1):
    plan = [
        Comparison('vm-nvme', 'rdma-fuse on rdma-target against nvme-rdma on '
                   'nvmet-rdma', 'Both on a RAM disk of the kernel (brd).',
                   ours, nvme, jobs.MAIN, control),
        Comparison('vm-srp', 'rdma-fuse on rdma-target against ib_srp on '
                   'ib_srpt', '', ours, theirs, jobs.MAIN, control),
        Comparison('vm-target', 'ib_srp on rdma-target against ib_srp on '
                   'ib_srpt', 'Target against target, with the same '
                   'initiator.', mixed, theirs, jobs.MAIN, control),
        Comparison('vm-narrow', 'Two channels and threads against one of '
                   'each', 'Two are the default here.', ours, ours_1,
                   jobs.MAIN, control),
        Comparison('vm-target-narrow', 'ib_srp on rdma-target with two '
                   'threads against one thread', 'Two are the default here.',
                   mixed, mixed_1, jobs.MAIN, control),
    ]
    found = {'comparisons': compare.results(args, plan)}
    if not args.only:
        found['limits'] = _limits(args, work)
    if not args.only and args.only_round == 0:
        found['calls'] = [counts.system_calls(ours, job, work, 400)
                          for job in TRACED]
        found['own'] = [counts.own(ours, job, 400) for job in TRACED]
    return found


# ---- limits of the fabric itself ----


def _perftest(tool, column, *options):
    """If perftest could not find the frequency of the CPU's counter, times are
    infinite. Then it runs again."""
    command = [tool, '-d', 'rxe0', '-F', *options]
    for _ in range(10):
        text = served(command, command + [ADDRESS], PERFTEST_PORT)
        rows = [line.split() for line in text.splitlines()]
        last = next(w for w in reversed(rows) if w and w[0].isdigit())
        value = float(last[column])
        if math.isfinite(value):
            return {'value': value,
                    'command': ' '.join(command) + ' ' + ADDRESS}
    raise Failed(f'{tool} finds no time: {last[column]}')


def _limits(args, work):
    """Returns perftest's figure and that of libsrpi. perftest polls all the
    time; for latency, libsrpi and its target do so, too. perftest's typical
    latency is a median, so theirs is a median, too."""
    say('limits of the fabric')
    sleepy = sides.Ours(work, 'alone', args.build, 'ram:64M', 'rdma', ADDRESS)
    polling = sides.Ours(work, 'polling', args.build, 'ram:64M', 'rdma',
                         ADDRESS, target_options=('--poll-us', '1000'))
    try:
        for side in (sleepy, polling):
            side.up_target()
        return _limits_once(args, sleepy, polling)
    finally:
        sides.down([sleepy, polling])


def _limits_once(args, sleepy, polling):
    big = ('-s', '1048576', '-n', '60')
    small = ('-n', '1000')
    return {
        'ib_write_bw': _perftest('ib_write_bw', 3, *big),
        '1m read': _srpi(args, 'mib_per_s', sleepy, '-b', '1m', '-d', '4',
                         '-q'),
        'ib_read_bw': _perftest('ib_read_bw', 3, *big),
        'ib_send_lat': _perftest('ib_send_lat', 4, '-s', '64', *small),
        '4k read, polling': _srpi(args, 'us_median', polling, '-p', '1000'),
        'exchange': _exchange(args),
        'ib_write_lat': _perftest('ib_write_lat', 4, '-s', '4096', *small),
        '4k read': _srpi(args, 'us', sleepy),
        '4k read d32': _srpi(args, 'iops', sleepy, '-d', '32'),
    }


def _exchange(args):
    command = ['exchange-lat', ADDRESS, str(free_port())]
    text = output(f'{args.build}/tests/bench/{command[0]}', *command[1:])
    return {'value': json.loads(text)['us_median'],
            'command': ' '.join(command)}


def _srpi(args, key, side, *options):
    found = host.srpi_bench(args, side, *options)
    return {'value': found[key], 'command': found['command']}


def _limit_figures(rounds):
    found = {name: {'value': statistics.median(r[name]['value']
                                               for r in rounds),
                    'command': first['command']}
             for name, first in rounds[0].items()}

    def ratio(of, *by):
        each = [r[of]['value'] / sum(r[name]['value'] for name in by)
                for r in rounds]
        return {'ratio': statistics.median(each), 'ratio_min': min(each),
                'ratio_max': max(each)}

    found['latency_ratio'] = ratio('4k read, polling', 'ib_send_lat',
                                   'ib_write_lat')
    found['bandwidth_ratio'] = ratio('1m read', 'ib_write_bw')
    return found


# ---- instructions ----


def _instructions(args, everything):
    """Instructions of the whole machine for each operation: the difference
    between N and 2 N operations, divided by N."""
    rows = []
    for job, n in COUNTED:
        n = n // 2 if args.quick else n
        took = jobs.milliseconds(job, [(s.path, s.size, count)
                                       for s in everything
                                       for count in (n, 2 * n)])
        per = [(took[2 * i + 1] - took[2 * i]) * 1e6 / n
               for i in range(len(everything))]
        rows.append({'job': job.name, 'operations': n, 'sides': {
            side.label: each for side, each in zip(everything, per)}})
        say(f'{job.name}: thousands of instructions: ' + ', '.join(
            f'{side.name} {each / 1000:.1f}'
            for side, each in zip(everything, per)))
    return rows
