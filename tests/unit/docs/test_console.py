"""The console lines of the documentation name commands, options and programs that exist."""

import argparse
import importlib.util
import re
import shlex

import pytest

from kiln.cli.app import KilnApp
from tests.unit.docs.pages import PAGES, ROOT, blocks

#: Programs of others that the pages use, each with the test that runs it, or the reason why not.
OTHERS = {
    '/opt/kiln/bin/pip': 'it installs packages; tests/functional/systemd does so there',
    'apt-get': 'it changes the machine',
    'cd': 'a built-in of the shell',
    'cp': 'tests/unit/cli/driver/test_guide.py makes the drivers of the guide',
    'docker': 'needs an engine: tests/functional/swarm makes the network',
    'eval': 'a built-in of the shell',
    'find': 'it lists files',
    'grep': 'tests/unit/test_conf.py makes the sample file',
    'install': 'it makes folders of root; tests/functional/systemd',
    'ln': 'tests/functional/systemd makes the link',
    'make': 'tests/unit/test_readme.py',
    'mv': 'tests/functional/scaffold follows the guide',
    'openstack': 'needs a cloud: tests/functional/swarm_nova makes the group',
    'oslo-config-generator': 'tests/unit/test_conf.py makes the sample file',
    'pip': 'it installs packages; tests/functional/releases',
    'pytest': 'tests/functional/scaffold follows the guide',
    'python3': 'tests/functional/scaffold follows the guide',
    'rabbitmqctl': 'needs a broker: tests/functional/nova',
    'rm': 'it removes what the line before made',
    'sed': 'tests/unit/docs/test_first_cluster.py',
    'sleep': 'it takes time',
    'sort': 'it sorts a list of files',
    'sysctl': 'it changes the machine',
    'systemctl': 'it changes the machine; tests/functional/systemd starts the unit',
    'systemd-run': 'needs systemd; tests/functional/systemd',
    'useradd': 'it changes the machine',
}
_VARIABLE = re.compile(r'[A-Z_]+=')
_INLINE = re.compile(r'``kiln ([^`]+)``')
_ADVICE = re.compile(r"'kiln ([a-z-][^'\n]*)'")
_WORD = re.compile('[a-z-]+')


def commands(text):
    """Yield the words of each command of a console block."""
    lines = text.replace('\\\n', ' ').splitlines()
    # A block of root's commands has its prompt, which elsewhere begins a comment.
    prompts = [one for one in ('$ ', '# ') if any(line.startswith(one) for line in lines)]
    for line in lines:
        if prompts and not line.startswith(prompts[0]):
            continue
        yield from split(line.removeprefix(prompts[0]) if prompts else line)


def split(line):
    """Yield the words of each command of a line, without variables, pipes and redirections."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars='|&;<>')
    lexer.whitespace_split, words, skip = True, [], False
    for word in lexer:
        if word in ('|', '&&', ';'):
            yield words
            words = []
        elif set(word) <= set('<>'):
            skip = True
        elif skip:
            skip = False
        elif words or not _VARIABLE.match(word):
            words.append(word)
    if words:
        yield words


def parse(words):
    """Parse the arguments of kiln as kiln does, without running the command."""
    app = KilnApp()
    app.options, rest = app.parser.parse_known_args(words)
    kind, name, arguments = app.command_manager.find_command(rest)
    return kind(app, app.options).get_parser(name).parse_args(arguments)


LINES = [(block, words) for block in blocks('console') for words in commands(block.text)]
#: The synopsis of reference/cli.rst has placeholders.
SYNOPSIS = '[GLOBAL'
KILN = [
    (block, words[1:]) for block, words in LINES if words[0] == 'kiln' and SYNOPSIS not in words
]


@pytest.mark.parametrize(('block', 'words'), KILN, ids=lambda one: str(one)[:60])
def test_a_line_is_taken_by_the_parser_of_its_command(block, words):
    try:
        parse(words)
    except (SystemExit, argparse.ArgumentError, ValueError) as exc:
        pytest.fail(f'{block}: kiln {" ".join(words)}: {exc}')


def check_mention(said):
    """Check the command and the options of a mention, such as ``kiln up FILE --yes``."""
    words, app = said.split(), KilnApp()
    while words and words[0].startswith('-'):
        assert words[0].partition('=')[0] in app.parser._option_string_actions, said
        del words[: 1 if '=' in words[0] or words[0] in ('--help', '--version') else 2]
    names = app.command_manager.commands
    known = [count for count in (2, 1) if ' '.join(words[:count]) in names]
    if not known:
        # A family, such as ``kiln driver``, or no command at all, such as ``kiln-compute``.
        assert words[1:] in ([], ['...']) or not _WORD.fullmatch(words[0]), said
        return
    kind, name, _ = app.command_manager.find_command(words[: known[0]])
    options = kind(app, None).get_parser(name)._option_string_actions
    for word in words[known[0] :]:
        if word.startswith('--'):
            assert word.strip('[],').partition('=')[0] in options, said


@pytest.mark.parametrize('page', PAGES, ids=lambda one: one.name)
def test_every_command_and_option_that_a_text_mentions_exists(page):
    for said in _INLINE.findall(page.read_text()):
        check_mention(said)


def test_every_command_and_option_that_a_message_of_kiln_advises_exists():
    families = {name.split()[0] for name in KilnApp().command_manager.commands}
    for path in (ROOT / 'kiln').rglob('*.py'):
        # As Python does, put the pieces of a text that is broken into lines together.
        text = re.sub(r"['\"]\n\s+f?['\"]", '', path.read_text())
        for said in _ADVICE.findall(text):
            if {*said.split()} & {*families} or said.startswith('--'):
                check_mention(said)


def test_every_other_program_is_known_with_the_test_that_runs_it():
    modules = {words[2] for _, words in LINES if words[:2] == ['python', '-m']}
    for module in modules - {'pytest', 'pydoc'}:
        assert importlib.util.find_spec(module), module
    others = {words[0] for _, words in LINES} - {'kiln', 'python', 'tox', '.', 'jq'}
    assert others <= set(OTHERS), others - set(OTHERS)


def test_every_environment_of_tox_and_target_of_make_exists():
    tox = (ROOT / 'tox.ini').read_text()
    for page in PAGES:
        for name in re.findall(r'(?:``|\$ )tox -e (\w+)', page.read_text()):
            assert f'[testenv:{name}]' in tox, name
        for name in re.findall(r'(?:``|\$ )make ([\w-]+)', page.read_text()):
            assert re.search(rf'(?m)^{name}:', (ROOT / 'Makefile').read_text()), name


def test_the_commands_of_root_are_found_and_comments_are_not_commands():
    assert list(commands('# useradd kiln\n# kiln up x\n')) == [
        ['useradd', 'kiln'],
        ['kiln', 'up', 'x'],
    ]
    assert list(commands('# a comment\n$ kiln up x\n')) == [['kiln', 'up', 'x']]


def test_the_words_of_a_line_are_found():
    assert list(split("X=1 kiln up 'a b' < file | jq .x && kiln plan  # why")) == [
        ['kiln', 'up', 'a b'],
        ['jq', '.x'],
        ['kiln', 'plan'],
    ]
