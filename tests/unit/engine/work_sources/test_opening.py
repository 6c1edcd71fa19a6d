"""Work sources of an option: what is allowed, and what is never shown."""

import subprocess
import sys
import unittest

from kiln.engine.work_sources.database import DatabaseSource
from kiln.engine.work_sources.opening import TlsFiles, open_source, parse
from kiln.exceptions import ConfigurationError
from tests.unit.db.case import StoreCase

WITHOUT_TASKFLOW = """
import sys
sys.modules['taskflow'] = None
from kiln.engine.work_sources.opening import open_source
try:
    open_source('redis://:hush@h/kiln', None, claim_s=15)
except Exception as exc:
    print(type(exc).__name__, exc)
"""


class Addresses(unittest.TestCase):
    def test_each_kind_has_its_port_and_a_path(self):
        for where, name in {
            'zookeeper://a,b:2182,c/site/x': 'zookeeper://a:2181,b:2182,c:2181/site/x',
            'zookeeper://[::1]:2000,b': 'zookeeper://[::1]:2000,b:2181/kiln',
            'zookeepers://a,b:1': 'zookeeper://a:2281,b:1/kiln',
            'etcd://a': 'etcd://a:2379/kiln',
            'etcds://a:1/': 'etcd://a:1/kiln',
            'redis://a/kiln': 'redis://a:6379/kiln',
            'rediss://a:7/kiln': 'redis://a:7/kiln',
        }.items():
            with self.subTest(where):
                self.assertEqual(name, parse(where).name)
                self.assertEqual(
                    where.startswith(('zookeepers', 'etcds', 'rediss')), parse(where).tls
                )

    def test_files_for_tls_need_tls(self):
        files = TlsFiles(ca='ca.pem')
        for safe in ('zookeepers', 'etcds', 'rediss'):
            self.assertEqual(files, parse(f'{safe}://h/kiln', files).files)
            with self.assertRaisesRegex(ConfigurationError, f'write {safe}://'):
                parse(f'{safe[:-1]}://h/kiln', files)

    def test_user_and_password_can_have_characters_that_urls_do_not_allow(self):
        address = parse('redis://me:a%40b%2Fc@h:1/kiln')
        self.assertEqual(('me', 'a@b/c'), (address.user, address.password))
        self.assertEqual((None, 'x'), (parse('redis://:x@h').user, parse('redis://:x@h').password))

    def test_an_invalid_address_is_refused_without_showing_its_password(self):
        for where, words in {
            '': 'must be one of database, zookeeper:',
            'rabbit://h/kiln': 'must be one of',
            'redis://me:hush@:6379/kiln': 'must be one of',
            'redis://me:hush@h:port/kiln': 'must be one of',
            'zookeeper://h:1,,/kiln': 'must be one of',
            'etcd://me:hush@h/kiln': 'etcd takes no user',
            'redis://me:hush@a,b/kiln': 'name one host of redis',
        }.items():
            with self.subTest(where), self.assertRaises(ConfigurationError) as caught:
                parse(where)
            self.assertIn(words, str(caught.exception))
            self.assertNotIn('hush', str(caught.exception))

    def test_neither_name_nor_text_shows_the_password(self):
        address = parse('redis://me:hush@h/kiln')
        self.assertNotIn('hush', f'{address} {address!r} {address.name}')


class Opening(StoreCase):
    def test_without_a_board_the_store_is_polled(self):
        source = open_source('database', self.store, claim_s=15)
        self.assertIsInstance(source, DatabaseSource)
        self.create()
        self.assertEqual(('c-web',), source.take())
        self.claim()
        self.assertEqual((), source.take())
        source.done('c-web')
        source.close()

    def test_an_offer_in_a_process_wakes_its_conductor(self):
        source = open_source('database', self.store, claim_s=15)
        woken = []
        source.offer('c-web')
        source.start(lambda: woken.append(True))
        source.offer('c-web')
        self.assertEqual([True], woken)

    def test_a_board_that_does_not_answer_does_not_stop_the_source(self):
        source = open_source('etcd://127.0.0.1:1/kiln', self.store, claim_s=15)
        self.create()
        with self.assertLogs('kiln.engine', 'WARNING') as logs:
            source.start(lambda: None)
            source.close()
        self.assertIn('Cannot reach the jobboard at etcd://127.0.0.1:1/kiln: ', logs.output[0])
        self.assertIn('c-web', source.take())

    def test_without_its_extra_the_error_names_the_extra(self):
        done = subprocess.run(
            [sys.executable, '-c', WITHOUT_TASKFLOW], capture_output=True, text=True, check=True
        )
        self.assertIn('ConfigurationError Cannot use the jobboard at redis://h:6379/kiln',
                      done.stdout)  # fmt: skip
        self.assertIn("Run: pip install 'kiln-compute[jobboard]'", done.stdout)
