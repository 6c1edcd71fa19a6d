"""The Python examples of the documentation are valid, and run on a simulated cloud."""

import contextlib
import io
import os
import signal
import sys
import threading
import unittest.mock

import pytest

import kiln
from kiln.models import Placement
from tests.unit.docs.pages import ROOT, blocks

PYTHON = blocks('python')

#: Examples that are only compiled: what they show is part of something else.
PARTS = {
    'prometheus_client.start_http_server(9464)': 'it takes a fixed port of the machine; '
    'tests/unit/telemetry serves the same on a free one',
    'class PowerTest(CloudTestCase)': 'it needs a real Nova; tests/functional/nova has such tests',
    'def _suspend(self': 'a method of a driver that the guide builds; '
    'tests/functional/scaffold follows the guide',
    "fault_proxies({'identity'": 'it needs a real Keystone and Nova; '
    'tests/unit/testing/proxy/test_urls.py has the same call',
    'deadline = current_deadline()': 'a part of a method; tests/unit/testing/test_teaching.py',
    'from stack_v1.bench import StackBench': 'it needs the engine of the example; '
    'tests/functional/clusters/test_model_commands.py runs it',
}
SETTINGS = {
    # Seconds between two polls: an example shows the calls, not their duration.
    'KILN_COMPUTE_NOOP__WATCH_INTERVAL': '0.1',
    'KILN_COMPUTE_EAST__WATCH_INTERVAL': '0.1',
    'KILN_COMPUTE_EAST__DRIVER': 'noop',
}


def part_of(block):
    return next((reason for sign, reason in PARTS.items() if sign in block.text), None)


@pytest.mark.parametrize('block', PYTHON, ids=str)
def test_an_example_is_valid_python(block):
    compile(block.text, str(block), 'exec')


@pytest.mark.parametrize('block', [one for one in PYTHON if not part_of(one)], ids=str)
def test_an_example_runs(block):
    former = signal.getsignal(signal.SIGTERM)
    said = io.StringIO()
    with (
        unittest.mock.patch.dict(os.environ, SETTINGS),
        unittest.mock.patch.object(
            sys, 'path', [*sys.path, str(ROOT / 'doc/examples/cluster_drivers')]
        ),
        contextlib.redirect_stdout(said),
        kiln.open_compute('noop') as compute,
    ):
        names = {
            'compute': compute,
            'kiln': kiln,
            'Placement': Placement,
            # What a reader brings to these examples.
            'control': lambda compute: compute.build(until='active').result(),
            'try_again_in': threading.Event().wait,
        }
        try:
            exec(compile(block.text, str(block), 'exec'), names)
            if 'machine' in names:
                assert names['machine'](compute, 'lb-1')
        finally:
            signal.signal(signal.SIGTERM, former)


def test_every_exception_is_of_an_example():
    for sign in PARTS:
        assert [block for block in PYTHON if sign in block.text], sign
