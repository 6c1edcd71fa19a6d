import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.wrappers.circuit.window import SLOTS, OutcomeWindow

outcomes = st.lists(
    st.tuples(st.floats(0, 30), st.booleans(), st.booleans()),
    max_size=60,
)


class OutcomeWindowTest(unittest.TestCase):
    def test_an_outcome_counts_until_the_window_has_passed_it(self):
        window = OutcomeWindow(12.0)
        window.record(0.5, failed=True, slow=False)
        window.slide(11.9)
        self.assertEqual((1, 1, 0), (window.calls, window.failures, window.slow))
        window.slide(12.0)
        self.assertEqual((0, 0, 0), (window.calls, window.failures, window.slow))

    def test_a_long_silence_empties_the_window_at_once(self):
        window = OutcomeWindow(12.0)
        window.record(3.0, failed=True, slow=True)
        window.record(1e12, failed=False, slow=False)
        self.assertEqual((1, 0, 0), (window.calls, window.failures, window.slow))

    def test_a_call_with_an_earlier_time_counts_in_the_newest_slot(self):
        window = OutcomeWindow(12.0)
        window.record(8.0, failed=False, slow=False)
        window.record(1.0, failed=True, slow=False)
        window.slide(19.0)
        self.assertEqual((2, 1), (window.calls, window.failures))

    def test_clearing_forgets_everything(self):
        window = OutcomeWindow(12.0)
        window.record(8.0, failed=True, slow=True)
        window.clear()
        self.assertEqual((0, 0, 0), (window.calls, window.failures, window.slow))

    @given(outcomes)
    def test_the_counts_are_those_of_a_list_of_all_outcomes(self, steps):
        window = OutcomeWindow(12.0)
        slot_s = 12.0 / SLOTS
        history = []
        now = 100.0
        for pause, failed, slow in steps:
            now += pause
            window.record(now, failed=failed, slow=slow)
            history.append((now // slot_s, failed, slow))
            seen = [entry for entry in history if entry[0] > now // slot_s - SLOTS]
            self.assertEqual(len(seen), window.calls)
            self.assertEqual(sum(entry[1] for entry in seen), window.failures)
            self.assertEqual(sum(entry[2] for entry in seen), window.slow)
