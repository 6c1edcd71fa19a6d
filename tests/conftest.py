"""What holds for all tests."""

import gc
import os
import sys
import time

import pytest
from hypothesis import HealthCheck, settings

from tests.examples import examples
from tests.time_limit import LEFT_OUT, is_left_out, told

# No test asserts how long something takes: the machine may be busy.
settings.register_profile(
    'kiln',
    max_examples=examples(30),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile('kiln')


def pytest_collection_finish():
    """Take what was imported for no garbage: to look through it again and again takes long."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish():
    """Keep what was covered: a worker that does not end soon after its tests is killed."""
    coverage = sys.modules.get('coverage')
    counting = coverage and coverage.Coverage.current()
    if counting:
        counting.stop()
        counting.save()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Leave out what is long and late, before anything is set up for it."""
    if is_left_out(item.nodeid):
        pytest.skip(LEFT_OUT)


def pytest_terminal_summary(terminalreporter):
    """Say what was left out."""
    left_out = [
        report.nodeid
        for report in terminalreporter.stats.get('skipped', ())
        if LEFT_OUT in str(report.longrepr)
    ]
    if left_out:
        terminalreporter.write_line(f'{LEFT_OUT}: {told(left_out)}')


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Note what a test took, with all that is set up for it, for tools/timetable.py."""
    times = os.environ.get('KILN_TIMES')
    began, cpu_s = time.monotonic(), sum(os.times()[:4])
    try:
        return (yield)
    finally:
        # As in a process of its own: the secrets of one test are words of another.
        if known := sys.modules.get('kiln.errors.known'):
            known.KNOWN_SECRETS.__init__()
        if times:
            took = f'{time.monotonic() - began:.3f}\t{sum(os.times()[:4]) - cpu_s:.3f}'
            with open(times, 'a') as file:
                file.write(f'test\t{took}\t{item.nodeid}\n')
