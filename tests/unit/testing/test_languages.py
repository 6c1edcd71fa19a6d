"""Files of nodes, by language: what is well formed, and the parts of a document."""

import unittest

from kiln.testing.clusters.languages import Leaf, Malformed, language_of, leaves_of

LANGUAGES = {
    ('/etc/a.json', '{}'): 'json',
    ('/etc/a.yml', 'a: 1'): 'yaml',
    ('user data', '#cloud-config\na: 1'): 'yaml',
    ('user data start.sh', 'echo'): 'shell',
    ('/etc/run', '#!/usr/bin/env -S bash -e\necho'): 'shell',
    ('/etc/run', '#!/usr/bin/python3\npass'): 'python',
    ('/etc/run.py', '#!/usr/bin/perl\n1;'): '',
    ('/etc/a.ini', '[a]'): '',
}
WRONG = {
    ('/etc/a.json', '{"a": 1,}'): 'not JSON: line 1',
    ('/etc/a.yaml', 'a: [1'): 'not YAML: line 1',
    ('/etc/run', '#!/bin/sh\nif true; then'): 'a shell cannot read it',
    ('/etc/run', '#!/bin/sh\nrm -rf "$NOTHING"\n'): 'it uses NOTHING',
    ('/etc/run.py', 'def'): 'not Python',
}


class LanguagesTest(unittest.TestCase):
    def test_a_file_has_the_language_of_its_first_line_or_of_its_name(self):
        for (name, text), language in LANGUAGES.items():
            self.assertEqual(language, language_of(name, text), (name, text))

    def test_what_is_not_of_its_language_is_malformed(self):
        for (name, text), reason in WRONG.items():
            with self.assertRaisesRegex(Malformed, reason):
                leaves_of(name, text.encode())

    def test_what_is_well_formed_passes(self):
        for name, text in (
            ('/etc/run', '#!/bin/sh\nrm -rf "$HOME"\n'),
            ('/etc/run.py', 'pass\n'),
            ('/etc/a.ini', '[a'),
        ):
            self.assertEqual((), leaves_of(name, text.encode()))
        self.assertEqual((), leaves_of('/etc/a.json', b'\x1f\x8b'))

    def test_a_number_in_json_is_no_text(self):
        same = leaves_of('a.json', b'{"a": ["007", 7, null]}')
        self.assertEqual(
            [
                Leaf('mapping of 1'), Leaf('str', 'a'), Leaf('list of 3'),
                Leaf('str', '007'), Leaf('int'), Leaf('NoneType'),
            ],
            list(same),
        )  # fmt: skip

    def test_a_word_in_yaml_can_be_a_number_or_false(self):
        found = leaves_of('a.yaml', b'a: [no, 007, "no", x]')
        kinds = [one.kind for one in found]
        self.assertEqual(['map of 1', 'str', 'seq of 4', 'bool', 'int', 'str', 'str'], kinds)
        self.assertEqual('no', found[-2].text)
