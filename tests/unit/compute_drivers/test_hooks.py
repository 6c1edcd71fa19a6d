"""Defaults of a driver with only the four required hooks."""

import unittest
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kiln.compute_drivers.calls import Call
from kiln.compute_drivers.hooks import ComputeHooks
from kiln.exceptions import ServiceTimeout, UnsupportedOperation
from kiln.models import Amphora, ImageFile, State
from kiln.testing.clock import VirtualClock
from tests.unit.memory_driver import MemoryDriver


class DefaultsTest(unittest.TestCase):
    def setUp(self):
        self.clock = VirtualClock(epoch=1000)
        self.driver = MemoryDriver(self.clock)
        self.asked = []
        self.driver.on_hook = lambda *asked: self.asked.append(asked)

    def put(self, amphora_id, **facts):
        facts = {'name': amphora_id, 'state': State.ACTIVE, 'owner': 'kiln', **facts}
        self.driver.amphorae[amphora_id] = Amphora(id=amphora_id, **facts)

    def test_a_build_is_found_by_its_key_among_this_sites_amphorae(self):
        self.put('a', build_key='lb-7', owner='other')
        self.put('b', build_key='lb-8')
        self.put('c', build_key='lb-7')
        self.assertEqual(self.driver.find_build('lb-7').id, 'c')
        self.assertIsNone(self.driver.find_build('lb-9'))

    def test_a_name_is_found_among_this_sites_amphorae(self):
        self.put('a', name='web', owner='other')
        self.put('b', name='web')
        self.assertEqual(self.driver.get_amphora('web').id, 'b')

    def test_a_status_has_the_time_of_its_poll(self):
        self.put('a', state=State.ERROR, fault='No valid host', task_state='spawning')
        self.clock.advance(5)
        status = self.driver.status('a')
        self.assertEqual(
            (status.amphora_id, status.state, status.fault, status.task_state, status.observed_at),
            ('a', State.ERROR, 'No valid host', 'spawning', 1005),
        )

    def test_one_list_serves_many_ids(self):
        for amphora_id in 'abc':
            self.put(amphora_id)
        self.assertEqual(set(self.driver.statuses(['a', 'c'])), {'a', 'c'})
        self.assertEqual(self.asked, [('_list', 'kiln')])

    def test_few_statuses_are_read_by_id_if_the_driver_says_so(self):
        for amphora_id in 'abc':
            self.put(amphora_id)
        self.driver.most_read_by_id = 2
        self.assertEqual(set(self.driver.statuses(['a', 'gone'])), {'a'})
        self.assertEqual(self.asked, [('_get', 'a'), ('_get', 'gone')])
        self.asked.clear()
        self.assertEqual(set(self.driver.statuses(['a', 'b', 'c'])), {'a', 'b', 'c'})
        self.assertEqual(self.asked, [('_list', 'kiln')])

    def test_an_id_missing_from_the_list_is_read_by_id(self):
        self.put('mine')
        self.put('foreign', owner='other')
        found = self.driver.statuses(['mine', 'foreign', 'gone'])
        self.assertEqual(set(found), {'mine', 'foreign'})
        self.assertEqual(
            self.asked, [('_list', 'kiln'), ('_get', 'foreign'), ('_get', 'gone')]
        )  # fmt: skip

    def test_absence_is_not_concluded_from_an_error(self):
        def fail(hook, *_):
            if hook == '_get':
                raise ServiceTimeout('No answer.')

        self.driver.on_hook = fail
        with self.assertRaises(ServiceTimeout):
            self.driver.statuses(['gone'])

    @given(
        st.dictionaries(st.text('abcdef', min_size=1, max_size=1), st.sampled_from(['kiln', 'x'])),
        st.lists(st.text('abcdefgh', min_size=1, max_size=1), min_size=1, max_size=8),
    )
    def test_statuses_has_exactly_the_existing_amphorae(self, there, asked):
        self.driver.amphorae.clear()
        for amphora_id, owner in there.items():
            self.put(amphora_id, owner=owner)
        found = self.driver.statuses(asked)
        self.assertEqual(set(found), set(asked) & set(there))
        self.assertTrue(all(id_ == status.amphora_id for id_, status in found.items()))

    def test_a_driver_without_cursors_returns_everything_each_time(self):
        self.put('a')
        self.put('b', owner='other')
        for since in ('', 'anything'):
            changes = self.driver.changes(since)
            self.assertTrue(changes.complete)
            self.assertEqual([status.amphora_id for status in changes.statuses], ['a'])
            self.assertEqual((changes.gone, changes.cursor), ((), ''))

    def test_the_health_check_reads_an_amphora_that_cannot_exist(self):
        self.driver.on_hook = lambda *_: self.clock.advance(0.25)
        health = self.driver.check()
        self.assertTrue(health.healthy)
        self.assertEqual(health.latency_s, 0.25)

    def test_a_backend_that_finds_the_impossible_amphora_is_healthy_too(self):
        class Anything(MemoryDriver):
            def _get(self, amphora_id):
                return Amphora(id=amphora_id, name='', state=State.ACTIVE)

        self.assertTrue(Anything().check().healthy)

    def test_a_backend_that_does_not_answer_is_not_healthy(self):
        def fail(*_):
            raise ServiceTimeout('No answer.')

        self.driver.on_hook = fail
        with self.assertRaises(ServiceTimeout):
            self.driver.check()


class MissingTest(unittest.TestCase):
    def test_a_backend_that_cannot_import_images_refuses(self):
        image = ImageFile(name='kiln/node:1', path=Path('node.tar'))
        with self.assertRaisesRegex(UnsupportedOperation, 'kiln/node:1.*no root file systems'):
            MemoryDriver(VirtualClock()).import_image(image)

    def test_a_hook_that_is_not_overridden_is_not_implemented(self):
        arguments = {1: (), 2: ('a',), 3: ('a', 'b'), 4: ('a', 'b', 'c')}
        for call in Call:
            if call.ability:
                hook = getattr(ComputeHooks, call.hook)
                with self.subTest(call.name), self.assertRaises(NotImplementedError):
                    hook(MemoryDriver(), *arguments[hook.__code__.co_argcount])
