"""A wrapper without changes behaves as its driver."""

import unittest

from kiln.compute_drivers.calls import Call
from kiln.exceptions import ConfigurationError, UnsupportedOperation
from kiln.wrappers.base import DriverWrapper
from tests.unit.compute_drivers.test_base import PASSED_ON, AbleDriver
from tests.unit.memory_driver import MemoryDriver
from tests.unit.wrappers.watcher.cursor_driver import CursorDriver


class CountingWrapper(DriverWrapper):
    """Counts the calls it passes on."""

    def __init__(self, inner):
        super().__init__(inner)
        self.passed = []

    def perform(self, call, *args):
        self.passed.append(call)
        return super().perform(call, *args)


class WrapperTest(unittest.TestCase):
    def test_a_wrapper_has_name_owner_and_clock_of_its_driver(self):
        driver = MemoryDriver()
        driver.owner = 'me'
        wrapper = DriverWrapper(driver)
        self.assertEqual((wrapper.name, wrapper.owner), ('east', 'me'))
        self.assertIs(wrapper.clock, driver.clock)
        self.assertIs(wrapper.limits, driver.limits)

    def test_a_wrapper_returns_the_cursors_of_its_driver(self):
        driver = CursorDriver()
        self.assertEqual('', DriverWrapper(driver).cursor())
        driver.cursor_at_hand = True
        self.assertEqual('0', DriverWrapper(OtherWrapper(driver)).cursor())

    def test_a_wrapper_has_the_abilities_of_its_driver(self):
        for driver in (MemoryDriver(), AbleDriver()):
            self.assertEqual(DriverWrapper(driver).capabilities(), driver.capabilities())

    def test_each_call_passes_once_and_its_result_is_returned(self):
        wrapper = CountingWrapper(OtherWrapper(AbleDriver()))
        for name, args, keywords, expected in PASSED_ON:
            with self.subTest(name):
                wrapper.passed.clear()
                answer = getattr(wrapper, name)(*args, **keywords)
                self.assertEqual(wrapper.passed, [Call[name.upper()]])
                if name == 'console_log':
                    self.assertEqual(answer, str((name, *expected)))

    def test_notifications_of_the_driver_reach_the_callback(self):
        class ToldDriver(MemoryDriver):
            def on_news(self, hurry):
                self.hurry = hurry

        driver, heard = ToldDriver(), []
        OtherWrapper(DriverWrapper(driver)).on_news(lambda: heard.append('news'))
        driver.hurry()
        self.assertEqual(['news'], heard)

    def test_a_polling_driver_never_calls_the_callback(self):
        DriverWrapper(MemoryDriver()).on_news(self.fail)

    def test_the_four_methods_of_the_founding_note_pass_too(self):
        wrapper = CountingWrapper(MemoryDriver())
        amphora_id = wrapper.build(name='web')
        self.assertEqual(wrapper.status(amphora_id).amphora_id, amphora_id)
        self.assertEqual(wrapper.get_amphora('web'), wrapper.get_amphora(amphora_id=amphora_id))
        self.assertEqual([a.id for a in wrapper.list_amphorae()], [amphora_id])
        wrapper.delete(amphora_id)
        self.assertEqual(
            wrapper.passed,
            [Call.BUILD, Call.STATUS, Call.FIND, Call.GET, Call.LIST, Call.DELETE],
        )

    def test_its_hooks_lead_to_perform_too(self):
        wrapper = CountingWrapper(MemoryDriver())
        wrapper.build(name='web')
        (amphora,) = wrapper._list('kiln')
        self.assertEqual(wrapper._get('id-1'), amphora)
        self.assertIsNone(wrapper._delete('id-1'))
        self.assertEqual(wrapper.passed, [Call.BUILD, Call.LIST, Call.GET, Call.DELETE])
        self.assertEqual(wrapper.inner.amphorae, {})

    def test_the_build_hook_passes_a_request_unchanged(self):
        requests, driver = [], MemoryDriver()
        driver.on_hook = lambda hook, request: requests.append(request)
        wrapper = CountingWrapper(driver)
        wrapper.build(name='web')
        self.assertEqual(wrapper._build(requests[0]), 'id-2')
        self.assertIs(requests[1], requests[0])

    def test_a_refusal_comes_from_the_wrapped_driver(self):
        wrapper = DriverWrapper(OtherWrapper(MemoryDriver()))
        self.assertIsInstance(wrapper.refusal(Call.SUSPEND), UnsupportedOperation)
        self.assertIsNone(wrapper.refusal(Call.GET))

    def test_closing_closes_the_wrapped_driver(self):
        class Closing(MemoryDriver):
            closed = 0

            def close(self):
                self.closed += 1

        driver = Closing()
        DriverWrapper(driver).close()
        self.assertEqual(driver.closed, 1)

    def test_the_same_wrapper_twice_is_refused(self):
        with self.assertRaisesRegex(ConfigurationError, "Cannot wrap 'east' in OtherWrapper"):
            OtherWrapper(DriverWrapper(OtherWrapper(MemoryDriver())))


class OtherWrapper(DriverWrapper):
    """Another wrapper class, so that two can wrap one driver."""
