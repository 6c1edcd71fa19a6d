"""No value changes a token: real shells, Python and PyYAML read what templates render.

Each template is rendered twice, with the values and with words in their place. A reader has to
see the same in both, but for the values themselves. KILN_EXAMPLES=500 tries 100,000 values in
each language.
"""

import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import yaml
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from kiln.cluster_drivers.templates.language import TextTemplate
from kiln.cluster_drivers.templates.quoting import misplaced
from tests.examples import FACTOR, examples

VALUES = 100
SHELLS = (['dash'], ['bash'], ['bash', '--posix'], ['busybox', 'sh'])
#: There are no commands, so functions show words and here-documents.
SHOW = (
    'show() { for one in "$@"; do printf "<%s>" "$one"; done; printf "\\n"; }\n'
    'cat() { while IFS= read -r one; do printf "%s\\n" "$one"; done; }\n'
)

#: Text without a filter, from an owner: every part of it is harmless.
OWNED = (
    '',
    'x',
    'f',
    'EOF',
    'case',
    'eval',
    'E',
    '2',
    '/',
    'a.b',
    'utf-7',
    'Rb',
    '...',
    '_:x',
)
NASTY = (
    *' \t\n\r\\\'"`$(){}[]<>|&;#!*?~=%@,:-+^',
    'EOF\n',
    '\nEOF\n',
    '$(show OUT)',
    '`show OUT`',
    "'\nshow OUT\n'",
    '"\nshow OUT\n"',
    '\\\n',
    '\\',
    "'''",
    '"""',
    '{{ v0 }}',
    '${x}',
    '\x01',
    '\x7f',
    '\x85',
    '\u2028',
    '\ufeff',
    'é',
    '\U0001f600',
    '\n...\n',
    '\n---\n',
    ': ',
    ' #',
    '- ',
    '&a ',
    '*a',
    '!!x ',
    'x',
    'eval',
    '0',
    '-v',
    'a[$(show OUT)]',
)

OWN_FUNCTION = 'f() {'
_FUNCTION = re.compile(r'(?<!\$)\([\s\\]*\)')

SHELL_LINES = (
    'A=@\nshow "$A"',
    'export B=@\nshow "$B"',
    'show @',
    'show x @ "y" @',
    'show a/@ --b=@',
    'show x @ >out',
    'true && show @; show @ | cat',
    '  A=@',
    'if show @; then\n  A=@\nfi',
    f'{OWN_FUNCTION}\n  show "$1" @\n}}\nf @',
    'for i in a b; do\n  show "$i" @\ndone',
    "printf '<%s>' @",
    'show "$(show ~)" ~ "~" \'~\'',
    '# ~',
    "# it's ~",
    'cat <<EOF\n~ $A x\nEOF',
    "cat <<'EOF'\n\\ ~ x'\nEOF",
    'cat <<-EOF\n\t~ "x\n\tEOF',
    'show "${C:-x}" "$((1+2))" ~',
    "B=\\'~",
    'show ~ \\\n  @',
    '(show ~; show "x # $(show "a b")")',
    'show "x\n~\ny"',
    '{ show @; }',
    'show $# a#~',
)
#: Where the filter does not quote, and a value that gets out there.
OPEN_PLACES = (
    'show "@"',
    "show 'x @'",
    'show x # @',
    'cat <<EOF\n@\nEOF\nshow x',
    'A="$(show "@")"\nshow "$A"',
    'show `show "@"`',
    'show "${B:-"@"}"',
)
BREAKING = "'\n$(show OUT)\n`show OUT`\nshow OUT\n'"
#: A script can do by a value what it likes, so no bit reads a variable that has one.
SHELL_BITS = (
    *' \t\n\\\'"`$()<>|;#=~@',
    # A job in the background would print at any time.
    '&&',
    'show ',
    'A=@\n',
    ' @ ',
    '\n',
    '<<EOF',
    '\nEOF\n',
    '$(',
    '${C}',
    '$((',
    '))',
    '"$',
    "$'",
    'case x in x) ',
    '[[ ',
    '\\\n',
    '2>',
    'x',
    '{',
    '}',
    'then',
    '<<-E',
    '\n\tE\n',
    '(',
    '()',
    *OPEN_PLACES,
)
PYTHON_LINES = (
    'A = @',
    'f(@, [x, @])',
    'A = (\n    @,\n)',
    'if x:\n    A = @',
    "A = '~'",
    "# ~ it's",
    'A = """~ x\n"""',
    "A = r'\\x'",
    'A = {~}',
    "A = b'x' 'y'",
    'A = x ~',
    'A = "\\"~"',
    'A=@ # x',
)
PYTHON_BITS = (
    *'\'"\\\n#=(),[] ~@',
    "'''",
    '"""',
    'A = @\n',
    'f',
    'rb',
    'x',
    '\\\n',
    '\n# ',
    'f(@)',
    "f'{",
)
YAML_LINES = (
    'k%: @',
    'k%: [@, x, @]',
    'k%: {a: @}',
    'k%:\n  - @\n  - x~',
    "k%: '~ ''x'",
    'k%: "~ \\""',
    '# @ ~',
    'k%: |\n  ~ it\'s "x\n  #',
    'k%: >-\n  x\n  ~',
    "k%: x~ # '",
    'k%: &a x~',
    'k%: [~, @]',
    'k%:\n  @',
)
YAML_BITS = (
    *'\'"\\\n #:[]{},&*!|>%~@-?',
    'k: ',
    '- ',
    ': ',
    ' #',
    '\n  ',
    '|\n  ',
    '!!str ',
    '&a ',
    '---\n',
    '@\n',
    '@',
)


def value(chance):
    """Return any text that a shell can take."""
    if chance.random() < 0.2:
        return ''.join(chr(chance.choice((0x20, 0x100, 0xD000))) for _ in range(3))
    return ''.join(chance.choices(NASTY, k=chance.randrange(7)))


def plain_data(chance, deep=0):
    """Return a value that JSON and Python write alike."""
    match chance.randrange(6 if deep < 2 else 4):
        case 4:
            return [plain_data(chance, deep + 1) for _ in range(chance.randrange(3))]
        case 5:
            return {value(chance): plain_data(chance, deep + 1) for _ in range(2)}
        case 3:
            return chance.randrange(-(10**6), 10**6)
        case _:
            return value(chance)


class Rendered:
    """A template that is accepted, rendered with values and with words in their place."""

    def __init__(self, template, chance, any_value):
        places = [one.name for one in template.placeholders if one.filter]
        owned = {name: chance.choice(OWNED) for name in template.names - set(places)}
        self.values = {name: any_value(chance) for name in places}
        self.words = {name: f'w {name}w' for name in places}
        self.template = template.text
        self.given = template.render(owned | self.values)
        self.neutral = template.render(owned | self.words)


def accepted(chance, first, lines, bits, quoting, any_value, **file):
    """Yield rendered templates of random text, until they have enough values."""
    count = 0
    while count < VALUES:
        # Most text of random bits is refused, and lines alone would show little.
        texts = [
            ''.join(chance.choices(bits, k=chance.randrange(1, 9)))
            if chance.random() < 0.3
            else chance.choice(lines).replace('%', str(number))
            for number in range(chance.randrange(1, 7))
        ]
        text = '\n'.join(texts)
        text = with_places(text, quoting)
        # To a shell the number of its process, which is another at each run; and a function of
        # random text can call itself for ever.
        if '$$' in text or _FUNCTION.search(text.replace(OWN_FUNCTION, '')):
            continue
        template = TextTemplate(first + text, file=file.get('file', 't'))
        has_place = any(one.filter for one in template.placeholders)
        if template.mistakes or not has_place or list(misplaced(template)):
            continue
        found = Rendered(template, chance, any_value)
        count += len(found.values)
        yield found


def with_places(text, quoting):
    """Return a text with places for values (@) and for harmless text (~)."""
    parts = re.split('([@~])', text)
    for number in range(1, len(parts), 2):
        owned, quoted = f'{{{{ o{number} }}}}', f'{{{{ v{number} | {quoting} }}}}'
        parts[number] = owned if parts[number] == '~' else quoted
    return ''.join(parts)


SEEDS = st.integers(0, 2**63)
#: A seed has nothing to shrink.
FEW = settings(max_examples=examples(2), deadline=None, phases=[Phase.generate])


class Counted(unittest.TestCase):
    """Test case that prints how many values a soak has tried."""

    tried = 0

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        if FACTOR > 1:
            print(f'{cls.__name__}: {cls.tried} values')

    def accepted(self, *how, **more):
        """Return templates with values, and count the values."""
        found = list(accepted(*how, **more))
        type(self).tried += sum(len(one.values) for one in found)
        return found


class Shells(Counted):
    @FEW
    @given(SEEDS)
    def test_a_shell_sees_the_same_words_whatever_the_values_are(self, seed):
        chance = random.Random(seed)
        first = '#!/bin/sh\n' + SHOW
        found = self.accepted(chance, first, SHELL_LINES, SHELL_BITS, 'shell', value)
        for shell in SHELLS:
            if shutil.which(shell[0]):
                self.compare(shell, found)

    def test_a_value_that_breaks_out_is_seen(self):
        for text in OPEN_PLACES:
            template = TextTemplate('#!/bin/sh\n' + SHOW + with_places(text, 'shell'), file='t')
            self.assertTrue(list(misplaced(template)), text)
            one = Rendered(template, random.Random(0), lambda _: BREAKING)
            for shell in SHELLS:
                if shutil.which(shell[0]):
                    with self.subTest(shell=shell, text=text), self.assertRaises(AssertionError):
                        self.compare(shell, [one])

    def compare(self, shell, found):
        given = run(shell, [one.given for one in found])
        neutral = run(shell, [one.neutral for one in found])
        for one, has, expected in zip(found, given, neutral, strict=True):
            for name, word in one.words.items():
                expected = expected.replace(word.encode(), one.values[name].encode())
            self.assertEqual(expected, has, (shell, one.template, one.values, one.given))


def run(shell, scripts):
    """Return what each script prints, in a process of its own that has no commands."""
    with tempfile.TemporaryDirectory() as folder:
        for number, script in enumerate(scripts):
            pathlib.Path(folder, f's{number}').write_bytes(script.encode())
        each = (
            f'PATH=/nonexistent; n=0; while [ $n -lt {len(scripts)} ]; do '
            '(. ./s$n) >o$n 2>/dev/null </dev/null; n=$((n+1)); done'
        )
        process = subprocess.Popen(
            [shutil.which(shell[0]), *shell[1:], '-c', each],
            cwd=folder,
            env={'LC_ALL': 'C.UTF-8', 'PATH': os.environ['PATH']},
            start_new_session=True,
        )
        try:
            status = process.wait(120)
        finally:
            # With all that it has started, should it not have ended.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if status:
            raise subprocess.CalledProcessError(status, each)
        return [pathlib.Path(folder, f'o{number}').read_bytes() for number in range(len(scripts))]


#: Compares syntax trees, with each value in the place of its word.
TREES = """
import ast, json, sys, warnings
warnings.simplefilter('ignore')
class Values(ast.NodeTransformer):
    def __init__(self, one):
        self.of = {word: one['values'][name] for name, word in one['words'].items()}
    def visit_Constant(self, node):
        if isinstance(node.value, str) and node.value in self.of:
            return ast.parse(repr(self.of[node.value]), mode='eval').body
        return node
def tree(text):
    try:
        return ast.parse(text)
    except SyntaxError:
        return None
for one in json.load(sys.stdin):
    given, neutral = tree(one['given']), tree(one['neutral'])
    if given is not None and neutral is not None:
        given, neutral = ast.dump(given), ast.dump(Values(one).visit(neutral))
    if given != neutral:
        print(one)
"""


class Python(Counted):
    @FEW
    @given(SEEDS)
    def test_python_sees_the_same_tree_whatever_the_values_are(self, seed):
        chance = random.Random(seed)
        first = '#!/usr/bin/python3\n'
        found = self.accepted(chance, first, PYTHON_LINES, PYTHON_BITS, 'json', plain_data)
        done = subprocess.run(
            [sys.executable, '-c', TREES],
            input=json.dumps([vars(one) for one in found]),
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertEqual('', done.stdout)


class Yaml(Counted):
    @FEW
    @given(SEEDS)
    def test_yaml_has_the_same_events_whatever_the_values_are(self, seed):
        chance = random.Random(seed)
        first = '#cloud-config\n'
        for one in self.accepted(chance, first, YAML_LINES, YAML_BITS, 'json', plain_data):
            values = {word: one.values[name] for name, word in one.words.items()}
            expected = []
            for event in events(one.neutral):
                expected += of_data(values[event[1]]) if event[1] in values else [event]
            self.assertEqual(expected, list(events(one.given)), vars(one))


def events(text):
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            yield type(event).__name__, getattr(event, 'value', None)
    except yaml.YAMLError:
        yield 'not YAML', None


def of_data(data):
    """Return the events of a value."""
    if isinstance(data, dict):
        parts = [one for pair in data.items() for part in pair for one in of_data(part)]
        return [('MappingStartEvent', None), *parts, ('MappingEndEvent', None)]
    if isinstance(data, list):
        parts = [one for part in data for one in of_data(part)]
        return [('SequenceStartEvent', None), *parts, ('SequenceEndEvent', None)]
    return [('ScalarEvent', str(data))]
