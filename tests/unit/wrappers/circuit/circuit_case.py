"""Base class for tests of the circuit."""

import dataclasses
import random
import unittest

import pybreaker

from kiln.exceptions import ServiceTimeout
from kiln.testing.clock import VirtualClock
from kiln.wrappers.circuit.circuit import Circuit
from kiln.wrappers.circuit.settings import CircuitSettings

SETTINGS = CircuitSettings(
    failure_rate=0.5,
    minimum_calls=4,
    window_s=60,
    open_s=30,
    open_factor=2,
    open_max_s=100,
    open_jitter=0,
    probe_lease_s=10,
)


class Recorder(pybreaker.CircuitBreakerListener):
    def __init__(self):
        self.changes = []

    def state_change(self, cb, old_state, new_state):
        self.changes.append((old_state.name, new_state.name))


class CircuitCase(unittest.TestCase):
    settings = SETTINGS

    def setUp(self):
        self.clock = VirtualClock()
        self.recorder = Recorder()
        self.circuit = self.make()

    def make(self, **changes):
        return Circuit(
            'east/read',
            settings=dataclasses.replace(self.settings, **changes),
            clock=self.clock,
            listeners=[self.recorder],
            rng=random.Random(7),
        )

    def pass_(self, error=None, *, circuit=None, takes=0.0):
        circuit = circuit or self.circuit
        ticket = circuit.admit()
        if takes:
            self.clock.advance(takes)
        circuit.settle(ticket, error)

    def break_(self, circuit=None):
        error = ServiceTimeout('no answer')
        while (circuit or self.circuit).refusal() is None:
            self.pass_(error, circuit=circuit)
        return error

    def assert_state(self, state, circuit=None):
        self.assertEqual(state, (circuit or self.circuit).snapshot().state)
