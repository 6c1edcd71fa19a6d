"""Tests with random words: the command prints an error, but never a traceback."""

import contextlib
import io

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kiln.cli.commands import _HOMES
from kiln.cli.exit_codes import ExitCode
from tests.examples import examples
from tests.unit.cli.site_shell import SiteShell

#: Without commands that keep running, or that write elsewhere.
COMMANDS = sorted(
    name for name in _HOMES if name.split()[0] in ('up', 'plan', 'why', 'schema', 'cluster',
                                                   'node', 'template')
)  # fmt: skip
WORDS = st.one_of(
    st.sampled_from(
        ['web', 'front=1', '=1', 'a=', '1', '-1', '--plan', '--yes', '--no-wait', '-f', 'json',
         'text', '--timeout', '1e999', 'nan', '--set', '--remove', '--group', '--after', '--lines',
         '--parameter', 'a=[', '--image', '', '--', '-', '/', '/dev/null', '..', '--long']
    ),
    st.text(max_size=12),
)  # fmt: skip


class Fuzz(SiteShell):
    def setUp(self):
        super().setUp()
        self.up('--no-wait')

    @settings(
        max_examples=examples(10), deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )  # fmt: skip
    @given(command=st.sampled_from(COMMANDS), words=st.lists(WORDS, max_size=5))
    @example(command='template save', words=['\x00'])
    def test_no_words_cause_a_traceback(self, command, words):
        # This test is not about waiting.
        words = [word for word in words if word != '--follow']
        app = self.app()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(app.stderr):
            code = app.run(['--config-file', str(self.config), *command.split(), *words])
        said = app.stderr.getvalue()
        self.assertNotIn('Traceback', said)
        self.assertNotIn('defect of kiln', said)
        self.assertIn(code, set(ExitCode))
        if code not in (ExitCode.OK, ExitCode.UNFORESEEN):
            self.assertTrue(said.strip(), (command, words))
