"""Languages of templates, and places that were accepted and did not quote."""

import unittest

from kiln.cluster_drivers.templates.language import TextTemplate
from kiln.cluster_drivers.templates.quoting import misplaced, unchecked
from tests.turns import turns

SH = '#!/bin/sh\n'
BASH = '#!/bin/bash\n'
PYTHON = '#!/usr/bin/env python3\n'


def wrong(text, file='t'):
    return list(misplaced(TextTemplate(text, file=file)))


class Scripts(unittest.TestCase):
    def test_an_unknown_interpreter_takes_no_filter_that_quotes(self):
        for first in '#!/usr/bin/perl', '#!/bin/busybox awk', '#!/bin/sh -k', '#!{{ a }}':
            for quoting in 'json', 'shell':
                (problem,) = wrong(f'{first}\nA={{{{ a | {quoting} }}}}')
                self.assertIn('interpreter', problem.message)

    def test_a_file_that_is_run_without_an_interpreter_is_a_shell_script(self):
        for text in 'A="{{ a | shell }}"', 'A={{ a | json }}':
            self.assertEqual(1, len(list(misplaced(TextTemplate(text), is_script=True))))
            self.assertEqual(1, len(wrong(text, file='x.sh')))
            self.assertEqual(1, len(wrong('#cloud-boothook\n' + text)))

    def test_the_check_takes_time_in_proportion_to_the_length(self):
        for part in (
            'cat <<EOF\nx\n', 'cat <<EOF\nx\nEOF\n', 'x="$(a', "'", '"', 'x {{ a | shell }} ',
            '((', '$(( ', '{{ a | shell }}', 'A={{ a | shell }}\n', 'x \\\n', '# \n', ' \t',
        ):  # fmt: skip
            for prefix in SH, SH + 'cat <<EOF\n':
                text = prefix + part * (50_000 // len(part))
                self.assertLess(turns(lambda text=text: wrong(text)), 800, part)


class InPython(unittest.TestCase):
    def test_the_json_filter_is_accepted_for_a_whole_operand(self):
        for text in (
            'A = {{ a | json }}', "f(x, {{ a | json }}, [{{ a | json }}])  # it's",
            'A = """x\n"""\nB = {{ a | json }}', 'if a:\n    B = {{ a | json }}',
            'A = "{{ a }}"\nB={{ a | json }}',
        ):  # fmt: skip
            self.assertEqual([], wrong(PYTHON + text), text)

    def test_the_json_filter_is_refused_in_strings_comments_and_words(self):
        for text in (
            "A = '{{ a | json }}'", "A = '''\nB = {{ a | json }}\n'''", '# {{ a | json }}',
            'A = "x" {{ a | json }}', 'A = x{{ a | json }}', 'A = {{ a | json }} + 1',
            "A = ''{{ a }}'x'\nB = {{ a | json }}", "A = {{ a }}'x'\nB = {{ a | json }}",
            "A = f'{x}'\nB = {{ a | json }}", "A = '\\{{ a }}'\nB = {{ a | json }}",
            'A = {{ a | json }}x', "A = '\nB = {{ a | json }}",
            '# coding: {{ a }}\nA = {{ a | json }}', '# coding: latin-1\nA = {{ a | json }}',
        ):  # fmt: skip
            with self.subTest(text):
                self.assertEqual(1, len(wrong(PYTHON + text)))

    def test_the_shell_filter_is_refused(self):
        (problem,) = wrong(PYTHON + 'A = {{ a | shell }}')
        self.assertIn('not a shell', problem.message)


class Unchecked(unittest.TestCase):
    def test_a_file_of_another_kind_is_reported_as_not_checked(self):
        template = TextTemplate('A="{{ a | shell }}"', file='x.conf')
        self.assertEqual([], list(misplaced(template)))
        problem = unchecked(template)
        self.assertEqual((1, 4), (problem.line, problem.column))
        self.assertIn('does not check', problem.message)

    def test_files_that_are_checked_or_need_no_check_are_not_reported(self):
        for text, file in (
            ('{{ a }} {{ a | base64 }}', 'x'), (SH + 'A={{ a | shell }}', 'x'),
            ('{{ a | json }}', 'x.json'), (' #Cloud-Config # x\na: {{ a | json }}', 'x'),
        ):  # fmt: skip
            self.assertIsNone(unchecked(TextTemplate(text, file=file)))

    def test_a_file_that_cloud_init_fills_in_again_takes_no_filter_that_quotes(self):
        (problem,) = wrong('## template: jinja\n#cloud-config\na: {{ a | json }}')
        self.assertIn('again', problem.message)


class FormerProofs(unittest.TestCase):
    """Finding M3: each of these was accepted, and ran a command in the value."""

    def refused(self, *texts):
        for text in texts:
            with self.subTest(text):
                self.assertEqual(1, len(wrong(text)))

    def test_quotes_in_a_command_in_quotes(self):
        self.refused(SH + 'n="$(basename "{{ v | shell }}")"')

    def test_backquotes_in_quotes(self):
        self.refused(SH + '"`printf %s "{{ v | shell }}"`"')

    def test_quotes_in_a_default_in_quotes(self):
        self.refused(SH + 'x "${X:-"{{ v | shell }}"}"')

    def test_a_here_document_with_a_dash_in_its_word(self):
        self.refused(SH + 'cat <<END-OF-FILE\n{{ v | shell }}\nEND-OF-FILE')

    def test_a_here_document_with_dots_in_its_word(self):
        self.refused(SH + 'cat <<E.O.F\n{{ v | shell }}\nE.O.F')

    def test_two_here_documents_on_a_line(self):
        self.refused(SH + 'cat <<A <<B\nx\nA\n{{ v | shell }}\nB')

    def test_json_for_an_interpreter_behind_env(self):
        self.refused('#!/usr/bin/env -S bash\nA={{ v | json }}')

    def test_json_for_the_shell_of_busybox(self):
        self.refused('#!/bin/busybox sh\nA={{ v | json }}')

    def test_json_in_quotes_of_python(self):
        self.refused("#!/usr/bin/python3\nA = '{{ v | json }}'")

    def test_arithmetic(self):
        self.refused(BASH + '(( {{ v | shell }} ))')

    def test_arithmetic_in_a_condition(self):
        self.refused(BASH + '[[ {{ v | shell }} -gt 1 ]]')

    def test_builtins_that_evaluate_an_argument(self):
        self.refused(
            SH + 'eval {{ v | shell }}',
            SH + '[ -v {{ v | shell }} ]',
            SH + 'printf {{ v | shell }} x',
        )

    def test_variables_that_a_shell_evaluates(self):
        self.refused(
            BASH + 'RANDOM={{ v | shell }}',
            BASH + 'declare -i A\nA={{ v | shell }}',
            BASH + 'PS4={{ v | shell }}',
        )

    def test_a_number_before_a_redirection(self):
        self.refused(SH + 'echo {{ v | shell }}>x')

    def test_text_of_an_owner_that_could_be_a_word_of_the_shell(self):
        self.refused(
            SH + '{{ a }} x\nA={{ v | shell }}',
            SH + 'cat <<EOF\nEO{{ a }}\nEOF\nA={{ v | shell }}',
            SH + "x \\{{ a }}'\nA={{ v | shell }}\n'",
            SH + "x {{ a }}#'\nA={{ v | shell }}\n'",
        )
