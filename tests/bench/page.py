# SPDX-License-Identifier: BSD-2-Clause
"""Makes bench.json, plots and performance.md in docs/evidence. The last one is
made from performance.md.in in this directory: text with names in the places
of tables."""

import json
import os
import re

import goals
import pictures
import report

TEMPLATE = os.path.join(os.path.dirname(__file__), 'performance.md.in')
NOTHING = ['Not measured yet.']


def write(out, results):
    """Halves that are not in @results keep their figures; {} draws all again. Returns
    the page."""
    path = os.path.join(out, 'bench.json')
    doc = {}
    if os.path.exists(path):
        with open(path, encoding='utf-8') as f:
            doc = json.load(f)
    doc.update(results)
    plots = os.path.join(out, 'plots')
    os.makedirs(plots, exist_ok=True)
    with open(path, 'w', encoding='utf-8') as f:
        json.dump(doc, f, indent=1)
        f.write('\n')
    pictures.draw(doc, plots)
    with open(os.path.join(out, 'scale.json'), encoding='utf-8') as f:
        pictures.draw_scale(json.load(f), plots)
    page = os.path.join(out, 'performance.md')
    with open(TEMPLATE, encoding='utf-8') as f:
        text = f.read()
    with open(page, 'w', encoding='utf-8') as f:
        f.write(re.sub(r'^@([a-z-]+)@$',
                       lambda m: '\n'.join(TABLES[m[1]](doc, plots)).rstrip(),
                       text, flags=re.M))
    return page


def _goals(doc, plots):
    return goals.table(doc)


def _about(half):
    v = half['versions']
    programs = ', '.join(v[k] for k in ('fio', 'nbdkit', 'nbdfuse',
                                        'qemu-storage-daemon', 'qemu',
                                        'perftest', 'tgt')
                         if v.get(k))
    guest = f', in the guest Linux {half["kernel"]}' if 'kernel' in half \
        else ''
    return [f'`{v["command"]}` of {v["date"]}, at {v["rdma-block"]}; '
            f'{v["processors"]} processors ({v["cpu"]}), Linux '
            f'{v["kernel"]}{guest}; {programs}. Load before it began: '
            f'{v["load_before"]:.1f}.', '']


def _comparisons(half, plots):
    lines = []
    for c in half['comparisons']:
        lines += report.comparison_table(c)
        report.plot(c, pictures.about(half), os.path.join(plots, c['id'] + '.svg'))
        lines += [f'![{c["title"]}](plots/{c["id"]}.svg)', '']
    return lines


def _commands(half):
    lines = ['The command lines (`$WORK`: a scratch directory; fio with the '
             'block size, depth and kind of each job):', '', '```']
    seen = set()
    for c in half['comparisons']:
        for side in ('a', 'b'):
            lines += [line for line in c['commands'][side]
                      if line not in seen]
            seen.update(c['commands'][side])
    lines += [half['comparisons'][0]['commands']['fio']] \
        if half['comparisons'] else []
    return lines + ['```']


def _host(doc, plots):
    if 'host' not in doc:
        return NOTHING
    half = doc['host']
    return (_about(half) + _comparisons(half, plots) +
            ['### Without FUSE, and without us', ''] +
            report.host_limits_table(half['limits']) + [''] + _commands(half))


def _vm(doc, plots):
    if 'vm' not in doc:
        return NOTHING
    half = doc['vm']
    lines = _about(half) + _comparisons(half, plots)
    if 'limits' in half:
        lines += ['### Without FUSE, and without us', '']
        lines += report.limits_table(half['limits']) + ['']
    if 'calls' in half:
        lines += ['### System calls, and what the target counts', '']
        lines += report.calls_table(half['calls']) + ['']
        lines += report.own_table(half['own']) + ['']
    return lines + _commands(half)


def _instructions(doc, plots):
    rows = doc.get('vm', {}).get('instructions')
    return report.instructions_table(rows) if rows else NOTHING


def _calls(doc, plots):
    if 'counts' not in doc:
        return NOTHING
    return _about(doc['counts']) + report.calls_table(doc['counts']['calls'])


def _own(doc, plots):
    if not doc.get('counts', {}).get('own'):
        return NOTHING
    return report.own_table(doc['counts']['own'])


def _engine(doc, plots):
    if 'counts' not in doc:
        return NOTHING
    found = doc['counts']['instructions']
    return [f'**{found["target"]:,.0f}** of target, protocol, transport and base.']


def _logins(doc, plots):
    if 'counts' not in doc:
        return NOTHING
    return report.logins_table(doc['counts']['logins'])


TABLES = {'goals': _goals, 'host': _host, 'vm': _vm,
          'instructions': _instructions, 'calls': _calls, 'own': _own,
          'engine': _engine, 'logins': _logins}
