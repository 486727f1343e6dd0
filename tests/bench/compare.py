# SPDX-License-Identifier: BSD-2-Clause
"""
The same job on several sides, in turns: A B C, C B A, A B C, ... Each round gives
one ratio of two sides; what counts is the median. Each round begins with a
control, the same job on the bare backing: a round in which the machine was busy
with other things shows there, whatever the sides do, and is left out when enough
others remain.
"""

import statistics
import sys
import time
from dataclasses import dataclass, field

import jobs as fio

NOISY = 0.25    # of the control's median: farther away is noise
FEW = 3         # rounds that have to remain


@dataclass
class Comparison:
    """Side @a against side @b. Those of one group that have a job in common
    run it in the same rounds."""

    id: str
    title: str
    about: str
    a: object
    b: object
    jobs: list
    control: object = None      # a side: the bare backing
    rows: list = field(default_factory=list)


class Progress:
    def __init__(self, total):
        self.total = total
        self.done = 0
        self.begin = time.monotonic()

    def step(self, text):
        self.done += 1
        spent = time.monotonic() - self.begin
        left = spent / self.done * (self.total - self.done)
        print(f'bench: [{self.done}/{self.total}, {left / 60:.0f} min left] '
              f'{text}', file=sys.stderr, flush=True)


def quiet_rounds(controls):
    """Numbers of the rounds that count."""
    if not controls:
        return []
    middle = statistics.median(controls)
    quiet = [i for i, c in enumerate(controls)
             if abs(c - middle) <= NOISY * middle]
    return quiet if len(quiet) >= FEW else list(range(len(controls)))


def figures(job, a, b, controls):
    """Of the rounds' results for @a and @b: the medians and the ratios."""
    quiet = quiet_rounds(controls) or list(range(len(a)))
    ratios = [a[i].value(job) / b[i].value(job) for i in quiet]
    return {
        'job': job.name,
        'unit': 'MiB/s' if job.sequential else 'IOPS',
        'a': statistics.median(r.value(job) for r in a),
        'b': statistics.median(r.value(job) for r in b),
        'a_lat_us': statistics.median(r.lat_us for r in a),
        'b_lat_us': statistics.median(r.lat_us for r in b),
        'a_p99_us': statistics.median(r.p99_us for r in a),
        'b_p99_us': statistics.median(r.p99_us for r in b),
        'ratio': statistics.median(ratios),
        'ratio_min': min(ratios),
        'ratio_max': max(ratios),
        'control': statistics.median(controls) if controls else None,
        'rounds': len(a),
        'noisy_rounds': len(a) - len(quiet),
    }


def run_rounds(job, sides, control, rounds, seconds):
    """Returns the rounds' results of each side, and those of the control."""
    results = {side: [] for side in sides}
    controls = []
    for i in range(rounds):
        turn = list(sides) if i % 2 == 0 else list(reversed(sides))
        places = [(s.path, s.size, seconds) for s in turn]
        if control:
            places.insert(0, (control.path, control.size,
                              max(1, seconds // 2)))
        found = fio.run(job, places)
        if control:
            controls.append(found.pop(0).value(job))
        for side, result in zip(turn, found):
            results[side].append(result)
    return results, controls


def measure(plan, rounds, seconds):
    """Fills in the rows of all comparisons in @plan, whose sides are up."""
    groups = {}     # (job, control): comparisons
    for c in plan:
        for job in c.jobs:
            groups.setdefault((job, c.control), []).append(c)
    progress = Progress(len(groups))
    for (job, control), comparisons in groups.items():
        sides = list(dict.fromkeys(s for c in comparisons
                                   for s in (c.a, c.b)))
        results, controls = run_rounds(job, sides, control, rounds, seconds)
        said = []
        for c in comparisons:
            c.rows.append(figures(job, results[c.a], results[c.b], controls))
            said.append(f'{c.id} {c.rows[-1]["ratio"]:.2f}')
        progress.step(f'{job.name}: {", ".join(said)}')


def results(args, plan):
    """Measures those of @plan that were asked for; their sides are up."""
    plan = [c for c in plan if not args.only or c.id in args.only]
    measure(plan, args.rounds, args.seconds)
    return [{'id': c.id, 'title': c.title, 'about': c.about,
             'a': c.a.label, 'b': c.b.label, 'rows': c.rows,
             'commands': {'a': c.a.commands, 'b': c.b.commands,
                          'fio': ' '.join(fio.command(
                              c.jobs[0], [('$PATH', c.a.size,
                                           args.seconds)]))}}
            for c in plan]
