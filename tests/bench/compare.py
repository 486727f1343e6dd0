# SPDX-License-Identifier: BSD-2-Clause
"""
The same job on several sides, in turns: A B C, C B A, A B C, ... Each round gives
one ratio of two sides; what counts is the median. A round runs all jobs once, with
programs that were started for it: one start of a program may be faster than the
next for as long as it runs, and one start would decide all rounds. Each job begins
with a control, the same on the bare backing: a round in which the machine was busy
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


@dataclass
class Rounds:
    """What the sides of some comparisons made of one job, round by round."""

    job: object
    control: object
    comparisons: list = field(default_factory=list)
    results: dict = field(default_factory=dict)     # of each side
    controls: list = field(default_factory=list)

    def sides(self):
        return list(dict.fromkeys(s for c in self.comparisons
                                  for s in (c.a, c.b)))

    def run(self, number, seconds):
        turn = self.sides()
        if number % 2 == 1:
            turn.reverse()
        places = [(s.path, s.size, seconds) for s in turn]
        if self.control:
            places.insert(0, (self.control.path, self.control.size,
                              max(1, seconds // 2)))
        found = fio.run(self.job, places)
        if self.control:
            self.controls.append(found.pop(0).value(self.job))
        for side, result in zip(turn, found):
            self.results.setdefault(side, []).append(result)

    def row(self, comparison):
        return figures(self.job, self.results[comparison.a],
                       self.results[comparison.b], self.controls)


def measure(plan, rounds, seconds):
    """Fills in the rows of all comparisons in @plan, whose sides are up."""
    groups = {}
    for c in plan:
        for job in c.jobs:
            group = groups.setdefault((job, c.control),
                                      Rounds(job, c.control))
            group.comparisons.append(c)
    progress = Progress(len(groups) * rounds)
    for i in range(rounds):
        if i:
            renew(groups.values())
        for group in groups.values():
            group.run(i, seconds)
            progress.step(f'round {i + 1}, {group.job.name}: ' + ', '.join(
                f'{c.id} {group.row(c)["ratio"]:.2f}'
                for c in group.comparisons))
    for group in groups.values():
        for c in group.comparisons:
            c.rows.append(group.row(c))


def renew(groups):
    for side in dict.fromkeys(s for group in groups for s in group.sides()):
        side.renew(fio.fill)


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
