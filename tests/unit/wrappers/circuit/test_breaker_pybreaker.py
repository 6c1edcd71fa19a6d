"""The parts of a circuit in pybreaker: storages, states and listeners."""

import threading

import pybreaker

from kiln.wrappers.circuit.circuit import Circuit
from tests.unit.wrappers.circuit.circuit_case import SETTINGS, CircuitCase


class Acting(pybreaker.CircuitBreakerListener):
    """Calls a function with the state that a circuit entered."""

    def __init__(self, act):
        self.state_change = lambda cb, old_state, new_state: act(new_state)


class StorageTest(CircuitCase):
    def make_with(self, storage):
        return Circuit('a', settings=SETTINGS, clock=self.clock, storage=storage)

    def test_a_storage_keeps_the_state_for_the_next_circuit(self):
        storage = pybreaker.CircuitMemoryStorage('closed')
        self.break_(self.make_with(storage))
        self.assertEqual('open', storage.state)
        self.assertIsNotNone(storage.opened_at)
        self.assertEqual(30, self.make_with(storage).refusal().retry_after)

    def test_a_probe_left_by_an_earlier_circuit_is_not_awaited(self):
        storage = pybreaker.CircuitMemoryStorage('half-open')
        circuit = self.make_with(storage)
        self.assertEqual('open', storage.state)
        self.clock.advance(30)
        self.pass_(circuit=circuit)
        self.assertEqual('closed', storage.state)


class ListenerTest(CircuitCase):
    def hear(self, act):
        return Circuit(
            'a', settings=SETTINGS, clock=self.clock, listeners=[Acting(act), self.recorder]
        )

    def test_listeners_are_notified_of_changes_in_order(self):
        self.break_()
        self.clock.advance(30)
        self.pass_()
        self.assertEqual(
            [('closed', 'open'), ('open', 'half-open'), ('half-open', 'closed')],
            self.recorder.changes,
        )

    def test_listeners_receive_the_states_of_pybreaker(self):
        states = []
        circuit = self.hear(states.append)
        for act in circuit.trip, circuit.half_open, circuit.close:
            act()
        classes = [
            pybreaker.CircuitOpenState,
            pybreaker.CircuitHalfOpenState,
            pybreaker.CircuitClosedState,
        ]
        self.assertEqual(classes, [type(state) for state in states])

    def test_other_threads_use_the_circuit_while_a_listener_is_notified(self):
        finished = []

        def change_and_call():
            circuit.close()
            self.pass_(circuit=circuit)
            circuit.snapshot()

        def act(state):
            if state.name == 'open':
                other = threading.Thread(target=change_and_call)
                other.start()
                other.join(120)
                finished.append(not other.is_alive())

        circuit = self.hear(act)
        circuit.trip()
        self.assertEqual([True], finished)
        self.assertEqual([('closed', 'open'), ('open', 'closed')], self.recorder.changes)

    def test_a_listener_can_change_its_circuit(self):
        circuit = self.hear(lambda state: state.name == 'open' and circuit.close())
        circuit.trip()
        self.assert_state('closed', circuit)
        self.assertEqual([('closed', 'open'), ('open', 'closed')], self.recorder.changes)
