# SPDX-License-Identifier: BSD-2-Clause
"""Tables and plots from the results. The text around them is written by
hand."""

import goals
import picture
from picture import figure as _figure


def comparison_table(c):
    a, b = c['a'], c['b']
    lines = [f'### {c["title"]}', '',
             f'A is {a}; B is {b}. {c["about"]}'.rstrip(), '',
             '| job | A | B | unit | A / B | rounds (least to most) '
             '| mean latency A, B (µs) | at least | reached |',
             '|---|---|---|---|---|---|---|---|---|']
    for row in c['rows']:
        goal = goals.of(c['id'], row['job'])
        noisy = (f', {row["noisy_rounds"]} noisy'
                 if row['noisy_rounds'] else '')
        lines.append(
            f'| {row["job"]} | {_figure(row["a"])} | {_figure(row["b"])} '
            f'| {row["unit"]} | **{row["ratio"]:.2f}** '
            f'| {row["rounds"]}{noisy} ({row["ratio_min"]:.2f} to '
            f'{row["ratio_max"]:.2f}) '
            f'| {_figure(row["a_lat_us"])}, {_figure(row["b_lat_us"])} '
            f'| {goal.at_least if goal else ""} '
            f'| {goal.verdict(row["ratio"]) if goal else ""} |')
    return lines + ['']


def panels(groups, longer='longer is better'):
    """Panels for the groups (unit, name, figures, words) of a picture."""
    units = list(dict.fromkeys(unit for unit, *_ in groups))
    return [picture.Panel(f'{unit}; {longer}', [rest for of, *rest in groups if of == unit])
            for unit in units]


def plot(c, about, path):
    """Draws a comparison."""
    picture.draw(
        path, c['title'], [*about, *([c['about']] if c['about'] else [])],
        [c['a'], c['b']],
        panels([(row['unit'], picture.job_words(row['job']), [row['a'], row['b']],
                 f'{row["ratio"]:.2f} × B  ({row["ratio_min"]:.2f} to '
                 f'{row["ratio_max"]:.2f})') for row in c['rows']]))


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
    """The target's own counters, for each command."""
    names = list(rows[0]['each'])
    lines = ['| job | ' + ' | '.join(names) + ' |',
             '|---|' + '---|' * len(names)]
    for r in rows:
        cells = ' | '.join(f'{r["each"].get(name, 0):.2f}' for name in names)
        lines.append(f'| {r["job"]} | {cells} |')
    return lines


def _each(kib):
    return '' if kib is None else f'{kib:.1f}'


def logins_table(rows):
    lines = ['| logins | resident (KiB) | KiB for each but the first '
             '| wake-ups per second | % of a processor |', '|---|---|---|---|---|']
    for r in rows:
        lines.append(f'| {r["logins"]} | {r["rss_kib"]:,} '
                     f'| {_each(r["kib_per_login"])} '
                     f'| {r["wakeups_per_s"]:.1f} '
                     f'| {r["cpu_percent"]:.2f} |')
    return lines


def limits_table(limits):
    lines = ['| what | median | command |', '|---|---|---|']
    for name, figure in limits.items():
        if 'value' in figure:
            lines.append(f'| {name} ({UNITS.get(name, "")}) '
                         f'| {_figure(figure["value"])} '
                         f'| `{figure["command"]}` |')
    return lines


UNITS = {'ib_write_bw': 'MiB/s', 'ib_read_bw': 'MiB/s', 'ib_send_lat': 'µs',
         'ib_write_lat': 'µs', '1m read': 'MiB/s, libsrpi',
         'exchange': 'µs, the messages of a 4k read alone',
         '4k read': 'µs, libsrpi', '4k read, polling': 'µs, libsrpi',
         '4k read d32': 'IOPS, libsrpi'}


def host_limits_table(limits):
    lines = ['| what | µs | MiB/s | command |', '|---|---|---|---|']
    for name, row in limits['libsrpi'].items():
        lines.append(f'| libsrpi, {name} | {row["us"]:.1f} '
                     f'| {row["mib_per_s"]:,.0f} | `{row["command"]}` |')
    return lines


def instructions_table(rows):
    """Thousands of instructions for each operation, by side."""
    labels = list(rows[0]['sides'])
    lines = ['| job | ' + ' | '.join(labels) + ' |',
             '|---' * (len(labels) + 1) + '|']
    for row in rows:
        lines.append(f'| {row["job"]} | ' + ' | '.join(
            f'{row["sides"][label] / 1000:,.1f}' for label in labels) + ' |')
    return lines
