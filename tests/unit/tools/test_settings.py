"""Configuration files of a cloud, and the options on top of them."""

import configparser
import pathlib
import tempfile
import unittest

from tools.devcloud import settings
from tools.devcloud.errors import CloudError
from tools.devcloud.place import Place
from tools.devcloud.services import CORE, OPTIONAL
from tools.devcloud.wishes import Wishes


class SettingTest(unittest.TestCase):
    def test_a_setting_reads_back_as_it_was_written(self):
        text = 'octavia.controller_worker.compute_driver=a=b'
        setting = settings.Setting.parse(text)
        self.assertEqual('a=b', setting.value)
        self.assertEqual(text, str(setting))

    def test_a_setting_that_names_no_option_is_refused(self):
        for text in ('nova.DEFAULT.debug', 'nova.debug=true', 'nova..debug=true', '=1'):
            with self.subTest(text), self.assertRaisesRegex(CloudError, 'SERVICE.SECTION'):
                settings.Setting.parse(text)

    def test_a_setting_reaches_its_own_service_alone(self):
        before = {'DEFAULT': {'debug': False}}
        wanted = [
            settings.Setting.parse('nova.DEFAULT.debug=true'),
            settings.Setting.parse('nova.new.option=1'),
            settings.Setting.parse('glance.DEFAULT.debug=maybe'),
        ]
        after = settings.apply(before, wanted, 'nova')
        self.assertEqual({'DEFAULT': {'debug': 'true'}, 'new': {'option': '1'}}, after)
        self.assertEqual({'DEFAULT': {'debug': False}}, before)


class FileTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def test_a_file_is_read_as_it_was_meant(self):
        text = settings.render({'DEFAULT': {'a': 1, 'b': True}, 'other': {'c': '127.0.0.1:1'}})
        parser = configparser.RawConfigParser()
        parser.read_string(text)
        self.assertEqual({'a': '1', 'b': 'true'}, dict(parser.defaults()))
        self.assertEqual('127.0.0.1:1', parser.get('other', 'c'))

    def test_a_file_that_says_the_same_is_left_alone(self):
        path = self.folder / 'etc' / 'one.conf'
        settings.write(path, 'one')
        first = path.stat().st_mtime_ns
        settings.write(path, 'one')
        self.assertEqual(first, path.stat().st_mtime_ns)
        settings.write(path, 'two')
        self.assertEqual('two', path.read_text())

    def test_every_service_describes_itself_completely(self):
        place = Place(self.folder, 20000)
        place.seeded.parent.mkdir()
        place.seeded.write_text('{"flavor": "f", "network": "n", "security_group": "s"}')
        names, ports = [], []
        for kind in (*CORE, *OPTIONAL):
            service = kind(place, Wishes(20000, hosts=2))
            with self.subTest(service.name):
                for path, sections in service.files().items():
                    self.assertTrue(path.is_relative_to(place.etc))
                    configparser.RawConfigParser().read_string(settings.render(sections))
                self.assertTrue(service.schema())
                self.assertIn(service.place.port(service.name), self.ports(service))
                ports += self.ports(service)
                names += [process.name for process in service.processes()]
        for unique in (names, ports):
            self.assertEqual(sorted(set(unique)), sorted(unique))
        self.assertIn('nova-compute-cmp2', names)
        self.assertNotIn('nova-compute-cmp3', names)

    def ports(self, service):
        return [process.port for process in service.processes() if process.port]

    def test_no_compute_is_told_where_the_database_is(self):
        place = Place(self.folder, 20000)
        nova = next(kind for kind in CORE if kind.name == 'nova')(place, Wishes(20000, hosts=1))
        files = {path.stem: settings.render(text) for path, text in nova.files().items()}
        self.assertIn('mysql', files['nova'])
        self.assertNotIn('mysql', files['cmp1'])
