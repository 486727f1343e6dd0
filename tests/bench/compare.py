# SPDX-License-Identifier: BSD-2-Clause
"""
Two sides, the same job, in turns: A B, B A, A B, ... Each round gives one
ratio; what counts is their median. Each round begins with a control, the same
job on the bare backing: a round in which the machine was busy with other things
shows there, whatever the sides do, and is left out when enough others remain.
"""

import statistics
import sys
import time

import jobs as fio

NOISY = 0.25    # of the control's median: farther away is noise
FEW = 3         # rounds that have to remain


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


def run(job, side_a, side_b, control, rounds, seconds):
    """@control: a path to the bare backing, or None."""
    results = {side_a: [], side_b: []}
    controls = []
    for i in range(rounds):
        if control:
            controls.append(fio.run(job, control.path, control.size,
                                    max(1, seconds // 2)).value(job))
        order = (side_a, side_b) if i % 2 == 0 else (side_b, side_a)
        for side in order:
            results[side].append(fio.run(job, side.path, side.size, seconds))
    return figures(job, results[side_a], results[side_b], controls)
