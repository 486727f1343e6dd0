# SPDX-License-Identifier: BSD-2-Clause
"""Tables and plots from the results; the words around them are by hand."""

import os
import re
import subprocess

GOALS = {
    # (comparison, job): (at least, reach for), of A's figure by B's
    ('host-ram', '4k random read d1'): (1.5, 2.0),
    ('host-ram', '4k random read d32'): (3.0, 4.0),
    ('host-ram', '4k random write d32'): (3.0, 4.0),
    ('host-ram', '128k sequential read d8'): (1.5, 2.0),
    ('host-ram', '128k sequential write d8'): (1.5, 2.0),
    ('host-ram', '1m sequential read d4'): (1.5, 2.0),
    ('host-ram', '1m sequential write d4'): (1.5, 2.0),
    ('host-qemu', '4k random read d32'): (0.8, 1.6),
    ('vm-nvme', '4k random read d1'): (1.0, 1.2),
    ('vm-nvme', '4k random write d1'): (1.0, 1.2),
    ('vm-nvme', '4k random read d32'): (1.15, 1.4),
    ('vm-nvme', '4k random write d32'): (1.15, 1.4),
    ('vm-nvme', '128k sequential read d8'): (1.15, 1.3),
    ('vm-nvme', '128k sequential write d8'): (1.15, 1.3),
    ('vm-nvme', '1m sequential read d4'): (1.15, 1.3),
    ('vm-nvme', '1m sequential write d4'): (1.15, 1.3),
}


def goal(comparison, job):
    """(at least, reach for) or None. The kernel's initiator on either target:
    every job."""
    if comparison == 'vm-target':
        return (1.0, 1.2)
    return GOALS.get((comparison, job))


def _figure(value):
    return f'{value:,.0f}' if value >= 10 else f'{value:.2f}'


def _verdict(row, aim):
    if aim is None:
        return ''
    if row['ratio'] >= aim[1]:
        return f'yes, and {aim[1]}'
    return 'yes' if row['ratio'] >= aim[0] else 'no'


def comparison_table(c):
    a, b = c['a'], c['b']
    lines = [f'### {c["title"]}', '',
             f'A is {a}; B is {b}. {c["about"]}'.rstrip(), '',
             '| job | A | B | unit | A / B | rounds (least to most) '
             '| mean latency A, B (µs) | at least | reached |',
             '|---|---|---|---|---|---|---|---|---|']
    for row in c['rows']:
        aim = goal(c['id'], row['job'])
        noisy = (f', {row["noisy_rounds"]} noisy'
                 if row['noisy_rounds'] else '')
        lines.append(
            f'| {row["job"]} | {_figure(row["a"])} | {_figure(row["b"])} '
            f'| {row["unit"]} | **{row["ratio"]:.2f}** '
            f'| {row["rounds"]}{noisy} ({row["ratio_min"]:.2f} to '
            f'{row["ratio_max"]:.2f}) '
            f'| {_figure(row["a_lat_us"])}, {_figure(row["b_lat_us"])} '
            f'| {aim[0] if aim else ""} | {_verdict(row, aim)} |')
    return lines + ['']


def plot(c, path):
    """A bar for each ratio, with its spread. Returns True when it was made."""
    data = path + '.dat'
    with open(data, 'w', encoding='utf-8') as f:
        for row in c['rows']:
            f.write(f'"{row["job"]}" {row["ratio"]:.4f} '
                    f'{row["ratio_min"]:.4f} {row["ratio_max"]:.4f}\n')
    script = f'''
set terminal svg size 900,420 font "sans,11" background "white"
set output "{path}"
set title "{c["title"]}: A / B, median and spread"
set style data boxerrorbars
set style fill solid 0.6 border -1
set boxwidth 0.6
set yrange [0:*]
set grid ytics
set xtics rotate by -30
set key off
set rmargin 8
plot "{data}" using 0:2:3:4:xtic(1) linecolor rgb "#3f6fb5", 1 with lines linecolor rgb "#b53f3f"
'''
    try:
        done = subprocess.run(['gnuplot'], input=script, text=True,
                              check=False)
    except FileNotFoundError:
        return False
    finally:
        os.unlink(data)
    return done.returncode == 0


def replace_section(text, name, lines):
    """Puts @lines between the marks of a section; at the end when it has
    none."""
    begin, end = f'<!-- {name}: begin -->', f'<!-- {name}: end -->'
    body = begin + '\n' + '\n'.join(lines).rstrip() + '\n' + end
    found = re.compile(re.escape(begin) + '.*?' + re.escape(end), re.S)
    if found.search(text):
        return found.sub(lambda _: body, text)
    return text.rstrip() + '\n\n' + body + '\n'


def calls_table(rows):
    lines = ['| job | target | client | together | which |',
             '|---|---|---|---|---|']
    for r in rows:
        which = ', '.join(
            f'{who} ' + ' '.join(f'{k} {v:.2f}'
                                 for k, v in list(r[who]['by_name'].items())[:4])
            for who in ('target', 'client'))
        lines.append(f'| {r["job"]} | {r["target"]["all"]:.2f} '
                     f'| {r["client"]["all"]:.2f} | **{r["both"]:.2f}** '
                     f'| {which} |')
    return lines


def own_table(rows):
    """What the target counts itself, for each command."""
    names = list(rows[0]['each'])
    lines = ['| job | ' + ' | '.join(names) + ' |',
             '|---|' + '---|' * len(names)]
    for r in rows:
        cells = ' | '.join(f'{r["each"].get(name, 0):.2f}' for name in names)
        lines.append(f'| {r["job"]} | {cells} |')
    return lines


def logins_table(rows):
    lines = ['| logins | resident (KiB) | KiB for each | wake-ups per second '
             '| % of a processor |', '|---|---|---|---|---|']
    for r in rows:
        lines.append(f'| {r["logins"]} | {r["rss_kib"]:,} '
                     f'| {r["kib_per_login"]:.0f} '
                     f'| {r["wakeups_per_s"]:.1f} '
                     f'| {r["cpu_percent"]:.2f} |')
    return lines
