"""Picture of the dashboard, drawn from what a Prometheus has recorded.

    python -m tools.dashboard_picture http://127.0.0.1:9090 OUT.svg [MINUTES]

Not a screenshot of Grafana: the panels, their queries and legends are those of the dashboard, the
values are those of the Prometheus, and the drawing is plain SVG.
"""

from __future__ import annotations

import json
import math
import pathlib
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any
from xml.sax.saxutils import escape

DASHBOARD = pathlib.Path(__file__).parents[1] / 'doc/examples/prometheus/kiln-dashboard.json'
WIDTH, HEIGHT, COLUMNS = 400, 230, 3
#: The place of the curves in a panel.
LEFT, TOP, RIGHT, BOTTOM = 52, 34, 12, 78
POINTS = 120
#: Series of a panel that have a name in its legend.
NAMED = 6
COLORS = ('#1f77b4', '#d62728', '#2ca02c', '#ff7f0e', '#9467bd', '#8c564b', '#17becf', '#7f7f7f')
UNITS = {'s': ' s', 'bytes': ' B', 'reqps': '/s', 'short': ''}

Curve = tuple[str, list[tuple[float, float]]]


def curves(server: str, target: Mapping[str, str], begin: float, end: float) -> Iterator[Curve]:
    """Yield the curves of a query with their names in the legend."""
    step = max(1, round((end - begin) / POINTS))
    query = target['expr'].replace('$__rate_interval', '1m')
    words = {'query': query, 'start': begin, 'end': end, 'step': step}
    url = f'{server}/api/v1/query_range?{urllib.parse.urlencode(words)}'
    with urllib.request.urlopen(url) as answer:
        found = json.load(answer)['data']['result']
    for one in found:
        name = target['legendFormat']
        for label, value in one['metric'].items():
            name = name.replace(f'{{{{{label}}}}}', value)
        values = [(at, float(value)) for at, value in one['values']]
        yield name, [(at, value) for at, value in values if math.isfinite(value)]


def ceiling(value: float) -> float:
    """Return the least round number that is not lower."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= value)


def shown(value: float, unit: str) -> str:
    """Return a value with its unit."""
    for factor, prefix in ((1e6, 'M'), (1e3, 'k')):
        if value >= factor:
            return f'{value / factor:g} {prefix}{UNITS[unit].strip()}'.strip()
    return f'{value:g}{UNITS[unit]}'


def text(x: float, y: float, words: str, more: str = '') -> str:
    """Return a line of text."""
    return f'<text x="{x:.0f}" y="{y:.0f}" {more}>{escape(words)}</text>'


def panel(server: str, one: Mapping[str, Any], begin: float, end: float) -> Iterator[str]:
    """Yield the elements of a panel, from its upper left corner."""
    unit = one['fieldConfig']['defaults']['unit']
    found = [curve for target in one['targets'] for curve in curves(server, target, begin, end)]
    found.sort(key=lambda curve: -max((value for _, value in curve[1]), default=0.0))
    top = ceiling(max((value for _, line in found for _, value in line), default=0.0))
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    yield f'<rect x="4" y="4" width="{WIDTH - 8}" height="{HEIGHT - 8}" class="panel"/>'
    yield text(14, 22, one['title'], 'class="title"')
    for part in (0.0, 0.5, 1.0):
        y = TOP + high * (1 - part)
        yield f'<line x1="{LEFT}" x2="{LEFT + wide}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>'
        yield text(LEFT - 5, y + 3, shown(top * part, unit), 'text-anchor="end"')
    for x, at in ((LEFT, begin), (LEFT + wide, end)):
        anchor = 'start' if x == LEFT else 'end'
        words = f'{(at - end) / 60:+.0f} min' if at != end else 'end'
        yield text(x, TOP + high + 14, words, f'text-anchor="{anchor}"')
    for number, (name, line) in enumerate(found):
        color = COLORS[number % len(COLORS)]
        places = (
            (LEFT + wide * (at - begin) / (end - begin), TOP + high * (1 - value / top))
            for at, value in line
        )
        points = ' '.join(f'{x:.1f},{y:.1f}' for x, y in places)
        yield f'<polyline points="{points}" stroke="{color}"/>'
        if number < NAMED:
            x, y = 14 + (number % 2) * (WIDTH / 2 - 10), TOP + high + 32 + number // 2 * 13
            yield f'<rect x="{x:.0f}" y="{y - 7:.0f}" width="9" height="4" fill="{color}"/>'
            yield text(x + 13, y, name)
    if len(found) > NAMED:
        yield text(WIDTH - 12, 22, f'and {len(found) - NAMED} more', 'text-anchor="end"')


def picture(server: str, minutes: float) -> str:
    """Return the whole dashboard as it was in the last minutes."""
    panels = json.loads(DASHBOARD.read_text())['panels']
    rows = math.ceil(len(panels) / COLUMNS)
    end = time.time()
    size = f'{WIDTH * COLUMNS} {HEIGHT * rows}'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}">',
        '<style>text{font:10px sans-serif;fill:#444}.title{font:bold 12px sans-serif;fill:#222}'
        '.panel{fill:#fff;stroke:#ccc}.grid{stroke:#e4e4e4}'
        'polyline{fill:none;stroke-width:1.5}</style>',
        '<rect width="100%" height="100%" fill="#f4f5f7"/>',
    ]
    for number, one in enumerate(panels):
        x, y = number % COLUMNS * WIDTH, number // COLUMNS * HEIGHT
        parts.append(f'<g transform="translate({x} {y})">')
        parts += panel(server, one, end - 60 * minutes, end)
        parts.append('</g>')
    return '\n'.join([*parts, '</svg>', ''])


def main(arguments: list[str]) -> None:
    """Write the picture."""
    server, out, *rest = arguments
    pathlib.Path(out).write_text(picture(server, float(rest[0]) if rest else 5.0))


if __name__ == '__main__':
    main(sys.argv[1:])
