"""Inventories are parsed as written, and each mistake is reported with its line."""

import json
import string
import tomllib
import unittest

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kiln.compute_drivers.appliance.inventory.machines import ProbeKind, Verb
from kiln.compute_drivers.appliance.inventory.reading import InventoryError, machine_of, parse
from kiln.compute_drivers.appliance.inventory.toml_lines import lines_of
from kiln.models import AmphoraType
from tests.examples import examples

WHOLE = """\
[defaults]
type = "hw_load_balancer"
wipe = ["/usr/bin/wipe", "--all"]
labels = {site = "west"}

[machines.lb-1]
addresses = ["192.0.2.11", "lb-1.example"]
flavors = ["10g", "40g"]
images = ["v16"]
zone = "az1"
credentials = "lb-admin"
claim = ["/usr/bin/claim"]
probe = {http = "https://{address}:8443/up", status = 204, insecure = true}

[machines.metal]
type = "bare_metal"
addresses = ["192.0.2.12"]
wipe = []
maintenance = "a fan"
labels.rack = "r12"
probe = {tcp = 22}
"""
RIGHT = '[machines.a]\ntype = "bare_metal"\naddresses = ["192.0.2.1"]\nwipe = []\n'


class Reading(unittest.TestCase):
    def setUp(self):
        self.machines = parse(WHOLE, 'inventory').machines

    def test_a_machine_has_its_own_values_and_the_defaults(self):
        one = self.machines['lb-1']
        self.assertIs(AmphoraType.HW_LOAD_BALANCER, one.amphora_type)
        self.assertEqual(('192.0.2.11', 'lb-1.example'), one.addresses)
        self.assertEqual((('10g', '40g'), ('v16',), 'az1'), (one.flavors, one.images, one.zone))
        self.assertEqual(('/usr/bin/wipe', '--all'), one.argv(Verb.WIPE))
        self.assertEqual(('/usr/bin/claim',), one.argv(Verb.CLAIM))
        self.assertEqual({'site': 'west'}, one.labels)
        self.assertEqual(ProbeKind.HTTP, one.probe.kind)
        self.assertEqual((204, True), (one.probe.status, one.probe.insecure))

    def test_a_machine_s_own_values_override_the_defaults(self):
        one = self.machines['metal']
        self.assertIs(AmphoraType.BARE_METAL, one.amphora_type)
        self.assertEqual((), one.argv(Verb.WIPE))
        self.assertEqual({'rack': 'r12'}, one.labels)
        self.assertEqual(('a fan', 22), (one.maintenance, one.probe.port))

    def test_a_machine_is_restored_from_the_table_of_its_claim(self):
        for name, one in self.machines.items():
            kept = json.loads(json.dumps(dict(one.table)))
            self.assertEqual(one, machine_of(name, kept))

    def test_unknown_keys_in_a_stored_table_are_ignored(self):
        one = machine_of('old', {'addresses': ['192.0.2.1'], 'zone': 7, 'colour': 'red'})
        self.assertEqual((('192.0.2.1',), None), (one.addresses, one.zone))
        self.assertEqual((AmphoraType.BARE_METAL, ()), (one.amphora_type, one.argv(Verb.WIPE)))

    def test_an_empty_file_is_an_empty_pool(self):
        self.assertEqual({}, dict(parse('', 'inventory').machines))


class Mistakes(unittest.TestCase):
    def told(self, text):
        with self.assertRaises(InventoryError) as caught:
            parse(text, 'pool.toml')
        opening, *said = str(caught.exception).splitlines()
        self.assertEqual('the inventory cannot be used:', opening)
        return said

    def test_each_mistake_is_one_line_with_its_place(self):
        said = self.told(
            '[machines.a]\ntype = "vm"\naddresses = ["192.0.2.1"]\nwipe = []\n\n'
            '[machines.b]\naddresses = []\nzoen = "az1"\n'
            'flavors = [\n  "x",\n  "x",\n]\nlabels = {n = 1}\n'
        )
        self.assertEqual(
            [
                'pool.toml:2: [machines.a] type must be one of bare_metal, hw_load_balancer.',
                'pool.toml:6: [machines.b] lacks type.',
                'pool.toml:6: [machines.b] lacks wipe (wipe = [] means that there is nothing to '
                'wipe).',
                'pool.toml:7: [machines.b] addresses must be a list such as ["a", "b"].',
                'pool.toml:8: [machines.b] zoen is not a key of a machine; did you mean zone?',
                'pool.toml:9: [machines.b] flavors has a duplicate.',
                'pool.toml:13: [machines.b] labels must be a table of texts such as '
                '{rack = "r12"}.',
            ],
            said,
        )

    def test_a_toml_error_has_line_and_column(self):
        self.assertRegex(self.told('[machines.a]\ntype = bare')[0], r'^pool.toml:2:8: ')

    def test_values_that_are_nested_too_deeply_are_reported(self):
        with self.assertRaisesRegex(InventoryError, 'pool.toml: its values are nested too'):
            parse('a = ' + '[' * 50_000, 'pool.toml')

    def test_a_duplicate_name_is_reported(self):
        self.assertRegex(self.told(RIGHT + RIGHT)[0], r'^pool.toml:5:\d+: .*twice')

    def test_a_mistake_in_the_defaults_is_reported_once(self):
        two = '[machines.a]\naddresses = ["x"]\n[machines.b]\naddresses = ["y"]\n'
        said = self.told('[defaults]\ntype = "bare_metal"\nwipe = "rm -rf /"\n' + two)
        self.assertEqual(1, len(said))
        self.assertRegex(said[0], r'^pool.toml:3: \[defaults\] wipe .*no shell reads it')

    def test_an_address_belongs_to_one_machine(self):
        said = self.told(RIGHT + RIGHT.replace('machines.a', 'machines.b'))
        self.assertEqual(
            ['pool.toml:7: [machines.b] addresses has 192.0.2.1, which is also an address of a.'],
            said,
        )
        two = RIGHT.replace('["192.0.2.1"]', '["192.0.2.8", "192.0.2.9"]')
        said = self.told(two + two.replace('machines.a', 'machines.b'))
        self.assertEqual(['192.0.2.8,', '192.0.2.9,'], [one.split()[4] for one in said])

    def test_a_mistake_does_not_hide_those_that_the_machine_shares_with_another(self):
        other = RIGHT.replace('machines.a', 'machines.b').replace('wipe = []\n', '')
        said = self.told(RIGHT + other)
        self.assertIn('[machines.b] lacks wipe', said[0])
        self.assertIn('also an address of a', said[1])

    def test_the_first_and_the_last_port_can_be_probed(self):
        for port in (1, 65_535):
            (one,) = parse(f'{RIGHT}probe = {{tcp = {port}}}\n', 'i')
            self.assertEqual(port, one.probe.port)
        for status in (100, 599):
            (one,) = parse(f'{RIGHT}probe = {{http = "http://a/", status = {status}}}\n', 'i')
            self.assertEqual(status, one.probe.status)

    def test_what_can_be_asked_for_is_listed_in_order(self):
        names = [f'n{number}' for number in range(9)]
        text = ''.join(
            RIGHT.replace('machines.a', f'machines.{one}').replace('2.1"', f'2.{at}"')
            + f'zone = "{one}"\nflavors = ["{one}"]\n'
            for at, one in enumerate(reversed(names))
        )
        inventory = parse(text, 'i')
        self.assertEqual((names, names), (inventory.zones, inventory.names('flavor')))

    def test_each_invalid_value_is_reported_with_what_it_must_be(self):
        for line, words in (
            ('zone = ""', 'a text in quotes'),
            ('zone = 7', 'a text in quotes'),
            ('zone = "a\\u0007b"', 'a text in quotes'),
            ('images = "a"', 'a list'),
            ('addresses = ["a", "a b"]', 'neither an IP address nor a host name'),
            ('credentials = "p@ss word"', 'the name of a secret, not the secret'),
            ('labels = 7', 'a table of texts'),
            ('claim = ["wipe"]', 'the absolute path of a program'),
            ('claim = ["/bin/true", 7]', 'a program and its arguments'),
            ('claim = ["/bin/a\\u0000b"]', 'a null character'),
            ('probe = 22', 'must be {tcp = PORT}'),
            ('probe = {tcp = 22, http = "http://a"}', 'must be {tcp = PORT}'),
            ('probe = {}', 'must be {tcp = PORT}'),
            ('probe = {tcp = 0}', 'a port from 1 to 65535'),
            ('probe = {tcp = true}', 'a port from 1 to 65535'),
            ('probe = {tcp = "ssh"}', 'a port from 1 to 65535'),
            ('probe = {tcp = 22, status = 200}', 'has status, which a probe by tcp does not take'),
            ('probe = {http = "ftp://a"}', 'a URL such as'),
            ('probe = {http = 80}', 'a URL such as'),
            ('probe = {http = "http://a:99999/"}', 'a URL such as'),
            ('probe = {http = "http://a:0/"}', 'a URL such as'),
            ('probe = {http = "http:///up"}', 'a URL such as'),
            ('probe = {http = "http://me:word@a/"}', 'must not have a password in its URL'),
            ('probe = {http = "http://a/", status = 99}', 'a status from 100 to 599'),
            ('probe = {http = "http://a/", insecure = 1}', 'true or false'),
            ('probe = {command = []}', 'a program to run'),
            ('wings = 2', 'is not a key of a machine; the keys are type,'),
        ):
            with self.subTest(line):
                base = RIGHT
                if line.startswith('addresses'):
                    base = RIGHT.replace('addresses = ["192.0.2.1"]\n', '')
                (said,) = self.told(f'{base}{line}\n')
                self.assertIn(words, said)

    def test_anything_but_tables_of_machines_is_reported(self):
        first, second = self.told('[machine.a]\nx = 1\n[default]\n')
        self.assertIn('pool.toml:1: [machine] is neither', first)
        self.assertIn('pool.toml:3: [default] is neither', second)
        self.assertIn('must be a table', self.told('machines = 7')[0])
        self.assertIn('must be a table', self.told('[machines]\na = 7')[0])
        self.assertIn('must be named by 1 to 63', self.told('[machines."a/b"]\n')[0])
        said = self.told('[defaults]\naddresses = ["192.0.2.1"]\n')
        self.assertIn('must be set for each machine, not here', said[0])


class Lines(unittest.TestCase):
    def test_keys_are_found_after_values_of_several_lines(self):
        text = '# one\na = """\n[b]\nc = 1\n"""\n[b]\nc = [\n 1, # ]\n]\nd.e = {f = 1, g = 2}\n'
        lines = lines_of(text)
        self.assertEqual(2, lines['a',])
        self.assertEqual((6, 7), (lines['b',], lines['b', 'c']))
        self.assertEqual((10, 10), (lines['b', 'd'], lines['b', 'd', 'e', 'f']))
        self.assertEqual(10, lines['b', 'd', 'e', 'g'])
        self.assertNotIn(('c',), lines)

    def test_only_what_toml_calls_an_end_of_a_line_is_one(self):
        self.assertEqual(
            {('a',): 1, ('b',): 2}, dict(lines_of('a = 1 # x\x85y\u2028z\r\nb = 2\n'))
        )

    NAMES = st.text(string.ascii_lowercase, min_size=1, max_size=4)

    @given(st.dictionaries(NAMES, st.dictionaries(NAMES, st.integers(), max_size=4), max_size=4))
    def test_every_key_is_found_on_the_line_it_was_written_on(self, tables):
        text, written = '', {}
        for table, values in tables.items():
            written[table,] = text.count('\n') + 1
            text += f'[{table}]\n'
            for key, value in values.items():
                written[table, key] = text.count('\n') + 1
                text += f'{key} = [ # {value}\n  {value},\n]\n'
        self.assertEqual(tables.keys(), tomllib.loads(text).keys())
        self.assertEqual(written, dict(lines_of(text)))


class Fuzz(unittest.TestCase):
    """Any text is an inventory, or its mistakes are reported; never another error."""

    SIGNS = st.sampled_from(
        [*'\t\n\r[]{}=,."\'#\\ -+_:09a\x00\x85\u2028\ud800', '"""', "'''", '[[',
         '\n[machines.b]\n', 'defaults', 'machines', 'probe', '2020-01-01', '1e999', 'nan',
         '9' * 5000, '[' * 2000]
    )  # fmt: skip

    def check(self, text):
        try:
            parse(text, 'inventory')
        except InventoryError as exc:
            for line in str(exc).splitlines()[1:]:
                self.assertTrue(line.startswith('inventory:'), line)

    @settings(max_examples=examples(100))
    @given(st.text() | st.lists(SIGNS, max_size=20).map(''.join))
    @example('a = ' + '[' * 5000)
    @example('a = ' + '9' * 5000)
    def test_any_text_is_an_inventory_or_has_mistakes(self, text):
        self.check(text)

    @settings(max_examples=examples(100))
    @given(
        st.lists(
            st.tuples(st.integers(0, len(WHOLE)), st.integers(0, 12), SIGNS | st.text(max_size=2)),
            min_size=1,
            max_size=4,
        )
    )
    def test_any_change_of_an_inventory_is_one_or_has_mistakes(self, changes):
        text = WHOLE
        for place, gone, new in changes:
            text = text[:place] + new + text[place + gone :]
        self.check(text)
