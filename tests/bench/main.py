# SPDX-License-Identifier: BSD-2-Clause
"""scripts/bench."""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time

import compare
import counts
import jobs
import report
import sides
from compare import Comparison
from jobs import Job
from programs import Failed, first_line, output

TOP = os.path.realpath(os.path.join(os.path.dirname(__file__), '..', '..'))
PACKAGES = ['fio', 'nbdkit', 'libnbd-bin', 'qemu-system-common',
            'libfabric-bin', 'gnuplot-nox', 'strace', 'valgrind', 'perftest',
            'kmod']


def say(text):
    print('bench: ' + text, file=sys.stderr, flush=True)


def arguments():
    p = argparse.ArgumentParser(
        prog='scripts/bench', description='Measures rdma-target and rdma-fuse '
        'beside what one would take instead, in turns, and writes '
        'docs/performance.md, docs/plots/*.svg and docs/bench.json.')
    p.add_argument('--host', action='store_true',
                   help='only over TCP, on this machine')
    p.add_argument('--vm', action='store_true',
                   help='only over soft-RoCE, in the virtual machine')
    p.add_argument('--counts', action='store_true',
                   help='only the figures without noise')
    p.add_argument('--quick', action='store_true',
                   help='few jobs, few and short rounds: a few minutes')
    p.add_argument('--rounds', type=int, help='of each job (7; quick: 3)')
    p.add_argument('--seconds', type=int,
                   help='that a side runs in a round (2; quick: 1)')
    p.add_argument('--only', metavar='NAME', action='append', default=[],
                   help='only this comparison; may be repeated')
    p.add_argument('--build', default=os.path.join(TOP, 'build'),
                   help='build directory (build)')
    p.add_argument('--out', default=os.path.join(TOP, 'docs'),
                   help='where to write (docs)')
    p.add_argument('--no-install', action='store_true',
                   help='install nothing, build nothing')
    p.add_argument('--in-guest', action='store_true', help=argparse.SUPPRESS)
    args = p.parse_args()
    args.rounds = args.rounds or (3 if args.quick else 7)
    args.seconds = args.seconds or (1 if args.quick else 2)
    if not (args.host or args.vm or args.counts):
        args.host = args.vm = args.counts = True
    args.build = os.path.realpath(args.build)
    return args


def prepare(args):
    if args.no_install:
        return
    say('packages and build')
    output(os.path.join(TOP, 'scripts', 'install-deps'), 'test')
    missing = [p for p in PACKAGES if subprocess.run(
        ['dpkg', '-s', p], stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, check=False).returncode]
    if missing:
        output('apt-get', 'install', '-y', '--no-install-recommends',
               *missing)
    if not os.path.exists(os.path.join(args.build, 'build.ninja')):
        output('meson', 'setup', args.build, TOP)
    output('ninja', '-C', args.build)


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
        'valgrind': first_line('valgrind', '--version'),
        'date': time.strftime('%Y-%m-%d'),
        'load_before': os.getloadavg()[0],
        'command': 'scripts/bench ' + ' '.join(
            a for a in sys.argv[1:] if a != '--in-guest'),
    }


def compare_sides(args, plan):
    """The sides are up. Returns the comparisons that were asked for."""
    plan = [c for c in plan if not args.only or c.id in args.only]
    compare.measure(plan, args.rounds, args.seconds)
    return [{'id': c.id, 'title': c.title, 'about': c.about,
             'a': c.a.label, 'b': c.b.label, 'rows': c.rows,
             'commands': {'a': c.a.commands, 'b': c.b.commands,
                          'fio': ' '.join(jobs.command(
                              c.jobs[0], [('$PATH', c.a.size,
                                           args.seconds)]))}}
            for c in plan]


def up(all_sides, fill=True):
    for side in all_sides:
        say('starting ' + side.label)
        side.up()
        if fill:
            jobs.fill(side.path, side.size)


def down(all_sides):
    for side in reversed(all_sides):
        try:
            side.down()
        except (Failed, OSError) as e:
            say(f'{side.label}: {e}')


# ---- the host's half, over TCP ----


def host(args, work):
    size = '512M'
    shm = tempfile.mkdtemp(prefix='rdma-block.', dir='/dev/shm')
    tmpfs = os.path.join(shm, 'disk.img')
    ours_file, nbd_file = (os.path.join(work, n) for n in ('a.img', 'b.img'))
    for path in (tmpfs, ours_file, nbd_file):
        with open(path, 'wb') as f:
            f.truncate(512 << 20)
    ram = sides.Ours(work, 'ours-ram', args.build, f'ram:{size}')
    two = sides.Ours(work, 'ours-ram-2', args.build, f'ram:{size}')
    four = sides.Ours(work, 'ours-ram-4', args.build, f'ram:{size}')
    for side, n in ((two, 2), (four, 4)):
        side.options = ('--channels', str(n))
        side.label = f'rdma-fuse with {n} channels'
    nbd = sides.Nbd(work, 'nbd-ram', 'memory', size)
    qemu = sides.QemuExport(work, 'qemu', tmpfs)
    file = sides.Ours(work, 'ours-file', args.build, ours_file)
    nbdf = sides.Nbd(work, 'nbd-file', 'file', nbd_file)
    control = bare = sides.Bare(work, 'bare', tmpfs)
    everything = [ram, two, four, nbd, qemu, file, nbdf, control]
    many = jobs.MAIN if args.quick else jobs.MAIN + jobs.MORE
    few = [Job('randread', '4k', 1), Job('randread', '4k', 32),
           Job('randwrite', '4k', 32), Job('read', '1m', 4)]
    deep = [Job('randread', '4k', 32), Job('randread', '4k', 128),
            Job('randread', '4k', 8, 4)]
    plan = [
        Comparison('host-ram', 'RAM volume, over TCP', '', ram, nbd, many,
                   control),
        Comparison('host-qemu', 'RAM volume over TCP against a local export',
                   'B has no network in between; its backing is a file on '
                   'tmpfs.', ram, qemu, few, control),
        Comparison('host-bare',
                   'RAM volume over TCP against the bare backing',
                   'B is fio on the file on tmpfs: the limit.', ram, bare,
                   few, control),
        Comparison('host-2ch', 'Two channels against one', '', two, ram, deep,
                   control),
        Comparison('host-4ch', 'Four channels against one', '', four, ram,
                   deep, control),
        Comparison('host-file', 'File volume, over TCP',
                   'The file is in the page cache of the host on both sides.',
                   file, nbdf, jobs.MAIN, control),
    ]
    try:
        up(everything)
        return {'comparisons': compare_sides(args, plan),
                'fabric': fabric_limit(work)}
    finally:
        down(everything)
        shutil.rmtree(shm)


def fabric_limit(work):
    """libfabric's own ping-pong over the tcp provider: 4 KiB there and back."""
    port = str(sides.free_port())
    args = ['fi_pingpong', '-p', 'tcp', '-e', 'msg', '-S', '4096', '-I',
            '20000']
    server = subprocess.Popen(args + ['-B', port], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    time.sleep(1)
    try:
        text = output(*args, '-P', port, '127.0.0.1')
    except Failed as e:
        return {'error': str(e)}
    finally:
        server.kill()
        server.wait()
    words = text.strip().splitlines()[-1].split()
    return {'command': ' '.join(args) + ' 127.0.0.1',
            'us_per_transfer': float(words[6]), 'mb_s': float(words[5])}


# ---- the guest's half, over soft-RoCE ----


def guest_in(args, work):
    """Runs in the guest: everything up at the same time, on RAM disks."""
    sides.guest_function('vm_soft_roce')
    kib = 96 << 10
    output('modprobe', 'brd', 'rd_nr=5', f'rd_size={kib}', 'max_part=0')
    ours = sides.Ours(work, 'ours', args.build, '/dev/ram0', 'rdma',
                      '10.0.0.1')
    nvme = sides.NvmeRdma(work, 'nvme', '/dev/ram1')
    theirs = sides.KernelSrp(
        work, 'ib_srpt', "the kernel's ib_srp on ib_srpt",
        'modprobe ib_srpt; vm_kernel_target --port 5556 /dev/ram2 >&2; '
        'vm_kernel_login $VM_ID_EXT $VM_IOC_GUID $VM_TARGET_DEST')
    mixed = sides.KernelSrpOnOurs(work, 'mixed', args.build, '/dev/ram3',
                                  'rdma', '10.0.0.1')
    control = sides.Bare(work, 'bare', '/dev/ram4')
    everything = [ours, nvme, theirs, mixed, control]
    plan = [
        Comparison('vm-nvme', 'rdma-fuse on rdma-target against nvme-rdma on '
                   'nvmet-rdma', 'Both on a RAM disk of the kernel (brd).',
                   ours, nvme, jobs.MAIN, control),
        Comparison('vm-srp', 'rdma-fuse on rdma-target against ib_srp on '
                   'ib_srpt', '', ours, theirs, jobs.MAIN, control),
        Comparison('vm-target', 'ib_srp on rdma-target against ib_srp on '
                   'ib_srpt', 'Target against target, with the same '
                   'initiator.', mixed, theirs, jobs.MAIN, control),
    ]
    try:
        up(everything)
        result = {'comparisons': compare_sides(args, plan),
                  'fabric': rdma_limit(args, work),
                  'kernel': platform.release()}
    finally:
        down([ours, nvme, mixed, theirs])
    with open(os.path.join(os.environ['VM_OUT'], 'bench.json'), 'w',
              encoding='utf-8') as f:
        json.dump(result, f)


def rdma_limit(args, work):
    """perftest's figures on the same device, and libsrpi alone beside them."""
    found = {}
    for tool, extra in (('ib_write_bw', ['-s', '1048576', '-n', '60']),
                        ('ib_read_bw', ['-s', '1048576', '-n', '60']),
                        ('ib_send_lat', ['-s', '64', '-n', '1000']),
                        ('ib_write_lat', ['-s', '4096', '-n', '1000'])):
        command = [tool, '-d', 'rxe0', '-F', *extra]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        time.sleep(2)
        try:
            lines = [line.split() for line in
                     output(*command, '10.0.0.1').splitlines()]
        except Failed as e:
            found[tool] = {'error': str(e)}
            continue
        finally:
            server.kill()
            server.wait()
        words = next(w for w in reversed(lines) if w and w[0].isdigit())
        # bandwidth: average in column 4; latency: typical in column 5
        found[tool] = {'command': ' '.join(command) + ' 10.0.0.1',
                       'value': float(words[3] if 'bw' in tool else words[4]),
                       'unit': 'MiB/s' if 'bw' in tool else 'us'}
    found['libsrpi'] = libsrpi_alone(args, work)
    return found


def libsrpi_alone(args, work):
    side = sides.Ours(work, 'alone', args.build, 'ram:64M', 'rdma',
                      '10.0.0.1')
    side.up_target()
    bench = f'{args.build}/tests/bench/srpi-bench'
    rows = {}
    try:
        for name, extra in (('4k read d1', ['-b', '4k', '-d', '1']),
                            ('4k read d32', ['-b', '4k', '-d', '32']),
                            ('1m read d4', ['-b', '1m', '-d', '4', '-q'])):
            rows[name] = json.loads(output(bench, *extra, '-s', '5',
                                           side.uri + '/disk'))
    finally:
        side.down()
    return rows


def guest(args):
    out = tempfile.mkdtemp(prefix='rdma-block.')
    command = [os.path.join(TOP, 'scripts', 'vm'), '--timeout', '0', '--out',
               out, 'run', sys.executable, os.path.realpath(__file__),
               '--in-guest', '--no-install', '--build', args.build,
               '--rounds', str(args.rounds), '--seconds',
               str(args.seconds + 1)]
    for name in args.only:
        command += ['--only', name]
    try:
        if subprocess.run(command, check=False).returncode != 0:
            raise Failed('the half in the guest failed; see above')
        with open(os.path.join(out, 'bench.json'), encoding='utf-8') as f:
            return json.load(f)
    finally:
        shutil.rmtree(out)


# ---- figures without noise ----


def count(args, work):
    side = sides.Ours(work, 'counted', args.build, 'ram:256M')
    found = {'calls': [], 'own': []}
    side.count_allocations()
    side.up()
    jobs.fill(side.path, side.size)
    try:
        for job in counts.TRACED:
            n = 4000 if job.block == '4k' else 500
            found['calls'].append(counts.system_calls(side, job, work, n))
            say(f'{job.name}: {found["calls"][-1]["both"]:.2f} system calls')
        for job in counts.TRACED:
            n = 4000 if job.block == '4k' else 500
            found['own'].append(counts.own(side, job, n))
    finally:
        side.down()
    per_file = counts.engine_instructions(args.build, work)
    found['instructions'] = {'target': counts.target_share(per_file),
                             'by_file': {os.path.relpath(k, TOP)
                                         if k.startswith('/') else k:
                                         round(v, 1)
                                         for k, v in per_file.items()
                                         if v >= 1}}
    say(f'{found["instructions"]["target"]:.0f} instructions in the target')
    side.up_target()
    try:
        steps = (1, 100) if args.quick else (1, 100, 1000)
        found['logins'] = counts.logins(side, args.build, steps)
    finally:
        side.down()
    return found


# ---- the end ----


def write(args, results):
    plots = os.path.join(args.out, 'plots')
    os.makedirs(plots, exist_ok=True)
    path = os.path.join(args.out, 'bench.json')
    doc = {}
    if os.path.exists(path):
        with open(path, encoding='utf-8') as f:
            doc = json.load(f)
    doc.update(results)
    with open(path, 'w', encoding='utf-8') as f:
        json.dump(doc, f, indent=1)
        f.write('\n')
    page = os.path.join(args.out, 'performance.md')
    text = '# How fast it is\n'
    if os.path.exists(page):
        with open(page, encoding='utf-8') as f:
            text = f.read()
    for half in ('host', 'vm'):
        if half not in results:
            continue
        lines = about(results[half]['versions'])
        for c in results[half]['comparisons']:
            lines += report.comparison_table(c)
            if report.plot(c, os.path.join(plots, c['id'] + '.svg')):
                lines += [f'![{c["title"]}](plots/{c["id"]}.svg)', '']
        lines += ['The fabric\'s own limits, and libsrpi alone:', '', '```',
                  json.dumps(results[half]['fabric'], indent=1), '```']
        text = report.replace_section(text, half, lines)
    if 'counts' in results:
        c = results['counts']
        lines = about(c['versions'])
        lines += ['System calls for each operation:', '']
        lines += report.calls_table(c['calls'])
        lines += ['', 'What the target counts itself (SIGUSR2), and calls of '
                  'malloc() and its kin, for each command:', '']
        lines += report.own_table(c['own'])
        lines += ['', 'User instructions that the target executes for one '
                  '4 KiB READ of a RAM volume (callgrind, the transport in '
                  f'process): **{c["instructions"]["target"]:.0f}**.', '',
                  'Idle logins over TCP:', '']
        lines += report.logins_table(c['logins'])
        text = report.replace_section(text, 'counts', lines)
    with open(page, 'w', encoding='utf-8') as f:
        f.write(text)
    say(f'written: {page}')


def about(v):
    return [f'`{v["command"].strip()}` of {v["date"]}, at {v["rdma-block"]}; '
            f'{v["processors"]} processors ({v["cpu"]}), Linux {v["kernel"]}, '
            f'{v["fio"]}, {v["nbdkit"]}, {v["qemu-storage-daemon"]}. Load '
            f'before it began: {v["load_before"]:.1f}.', '']


def main():
    args = arguments()
    work = tempfile.mkdtemp(prefix='rdma-block.')
    try:
        if args.in_guest:
            guest_in(args, work)
            return 0
        prepare(args)
        v = versions(args)
        results = {}
        if args.host:
            results['host'] = dict(host(args, work), versions=v)
        if args.vm:
            results['vm'] = dict(guest(args), versions=v)
        if args.counts:
            results['counts'] = dict(count(args, work), versions=v)
        write(args, results)
        return 0
    except Failed as e:
        print(f'bench: {e}', file=sys.stderr)
        for log in sorted(os.listdir(work)):
            if log.endswith('.log'):
                with open(os.path.join(work, log), encoding='utf-8',
                          errors='replace') as f:
                    for line in f.read().splitlines()[-5:]:
                        print(f'bench: {log}: {line}', file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == '__main__':
    sys.exit(main())
