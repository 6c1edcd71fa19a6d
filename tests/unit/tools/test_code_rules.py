"""Each rule of security finds its samples, and leaves their neighbours alone."""

import contextlib
import io
import pathlib
import tempfile
import unittest

from tools.code_rules import EXCUSED, breaches, main

ROOT = pathlib.Path(__file__).parents[3]
#: Code that breaks one rule, by that rule.
FOUND = (
    ('objects', 'import pickle'),
    ('objects', 'from marshal import loads'),
    ('objects', 'def f():\n    import shelve as s'),
    ('tls', 'context.verify_mode = ssl.CERT_NONE'),
    ('tls', 'context.check_hostname = False'),
    ('tls', 'context = ssl._create_unverified_context()'),
    ('tls', 'from ssl import CERT_NONE'),
    ('tls', 'session.verify = False'),
    ('tls', 'session.get(url, verify=False)'),
    ('tls', 'if insecure:\n    pass\nelse:\n    context.check_hostname = False'),
    ('tls', 'if not conf.insecure:\n    context.check_hostname = False'),
    ('environment', 'subprocess.run([program])'),
    ('environment', 'subprocess.Popen([program], env=None)'),
    ('environment', 'from subprocess import run'),
    ('yaml', 'yaml.safe_load(text)'),
    ('yaml', 'from yaml import load'),
    ('session', 'def f():\n    return requests.Session()'),
    ('session', 'class Ours(requests.Session):\n    pass'),
    ('session', 'requests.get(url)'),
    ('noqa', "where = '/tmp'  # noqa: S108"),
    ('noqa', "where = '/tmp'  # noqa: E501, S108"),
)
LEFT_ALONE = (
    'import json',
    'if conf.insecure:\n    context.check_hostname = False\n    session.verify = False',
    'context.check_hostname = True',
    'subprocess.run([program], env={})',
    'for event in yaml.parse(text, Loader=yaml.SafeLoader):\n    pass',
    'def f():\n    session = requests.Session()\n    session.trust_env = False',
    'class Ours(requests.Session):\n    def __init__(self):\n        self.trust_env = False',
    "where = '/tmp'  # noqa: S108  # a folder of its own",
    'def visit_If(self):  # noqa: N802\n    pass',
)


class CodeRulesTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.path = self.root / 'a.py'

    def found(self, text):
        self.path.write_text(text)
        return [words.partition(':')[0] for _, words in breaches(self.path)]

    def run_main(self, *arguments):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            code = main([str(one) for one in arguments])
        return code, printed.getvalue()

    def test_each_rule_finds_its_samples(self):
        for rule, text in FOUND:
            with self.subTest(text):
                self.assertEqual(self.found(text), [rule])

    def test_neighbours_of_the_samples_are_left_alone(self):
        for text in LEFT_ALONE:
            with self.subTest(text):
                self.assertEqual(self.found(text), [])

    def test_a_breach_is_printed_with_its_place_and_fails_the_check(self):
        self.path.write_text('import json\nimport pickle\n')
        code, printed = self.run_main(self.root)
        self.assertEqual(code, 1)
        self.assertEqual(printed.partition(' such')[0], f'{self.path}:2: objects:')

    def test_good_code_passes_without_output(self):
        self.path.write_text('import json\n')
        self.assertEqual(self.run_main(self.root), (0, ''))

    def test_each_excuse_is_for_a_file_that_exists(self):
        for _, path in EXCUSED:
            self.assertTrue((ROOT / path).exists(), path)
