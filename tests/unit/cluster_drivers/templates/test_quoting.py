"""Misplaced filters: a filter that does not quote in its place is a mistake."""

import pathlib
import subprocess
import tempfile
import unittest

import yaml
from hypothesis import given
from hypothesis import strategies as st

from kiln.cluster_drivers.templates.language import TextTemplate
from kiln.cluster_drivers.templates.quoting import misplaced
from tests.turns import turns

SH = '#!/bin/sh\n'
YAML = '#cloud-config\n'

SHELL_BITS = [*'x ;|&)#\\"\'\n', 'echo ', 'A=', '${B}', ' # ']
DOCUMENT_BITS = ['cat <<EOF\n', '\nEOF\n', 'cat <<-"END"\n', '\n\tEND\n']
YAML_BITS = [*'x #:[]{}"\'\n', 'k: ', '- ', '? ', ', ', '|\n  ', '>\n  ', '\n  ', '!!str ', '&a ']


def around(place, bits):
    """Return a strategy of texts with a placeholder in the middle."""
    some = st.lists(st.sampled_from(bits), max_size=6).map(''.join)
    return st.builds('{}{}{}'.format, some, st.just(place), some)


def wrong(text, file='t'):
    return list(misplaced(TextTemplate(text, file=file)))


def scalars(template, value):
    """Return the scalars that a YAML parser finds in a rendered template."""
    events = yaml.parse(template.render({'a': value}), Loader=yaml.SafeLoader)
    return [getattr(event, 'value', type(event)) for event in events]


class InShell(unittest.TestCase):
    def test_the_shell_filter_is_accepted_for_a_variable_or_a_word_of_its_own(self):
        right = (
            'A={{ a | shell }}', 'echo {{ a | shell }} "$B" \'c\'', 'export A={{ a | shell }}',
            "B='it'\nA={{ a | shell }}\nC='s'", 'cat <<EOF\nx\nEOF\nA={{ a | shell }}',
            'A="$B" # why\nC={{ a | shell }}', 'B=$((1<<2))\nA={{ a | shell }}',
            "B=\\'\nA={{ a | shell }}", 'cp x/{{ a | shell }} --to={{ a | shell }}',
            'B=x#y\nA={{ a | shell }}', '# {{ a }} "{{ a }}" \'{{ a | base64 }}\'', 'A={{ a }}',
            'B="$((1<<2))"\nA={{ a | shell }}', 'x && y {{ a | shell }} >z; w {{ a | shell }}',
            'B="$(cat "$C")"\nA={{ a | shell }}', 'B="${C:-x}"\nA={{ a | shell }}',
            'cat <<EOF\n{{ a }}\nEOF', "cat <<EOF\nit's\nEOF\nA={{ a | shell }}",
            "if [ $# -gt 1 ]; then\n  A={{ a | shell }}\nfi\nf() {\n  g {{ a | shell }}\n}",
            'for x in $(seq {{ a }}); do\n  f {{ a | shell }}\ndone <x',
            "printf '%s' {{ a | shell }}",
            '(cd /x && y) # it\'s\nA={{ a | shell }}', "cat <<'A'\n`\n$(\\\nA\nA={{ a | shell }}",
            'x a \\\n  {{ a | shell }} \\\n  b', 'x "a\nb" {{ a | shell }}', '[ {{ a }} = b ]',
        )  # fmt: skip
        for text in right:
            self.assertEqual([], wrong(SH + text), text)

    def test_the_shell_filter_is_refused_in_quotes_comments_and_here_documents(self):
        spots = (
            'echo "{{ a | shell }}"', "echo '{{ a | shell }}'", "echo 'x\n{{ a | shell }}\n'",
            '# {{ a | shell }}', 'x; # {{ a | shell }}', 'cat <<EOF\n{{ a | shell }}\nEOF',
            "cat <<-'END'\n\tx {{ a | shell }}\n\tEND\n", 'A=`cat {{ a | shell }}`',
            'echo "a \\" {{ a | shell }}"', 'cat << EOF > /x\n\n{{ a | shell }}\nEOF',
            'A=$((1+{{ a | shell }}))', '((cat <<EOF))\n{{ a | shell }}\nEOF',
            'A="$(cat "{{ a | shell }}")"',
            'A=`cat \\` {{ a | shell }}`', 'cat <<EOFS\nEOF\n{{ a | shell }}',
            'cat <<EOF\n{{ a | shell }}', 'cat <<EOF\nx\\\nEOF\n{{ a | shell }}\nEOF',
            'A="{{ a | shell }}', "A='{{ a | shell }}", 'A=`{{ a | shell }}',
        )  # fmt: skip
        for text in spots:
            with self.subTest(text):
                (problem,) = wrong(SH + text)
                at = (SH + text).index('{{')
                self.assertEqual((SH + text).count('\n', 0, at) + 1, problem.line)
                self.assertIn('variable', problem.message)

    def test_a_value_can_run_commands_where_the_shell_filter_is_refused(self):
        value = "'\n$(echo OUT >&2)\n'"
        for text in (
            '# {{ a | shell }}\n',
            'cat <<EOF\n{{ a | shell }}\nEOF\n',
            'echo "{{ a | shell }}"\n',
        ):
            script = TextTemplate(SH + text).render({'a': value})
            done = subprocess.run(['/bin/sh', '-c', script], capture_output=True, check=False)
            self.assertIn(b'OUT', done.stderr, text)

    @given(around('{{ a | shell }}', [*SHELL_BITS, *DOCUMENT_BITS]))
    def test_no_value_can_run_commands_where_the_shell_filter_is_accepted(self, text):
        template = TextTemplate(SH + text, file='t')
        if list(misplaced(template)):
            return
        # Each line would create a file if a shell ran it, whatever the quotes around it.
        value = '\'\n>out\n"\n>out\n`>out`$(>out)\nEOF\n>out\n\tEND\n>out\n'
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(
                ['/bin/sh', '-c', template.render({'a': value})],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
            )
            self.assertEqual([], list(pathlib.Path(folder).iterdir()))

    def test_the_json_filter_is_refused_in_a_shell_script(self):
        (problem,) = wrong('#!/usr/bin/env bash\nA={{ a | json }}')
        self.assertEqual((2, 3), (problem.line, problem.column))
        self.assertIn('| shell', problem.message)


class InYaml(unittest.TestCase):
    def test_the_json_filter_is_accepted_for_a_whole_value(self):
        right = (
            'k: {{ a | json }}', '- {{ a | json }}', 'k: [x, {{ a | json }}]',
            'k: {{ a | json }} # x',
            '# {{ a | json }}', 'k: {b: {{ a | json }}}', 'k: [{{ a }}, {{ a | json }}] # it\'s',
            'k:\n  {{ a | json }}',
            "k: 'x {{ a }}'", 'k: |\n  {{ a }}\n  {{ a | base64 }}', 'k: x{{ a }}',
        )  # fmt: skip
        for text in right:
            self.assertEqual([], wrong(YAML + text), text)
            self.assertEqual([], wrong(text, file='t.yaml'), text)

    def test_the_json_filter_is_refused_within_text(self):
        spots = (
            "k: '{{ a | json }}'", 'k: "{{ a | json }}"', 'k: x {{ a | json }}',
            'k: {{ a | json }} x', 'k: |\n  {{ a | json }}', 'k: >\n  x {{ a | json }}',
            'k: x\n  {{ a | json }}', '? {{ a | json }}\n: x', '{{ a | json }}: x',
            '? [{{ a | json }}]\n: x',
        )  # fmt: skip
        for text in spots:
            with self.subTest(text):
                (problem,) = wrong(YAML + text)
                self.assertIn('put nothing around it', problem.message)
                self.assertGreater(problem.line, 1)

    def test_the_json_filter_is_refused_in_anchors_aliases_and_tags(self):
        for text in ('k: &a{{ a | json }} x', 'k: *a{{ a | json }}', 'k: !{{ a | json }} x'):
            self.assertEqual(1, len(wrong(YAML + text)), text)

    @given(around('{{ a | json }}', YAML_BITS))
    def test_every_value_is_preserved_where_the_json_filter_is_accepted(self, text):
        template = TextTemplate(text, file='t.yaml')
        if list(misplaced(template)):
            return
        value = 'it\'s "x": {y}\n# z\n- k: \\ \u2028'
        expected = [value if one == 'word' else one for one in scalars(template, 'word')]
        self.assertEqual(expected, scalars(template, value))

    def test_the_shell_filter_is_refused_in_yaml(self):
        (problem,) = wrong(YAML + 'runcmd:\n  - echo {{ a | shell }}')
        self.assertEqual((3, 10), (problem.line, problem.column))

    def test_invalid_yaml_is_reported_at_its_line(self):
        (problem,) = wrong(YAML + 'a: [1\nb: 2')
        self.assertEqual(3, problem.line)
        self.assertIn('not YAML', problem.message)
        (problem,) = wrong('a: \x01', file='t.yml')
        self.assertIn('not YAML', problem.message)

    def test_json_files_are_checked_like_yaml(self):
        self.assertEqual([], wrong('{"a": {{ a | json }}}', file='t.json'))
        self.assertEqual(1, len(wrong('{"a": "{{ a | json }}"}', file='t.json')))


class Time(unittest.TestCase):
    """Finding L8: the check of 32 kB of here-documents took seconds, as it was quadratic."""

    #: Quadratic checks of a text of this size take from seconds to hours.
    size, most_turns = 128 * 1024, 800

    def test_a_check_takes_time_in_proportion_to_the_text(self):
        for head, bits in (
            (SH, ('cat <<E\n', '<<A ', 'cat <<E\nx\nE\n', "cat <<'E' <<-F\n", '{{ a | shell }} ',
                  'A={{ a | shell }}\n', '"', "'", '$((1 ', '${a', '$(', '\\\n')),
            (f'{SH}cat <<E\n', ('{{ a }}', 'x\n', '\t', 'E')),
            (YAML, ('[', '{a: ', '- ', '? ', 'a: {{ a | json }}\n', '&a ')),
            ('#!/usr/bin/python3\n', ('(', '"""', 'a = {{ a | json }}\n', '\\\n')),
        ):  # fmt: skip
            for bit in bits:
                with self.subTest(head=head, bit=bit):
                    template = TextTemplate(f'{head}{bit * (self.size // len(bit))}!', file='t')
                    took = turns(lambda template=template: list(misplaced(template)))
                    self.assertLess(took, self.most_turns)

    def test_collections_that_are_nested_too_deeply_are_a_mistake(self):
        (problem,) = wrong(f'{YAML}a: {"[" * 5000}')
        self.assertIn('nested more than 50 deep', problem.message)
