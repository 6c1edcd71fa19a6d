"""Circuit breakers around a driver: no calls to a backend that keeps failing."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import pybreaker

from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.calls import Call, Traffic
from kiln.exceptions import AmphoraComputeError, CircuitOpenError
from kiln.telemetry.events import Listener, guarded
from kiln.wrappers.base import DriverWrapper
from kiln.wrappers.circuit.circuit import Circuit
from kiln.wrappers.circuit.settings import CircuitSettings
from kiln.wrappers.circuit.shared import SharedStorage


class BreakerDriver(DriverWrapper):
    """A driver with one circuit for each kind of traffic.

    Each result counts by the error's own verdict; an error that is not a kiln error counts
    as a failure. No lock is held during a call to the backend.
    """

    def __init__(
        self,
        inner: AmphoraComputeDriver,
        *,
        settings: CircuitSettings | None = None,
        storage_factory: Callable[[str], pybreaker.CircuitBreakerStorage] | None = None,
        listener: Listener | None = None,
        rng: random.Random | None = None,
    ) -> None:
        super().__init__(inner)
        heard = guarded(listener)
        #: Called whenever a circuit closes; quick, and raises nothing.
        self.on_close: Callable[[], object] = lambda: None
        closing = _Closing(self)
        self._shared: list[SharedStorage] = []

        def circuit(traffic: Traffic) -> Circuit:
            name = f'{inner.name}/{traffic}'
            storage = storage_factory(name) if storage_factory else None
            if isinstance(storage, SharedStorage):
                self._shared.append(storage)
            return Circuit(
                name,
                settings=settings,
                clock=inner.clock,
                storage=storage,
                listeners=[
                    closing,
                    *([_Messenger(heard, inner.name, traffic)] if heard else ()),
                ],
                rng=rng,
            )

        #: The circuits, for display and for opening and closing by hand.
        self.circuits: Mapping[Traffic, Circuit] = MappingProxyType(
            {traffic: circuit(traffic) for traffic in Traffic}
        )
        self._circuit_of = {call: self.circuits[call.traffic] for call in Call}

    def perform(self, call: Call, *args: Any) -> Any:
        if call.ability is not None and call.ability not in self.abilities:
            # Such a call proves nothing about the backend's health and needs no probe.
            raise self._unsupported(call)
        circuit = self._circuit_of[call]
        try:
            ticket = circuit.admit()
        except CircuitOpenError as exc:
            self._with_call(exc, call)
            raise
        try:
            result = self.inner.perform(call, *args)
        # Every outcome is recorded, an interrupt too, then raised again.
        except BaseException as exc:
            circuit.settle(ticket, exc)
            raise
        circuit.settle(ticket)
        return result

    def refusal(self, call: Call) -> AmphoraComputeError | None:
        if call.ability is not None and call.ability not in self.abilities:
            return self._unsupported(call)
        refused = self._circuit_of[call].refusal()
        return self._with_call(refused, call) if refused else self.inner.refusal(call)

    def close(self) -> None:
        super().close()
        for storage in self._shared:
            storage.close()

    def _with_call(self, error: CircuitOpenError, call: Call) -> CircuitOpenError:
        error.backend, error.operation = self.name, call.label
        return error


class _Closing(pybreaker.CircuitBreakerListener):
    """Notices that a circuit closes."""

    def __init__(self, driver: BreakerDriver) -> None:
        self._driver = driver

    def state_change(self, cb: Any, old_state: Any, new_state: Any) -> None:
        if new_state.name == pybreaker.STATE_CLOSED:
            self._driver.on_close()


class _Messenger(pybreaker.CircuitBreakerListener):
    """Forwards changes of state from pybreaker to a kiln listener."""

    def __init__(self, listener: Listener, backend: str, traffic: Traffic) -> None:
        self._listener = listener
        self._backend = backend
        self._traffic = traffic.value

    def state_change(self, cb: Any, old_state: Any, new_state: Any) -> None:
        self._listener.circuit_changed(
            self._backend, self._traffic, old_state.name, new_state.name
        )
