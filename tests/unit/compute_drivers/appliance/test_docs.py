"""The guide to enrolled machines is complete, and its sample inventory is valid."""

import pathlib
import re
import unittest

from kiln.cli.commands import _HOMES
from kiln.compute_drivers.appliance.conf import opts
from kiln.compute_drivers.appliance.inventory import reading
from kiln.compute_drivers.appliance.inventory.reading import parse
from kiln.compute_drivers.appliance.work.tasks import facts
from tests.unit.compute_drivers.appliance.samples import claim, machine

DOC = pathlib.Path(__file__).parents[4] / 'doc'
GUIDE = (DOC / 'source' / 'admin' / 'appliance.rst').read_text()


class Guide(unittest.TestCase):
    def test_the_sample_inventory_is_valid(self):
        sample = DOC / 'examples' / 'machines.toml'
        machines = parse(sample.read_text(), sample.name).machines
        self.assertEqual(['metal-01', 'metal-02', 'lb-1'], list(machines))

    def test_the_guide_lists_exactly_the_keys_of_a_machine(self):
        table = GUIDE.split('=====\n``type``')[1].split('\n=====')[0]
        told = re.findall(r'^``(\w+)``', table, re.MULTILINE)
        self.assertEqual(set(reading._KEYS), {'type', *told})

    def test_the_guide_lists_every_variable_of_a_command(self):
        told = set(re.findall(r'``(KILN_\w+)``', GUIDE))
        more = {'KILN_VERB', 'KILN_FOLDER', 'KILN_CREDENTIALS_FILE'}
        every = claim(flavor='f', image_id='i')
        self.assertEqual({*facts(every, machine('zone = "z"\n')), *more}, told)

    def test_the_options_and_commands_in_the_guide_exist(self):
        options = {opt.dest for opt in opts}
        for name in re.findall(
            r'``((?:probe|ready|quarantine|console|state|secrets)_\w+)``', GUIDE
        ):
            self.assertIn(name, options)
        for name in re.findall(r'kiln (appliance \w+)', GUIDE):
            self.assertIn(name, _HOMES)
