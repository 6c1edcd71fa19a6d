"""The guide for authors of cluster drivers: its examples work as shown."""

import pathlib
import re
import tempfile
import textwrap
import unittest

from kiln.cluster_drivers.discovery.directory import load_directory
from kiln.cluster_drivers.discovery.yaml_fields import DRIVER
from kiln.cluster_drivers.templates.facts import FACTS
from kiln.clusters.exceptions import InvalidClusterDriver
from tests.unit.cluster_drivers.samples import cluster, context, node
from tests.unit.test_layering import ROOT

GUIDE = (ROOT / 'doc/source/contributor/writing-a-cluster-driver.rst').read_text()
BLOCK = re.compile(r'^\.\. code-block:: (\w+)\n((?:   .*\n)?)\n((?:(?:   .*)?\n)+)', re.MULTILINE)


def blocks():
    for _, caption, text in BLOCK.findall(GUIDE):
        yield caption.partition(':caption: ')[2].strip(), textwrap.dedent(text).strip() + '\n'


class Guide(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name, text in blocks():
            if name:
                path = self.root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        self.directory = self.root / 'web_v1'

    def change(self, file, old, new):
        path = self.directory / file
        self.assertIn(old, path.read_text())
        path.write_text(path.read_text().replace(old, new))

    def problems(self):
        with self.assertRaises(InvalidClusterDriver) as caught:
            load_directory(self.directory)
        return [str(one).replace(f'{self.root}/', '') for one in caught.exception.problems]

    def test_the_five_minute_driver_of_the_guide_works(self):
        driver = load_directory(self.directory).open()
        about = node(address='10.0.0.1')
        of = {'context': context(nodes=(about,)), 'cluster': cluster()}
        found = driver.bootstrap(**of, node=about)
        self.assertIn(b'GREETING=Hello\n', found.user_data)
        self.assertIn(b'seq 1)', found.user_data)
        report = driver.update_cluster_status(**of)
        self.assertEqual({'pages': ['http://10.0.0.1/']}, report.outputs)

    def test_the_mistakes_in_the_guide_are_reported_as_shown(self):
        self.change('templates/start.sh', '{{ lines }}', '{{ line }}')
        once, ten = (f'type: integer\n    default: {number}' for number in (1, 10))
        self.change('driver.yaml', once, ten)
        first = self.problems()
        self.change('driver.yaml', ten, once)
        # With this mistake no template uses the parameter, which is reported as well.
        for found in (first, self.problems()):
            self.assertIn(f'\n    {found[0]}\n', GUIDE)

    def test_the_guide_names_every_key_and_every_fact(self):
        for name in (*DRIVER.fields, *FACTS):
            self.assertIn(f'``{name}``', GUIDE)
