"""The YAML examples of the documentation are valid for the reader of their kind."""

import pytest

from kiln.cluster_drivers.heat.settings import settings_of
from kiln.cluster_file.reading import read
from kiln.clusters.exceptions import InvalidHooks
from kiln.hooks.loading import load_hooks
from kiln.images.library import Library
from tests.unit.docs.pages import ROOT, blocks

YAML = blocks('yaml')

#: Parts of a file, by words in them, each with the test that completes it.
PARTS = {
    'count: 15 ': 'tests/unit/cluster_file/test_docs.py',
    'strategy: {max_surge': 'tests/unit/cluster_file/test_docs.py',
    'user_data: start.sh': 'tests/unit/cluster_drivers/discovery/test_guide.py',
    'operator: reverse_order': 'tests/kit/test_survivors.py',
}
#: The first lines of a file, whose groups are shown elsewhere on the page.
HEADS = ('compute_driver: nova', '# yaml-language-server', 'web-admin')
GROUPS = '\nnodegroups: [{name: front, count: 2}]\n'


def part_of(block):
    return next((test for words, test in PARTS.items() if words in block.text), None)


def check_cluster_file(block):
    text = block.text
    if any(words in text for words in HEADS) and 'nodegroups' not in text:
        text += GROUPS
    elif text.startswith('nodegroups:'):
        text = f'cluster: web\n{text}'
    assert read(text).clusters


def check_hooks(block, folder):
    """The programs and keys that hooks.yaml names are not there; nothing else is wrong."""
    path = folder / 'hooks.yaml'
    path.write_text(block.text)
    with pytest.raises(InvalidHooks) as caught:
        load_hooks(file=path)
    assert {problem.message.rpartition(': ')[2] for problem in caught.value.problems} <= {
        'it does not exist',
        'No such file or directory',
    }


def check_recipe(block, folder):
    path = folder / 'web-node'
    path.mkdir()
    (path / 'image.yaml').write_text(block.text)
    assert Library().read(path).name == 'web-node'


def check_credentials(block):
    assert settings_of(block.text).auth_url


@pytest.mark.parametrize('block', [one for one in YAML if not part_of(one)], ids=str)
def test_an_example_is_read_without_a_mistake(block, tmp_path):
    opening = block.text.partition(':')[0]
    if opening == 'hooks':
        check_hooks(block, tmp_path)
    elif opening == 'image':
        check_recipe(block, tmp_path)
    elif opening == 'auth_url':
        check_credentials(block)
    else:
        check_cluster_file(block)


def test_the_cluster_file_that_the_guide_to_swarm_includes_is_read_without_a_mistake():
    assert read((ROOT / 'doc/examples/swarm.yaml').read_text()).clusters


def test_every_exception_is_of_an_example_and_its_test_exists():
    for words, test in PARTS.items():
        assert [block for block in YAML if words in block.text], words
        assert (ROOT / test).is_file()
