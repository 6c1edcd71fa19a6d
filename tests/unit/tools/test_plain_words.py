"""The words check finds the phrases of the glossary, in prose and never in code."""

import contextlib
import io
import pathlib
import tempfile
import unittest

from tools.plain_words import files, hits, main

#: Sentences with one phrase each that is to be replaced, and the phrase as it is reported.
FOUND = (
    ('Facade for clusters: who wants one calls plan.', 'who'),
    ('Who works on it reads the store.', 'Who'),
    ('A list for who looks after machines.', 'for who'),
    ('The lease is for whoever claims it.', 'whoever'),
    ('Whoever holds it, writes.', 'Whoever'),
    ("'0' is no number above 0.", 'is no n'),
    ('Refusals are no reasons to stop.', 'are no r'),
    ('A node can be no upper layer.', 'be no u'),
    ('The first flavor, where there is none.', 'is none'),
    ('Servers were none.', 'were none'),
    ('The token is requested anew.', 'anew'),
    ('Of those that were deleted nothing is kept.', 'Of'),
    ('It ends. Of the rest, nothing goes.', 'Of'),
)
#: Neighbours of these phrases that are plain English.
LEFT_ALONE = (
    'A user who signs in sees the clusters.',
    'The person who holds the key decides.',
    'The lease is no longer held.',
    'There are no more nodes to build.',
    'There is no such backend.',
    'There is no server with this key.',
    'Returns None when the node is gone; the default is None.',
    'Of course it can be repeated.',
    'The state of a node, and none of its secrets.',
    'The renewal is due.',
)


class PlainWordsTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def found(self, name, text):
        return [(line, phrase) for line, phrase, _ in hits(self.write(name, text))]

    def run_main(self, *arguments):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            code = main([str(one) for one in arguments])
        return code, printed.getvalue()

    def test_each_phrase_of_the_glossary_is_found(self):
        for sentence, phrase in FOUND:
            with self.subTest(sentence):
                self.assertEqual(self.found('a.rst', sentence), [(1, phrase)])

    def test_a_plain_neighbour_of_a_phrase_is_left_alone(self):
        for sentence in LEFT_ALONE:
            with self.subTest(sentence):
                self.assertEqual(self.found('a.rst', sentence), [])
                self.assertEqual(self.found('a.py', f'"""{sentence}"""\n'), [])

    def test_docstrings_comments_and_strings_of_python_are_searched(self):
        source = (
            '"""Starts anew."""\n'
            '# For whoever calls.\n'
            "error = 'It is no key.'\n"
            "text = f'{error} is no file'\n"
        )
        lines = [line for line, _ in self.found('a.py', source)]
        self.assertEqual(lines, [1, 2, 3, 4])

    def test_python_code_is_not_searched(self):
        source = 'def who(anew, whoever):\n    return anew if whoever is none else who\n'
        self.assertEqual(self.found('a.py', source), [])

    def test_a_line_within_a_docstring_has_its_own_number(self):
        self.assertEqual(self.found('a.py', '"""One.\n\nIt starts anew.\n"""\n'), [(3, 'anew')])

    def test_prose_files_below_a_folder_are_searched_and_others_are_not(self):
        for name in ('a.py', 'b/c.rst', 'b/d.yaml', 'e.txt', 'f.svg', 'plain_words.py'):
            self.write(name, '# anew\n')
        names = [path.name for path in files([str(self.root)])]
        self.assertEqual(sorted(names), ['a.py', 'c.rst', 'd.yaml'])

    def test_a_hit_fails_the_check_and_is_printed_with_its_place_and_advice(self):
        path = self.write('a.rst', 'Plain.\nIt starts anew.\n')
        code, printed = self.run_main(path)
        self.assertEqual((code, printed), (1, f'{path}:2: \'anew\': write "again"\n'))

    def test_a_plain_file_passes_without_output(self):
        self.assertEqual(self.run_main(self.write('a.rst', 'It starts again.\n')), (0, ''))
