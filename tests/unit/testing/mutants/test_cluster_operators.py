"""Operators for cluster drivers make their mistakes in code, templates and manifests."""

import textwrap
import unittest

from kiln.testing.mutants.mutants import mutants_of
from kiln.testing.mutants.operators import CLUSTER_OPERATORS
from kiln.testing.mutants.texts import TEXT_OPERATORS, mutants_of_text

#: An operator, a source, and a part of each of its mutants that the source has not.
CODE = (
    ('too_early', "return Readiness.not_yet('it boots')", ['.READY']),
    ('too_early', "return Readiness.failed('no licence')", ["Readiness.not_yet('no licence')"]),
    ('too_early', "return Drained(done=False, reason='busy')", ['.DRAINED']),
    ('too_early', 'return READY', []),
    ('too_late', 'return READY', ["Readiness.not_yet('it boots')"]),
    ('too_late', 'return DRAINED if x else y', ["Drained(False, 'it has work') if x"]),
    ('log_secret', 'key = context.secrets.get(name)', ['warning(key)']),
    ('log_secret', 'self._token = join_token(context, node)', ['warning(self._token)']),
    ('log_secret', 'key = context.site', []),
    ('wrong_progress', 'x = Progress.UNKNOWN', ['Progress.FAILED']),
    ('wrong_progress', 'x = NodeState.READY', ['NodeState.JOINING']),
    ('wrong_progress', 'x = NodeState.PLANNED', []),
    ('wrong_identity', 'x = cluster.id', ['cluster.name']),
    ('wrong_identity', 'x = node.name, node.attempt', ['node.group, node.attempt']),
    ('wrong_identity', 'x = cluster.spec', []),
    ('wait_inside', "def drain(self):\n    'Move.'\n    return x", ['sleep(10)\n    return x']),
    ('wait_inside', 'def helper(self):\n    return x', []),
    ('keep_first_answer', 'class A:\n    def is_ready(self):\n        pass', ['kept={}']),
    ('keep_first_answer', 'class A:\n    def helper(self):\n        pass', []),
    ('depend_on_process', "x = f'kiln-{name}'", ['getpid()', 'getcwd()', 'time()']),
    ('depend_on_process', "raise Gone(f'{name} is gone')", []),
    ('depend_on_process', "x = Drained(done=False, reason=f'{name}')", []),
    ('depend_on_process', "x = Readiness.not_yet(f'{name} boots')", []),
    ('flip_flag', 'x = f(done=False)', ['f(done=True)']),
    ('flip_flag', 'x = 0', []),
)
MANIFEST = """\
# Pages.
name: web_v1
parameters:
  port: {type: integer, default: 80, help: 'The port, of pages.'}
  key:
    secret: true
files:
  /etc/web: {template: web, mode: '0600'}
"""
TEMPLATE = """\
#!/bin/sh
# Starts it.

NAME={{ node.name | shell }}
{
"""
#: An operator, and the lines of the file that its mutants have instead.
MANIFESTS = (
    (
        'drop_line',
        [
            [],
            [],
            [],
            [],
        ],
    ),
    (
        'drop_key',
        [
            ["  port: {default: 80, help: 'The port, of pages.'}"],
            ["  port: {type: integer, help: 'The port, of pages.'}"],
            ["  /etc/web: {mode: '0600'}"],
            ['  /etc/web: {template: web, }'],
        ],
    ),
    (
        'change_default',
        [["  port: {type: integer, default: 81, help: 'The port, of pages.'}"]],
    ),
    ('flip_key', [['    secret: false']]),
    ('loosen_mode', [["  /etc/web: {template: web, mode: '0644'}"]]),
    ('drop_filter', []),
    ('wrong_fact', []),
)
TEMPLATES = (
    ('drop_line', [[], []]),
    ('drop_filter', [['NAME={{ node.name }}']]),
    ('wrong_fact', [['NAME={{ cluster.name | shell }}']]),
    ('drop_key', []),
)


def new_lines(mutant):
    """Return the lines of a mutant that the file has not."""
    known = mutant.original.splitlines()
    return [line for line in mutant.source.splitlines() if line not in known]


class InCode(unittest.TestCase):
    def test_an_operator_makes_its_mistake_at_each_place(self):
        for operator, source, expected in CODE:
            with self.subTest(operator, source=source):
                text = f'def f():\n{textwrap.indent(source, "    ")}\n'
                found = [one.source for one in mutants_of('acme', text, [operator])]
                self.assertEqual(len(expected), len(found))
                for part, mutant in zip(expected, found, strict=True):
                    self.assertIn(part, mutant.replace('\n    ', '\n'))
                    compile(mutant, 'acme', 'exec')

    def test_every_operator_is_shown_here_and_described(self):
        self.assertEqual(set(CLUSTER_OPERATORS), {name for name, *_ in CODE})
        for name, operator in CLUSTER_OPERATORS.items():
            self.assertRegex(operator.__doc__, r'^[A-Z].*\.$', name)


class InTexts(unittest.TestCase):
    def check(self, file, text, table):
        for operator, expected in table:
            with self.subTest(operator):
                mutants = mutants_of_text(file, text, [operator])
                self.assertEqual(expected, [new_lines(one) for one in mutants])

    def test_an_operator_makes_its_mistake_in_a_manifest(self):
        self.check('web_v1/driver.yaml', MANIFEST, MANIFESTS)

    def test_an_operator_makes_its_mistake_in_a_template(self):
        self.check('web_v1/templates/start.sh', TEMPLATE, TEMPLATES)

    def test_comments_braces_and_heads_of_blocks_are_left_alone(self):
        for file, text in (('web_v1/driver.yaml', MANIFEST), ('web_v1/templates/web', TEMPLATE)):
            dropped = [
                one.change.removeprefix('drop: ')
                for one in mutants_of_text(file, text, ['drop_line'])
            ]
            for line in ('# Pages.', 'parameters:', '# Starts it.', '{'):
                self.assertNotIn(line, dropped)

    def test_every_operator_is_shown_here_and_described(self):
        self.assertEqual(set(TEXT_OPERATORS), {name for name, _ in (*MANIFESTS, *TEMPLATES)})
        for name, operator in TEXT_OPERATORS.items():
            self.assertRegex(operator.__doc__, r'^[A-Z].*\.$', name)
