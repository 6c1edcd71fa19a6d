"""Timetable of a CI run: its steps, and the suites of its tests.

    python -m tools.timetable FILE NOW_S

FILE has a line for each step that begins, written by ``.ci/run``, and one for each test,
written by ``tests/conftest.py``. The CPU time is that of processes that were waited for:
suites leave out servers that outlive a test.
"""

import sys
from collections.abc import Iterable, Iterator

#: A folder each of whose folders is a suite; elsewhere each is one that stands in tests.
DEEP = 'tests/functional/'
#: The last entry of a lane.
OVER = 'over'
HEAD = '{:>7} {:>7} {:>6}  {}'
ROW = '{:7.0f} {:7.0f} {:>6}  {}'


def suite_of(test: str) -> str:
    """Return the folder whose tests are counted together."""
    folders = test.split('::')[0].split('/')
    return '/'.join(folders[: 3 if test.startswith(DEEP) else 2])


def table(lines: Iterable[str], now_s: float) -> Iterator[str]:
    """Add up the entries; a step lasts until the next one of its lane, or until now."""
    suites: dict[str, list[float]] = {}
    lanes: dict[str, list[tuple[float, float, str]]] = {}
    for line in lines:
        kind, wall, cpu, name = line.rstrip('\n').split('\t')
        if kind == 'test':
            suite = suites.setdefault(suite_of(name), [0.0, 0.0, 0.0])
            suite[:] = suite[0] + float(wall), suite[1] + float(cpu), suite[2] + 1
        else:
            lanes.setdefault(kind, []).append((float(wall), float(cpu), name))
    yield HEAD.format('wall s', 'CPU s', '', 'lane and step')
    for lane, steps in lanes.items():
        ends = [*steps[1:], (now_s, steps[-1][1], OVER)]
        for (began, cpu, name), (end, cpu_then, _) in zip(steps, ends, strict=True):
            if name != OVER:
                yield ROW.format(end - began, cpu_then - cpu, '', f'{lane}: {name}')
    yield HEAD.format('wall s', 'CPU s', 'tests', 'suite')
    for name, (wall, cpu, count) in sorted(suites.items(), key=lambda each: -each[1][0]):
        yield ROW.format(wall, cpu, int(count), name)


if __name__ == '__main__':
    with open(sys.argv[1]) as noted:
        print('\n'.join(table(noted, float(sys.argv[2]))))
