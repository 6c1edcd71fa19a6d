"""Changes read from an engine's events, and when events do not suffice."""

import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.compute_drivers.docker.api.events import Event, event_of, news_in, parse_cursor

A, B, C = ('a' * 64, 'b' * 64, 'c' * 64)


def event(at, action, who):
    return Event(at_ns=at, action=action, container_id=who)


class News(unittest.TestCase):
    def test_events_since_the_cursor_are_returned(self):
        seen = event(1, 'start', A)
        told = news_in([event(3, 'die', C), seen, event(2, 'create', B)], seen)
        self.assertEqual((A, B, C), told.changed)
        self.assertFalse(told.complete)
        self.assertEqual(f'3.die.{C}', told.cursor)

    def test_a_destroyed_container_is_gone_and_not_changed(self):
        seen = event(1, 'start', A)
        told = news_in([seen, event(2, 'die', A), event(3, 'destroy', A)], seen)
        self.assertEqual(((), (A,)), (told.changed, told.gone))

    def test_a_cursor_whose_event_is_lost_means_list_everything(self):
        told = news_in([event(5, 'start', B)], event(1, 'start', A))
        self.assertTrue(told.complete)
        self.assertEqual(f'5.start.{B}', told.cursor)

    def test_no_cursor_means_list_everything(self):
        self.assertTrue(news_in([event(5, 'start', B)], None).complete)

    def test_an_engine_without_events_yields_no_cursor(self):
        told = news_in([], event(1, 'start', A))
        self.assertEqual((True, ''), (told.complete, told.cursor))

    @given(
        st.lists(
            st.builds(
                event, st.integers(0, 9), st.sampled_from(('start', 'destroy')),
                st.sampled_from((A, B, C)),
            ),
            unique=True,
        ),
        st.data(),
    )  # fmt: skip
    def test_no_event_after_the_cursor_is_lost(self, events, data):
        seen = data.draw(st.sampled_from(events)) if events else None
        told = news_in(events, seen)
        if told.complete:
            self.assertIsNone(seen)
            return
        later = {one.container_id for one in events if one.at_ns >= seen.at_ns}
        self.assertEqual(later, {*told.changed, *told.gone})
        self.assertFalse({*told.changed} & {*told.gone})


class Cursors(unittest.TestCase):
    def test_a_cursor_parses_to_its_event(self):
        made = event(7, 'health_status', A)
        self.assertEqual(made, parse_cursor(made.cursor))

    def test_any_other_text_is_not_a_cursor(self):
        for text in ('', '7', '7.start', f'x.start.{A}', f'7.start.{A}x', '2026-11-21'):
            self.assertIsNone(parse_cursor(text))

    def test_an_event_is_parsed_from_the_engine_s_answer(self):
        told = {'Action': 'health_status: healthy', 'Actor': {'ID': A}, 'timeNano': 7}
        self.assertEqual(event(7, 'health_status', A), event_of(told))
