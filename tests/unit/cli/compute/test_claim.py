"""kiln compute claim: a machine made by hand becomes an amphora of the site."""

from kiln.compute_drivers.noop.cloud import NoopCloud
from tests.unit.cli.shell import Shell


class Claiming(Shell):
    def setUp(self):
        super().setUp()
        cloud = NoopCloud(self.folder / 'cloud.db', clock=self.clock)
        self.id = cloud.make_unowned('by-hand', image_id='image-1')
        cloud.close()

    def test_a_claimed_machine_is_shown_listed_and_found_by_name(self):
        self.assertEqual([], self.json('compute', 'list'))
        shown = self.json('compute', 'claim', self.id, '--build-key', 'web-1')
        self.assertEqual(
            (self.id, 'by-hand', 'active', 'us', 'web-1', 'image-1'),
            tuple(shown[one] for one in ('id', 'name', 'state', 'owner', 'build_key', 'image')),
        )
        self.assertEqual({'by-hand': 'active'}, self.states())
        again = self.json('compute', 'claim', self.id, '--build-key', 'web-1')
        self.assertEqual(self.id, again['id'])

    def test_a_build_with_its_key_builds_nothing(self):
        self.ok('compute', 'claim', self.id, '--build-key', 'web-1')
        self.ok('compute', 'build', '--build-key', 'web-1', '--name', 'by-hand')
        self.assertEqual({'by-hand': 'active'}, self.states())

    def test_a_machine_of_this_site_with_another_key_is_status_2_and_its_key_is_named(self):
        amphora_id = self.build('web', '--build-key', 'web-1')
        err = self.fails(2, 'compute', 'claim', amphora_id, '--build-key', 'web-2')
        self.assertIn("belongs to this site already, with build key 'web-1'", err)

    def test_a_key_in_use_is_refused_and_the_machine_stays_nobodys(self):
        amphora_id = self.build('web', '--build-key', 'web-1')
        err = self.fails(4, 'compute', 'claim', self.id, '--build-key', 'web-1')
        self.assertIn(f'amphora {amphora_id} of this site has build key', err)
        self.assertEqual({'web': 'active'}, self.states())

    def test_a_name_is_not_an_id(self):
        err = self.fails(3, 'compute', 'claim', 'by-hand', '--build-key', 'web-1')
        self.assertIn('Cannot claim amphora by-hand: it does not exist.', err)
        self.assertIn('A claim takes the id of the machine, not its name.', err)

    def test_a_key_is_required(self):
        self.assertIn('--build-key', self.fails(2, 'compute', 'claim', self.id))
