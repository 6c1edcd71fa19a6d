import dataclasses
import math
import pathlib
import subprocess
import sys
import threading
import unittest

import pybreaker

from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.exceptions import CircuitOpenError, QuotaExceeded, ServiceTimeout
from kiln.models import Limits
from kiln.testing.clock import VirtualClock
from kiln.wrappers.circuit.breaker import BreakerDriver
from kiln.wrappers.circuit.circuit import Circuit
from kiln.wrappers.circuit.phase import Phase
from kiln.wrappers.circuit.settings import CircuitSettings
from kiln.wrappers.circuit.shared import LONGEST_S, SharedPhase, SharedStorage

SETTINGS = CircuitSettings(
    minimum_calls=2, open_s=30, open_max_s=600, open_factor=2, open_jitter=0, probe_lease_s=10
)


class Board:
    """Shared records of several processes, as in Redis, on its own virtual clock."""

    def __init__(self, clock):
        self.clock = clock
        self.lock = threading.Lock()
        self.record = SharedPhase()
        self.written_at = 0.0
        self.reachable = True
        self.asked = 0

    def exchange(self, known, offered):
        with self.lock:
            self.asked += 1
            if not self.reachable:
                return None
            if offered is not None and self.record.version in ('', known):
                self.record, self.written_at = offered, self.clock.monotonic()
            passed = self.clock.monotonic() - self.written_at
            remaining = max(0.0, self.record.remaining_s - passed)
            return dataclasses.replace(self.record, remaining_s=remaining)


class BoardStorage(SharedStorage):
    def __init__(self, board):
        super().__init__()
        self.board = board
        self.closed = 0

    def close(self):
        self.closed += 1

    def exchange(self, known, offered):
        return self.board.exchange(known, offered)


class Nothing(AmphoraComputeDriver):
    limits = Limits()

    def _build(self, request):
        return 'id'

    def _delete(self, amphora_id):
        pass

    def _get(self, amphora_id):
        raise NotImplementedError

    def _list(self, owner):
        return ()


class SharedCircuitTest(unittest.TestCase):
    def setUp(self):
        self.clock = VirtualClock()
        self.board = Board(self.clock)
        self.one, self.two = self.process(), self.process()

    def process(self, **changes):
        return Circuit(
            'east/read',
            settings=dataclasses.replace(SETTINGS, **changes),
            clock=self.clock,
            storage=BoardStorage(self.board),
        )

    def pass_(self, circuit, error=None):
        circuit.settle(circuit.admit(), error)

    def break_(self, circuit):
        while circuit.refusal() is None:
            self.pass_(circuit, ServiceTimeout('x'))
        self.clock.advance(0.2)

    def state(self, circuit):
        return circuit.snapshot().state

    def test_a_trip_in_one_process_opens_it_for_all(self):
        self.break_(self.one)
        with self.assertRaises(CircuitOpenError) as caught:
            self.two.admit()
        self.assertAlmostEqual(29.8, caught.exception.retry_after)
        self.assertIn('service_timeout', str(caught.exception))
        self.assertIsNone(caught.exception.__cause__)

    def test_one_process_at_a_time_probes(self):
        self.break_(self.one)
        self.clock.advance(30)
        ticket = self.one.admit()
        with self.assertRaises(CircuitOpenError):
            self.two.admit()
        self.one.settle(ticket)
        self.clock.advance(0.2)
        self.two.admit()
        self.assertEqual('closed', self.state(self.two))

    def test_a_process_unaware_of_anothers_probe_loses_the_race(self):
        self.break_(self.one)
        self.assertEqual('open', self.state(self.two))
        self.clock.advance(29.8)
        # Both have exchanged a moment ago, and do not exchange again before the probe:
        # the exchange of the probe itself must decide.
        self.state(self.one), self.state(self.two)
        self.one.admit()
        with self.assertRaises(CircuitOpenError):
            self.two.admit()
        self.assertEqual('half-open', self.two.snapshot().state)

    def test_a_probe_whose_process_died_is_taken_over_when_its_lease_ends(self):
        self.break_(self.one)
        self.clock.advance(30)
        hung = self.one.admit()
        self.clock.advance(9)
        with self.assertRaises(CircuitOpenError):
            self.two.admit()
        self.clock.advance(1)
        ticket = self.two.admit()
        self.one.settle(hung, ServiceTimeout('late'))
        self.two.settle(ticket)
        self.clock.advance(0.2)
        self.assertEqual(('closed', 'closed'), (self.state(self.one), self.state(self.two)))

    def test_a_probe_given_back_can_be_taken_by_another(self):
        self.break_(self.one)
        self.clock.advance(30)
        self.pass_(self.one, QuotaExceeded('x'))
        self.clock.advance(0.2)
        self.pass_(self.two)
        self.assertEqual('closed', self.state(self.two))

    def test_successful_probes_of_several_processes_add_up(self):
        self.one, self.two = self.process(success_threshold=2), self.process(success_threshold=2)
        self.break_(self.one)
        self.clock.advance(30)
        self.pass_(self.one)
        self.clock.advance(0.2)
        self.pass_(self.two)
        self.assertEqual('closed', self.state(self.two))

    def test_trips_of_several_processes_add_up(self):
        self.break_(self.one)
        self.clock.advance(30)
        self.pass_(self.two, ServiceTimeout('x'))
        self.clock.advance(0.2)
        self.assertAlmostEqual(59.8, self.one.snapshot().retry_after)

    def test_opened_by_hand_it_is_open_for_all_until_closed_by_hand(self):
        self.one.isolate()
        self.clock.advance(LONGEST_S - 3600)
        snapshot = self.two.snapshot()
        self.assertEqual((True, 'by_hand'), (snapshot.manual, snapshot.opened_by))
        refusal = self.two.refusal()
        self.assertIn('until it is closed by hand, for 1.0 h at most', str(refusal))
        # Nobody waits for so long.
        self.assertIsNone(refusal.retry_after)
        self.two.close()
        self.clock.advance(0.2)
        self.assertEqual('closed', self.state(self.one))

    def test_opened_by_hand_it_ends_in_a_day(self):
        self.one.isolate()
        self.state(self.two)
        self.clock.advance(LONGEST_S)
        self.assertFalse(self.pass_(self.two))
        self.clock.advance(0.2)
        self.assertEqual(('closed', 'closed'), (self.state(self.one), self.state(self.two)))

    def test_no_record_keeps_calls_back_for_longer_than_a_day(self):
        """Finding L7: a writer of the store opened a circuit for ever, for all processes."""
        for state, manual in (('open', True), ('open', False), ('half-open', False)):
            for remaining_s in (math.inf, 1e12):
                with self.subTest(state=state, remaining_s=remaining_s):
                    circuit = self.process()
                    self.board.record = SharedPhase(
                        version=f'{state}{manual}{remaining_s}', state=state, manual=manual,
                        remaining_s=remaining_s, opened_by='by_hand',
                    )  # fmt: skip
                    self.assertEqual(state, self.state(circuit))
                    self.assertIsNotNone(circuit.refusal())
                    self.clock.advance(LONGEST_S)
                    self.assertIsNone(circuit.refusal())

    def test_a_change_by_hand_applies_over_unseen_changes(self):
        self.break_(self.one)
        for act, state in (
            (Circuit.isolate, 'open'),
            (Circuit.half_open, 'half-open'),
            (Circuit.close, 'closed'),
            (Circuit.trip, 'open'),
        ):
            with self.subTest(state=state):
                act(self.process())
                self.clock.advance(0.2)
                self.assertEqual(state, self.state(self.one))
                self.assertEqual(act is Circuit.isolate, self.one.snapshot().manual)

    def test_a_circuit_created_after_the_trip_adopts_it(self):
        self.break_(self.one)
        self.assertEqual('open', self.state(self.process()))

    def test_while_the_record_is_unreachable_each_process_has_its_own_circuit(self):
        self.board.reachable = False
        self.break_(self.one)
        self.assertEqual(('open', 'closed'), (self.state(self.one), self.state(self.two)))
        self.clock.advance(30)
        self.pass_(self.one)
        self.assertEqual('closed', self.state(self.one))

    def test_changes_made_while_unreachable_are_offered_later(self):
        self.board.reachable = False
        self.break_(self.one)
        self.board.reachable = True
        self.state(self.one)
        self.assertEqual('open', self.state(self.two))

    def test_changes_of_others_override_changes_made_while_unreachable(self):
        self.board.reachable = False
        self.break_(self.one)
        self.board.reachable = True
        self.two.isolate()
        self.clock.advance(0.2)
        self.assertTrue(self.one.snapshot().manual)

    def test_a_lost_record_is_written_again_by_a_process_that_knows_it(self):
        self.break_(self.one)
        self.board.record = SharedPhase()
        for _ in range(2):
            self.clock.advance(0.2)
            self.assertEqual('open', self.state(self.one))
        self.assertEqual('open', self.state(self.process()))

    def test_a_lost_record_of_a_closed_circuit_is_not_written_again(self):
        self.break_(self.one)
        self.one.close()
        self.board.record = SharedPhase()
        self.clock.advance(0.2)
        self.pass_(self.one)
        self.assertEqual('', self.board.record.version)
        self.break_(self.one)
        self.assertEqual('open', self.state(self.two))

    def test_successful_calls_exchange_at_most_a_few_times_a_second(self):
        for _ in range(1000):
            self.pass_(self.one)
            self.clock.advance(0.01)
        self.assertLessEqual(self.board.asked, 51)

    def test_an_unchanged_record_does_not_clear_the_window(self):
        self.two.close()
        self.pass_(self.one, ServiceTimeout('x'))
        self.clock.advance(1)
        self.assertEqual(1, self.one.snapshot().calls)

    def test_refusal_does_not_read_the_record(self):
        for _ in range(10):
            self.one.refusal()
            self.clock.advance(1)
        self.assertEqual(0, self.board.asked)

    def test_one_thread_exchanges_while_the_others_use_known_state(self):
        asking, answer = threading.Event(), threading.Event()

        class Slow(BoardStorage):
            def exchange(self, known, offered):
                asking.set()
                answer.wait(120)
                return super().exchange(known, offered)

        circuit = Circuit('a', settings=SETTINGS, clock=self.clock, storage=Slow(self.board))
        thread = threading.Thread(target=circuit.admit)
        thread.start()
        try:
            self.assertTrue(asking.wait(120))
            self.pass_(circuit)
            self.assertEqual('closed', self.state(circuit))
        finally:
            answer.set()
            thread.join(120)

    def test_closing_a_driver_closes_its_storages(self):
        made = []

        def storage(name):
            made.append(
                pybreaker.CircuitMemoryStorage('closed') if not made else BoardStorage(self.board)
            )
            return made[-1]

        BreakerDriver(Nothing(), storage_factory=storage).close()
        self.assertEqual([1, 1], [made[1].closed, made[2].closed])

    def test_a_phase_survives_the_exchange(self):
        for state, remaining_s in (('open', 60.0), ('half-open', 3.0), ('closed', 0.0)):
            with self.subTest(state=state):
                reported = SharedPhase(version='v', state=state, remaining_s=remaining_s, trips=3)
                phase = reported.after(Phase(), 100.0)
                again = SharedPhase.of(phase, 100.0)
                self.assertNotEqual('v', again.version)
                self.assertEqual(reported, dataclasses.replace(again, version='v'))


class MissingPackageTest(unittest.TestCase):
    def test_without_the_package_redis_the_error_names_the_extra(self):
        # In a separate process: here the package is already imported.
        program = (
            "import sys; sys.modules['redis'] = None\n"
            'from kiln.exceptions import ConfigurationError\n'
            'from kiln.wrappers.circuit.redis import redis_storage\n'
            'try:\n'
            "    redis_storage('redis://127.0.0.1')\n"
            'except ConfigurationError as exc:\n'
            '    print(exc)\n'
        )
        root = str(pathlib.Path(__file__).parents[4])
        answer = subprocess.run(
            [sys.executable, '-c', program],
            env={'PYTHONPATH': root},
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertIn('kiln-compute[redis]', answer.stdout)
