"""Tests of the commands about the machines of a pool."""

from tests.unit.cli.shell import Shell

CONFIG = """\
[compute]
default_backend = metal
owner = us
[compute:metal]
driver = appliance
inventory = {folder}/machines.toml
state_dir = {folder}/state
watch_interval = 0.05
watch_max_interval = 0.05
[compute:cloud]
driver = noop
"""
POOL = """\
[defaults]
type = "bare_metal"
wipe = ["/bin/false"]
[machines.m1]
addresses = ["192.0.2.1"]
zone = "az1"
[machines.m2]
addresses = ["192.0.2.2"]
wipe = []
"""


class Pools(Shell):
    def setUp(self):
        super().setUp()
        self.config.write_text(CONFIG.format(folder=self.folder))
        self.inventory = self.folder / 'machines.toml'
        self.inventory.write_text(POOL)

    def build(self, name, *more):
        return super().build(name, '--type', 'bare_metal', *more)

    def machines(self):
        return {one['name']: one for one in self.json('appliance', 'list')}

    def test_the_list_shows_the_amphora_of_each_machine(self):
        amphora_id = self.build('web')
        one, other = self.machines().values()
        self.assertEqual(
            ('m1', 'claimed', 'web', 'up', 'az1', amphora_id),
            tuple(one[key] for key in
                  ('name', 'standing', 'amphora_name', 'phase', 'zone', 'amphora_id')),
        )  # fmt: skip
        self.assertEqual(('free', None, None), tuple(
            other[key] for key in ('standing', 'amphora_name', 'reason')))  # fmt: skip
        self.assertNotIn('addresses', self.ok('appliance', 'list'))
        self.assertIn('192.0.2.2', self.ok('appliance', 'list', '--long'))

    def test_a_machine_is_put_into_maintenance_and_returned(self):
        self.ok('appliance', 'maintain', 'm1', 'a new fan')
        self.assertIn('Machine m1 is in maintenance', self.err)
        one = self.machines()['m1']
        self.assertEqual(('maintenance', 'a new fan'), (one['standing'], one['reason']))
        self.build('web')
        self.assertEqual('web', self.machines()['m2']['amphora_name'])
        err = self.fails(5, 'compute', 'build', '--type', 'bare_metal')
        self.assertIn('1 claimed (m2); 1 in maintenance (m1)', err)
        self.ok('appliance', 'return', 'm1')
        self.assertEqual('free', self.machines()['m1']['standing'])
        self.assertIn('without a reason', self.fails(2, 'appliance', 'maintain', 'm1', ' '))

    def test_a_machine_that_cannot_be_wiped_is_released_by_hand(self):
        self.build('web')
        self.assertIn('it is in use as amphora', self.fails(4, 'appliance', 'release', 'm1'))
        err = self.fails(6, 'compute', 'delete', 'web', '--wait', '--timeout', '0.5')
        self.assertIn('it was error (wiping) when last polled', err)
        one = self.machines()['m1']
        self.assertEqual('unwiped', one['standing'])
        self.assertIn('wipe command failed once', one['reason'])
        self.assertIsNotNone(one['until'])
        self.ok('appliance', 'release', 'm1')
        self.assertEqual('free', self.machines()['m1']['standing'])

    def test_a_missing_machine_is_status_3(self):
        self.assertIn("'m9'", self.fails(3, 'appliance', 'release', 'm9'))

    def test_a_backend_that_creates_its_machines_has_no_pool(self):
        err = self.fails(2, '--backend', 'cloud', 'appliance', 'list')
        self.assertIn("machines of 'cloud'", err)

    def test_each_mistake_of_an_inventory_is_one_line(self):
        self.inventory.write_text(POOL.replace('zone', 'zoen').replace('wipe = []', 'wipe = 7'))
        err = self.fails(2, 'appliance', 'list')
        self.assertIn("Cannot open backend 'metal': the inventory cannot be used:\n", err)
        self.assertIn(f'{self.inventory}:6: [machines.m1] zoen is not a key', err)
        self.assertIn(f'{self.inventory}:9: [machines.m2] wipe must be a list', err)
