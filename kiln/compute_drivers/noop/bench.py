"""Conformance bench of the Noop driver: scripted faults of the simulated cloud."""

from __future__ import annotations

import dataclasses
from typing import Any

from kiln.compute_drivers.authoring.bench import Bench
from kiln.compute_drivers.calls import Call
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.compute_drivers.noop.faults import Action, Fault

#: Seconds for what takes the simulated cloud no time, on a busy machine.
_MARGIN_S = 10.0
#: A test can simulate a cloud that never finishes.
_MOST_S = 600.0


class NoopBench(Bench):
    """Scripts the faults of one cloud, and has its ports, its networks and its times."""

    def __init__(self, driver: NoopDriver) -> None:
        super().__init__(driver)
        self._cloud = driver.cloud
        offered = self._cloud.catalogue
        # A cloud without a list accepts any id.
        self.port_ids = ('port-1',) if offered.ports is None else tuple(offered.ports)
        self.network_ids = ('net-1',) if offered.networks is None else tuple(offered.networks)

        # The longest course of a behaviour is a build, an act on it, and its end.
        latencies = self._cloud.gate.latencies
        longest_s = max(dataclasses.asdict(latencies).values()) * (1 + latencies.jitter)
        self.timeout_s = min(_MARGIN_S + 3 * longest_s, _MOST_S)

    def refuse(self, call: Call) -> None:
        self._next(call, Action.REFUSE)

    def lose_answer(self, call: Call) -> None:
        self._next(call, Action.LOSE_ANSWER)

    def limit_rate(self, call: Call, retry_after: float) -> None:
        self._next(call, Action.RATE_LIMIT, retry_after=retry_after)

    def exhaust_quota(self) -> None:
        self._next(Call.BUILD, Action.QUOTA)

    def exhaust_capacity(self) -> None:
        self._next(Call.BUILD, Action.CAPACITY)

    def fail_build(self, text: str) -> None:
        self._next(Call.BUILD, Action.ERROR, text=text)

    def stall_build(self) -> None:
        self._next(Call.BUILD, Action.STUCK)

    def vanish(self, amphora_id: str) -> None:
        self._cloud.vanish(amphora_id)

    def _next(self, call: Call, action: Action, **facts: Any) -> None:
        self._cloud.faults.add(Fault(call=call.label, action=action, times=1, **facts))
