#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Plants faults one after another. The simulation must find each of them.
Prints TAP, with the number of histories that it took."""

import argparse
import importlib
import os
import re
import subprocess
import sys
import tempfile


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--source', required=True, help='top of the sources')
    parser.add_argument('--texts', action='store_true',
                        help='only look whether the sources have each text '
                        'once; needs nothing of --build, --sim and --cc')
    parser.add_argument('--build', help='top of the build')
    parser.add_argument('--sim', help='the simulation')
    parser.add_argument('--cc', nargs='+')
    parser.add_argument('--histories', type=int, default=100000,
                        help='by which each fault must be found')
    parser.add_argument('--faults', default='faults',
                        help='module that lists them')
    parser.add_argument('--only', default='', help='faults with this name')
    return parser.parse_args()


def planted(source, file, old, new):
    with open(os.path.join(source, file), encoding='utf-8') as f:
        text = f.read()
    # Matches for any wrapping of the source.
    found = list(re.finditer(r'\s+'.join(map(re.escape, old.split())), text))
    if len(found) != 1:
        raise ValueError(f'{file} has {len(found)} times: {old!r}')
    return text[:found[0].start()] + new + text[found[0].end():]


def texts_are_there(source, faults):
    good = True
    for name, file, old, new in faults:
        try:
            planted(source, file, old, new)
        except (ValueError, OSError) as err:
            print(f'{name}: {err}')
            good = False
    return good


def objects_of(build, sim):
    """Returns ninja's link command for the simulation, to link it with one more
    object."""
    out = subprocess.run(
        ['ninja', '-C', build, '-t', 'commands', '-s',
         os.path.relpath(sim, build)],
        check=True, capture_output=True, text=True).stdout
    lines = [line for line in out.splitlines() if ' -o ' in line]
    return lines[-1].split()


def build_with(args, link, text, file, tmp):
    """The object with the fault comes before the archive that has the original
    one."""
    source = os.path.join(tmp, os.path.basename(file))
    obj = os.path.join(tmp, 'planted.o')
    exe = os.path.join(tmp, 'sim')
    with open(source, 'w', encoding='utf-8') as f:
        f.write(text)
    subprocess.run(
        args.cc + ['-std=gnu17', '-D_GNU_SOURCE', '-O1',
                   '-Wno-unused', '-Werror', '-I', args.build, '-I',
                   args.source, '-c', source, '-o', obj],
        check=True)
    command = [w for w in link if not w.startswith('-Wl,--out-implib')]
    command[command.index('-o') + 1] = exe
    command.insert(command.index('-o') + 2, obj)
    subprocess.run(command, check=True, cwd=args.build)
    return exe


def histories_until_found(exe, limit):
    """Returns None if the fault was not found."""
    run = subprocess.run([exe, '--count', str(limit)], check=False,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                         text=True)
    found = re.search(r'after (\d+) histories', run.stdout)
    if run.returncode == 0 or not found:
        return None, run.stdout
    return int(found.group(1)), run.stdout.strip()


def main():
    args = parse()
    faults = [f for f in importlib.import_module(args.faults).FAULTS
              if args.only in f[0]]
    if args.texts:
        return not texts_are_there(args.source, faults)
    link = objects_of(args.build, args.sim)
    failed = 0

    print(f'1..{len(faults)}')
    for number, (name, file, old, new) in enumerate(faults, 1):
        try:
            with tempfile.TemporaryDirectory() as tmp:
                text = planted(args.source, file, old, new)
                exe = build_with(args, link, text, file, tmp)
                count, said = histories_until_found(exe, args.histories)
        except (ValueError, subprocess.CalledProcessError) as err:
            count, said = None, str(err)
        failed += count is None
        print(f'{"ok" if count else "not ok"} {number} - {name}'
              + (f' ({count} histories)' if count else ''))
        for line in said.splitlines():
            print(f'# {line}')
        sys.stdout.flush()
    return failed != 0


if __name__ == '__main__':
    sys.exit(main())
