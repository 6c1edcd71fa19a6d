"""Changes and lists of the simulated cloud, and its conformance to the contract."""

import subprocess
import sys
import threading
import unittest

from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.exceptions import UnsupportedOperation
from kiln.models import Ability, State
from tests.unit.compute_drivers.noop.cloud_case import CloudCase


class ManyTest(CloudCase):
    def test_a_reader_with_a_cursor_gets_each_change_once(self):
        driver = self.driver(build_s=10)
        ids = [driver.build() for _ in range(3)]
        first = driver.changes()
        self.assertTrue(first.complete)
        self.assertEqual({s.amphora_id for s in first.statuses}, set(ids))
        quiet = driver.changes(first.cursor)
        self.assertEqual((quiet.statuses, quiet.gone, quiet.complete), ((), (), False))
        self.clock.advance(10)
        driver.delete(ids[0])
        news = driver.changes(quiet.cursor)
        self.assertEqual({s.amphora_id: s.state for s in news.statuses},
                         dict.fromkeys(ids[1:], State.ACTIVE))  # fmt: skip
        self.assertEqual(news.gone, (ids[0],))

    def test_a_cursor_of_another_cloud_or_none_returns_everything(self):
        driver = self.driver()
        driver.build()
        cursor = driver.changes().cursor
        foreign = self.driver().changes().cursor
        for since in (foreign, 'x', cursor + '9', cursor[:24] + 'x'):
            with self.subTest(since):
                changes = driver.changes(since)
                self.assertTrue(changes.complete)
                self.assertEqual(len(changes.statuses), 1)

    def test_changes_and_lists_have_one_owner(self):
        ours = self.driver()
        theirs = self.driver(owner='other', cloud=ours.cloud)
        cursor = ours.changes().cursor
        amphora_id = theirs.build()
        theirs.delete(amphora_id)
        theirs.build()
        self.assertEqual((ours.changes(cursor).statuses, ours.changes(cursor).gone), ((), ()))
        self.assertEqual(len(theirs.changes(cursor).statuses), 1)

    def test_long_lists_are_complete(self):
        driver = self.driver()
        ids = [driver.build() for _ in range(2001)]
        self.assertEqual([i.id for i in driver.list_amphorae()], ids)
        self.assertEqual(list(driver.statuses([*ids, 'none'])), ids)
        self.assertEqual([i.id for i in driver.cloud.instances()], ids)

    def test_many_threads_have_the_same_result_as_one(self):
        driver = self.driver(build_s=1)

        def work(n):
            for i in range(40):
                amphora_id = driver.build(build_key=f'{i}', port_ids=[f'p{i}'])
                if n == i % 4:
                    driver.delete(amphora_id)
                driver.changes()

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        keys = [i.build_key for i in driver.cloud.instances()]
        self.assertEqual(len(keys), len(set(keys)))
        self.assertEqual(len(keys), driver.cloud.count())

    def test_check_returns_the_number_of_instances(self):
        driver = self.driver()
        driver.build()
        self.assertTrue(driver.check().healthy)
        self.assertIn('1 ', driver.check().detail)


class OpenTest(unittest.TestCase):
    def test_the_contract_is_fulfilled_exactly(self):
        self.assertTrue(issubclass(NoopDriver, AmphoraComputeDriver))
        self.assertEqual(NoopDriver.__abstractmethods__, frozenset())

    def test_a_missing_ability_is_an_unsupported_operation(self):
        driver = NoopDriver()
        driver.missing_abilities = frozenset({Ability.SUSPEND})
        with self.assertRaises(UnsupportedOperation):
            driver.suspend(driver.build())

    def test_the_driver_is_imported_without_the_configuration_library(self):
        script = (
            'import sys; import kiln.compute_drivers.noop.driver as d; '
            'assert "oslo_config" not in sys.modules; '
            'assert d.NoopDriver.options; assert "oslo_config" in sys.modules'
        )
        subprocess.run([sys.executable, '-c', script], check=True)
