# SPDX-License-Identifier: BSD-2-Clause
"""Pictures of results: bars in SVG, with one style for all. They have a background of their
own, so that they can be read in light and in dark pages.

A picture has sides (A, B, ...), which its head names, and panels, each with one axis. A
panel has groups, and a group has a bar for each side that was measured. Each bar shows its
figure."""

import math
from dataclasses import dataclass
from html import escape

WIDTH = 860
MARGIN = 20
BAR = 13
STEP = BAR + 3          # from bar to bar
GAP = 12                # between groups
CHAR = 6.9              # of 12 px; sans-serif fonts are narrower
FIGURE = 72             # room for a figure behind a bar
STYLE = '''
text{font:12px -apple-system,"Segoe UI","Noto Sans","DejaVu Sans",Helvetica,Arial,sans-serif}
.head{font-size:16px;font-weight:600}.name{font-weight:600}.right{text-anchor:end}
.mid{text-anchor:middle}
.paper{fill:#fff;stroke:#d0d7de}text{fill:#1f2328}.soft{fill:#59636e}
.grid{stroke:#d8dee4}.a{fill:#0969da}.b{fill:#bc6a00}.c{fill:#6e7781}.d{fill:#8250df}
@media(prefers-color-scheme:dark){
.paper{fill:#0d1117;stroke:#3d444d}text{fill:#e6edf3}.soft{fill:#9da7b3}
.grid{stroke:#2f353d}.a{fill:#58a6ff}.b{fill:#e3a04a}.c{fill:#8b949e}.d{fill:#bc8cff}}
'''.replace('\n', '')


@dataclass(frozen=True)
class Panel:
    axis: str           # "IOPS, longer is better"
    groups: list        # (name, the figure of each side or None, words behind the first)


def figure(value):
    return f'{value:,.0f}' if value >= 10 else f'{value:.2f}'


def job_words(job):
    """'4k random read d8 x4' as '4 KiB random read, depth 8, 4 at once'."""
    words = []
    for word in job.split():
        if word[0] == 'd' and word[1:].isdigit():
            words[-1] += ','
            word = f'depth {word[1:]}'
        elif word[0] == 'x' and word[1:].isdigit():
            words[-1] += ','
            word = f'{word[1:]} at once'
        elif word in ('4k', '128k'):
            word = f'{word[:-1]} KiB'
        elif word == '1m':
            word = '1 MiB'
        words.append(word)
    return ' '.join(words)


def _ticks(most):
    """Round numbers from 0 to at least @most."""
    step = 10 ** math.floor(math.log10(most))
    step *= next(f for f in (0.2, 0.5, 1, 2) if most / (step * f) <= 6)
    return [step * i for i in range(math.ceil(most / step) + 1)]


def _text(x, y, words, kind='', more=''):
    more = more and f'<tspan dx="12" class="soft">{escape(more)}</tspan>'
    return (f'<text x="{x:.0f}" y="{y:.0f}" class="{kind}">{escape(words)}{more}'
            '</text>')


def _bars(panel, x, y, width):
    """Returns lines, and where they end."""
    ticks = _ticks(max(v for _, values, _ in panel.groups for v in values if v))
    scale = width / ticks[-1]
    bottom = y + sum(GAP + STEP * sum(v is not None for v in values)
                     for _, values, _ in panel.groups)
    lines = []
    for tick in ticks:
        at = x + tick * scale
        lines += [f'<path class="grid" d="M{at:.1f} {y}V{bottom}"/>',
                  _text(at, bottom + 16, f'{tick:,.10g}', 'soft mid')]
    y += GAP / 2
    for name, values, words in panel.groups:
        bars = [(i, v) for i, v in enumerate(values) if v is not None]
        lines.append(_text(x - 24, y + (STEP * len(bars) - 3) / 2 + 4, name, 'right'))
        for i, value in bars:
            letter = 'abcd'[i]
            if len(values) > 1:
                lines.append(_text(x - 8, y + BAR - 2, letter.upper(), 'soft mid'))
            lines += [f'<rect class="{letter}" x="{x:.0f}" y="{y:.0f}" '
                      f'width="{max(value * scale, 1):.1f}" height="{BAR}"/>',
                      _text(x + value * scale + 6, y + BAR - 2, figure(value),
                            more=words if i == bars[0][0] else '')]
            y += STEP
        y += GAP
    lines.append(_text(x + width / 2, bottom + 34, panel.axis, 'soft mid'))
    return lines, bottom + 34


def draw(path, title, about, sides, panels):
    """@about: lines below the title. @sides: what A, B, ... are; one has no letter."""
    names = max(len(name) for p in panels for name, _, _ in p.groups)
    words = max(len(words) for p in panels for _, _, words in p.groups)
    x = MARGIN + 24 + names * CHAR
    width = WIDTH - MARGIN - FIGURE - words * CHAR - x
    y = MARGIN + 14
    lines = [_text(MARGIN, y, title, 'head')]
    for line in about:
        y += 19
        lines.append(_text(MARGIN, y, line, 'soft'))
    y += 10
    for letter, side in zip('abcd', sides if len(sides) > 1 else []):
        y += 18
        lines += [f'<rect class="{letter}" x="{MARGIN}" y="{y - 10}" width="12" '
                  'height="12"/>',
                  _text(MARGIN + 20, y, letter.upper(), 'name'),
                  _text(MARGIN + 36, y, side)]
    for panel in panels:
        more, y = _bars(panel, x, y + 16, width)
        lines += more
    height = y + MARGIN - 4
    with open(path, 'w', encoding='utf-8') as f:
        f.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" '
                f'height="{height:.0f}" viewBox="0 0 {WIDTH} {height:.0f}" role="img">\n'
                f'<title>{escape(title)}</title><style>{STYLE}</style>\n'
                f'<rect class="paper" x=".5" y=".5" width="{WIDTH - 1}" '
                f'height="{height - 1:.0f}" rx="6"/>\n')
        f.write('\n'.join(lines) + '\n</svg>\n')
