"""Where a cloud lives, what it was asked for, and what its clients are told."""

import json
import pathlib
import shlex
import tempfile
import unittest

from tools.devcloud import clients
from tools.devcloud.errors import CloudError
from tools.devcloud.place import PORTS, Place, default_home
from tools.devcloud.settings import Setting
from tools.devcloud.wishes import Wishes


class PlaceTest(unittest.TestCase):
    def test_the_home_is_what_is_named_or_else_among_the_users_state(self):
        for environ, home in (
            ({'KILN_CLOUD_HOME': '/a/b', 'XDG_STATE_HOME': '/c'}, '/a/b'),
            ({'XDG_STATE_HOME': '/c'}, '/c/kiln-devcloud'),
            ({}, str(pathlib.Path('~/.local/state/kiln-devcloud').expanduser())),
        ):
            with self.subTest(environ):
                self.assertEqual(home, str(default_home(environ)))

    def test_a_home_too_long_for_its_sockets_is_refused_at_once(self):
        with self.assertRaisesRegex(CloudError, 'more than'):
            Place(pathlib.Path('/' + 'x' * 100), 10000)

    def test_no_two_services_share_a_port(self):
        self.assertEqual(len(PORTS), len(set(PORTS.values())))

    def test_the_callers_own_cloud_does_not_leak_into_the_processes(self):
        environment = Place(pathlib.Path('/home'), 1).environment(OS_NOVA_CONFIG_DIR='/etc')
        self.assertEqual(
            ['OS_NOVA_CONFIG_DIR'], [name for name in environment if name.startswith('OS_')]
        )
        self.assertNotIn('HTTP_PROXY', environment)


class WishesTest(unittest.TestCase):
    def test_what_was_asked_for_is_remembered(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, 'wishes.json')
            self.assertEqual(Wishes(), Wishes.load(path))
            setting = Setting.parse('nova.DEFAULT.debug=true')
            wishes = Wishes(12000, ('heat',), 2, (setting,), ('./driver',))
            wishes.save(path)
            self.assertEqual(wishes, Wishes.load(path))

    def test_a_first_cloud_has_three_hosts_at_the_usual_ports(self):
        first = Wishes().and_also()
        self.assertEqual((10000, 3), (first.base_port, first.hosts))
        self.assertEqual(1, Wishes().and_also(hosts=1).hosts)

    def test_a_cloud_grows_and_never_shrinks(self):
        more = Wishes(10000, ('heat',), 2).and_also(services=('octavia', 'heat'), hosts=1)
        self.assertEqual(('heat', 'octavia'), more.services)
        self.assertEqual(2, more.hosts)

    def test_the_last_value_of_an_option_counts(self):
        first, second = (Setting.parse(f'nova.DEFAULT.debug={value}') for value in ('1', '2'))
        self.assertEqual((second,), Wishes(settings=(first,)).and_also(settings=[second]).settings)

    def test_the_ports_of_a_cloud_stay_what_its_catalogue_says(self):
        self.assertEqual(10000, Wishes(10000).and_also(base_port=10000).base_port)
        with self.assertRaisesRegex(CloudError, 'start at 10000'):
            Wishes(10000).and_also(base_port=11000)


class ClientsTest(unittest.TestCase):
    def test_clouds_yaml_names_each_of_the_people(self):
        text = clients.clouds_yaml(Place(pathlib.Path('/home'), 11000))
        clouds = json.loads(text)['clouds']
        self.assertEqual({'kiln', 'kiln-user', 'kiln-small', 'kiln-system'}, set(clouds))
        self.assertEqual('http://127.0.0.1:16000/v3', clouds['kiln']['auth']['auth_url'])
        self.assertEqual('demo', clouds['kiln-user']['auth']['project_name'])
        # A scope of the system excludes one of a project.
        self.assertNotIn('project_name', clouds['kiln-system']['auth'])

    def test_exports_survive_a_home_with_a_space(self):
        exports = clients.exports(Place(pathlib.Path('/a home'), 1))
        self.assertIn('KILN_CLOUD_HOME=/a home', shlex.split(exports))
