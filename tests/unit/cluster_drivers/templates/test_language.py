"""Text templates: no value escapes its placeholder, and no error shows a value."""

import base64
import json
import shlex
import subprocess
import unittest

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kiln.cluster_drivers.templates.language import TextTemplate, UrlHost
from kiln.clusters.exceptions import ClusterDriverError
from tests.examples import examples

TEXTS = st.text(st.characters(exclude_categories=['Cs']), max_size=40)
#: Text that tries to escape its quotes, and any other text.
HOSTILE = TEXTS | st.lists(
    st.sampled_from(
        ["'", '"', '\\', '$(id)', '`id`', '\n', '; id', ' #', ': ', '- ', '{{', '}}', '\0', '\x85',
         '\u2028', '\x1b', '\x7f', '\ufeff', '&a', '*a', '%', '@', '!', '|', '>', 'EOF', ',', '😀']
    ),
    max_size=8,
).map(''.join)  # fmt: skip
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | HOSTILE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(HOSTILE, inner, max_size=3),
    max_leaves=8,
)


def render(text, **values):
    return TextTemplate(text).render(values)


class Rendering(unittest.TestCase):
    def test_placeholders_are_replaced_by_values(self):
        text = TextTemplate('{{ a }} and {{b.c}}, {{ a}}{{a }}')
        self.assertEqual('1 and true, 11', text.render({'a': 1, 'b.c': True}))
        self.assertEqual({'a', 'b.c'}, text.names)

    def test_text_without_placeholders_is_unchanged(self):
        for text in ('', '{', '}}', '{ { a } }', 'a\r\nb\x85', '${a} %s $(b)'):
            template = TextTemplate(text)
            self.assertEqual([], template.mistakes)
            self.assertEqual(text, template.render({}))

    def test_two_braces_can_be_written(self):
        self.assertEqual(
            "docker inspect -f '{{.Id}}' x",
            render('docker inspect -f \'{{ "{{" }}.Id}}\' {{ a }}', a='x'),
        )

    def test_placeholders_within_a_value_are_not_replaced(self):
        self.assertEqual('"{{ b }}"', render('{{ a | json }}', a='{{ b }}', b='no'))

    def test_none_is_empty_in_text_and_null_in_json(self):
        self.assertEqual(
            "[] [''] [null]", render('[{{ a }}] [{{ a | shell }}] [{{ a|json }}]', a=None)
        )

    def test_an_invalid_placeholder_is_reported_at_its_position(self):
        wrong = (
            'x {{ a', 'x {{ a\n}}', 'x {{ }}', 'x {{ a b }}', 'x {{ a | }}', 'x {{ a.b. }}',
            'x {{ 1a }}', 'x {{ a | json | shell }}', 'x {{ if a }}', 'x {{ a(b) }}',
            'x {{{{ a }}', 'x {{ a["b"] }}', 'x {{ a | raw }}', 'x {{ "}}" }}',
        )  # fmt: skip
        for text in wrong:
            with self.subTest(text):
                problem = TextTemplate(f'1\n{text}', file='f').mistakes[0]
                self.assertEqual(('f', 2, 3), (problem.file, problem.line, problem.column))

    def test_an_unknown_name_is_reported_at_its_position(self):
        template = TextTemplate('a\n  {{ nod.name }} {{ a }}', file='user_data')
        (problem,) = template.unknown(frozenset({'a', 'node.name'}))
        self.assertEqual(
            "user_data:2:3: nothing is called 'nod.name' here; did you mean node.name?",
            str(problem),
        )


class Filters(unittest.TestCase):
    @settings(deadline=None)
    @given(HOSTILE)
    def test_the_json_filter_preserves_every_string(self, value):
        line = render('k: {{ a | json }}', a=value)
        self.assertEqual({'k': value}, yaml.safe_load(line))
        self.assertEqual(value, json.loads(line[3:]))
        self.assertEqual(1, len(line.splitlines()))

    @settings(deadline=None)
    @given(PLAIN)
    def test_the_json_filter_preserves_lists_and_mappings(self, value):
        text = render('[1, {{ a | json }}, 2]', a=value)
        self.assertEqual([1, value, 2], json.loads(text))
        self.assertEqual([1, value, 2], yaml.safe_load(text))

    @settings(deadline=None)
    @given(HOSTILE.filter(lambda text: '\0' not in text))
    def test_the_shell_filter_makes_every_value_one_word(self, value):
        self.assertEqual(
            ['echo', value, 'end'], shlex.split(render('echo {{ a | shell }} end', a=value))
        )

    @settings(max_examples=examples(15), deadline=None)
    @given(HOSTILE.filter(lambda text: '\0' not in text))
    def test_a_real_shell_reads_a_quoted_value_unchanged(self, value):
        script = render('A={{ a | shell }}\nprintf %s "$A"', a=value)
        done = subprocess.run(['/bin/sh', '-c', script], capture_output=True, check=True)
        self.assertEqual((value.encode(), b''), (done.stdout, done.stderr))

    @settings(deadline=None)
    @given(HOSTILE)
    def test_the_base64_filter_preserves_every_value_in_harmless_letters(self, value):
        text = render('{{ a | base64 }}', a=value)
        self.assertEqual(value.encode(), base64.b64decode(text))
        self.assertRegex(text, r'\A[A-Za-z0-9+/=]*\Z')

    @settings(deadline=None)
    @given(HOSTILE | st.integers() | st.booleans())
    def test_a_value_without_a_filter_is_one_word_or_refused(self, value):
        try:
            text = render('{{ a }}', a=value)
        except ClusterDriverError:
            return
        self.assertEqual([text] if text else [], shlex.split(text, comments=True))
        self.assertEqual(text, shlex.split(f'"{text}"')[0])
        self.assertIsInstance(yaml.safe_load(f'[{text}]'), list)
        self.assertEqual(['k'], list(yaml.safe_load(f'k: {text}')))
        self.assertLessEqual(len(yaml.safe_load(f'[{text}]')), 1)

    def test_ordinary_values_need_no_filter(self):
        for value in ('a', 'az-1', 'm1.small', '10.0.0.1', 'fd00::1', '/etc/x', 'a_b', '', 8080,
                      'user@host', 'http://x:80/a', True):  # fmt: skip
            self.assertEqual(str(value).replace('True', 'true'), render('{{ a }}', a=value))

    def test_the_host_of_a_url_has_brackets_and_nothing_else_that_needs_quotes(self):
        self.assertEqual('tcp://[fd00::1]:1', render('tcp://{{ a }}:1', a=UrlHost('[fd00::1]')))
        for value in ('[fd00::1; id]', '$(id):', "[']", '[]]', '[fd00::1', '[[a]'):
            with self.subTest(value), self.assertRaises(ClusterDriverError):
                render('{{ a }}', a=UrlHost(value))

    def test_unsafe_values_are_refused_and_not_shown(self):
        cases = [
            ('{{ a }}', value)
            for value in ('p w', "p'w", 'p;w', '$pw', 'pw:', '-pw', 'p\nw', 'pä')
        ]
        cases += [('{{ a | shell }}', 'pw\0'), ('{{ a | base64 }}', 'pw\ud800'),
                  ('{{ a | json }}', float('nan')), ('{{ a | json }}', {'pw': {1, 2}}),
                  ('{{ a | shell }}', 'pw\ud800')]  # fmt: skip
        for text, value in cases:
            with self.subTest(text, value=value):
                template = TextTemplate(f'# {text}', file='f')
                with self.assertRaises(ClusterDriverError) as caught:
                    template.render({'a': value})
                self.assertRegex(str(caught.exception), r'Cannot fill in f:1:3: a (has|is)')
                self.assertNotIn('pw', str(caught.exception))
                self.assertIsNone(caught.exception.__cause__)
                self.assertTrue(caught.exception.__suppress_context__)
                (problem,) = template.unfit({'a': value})
                self.assertEqual((1, 3), (problem.line, problem.column))

    def test_the_json_filter_preserves_a_lone_surrogate(self):
        self.assertEqual('\ud800', json.loads(render('{{ a | json }}', a='\ud800')))

    @settings(deadline=None)
    @given(st.text(st.sampled_from('{}"| ajson.\n#'), max_size=30))
    def test_no_template_text_raises_an_error(self, text):
        template = TextTemplate(text)
        for problem in template.mistakes:
            self.assertGreater(problem.line, 0)
        if not template.mistakes:
            template.render(dict.fromkeys(template.names, 1))
