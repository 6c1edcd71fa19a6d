"""The programs of the documentation run, and print what they state."""

import contextlib
import inspect
import io
import os
import pathlib
import re
import unittest.mock

import pytest

from kiln.compute.facade import Compute
from kiln.wrappers.operations.operation import Operation

EXAMPLES = pathlib.Path(__file__).parents[2] / 'doc' / 'examples'
# The programs in programs/ are run, and killed, by tests/functional/cli; the drivers in
# cluster_drivers/ are used by tests/functional/clusters/test_model_commands.py.
ELSEWHERE = {'programs', 'cluster_drivers'}
PROGRAMS = sorted(
    one for one in EXAMPLES.rglob('*.py') if not ELSEWHERE & set(one.relative_to(EXAMPLES).parts)
)

# Seconds between two polls: an example shows the calls, not their duration.
SOON = {'KILN_COMPUTE_NOOP__WATCH_INTERVAL': '0.1'}


@pytest.mark.parametrize('program', PROGRAMS, ids=lambda one: str(one.relative_to(EXAMPLES)))
def test_each_prints_what_its_comments_say(program):
    code = program.read_text()
    expected = re.findall(r'^ *print\(.*\)  # (.*)$', code, re.MULTILINE)
    assert expected
    said = io.StringIO()
    with unittest.mock.patch.dict(os.environ, SOON), contextlib.redirect_stdout(said):
        exec(compile(code, str(program), 'exec'), {})
    assert expected == said.getvalue().splitlines()


@pytest.mark.parametrize('face', [Compute, Operation])
def test_each_member_that_a_caller_may_use_has_one(face):
    members = {
        name
        for name, member in inspect.getmembers(face)
        if not name.startswith('_') and (callable(member) or isinstance(member, property))
    }
    assert members == {one.stem for one in (EXAMPLES / face.__name__.lower()).glob('*.py')}
