import inspect
import unittest

from kiln.exceptions import ServiceUnavailable
from kiln.telemetry.events import CallRecord, Listener, Listeners, guarded

EVENTS = {
    'call_started': (CallRecord('east', 'build', 'build'),),
    'call_finished': (CallRecord('east', 'build', 'build'),),
    'circuit_changed': ('east', 'read', 'closed', 'open'),
    'queue_changed': ('east', 3, 2),
    'builds_changed': ('east', 5),
    'ticked': ('east', 7, 0.5),
    'delayed': ('east', ServiceUnavailable('down')),
}


class Notebook(Listener):
    def __init__(self):
        self.heard = []


class Broken(Listener):
    def __init__(self, error):
        self.error = error


def _noting(event):
    return lambda self, *args: self.heard.append((event, args))


def _failing(self, *args):
    raise self.error


for _event in EVENTS:
    setattr(Notebook, _event, _noting(_event))
    setattr(Broken, _event, _failing)


class ListenersTest(unittest.TestCase):
    def test_the_events_of_this_test_are_all_there_are(self):
        events = {name for name, _ in inspect.getmembers(Listener, inspect.isfunction)}
        self.assertEqual(events, EVENTS.keys())

    def test_every_event_reaches_every_listener_with_its_arguments(self):
        first, second = Notebook(), Notebook()
        listeners = Listeners([first, second])
        for event, args in EVENTS.items():
            getattr(listeners, event)(*args)
        self.assertEqual(first.heard, list(EVENTS.items()))
        self.assertEqual(second.heard, first.heard)

    def test_a_listener_overrides_only_what_it_needs(self):
        for event, args in EVENTS.items():
            with self.subTest(event):
                self.assertIsNone(getattr(Listeners([Listener()]), event)(*args))

    def test_one_that_fails_neither_stops_the_others_nor_the_caller(self):
        for event, args in EVENTS.items():
            with self.subTest(event), self.assertLogs('kiln.telemetry.events', 'ERROR'):
                last = Notebook()
                getattr(Listeners([Broken(ValueError('x')), last]), event)(*args)
                self.assertEqual(last.heard, [(event, args)])

    def test_a_failing_listener_is_complained_of_once_for_each_event(self):
        listeners = Listeners([Broken(ValueError('no disk'))])
        with self.assertLogs('kiln.telemetry.events', 'ERROR') as logs:
            for _ in range(100):
                listeners.ticked(*EVENTS['ticked'])
                listeners.queue_changed(*EVENTS['queue_changed'])
        self.assertEqual(len(logs.records), 2)
        self.assertIn('Broken failed in ticked', logs.output[0])
        self.assertIn('no disk', logs.output[0])

    def test_two_failing_listeners_are_both_complained_of(self):
        listeners = Listeners([Broken(ValueError('one')), Broken(ValueError('two'))])
        with self.assertLogs('kiln.telemetry.events', 'ERROR') as logs:
            listeners.ticked(*EVENTS['ticked'])
        self.assertEqual(len(logs.records), 2)

    def test_an_interrupt_is_not_swallowed(self):
        with self.assertRaises(KeyboardInterrupt):
            Listeners([Broken(KeyboardInterrupt())]).ticked(*EVENTS['ticked'])

    def test_no_listeners_at_all_are_false(self):
        self.assertFalse(Listeners())
        self.assertTrue(Listeners([Listener()]))

    def test_a_listener_that_hears_nothing_is_told_nothing(self):
        self.assertIsNone(guarded(Listener()))
        self.assertIsNone(guarded(None))
