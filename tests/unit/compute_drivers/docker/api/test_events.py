"""Changes read from an engine's events, and when events do not suffice."""

import json
import unittest
import urllib.parse

from hypothesis import given
from hypothesis import strategies as st

from kiln.clock import SYSTEM_CLOCK
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.docker.api import events
from kiln.compute_drivers.docker.api.client import Engine
from kiln.compute_drivers.docker.api.events import Event, event_of, news_in, parse_cursor
from tests.unit.compute_drivers.docker.scripted import VERSION, ScriptedCase, answer
from tests.unit.compute_drivers.docker.test_settings import options

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
        ends = [event(2, 'die', A), event(3, 'destroy', A), event(4, 'destroy', B)]
        told = news_in([seen, *ends], seen)
        self.assertEqual(((), (A, B)), (told.changed, told.gone))

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


class Asking(ScriptedCase):
    def ask(self, *answers, since=''):
        engine = Engine(options(url=self.serve(*answers)), SYSTEM_CLOCK)
        self.addCleanup(engine.close)
        return events.ask(engine, Asked(verb='read', subject='changes'), 'site', since, 10_000.5)

    def test_an_engine_is_asked_from_the_event_of_the_cursor_on_however_old_it_is(self):
        seen = {'Action': 'start', 'Actor': {'ID': A}, 'timeNano': 5_000_700_000_000}
        told = self.ask(VERSION, answer(json.dumps(seen).encode()), since=event_of(seen).cursor)
        self.assertFalse(told.complete)
        query = urllib.parse.urlsplit(self.server.requests[1].split()[1]).query
        asked = urllib.parse.parse_qs(query)
        # Whole seconds are what an engine takes; that of the event is included.
        self.assertEqual((['4999'], ['10000.500000000']), (asked['since'], asked['until']))

    def test_podman_is_not_asked_as_it_does_not_tell_all(self):
        podman = answer(b'{"ApiVersion": "1.41", "Components": [{"Name": "Podman Engine"}]}')
        self.assertTrue(self.ask(podman).complete)
        self.assertEqual(1, len(self.server.requests))


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
