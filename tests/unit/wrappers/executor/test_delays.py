"""Delays of calls: reported while they last, and over once the backend answers."""

import threading

from kiln.compute_drivers.calls import Call
from kiln.exceptions import ServiceUnavailable
from kiln.foreign.waiting import waiting_for
from kiln.telemetry.events import Listener
from kiln.wrappers.operations.errand import SILENT_S, NoAnswerSoFar
from tests.unit.wrappers.scripted import StageCase


class Delayed(Listener):
    def __init__(self):
        self.seen = []

    def delayed(self, backend, error):
        self.seen.append((backend, type(error)))


class Delays(StageCase):
    def test_a_silent_backend_is_reported_after_some_seconds_and_once(self):
        listener, seen = Delayed(), []
        stage = self.stage(threads=True, listener=listener)
        gate, inside = self.hung(stage, 'get')
        operation = stage.executor.submit(Call.GET, 'id-1', timeout_s=60)
        operation.on_hindrance(seen.append)
        self.arrive(inside)
        stage.clock.advance(SILENT_S - 1)
        self.assertEqual([], seen)
        stage.clock.advance(1)
        stage.clock.run_until(lambda: seen, step_s=0)
        self.assertIsInstance(seen[0], NoAnswerSoFar)
        self.assertEqual("Cannot get id-1: 'east' has not answered for over 3 s.", str(seen[0]))
        stage.clock.advance(30)
        self.assertEqual([('east', NoAnswerSoFar)], listener.seen)
        gate.set()
        stage.until(stage.idle)
        self.assertEqual(1, len([one for one in seen if one is not None]))

    def test_a_silence_names_who_is_waited_for(self):
        stage, seen = self.stage(threads=True), []
        gate, inside = stage.gate(), threading.Semaphore(0)

        def asks():
            with waiting_for('Nova at first'):
                pass
            with waiting_for('Keystone at http://k:5000'):
                inside.release()
                gate.wait(120)

        stage.driver.scripts['get'] = [asks]
        operation = stage.executor.submit(Call.GET, 'id-1', timeout_s=60)
        operation.on_hindrance(seen.append)
        self.arrive(inside)
        stage.clock.advance(SILENT_S)
        stage.clock.run_until(lambda: seen, step_s=0)
        gate.set()
        self.assertEqual(
            "Cannot get id-1: Keystone at http://k:5000, for backend 'east', has not answered for "
            'over 3 s.',
            str(seen[0]),
        )

    def test_a_quick_answer_is_not_a_delay(self):
        listener, seen = Delayed(), []
        stage = self.stage(listener=listener)
        operation = stage.executor.submit(Call.LIST, 'kiln')
        operation.on_hindrance(seen.append)
        stage.settle(operation)
        stage.clock.advance(60)
        self.assertEqual(([], []), (seen, listener.seen))

    def test_an_error_before_a_repeat_is_reported_until_an_answer_comes(self):
        listener, seen = Delayed(), []
        stage = self.stage(list=['refuse'], listener=listener)
        operation = stage.executor.submit(Call.LIST, 'kiln')
        operation.on_hindrance(seen.append)
        stage.settle(operation)
        self.assertEqual([ServiceUnavailable, type(None)], [type(one) for one in seen])
        self.assertEqual([('east', ServiceUnavailable)], listener.seen)
