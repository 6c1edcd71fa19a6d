"""Demo of a fleet of machines on a cloud that breaks and recovers."""

from __future__ import annotations

import contextlib
import functools
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from kiln import conf as kiln_conf
from kiln.cli.demo.stage import Stage
from kiln.cli.output.fleet_progress import Tally, live
from kiln.compute.backends import DriverManager
from kiln.compute.goals import Until
from kiln.compute.orphans import Rules, find_orphans, poll_amphorae
from kiln.exceptions import AmphoraComputeError, CircuitOpenError
from kiln.models import ComputeStatus
from kiln.telemetry.events import CallRecord, Listener
from kiln.wrappers.operations.operation import Operation

if TYPE_CHECKING:
    from kiln.compute.facade import Compute
    from kiln.wrappers.circuit.settings import CircuitSnapshot

T = TypeVar('T')

#: Number of builds that the broken cloud fails: just enough to open the circuit.
BREAK = 5
REFUSALS = 1000
PROBES = 20


def cloud(fleet: int, pace: float) -> dict[str, str]:
    """Return the options of a cloud that breaks once the fleet is built."""
    times = {'build': 2.5, 'suspend': 0.8, 'resume': 0.8, 'delete': 1.0}
    options = {
        'driver': 'noop',
        **{f'{verb}_s': str(time_s * pace) for verb, time_s in times.items()},
        'accept_s': '0.01',
        'jitter': '0.6',
        # Longer than any caller waits, so that kiln does not retry a build.
        'faults': 'build:refuse=the demo has pulled the plug:'
        f'after={fleet},times={BREAK},retry_after=3600',
        'watch_interval': '0.1',
        'watch_max_interval': '0.1',
        # Short, so that earlier successes do not outweigh the outage.
        'circuit_window': '1.5',
        'circuit_minimum_calls': str(BREAK),
        # However fast the cloud is, the circuit must stay open for all refusals.
        'circuit_open': str(max(3.0, 3.0 * pace)),
    }
    return {f'KILN_COMPUTE_DEMO__{name.upper()}': value for name, value in options.items()}


class Ledger(Listener):
    """Counts the calls that reach the cloud, and records the states of the circuit."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.builds = 0
        self.probes = 0
        self.circuit = ['closed']

    def call_started(self, record: CallRecord) -> None:
        if record.operation == 'build':
            with self._lock:
                self.builds += 1
                self.probes += self.circuit[-1] == 'half-open'

    def circuit_changed(self, backend: str, traffic: str, old: str, new: str) -> None:
        if traffic == 'build':
            self.circuit.append(new)


def play(stage: Stage, fleet: int, pace: float) -> None:
    """Run the demo; return once all of its resources are gone."""
    ledger = Ledger()
    conf = kiln_conf.load([], [], environment=cloud(fleet, pace))
    with DriverManager(conf).open('demo', clock=stage.clock, listeners=[ledger]) as compute:
        Play(compute, ledger, stage, fleet).run()


class Play:
    """The five acts."""

    def __init__(self, compute: Compute, ledger: Ledger, stage: Stage, fleet: int) -> None:
        self._compute = compute
        self._ledger = ledger
        self._stage = stage
        self._fleet = fleet
        self._ids: list[str] = []

    def run(self) -> None:
        self._build()
        self._suspend_and_resume()
        self._break()
        self._recover()
        self._delete()

    # ---- the acts --------------------------------------------------------

    def _build(self) -> None:
        self._stage.title(f'1. Build a fleet of {self._fleet}')
        began = self._stage.clock.monotonic()
        took_s: list[float] = []
        with self._tally(self._fleet, 'building ') as progress:
            operations = {
                f'demo-{n}': self._timed(
                    took_s, functools.partial(self._start, f'demo-{n}', progress)
                )
                for n in range(self._fleet)
            }
            self._ids = _results(progress, operations, 'active')
        median_us = statistics.median(took_s) * 1e6
        self._stage.say(
            f'{self._fleet} machines active after {self._stage.clock.monotonic() - began:.1f} s; '
            f'each call returned to its caller after {median_us:.0f} µs, without waiting.'
        )
        there = self._compute.list_amphorae().result()
        self._stage.expect(
            f'{self._fleet} builds created {self._fleet} machines', len(there), self._fleet
        )

    def _suspend_and_resume(self) -> None:
        some = self._ids[: max(1, len(self._ids) // 3)]
        self._stage.title(f'2. Suspend {len(some)}, and resume them')
        for change, state, claim in (
            (self._compute.suspend, 'suspended', 'were suspended'),
            (self._compute.resume, 'active', 'are active again'),
        ):
            self._each(some, state, functools.partial(change, wait=True))
            states = {one.state.value for one in self._compute.statuses(some).result().values()}
            self._stage.expect(f'all of them {claim}', states, {state})

    def _break(self) -> None:
        self._stage.title('3. Break the cloud')
        # Wait until the window of the circuit is empty, so that it holds only the outage.
        while self._circuit().calls:
            self._stage.clock.sleep(0.05)
        sent, errors = self._ledger.builds, list(self._failures())
        sent = self._ledger.builds - sent
        self._stage.say(f'{sent} builds fail; the first error: {errors[0] if errors else "none"}')
        self._stage.say(f'Error of the next caller: {errors[-1] if errors else "none"}')
        took_s: list[float] = []
        refused = sum(self._timed(took_s, self._refused) for _ in range(REFUSALS))
        took_s.sort()
        self._stage.say(
            f'{refused} of {REFUSALS} further callers are refused in '
            f'{took_s[len(took_s) // 2] * 1e6:.0f} µs each (p99 {took_s[-10] * 1e6:.0f} µs), '
            f'and the cloud receives no call.'
        )
        self._stage.expect(
            'the circuit opened after the configured number of failures', sent, BREAK
        )
        self._stage.expect('every caller was refused at once', refused, REFUSALS)
        alive = len(self._compute.list_amphorae().result())
        self._stage.expect('reads worked while builds were refused', alive, self._fleet)

    def _recover(self) -> None:
        self._stage.title('4. Recover')
        pause_s = (self._circuit().retry_after or 0.0) + 0.05
        self._stage.say(f'The cloud works again. The circuit stays open for {pause_s:.1f} s.')
        self._stage.clock.sleep(pause_s)
        with ThreadPoolExecutor(PROBES) as callers:
            self._ids += callers.map(self._insist, range(PROBES))
        self._stage.say(
            f'{PROBES} callers at once: {self._ledger.probes} build was the probe, and the others '
            f'followed when it succeeded. The circuit: {" -> ".join(self._ledger.circuit)}.'
        )
        self._stage.expect('the circuit sent a single probe', self._ledger.probes, 1)
        wanted = ['closed', 'open', 'half-open', 'closed']
        self._stage.expect('the circuit opened once and closed once', self._ledger.circuit, wanted)

    def _delete(self) -> None:
        self._stage.title(f'5. Delete all {len(self._ids)}')
        self._each(self._ids, 'gone', functools.partial(self._compute.delete, wait=True))
        compute = self._compute
        self._stage.expect('no machine is left', len(compute.list_amphorae().result()), 0)
        self._stage.expect('no port is left', len(compute.list_resources().result()), 0)
        owner = compute.driver.owner
        orphans = find_orphans(poll_amphorae(compute, owner), Rules(owner=owner, grace_s=0.1))
        self._stage.expect('no orphan is found', len(orphans), 0)
        self._stage.expect('no build is in flight', compute.builds_in_flight, 0)

    # ---- helpers -----------------------------------------------------------

    def _start(self, name: str, progress: Tally) -> Operation[str]:
        def seen(status: ComputeStatus) -> None:
            progress.set(name, status.state.value)

        progress.set(name, 'queued')
        operation = self._compute.build(name=name, until=Until.ACTIVE, on_status=seen)
        operation.add_done_callback(functools.partial(_end, progress, name, 'active'))
        return operation

    def _circuit(self) -> CircuitSnapshot:
        return next(one for one in self._compute.circuits() if one.name.endswith('/build'))

    def _failures(self) -> Iterator[AmphoraComputeError]:
        """Yield the errors of builds, one by one, until the circuit refuses builds."""
        for number in range(10 * BREAK):
            try:
                self._ids.append(self._compute.build(name=f'bad-{number}').result())
            except CircuitOpenError as exc:
                yield exc
                return
            except AmphoraComputeError as exc:
                yield exc

    def _insist(self, number: int) -> str:
        while True:
            try:
                return self._compute.build(name=f'late-{number}').result()
            except CircuitOpenError as exc:
                self._stage.clock.sleep(exc.retry_after or 0.1)

    def _refused(self) -> bool:
        try:
            self._compute.build(name='refused')
        except CircuitOpenError:
            return True
        return False

    def _each(self, ids: Sequence[str], state: str, act: Callable[[str], Operation[None]]) -> None:
        began = self._stage.clock.monotonic()
        with self._tally(len(ids), '') as progress:
            operations = {}
            for one in ids:
                progress.set(one, 'queued')
                operations[one] = operation = act(one)
                operation.add_done_callback(functools.partial(_end, progress, one, state))
            _results(progress, operations, state)
        self._stage.say(f'{len(ids)} {state} after {self._stage.clock.monotonic() - began:.1f} s.')

    @staticmethod
    def _timed(took_s: list[float], act: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        result = act()
        took_s.append(time.perf_counter() - began)
        return result

    def _tally(self, total: int, title: str) -> contextlib.AbstractContextManager[Tally]:
        if self._stage.drawn:
            return live(total, self._stage.out, title)
        return contextlib.nullcontext(Tally(total))


def _end(progress: Tally, one: str, state: str, operation: Operation[Any]) -> None:
    progress.end(one, 'failed' if operation.exception() else state)


def _results(progress: Tally, operations: Mapping[str, Operation[T]], state: str) -> list[T]:
    """Wait for all; a result can arrive before its callback has run."""
    results = []
    for one, operation in operations.items():
        results.append(operation.result())
        _end(progress, one, state, operation)
    return results
