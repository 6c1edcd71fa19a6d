"""The ini examples of the documentation are read by kiln as they stand."""

import configparser
import difflib
import importlib.metadata
import re

import pytest

from kiln import conf as kiln_conf
from kiln.conf.compute import BACKEND_OPTS
from kiln.conf.opts import list_opts
from tests.unit.docs.pages import Block, blocks, blocks_of

INI = blocks('ini')

#: Blocks that are not for kiln, by their first line: the files of other programs.
OTHERS = {
    '[Service]': 'a drop-in of systemd; tests/functional/systemd starts the unit',
    '[controller_worker]': 'octavia.conf; tests/functional/octavia starts Octavia with it',
    '[notifications]': 'nova.conf; tests/functional/nova has Nova notify',
    '[stack]': 'options of an example driver; tests/functional/clusters/test_model_commands.py',
    '[options.entry_points]': 'setup.cfg of a vendor; tests/functional/scaffold installs one',
}
#: Drivers of vendors: their options are not those of kiln.
VENDORS = {'acme'}


def _options():
    """Return the options of each group, and of each driver as compute:DRIVER."""
    (logs,) = importlib.metadata.entry_points(group='oslo.config.opts', name='oslo.log')
    of_logs = [opt for _, opts in logs.load()() for opt in opts]
    return {'DEFAULT': of_logs} | {str(group): list(opts) for group, opts in list_opts()}


def problems(text):
    """Return what is wrong with an example: comments behind values, unknown names, values."""
    found = [
        f'{line}: oslo.config takes the comment for part of the value'
        for line in text.splitlines()
        if re.search(r'=.*\s[#;]', line)
    ]
    if text.partition('\n')[0] in OTHERS:
        return found
    parser = configparser.ConfigParser(interpolation=None, default_section='')
    parser.read_string(text)
    for section in parser.sections():
        found += _section_problems(section, parser[section])
    return found


def _section_problems(section, values):
    options, wanted = _options(), section
    if section.startswith('compute:'):
        driver = values.get('driver', section.partition(':')[2])
        if driver in VENDORS:
            return []
        wanted = f'compute:{driver}'
    known = {opt.dest: opt for opt in options.get(wanted, ())}
    if not known:
        return [f'[{section}] is not a group of kiln']
    found = []
    for name, value in values.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            found.append(f'[{section}] {name} is not an option; did you mean {near}?')
            continue
        try:
            known[name].type(value)
        except ValueError as exc:
            found.append(f'[{section}] {name}: {exc}')
    return found


@pytest.mark.parametrize('block', INI, ids=str)
def test_an_example_has_only_options_and_values_of_kiln(block):
    assert problems(block.text) == []


@pytest.mark.parametrize('block', INI, ids=str)
def test_an_example_is_loaded_as_a_file_of_kiln(block, tmp_path):
    path = tmp_path / 'kiln.conf'
    path.write_text(block.text)
    conf = kiln_conf.load([str(path)], [], environment={})
    for name in kiln_conf.backend_names(conf):
        group = f'compute:{name}'
        kiln_conf.register(conf, group, BACKEND_OPTS)


@pytest.mark.parametrize(
    ('text', 'problem'),
    [
        ('[compute]\nowner = me   # mine\n', 'comment'),
        ('[compute:east]\ndriver = nova\npasword = x\n', 'password'),
        ('[compute:east]\ndriver = noop\nrate = fast\n', 'fast'),
        ('[cluster]\nlease = 3\n', 'not a group'),
    ],
)
def test_a_wrong_example_is_found(text, problem):
    assert problem in ' '.join(problems(text))


def test_every_exception_is_of_an_example():
    assert {block.text.partition('\n')[0] for block in INI} >= set(OTHERS)


def test_a_block_is_found_with_its_place_whatever_opens_it():
    text = '.. code-block:: ini\n   :caption: x\n\n   [db]\n   url = x\n\n::\n\n    $ kiln up\n'
    assert list(blocks_of('page', text)) == [
        Block('page', 4, 'ini', '[db]\nurl = x\n'),
        Block('page', 9, 'console', '$ kiln up\n'),
    ]
