# SPDX-License-Identifier: BSD-2-Clause
"""
Runs the same job on several sides in turns: A B C, C B A, A B C, ... Each round
gives one ratio of two sides. The result is the median. A round runs all jobs
once, with programs that were started for it, because one start of a program may
be faster than the next one for as long as the program runs. Each job begins
with a control: the same job on the bare backing. It shows rounds in which the
machine had other work, independently of the sides. These rounds are left out if
enough others remain.
"""

import statistics
import sys
import time
from dataclasses import dataclass, field

import jobs as fio

NOISY = 0.25    # of the control's median; a larger deviation is noise
FEW = 3         # number of rounds that must remain


@dataclass
class Comparison:
    """Side @a against side @b. Comparisons of one group that have a job in
    common run it in the same rounds."""

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
    """Returns the numbers of the rounds that count."""
    if not controls:
        return []
    middle = statistics.median(controls)
    quiet = [i for i, c in enumerate(controls)
             if abs(c - middle) <= NOISY * middle]
    return quiet if len(quiet) >= FEW else list(range(len(controls)))


def one_round(job, a, b, control):
    """Returns the ratios of the results of two sides."""
    return {
        'job': job.name,
        'unit': 'MiB/s' if job.sequential else 'IOPS',
        'a': a.value(job),
        'b': b.value(job),
        'a_lat_us': a.lat_us,
        'b_lat_us': b.lat_us,
        'a_p99_us': a.p99_us,
        'b_p99_us': b.p99_us,
        'ratio': a.value(job) / b.value(job),
        'control': control,
    }


def merged(rounds):
    """Returns the medians of a job's rounds."""
    controls = [r['control'] for r in rounds if r['control']]
    quiet = quiet_rounds(controls) or list(range(len(rounds)))
    ratios = [rounds[i]['ratio'] for i in quiet]
    found = {key: statistics.median(r[key] for r in rounds)
             for key in ('a', 'b', 'a_lat_us', 'b_lat_us', 'a_p99_us',
                         'b_p99_us')}
    return {
        'job': rounds[0]['job'],
        'unit': rounds[0]['unit'],
        **found,
        'ratio': statistics.median(ratios),
        'ratio_min': min(ratios),
        'ratio_max': max(ratios),
        'control': statistics.median(controls) if controls else None,
        'rounds': len(rounds),
        'noisy_rounds': len(rounds) - len(quiet),
    }


def merge(runs):
    """Merges runs of the same comparisons, with one round each."""
    found = [dict(c) for c in runs[0]]
    for i, c in enumerate(found):
        c['rows'] = [merged([run[i]['rows'][k] for run in runs])
                     for k in range(len(c['rows']))]
    return found


@dataclass
class Rounds:
    """The results of one job on the sides of some comparisons, for each
    round."""

    job: object
    control: object
    comparisons: list = field(default_factory=list)
    results: dict = field(default_factory=dict)     # the results of each side
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
        a, b = self.results[comparison.a], self.results[comparison.b]
        controls = self.controls or [None] * len(a)
        return merged([one_round(self.job, *r) for r in zip(a, b, controls)])


def measure(plan, numbers, seconds):
    """Fills in the rows of all comparisons in @plan, whose sides are
    running."""
    groups = {}
    for c in plan:
        for job in c.jobs:
            group = groups.setdefault((job, c.control),
                                      Rounds(job, c.control))
            group.comparisons.append(c)
    progress = Progress(len(groups) * len(numbers))
    for i in numbers:
        if i != numbers[0]:
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
    """Measures the comparisons in @plan that were requested. Their sides are
    running."""
    plan = [c for c in plan if not args.only or c.id in args.only]
    numbers = range(args.rounds) if args.only_round is None else \
        range(args.only_round, args.only_round + 1)
    measure(plan, numbers, args.seconds)
    return [{'id': c.id, 'title': c.title, 'about': c.about,
             'a': c.a.label, 'b': c.b.label, 'rows': c.rows,
             'commands': {'a': c.a.commands, 'b': c.b.commands,
                          'fio': ' '.join(fio.command(
                              c.jobs[0], [('$PATH', c.a.size,
                                           args.seconds)]))}}
            for c in plan]
