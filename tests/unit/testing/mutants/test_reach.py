"""What each behaviour calls is recorded, so that no other judges mutants of it."""

import contextlib
import threading
import types
import unittest

from kiln.testing.mutants.reach import Reach, Recorder
from kiln.testing.shared_results import SharedResults


def used():
    def within():
        pass

    within()


def used_elsewhere():
    pass


class Shown:
    """A behaviour, by its name alone."""

    def __init__(self, name):
        self.id = lambda: f'tests.Shown.{name}'


def in_a_thread():
    thread = threading.Thread(target=used)
    thread.start()
    thread.join()


def nothing():
    pass


def too_deep():
    """Call until the limit of recursion, also within what records the calls."""
    with contextlib.suppress(RecursionError):
        too_deep_within()
    used()


def too_deep_within():
    too_deep_within()


def here(module):
    return module if module == __name__ else None


class ReachTest(unittest.TestCase):
    def recorded(self, *behaviours, before=nothing, own=here):
        """Return what is recorded of behaviours, which take 1 s, then 2 s, and so on."""
        clock = types.SimpleNamespace(now=0.0)
        cases = [Shown(f'test_{number}') for number in range(len(behaviours))]
        with Recorder(own, lambda: clock.now) as recorder:
            before()
            for seconds, _ in enumerate(recorder.each(cases), 1):
                behaviours[seconds - 1]()
                clock.now += seconds
        return recorder.reach()

    def callers(self, function, *behaviours, **more):
        return tuple(self.recorded(*behaviours, **more).of(f'{__name__}:{function}'))

    def test_what_made_a_shared_result_is_judged_by_all_that_read_it(self):
        kept = SharedResults()

        def makes():
            kept.get('key', used)

        def reads():
            kept.get('key', nothing)

        shown = (nothing, makes, nothing, reads, used_elsewhere)
        self.assertEqual(('Shown.test_1', 'Shown.test_3'), self.callers('used', *shown))
        self.assertEqual(('Shown.test_4',), self.callers('used_elsewhere', *shown))

    def test_a_function_is_judged_by_those_that_call_it(self):
        shown = (nothing, used, used_elsewhere, used)
        self.assertEqual(('Shown.test_1', 'Shown.test_3'), self.callers('used', *shown))
        self.assertEqual(('Shown.test_1', 'Shown.test_3'), self.callers('used.within', *shown))
        self.assertEqual(('Shown.test_2',), self.callers('used_elsewhere', *shown))
        self.assertEqual((), self.callers('unknown', *shown))

    def test_calls_on_threads_are_those_of_the_behaviour(self):
        self.assertEqual(('Shown.test_1',), self.callers('used', nothing, in_a_thread, nothing))

    def test_a_behaviour_whose_calls_are_not_recorded_judges_all_and_hides_no_other(self):
        shown = (nothing, too_deep, used)
        self.assertEqual(('Shown.test_1', 'Shown.test_2'), self.callers('used', *shown))
        self.assertEqual(('Shown.test_1',), self.callers('used_elsewhere', *shown))
        parts = [self.recorded(*shown), self.recorded(nothing)]
        self.assertEqual({'Shown.test_1'}, Reach.union(parts).unrecorded)

    def test_what_is_called_once_for_all_is_judged_by_all(self):
        every = ('Shown.test_0', 'Shown.test_1')
        self.assertEqual(every, self.callers('used', nothing, nothing, before=used))
        self.assertEqual(every, self.callers('used', used, nothing))

    def test_functions_of_others_are_not_recorded(self):
        found = self.recorded(nothing, used, own=lambda module: None)
        self.assertEqual({}, found.of(f'{__name__}:used'))

    def test_a_module_has_the_name_that_its_driver_gives_it(self):
        found = self.recorded(nothing, used, own=lambda module: here(module) and 'web_v1.driver')
        self.assertEqual({'Shown.test_1': 2.0}, found.of('web_v1.driver:used'))

    def test_the_quickest_come_first(self):
        clock = iter([0, 5, 5, 6, 6, 9])
        recorder = Recorder(here, lambda: next(clock))
        self.assertEqual(3, len(list(recorder.each(map(Shown, ('test_a', 'test_b', 'test_c'))))))
        found = recorder.reach()
        wanted = [('Shown.test_b', 1), ('Shown.test_c', 3), ('Shown.test_a', 5)]
        self.assertEqual(wanted, list(found.of(None).items()))
        self.assertEqual(Reach(took_s=dict(wanted)), found)
