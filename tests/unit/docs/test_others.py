"""No example is outside a test: what is neither a command nor ini, YAML or Python, and files."""

import json
import re

import pytest

from tests.unit.docs.pages import PAGES, ROOT, blocks

#: The languages of which each example has a test.
TESTED = {'console', 'ini', 'python', 'yaml'}
#: Messages that the pages quote, by words in them: the words that the code of kiln has.
MESSAGES = {
    'zoen is not a key': 'the inventory cannot be used:',
    'in quarantine (metal-07)': 'is free with ',
    "kiln cannot run hooks as 'kiln-hooks'": 'it does not run as root; run it as root, or',
    'Cannot make sure that nothing of build': 'The orphan sweep will find it.',
    'would have 50200': 'would have ',
    "nothing is called 'line' here": 'is called ',
    'The named secret in /etc/kiln/secrets': 'does not exist',
    'Driver breaks the contract': 'breaks the contract',
    'failed in validate: KeyError': 'This is a mistake in the driver',
    "run programs as 'kiln-programs'": 'it does not run as root; run it as root, or',
    'seq": 22': 'node-ready',
    "'3' is text; write a whole": 'without quotes',
    'as swarm_debian_v1 sees it': 'not as it should be',
    'no rule opens 7946/tcp': 'no rule opens ',
}
#: All other examples, by words in them, each with the test that has the same, or the reason.
REASONS = {
    'UserKnownHostsFile': 'a file of ssh; tests/functional/docker/sshd.py writes one',
    'hooks.d/pre_create/10-cmdb': 'names of files; tests/unit/hooks/test_loading.py',
    '17 * * * *': 'a line of cron; the command is tested below',
    'GREETING={{': 'tests/unit/cluster_drivers/discovery/test_guide.py',
    '"point": "post_node_ready"': 'tests/unit/hooks/test_docs.py',
    '"retryAfterSeconds": 30': 'tests/unit/hooks/test_docs.py',
    '50-drain': 'it calls a program of the site; tests/unit/hooks/test_docs.py',
    '-server_type: container': 'changes of a file: tests/functional/swarm_nova has the result',
}
REST = [block for block in blocks() if block.language not in TESTED]


def code_of_kiln():
    """Return the code of kiln; the pieces of a text that is broken into lines are one."""
    texts = (path.read_text() for path in sorted((ROOT / 'kiln').rglob('*.py')))
    return ''.join(re.sub(r"['\"]\n\s+f?['\"]", '', text) for text in texts)


@pytest.mark.parametrize('block', REST, ids=str)
def test_every_other_example_has_a_test_or_a_reason(block):
    assert [words for words in (*MESSAGES, *REASONS) if words in block.text]


def test_the_messages_of_the_pages_are_messages_of_kiln():
    code = code_of_kiln()
    assert [words for words in MESSAGES.values() if words not in code] == []


def test_every_exception_is_of_an_example_and_its_test_exists():
    for words in (*MESSAGES, *REASONS):
        assert [block for block in REST if words in block.text], words
    for reason in REASONS.values():
        for path in re.findall(r'tests/[\w/.]+', reason):
            assert (ROOT / path).exists(), path


def test_examples_in_json_are_json():
    for block in blocks('json'):
        assert json.loads(block.text)


def test_no_page_has_an_example_that_these_tests_do_not_find():
    found = {}
    for block in blocks():
        found.setdefault(block.page, []).append(block)
    for page in PAGES:
        text, name = page.read_text(), str(page.relative_to(ROOT)).removeprefix('doc/source/')
        assert not re.search(r'\.\. (code|sourcecode|parsed-literal|prompt|doctest)::', text), name
        assert not re.search(r'(?m)^ *\S.* \.\. code-block::', text), name
        assert not re.search(r'(?m)^ *>>> ', text), name
        assert text.count('.. code-block::') <= len(found.get(name, ())), name


def test_every_file_of_the_examples_is_used_by_a_test_or_a_page():
    used = ''.join(path.read_text() for path in (ROOT / 'tests').rglob('*.py'))
    used += ''.join(page.read_text() for page in PAGES)
    # tests/unit/test_examples.py runs them all.
    here = ROOT / 'doc/examples'
    for path in here.rglob('*'):
        # The drivers are packages: tests/functional/clusters/test_model_commands.py runs them.
        if path.suffix not in ('', '.py', '.pyc') and 'cluster_drivers' not in path.parts:
            assert path.name in used, path
    for driver in (here / 'cluster_drivers').iterdir():
        assert driver.name in used, driver
