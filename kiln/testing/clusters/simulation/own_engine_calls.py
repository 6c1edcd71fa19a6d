"""Recorded calls of a driver with an engine of its own; one that waits is ended."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import pathlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, SupportsIndex

from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.calls import call_driver
from kiln.cluster_drivers.values import METHODS, Cap, StatusReport
from kiln.clusters.exceptions import ClusterDriverDefect
from kiln.clusters.models import Cluster

#: The methods that an engine calls.
REPORTING = (
    'create_cluster',
    'update_cluster',
    'delete_cluster',
    'update_cluster_status',
    *(name for cap, name in METHODS.items() if cap is not Cap.MONITOR),
)
#: Methods that report nothing of an engine, and return soon, too.
PROMPT = (
    'validate', 'preview_cluster', 'find_existing', 'get_monitor', 'get_scale_manager',
)  # fmt: skip
#: Seconds that a call can sleep; they take no real time.
_SLEEP_S = 0.5
_budget = threading.local()
_SLEEP = time.sleep


class Waited(BaseException):
    """A call waits in place of returning; not an Exception, so that no driver swallows it."""


class Hung(Waited):
    """A call that took real time: it has not returned."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One call of a driver, and its answer or its error."""

    method: str
    cluster: Cluster
    report: Any = None
    error: BaseException | None = None

    @property
    def progress(self) -> Any:
        """The progress that was reported, if a report was returned."""
        return self.report.progress if isinstance(self.report, StatusReport) else None

    @property
    def defect(self) -> BaseException | None:
        """The error, if the contract does not allow it."""
        return self.error if isinstance(self.error, ClusterDriverDefect | Waited) else None


def kept(cluster: Cluster, report: Any) -> Cluster:
    """Return a cluster with the handle and the state that a report has."""
    found = {name: getattr(report, name, None) for name in ('driver_handle', 'driver_state')}
    changes: dict[str, Any] = {name: one for name, one in found.items() if one is not None}
    return dataclasses.replace(cluster, **changes)


class Recorder:
    """Records the calls of a driver's instances; a call that waits is ended."""

    def __init__(self, soon_s: float, hung: set[str]) -> None:
        """Take the real seconds of a call, and the methods that have not returned before."""
        self._soon_s = soon_s
        self._hung = hung
        #: All calls, in order.
        self.calls: list[Call] = []

    def of(self, driver: ClusterDriver) -> ClusterDriver:
        """Return the driver, whose calls are recorded from now on."""
        for name in REPORTING:
            call = functools.partial(self._soon, name, getattr(driver, name))
            # On the instance: the class is what is judged, and stays as it is.
            setattr(driver, name, functools.partial(self._recorded, driver.name, name, call))
        for name in PROMPT:
            setattr(driver, name, functools.partial(self._soon, name, getattr(driver, name)))
        return driver

    def _recorded(
        self, driver: str, method: str, call: Callable[..., Any], **arguments: Any
    ) -> Any:
        cluster = arguments['cluster']
        try:
            report = call_driver(driver, method, functools.partial(call, **arguments))
        except BaseException as exc:
            self.calls.append(Call(method=method, cluster=cluster, error=exc))
            raise
        self.calls.append(Call(method=method, cluster=cluster, report=report))
        return report

    def _soon(self, method: str, call: Callable[..., Any], **arguments: Any) -> Any:
        # Each behaviour would wait for the same.
        if method in self._hung:
            raise Waited(f'{method} does not return, as was seen before')
        try:
            return promptly(functools.partial(call, **arguments), self._soon_s, method)
        except Hung:
            self._hung.add(method)
            raise


def starved_s(thread: threading.Thread) -> float:
    """Return the seconds that a thread was ready to run and had no processor."""
    try:
        counts = pathlib.Path(f'/proc/self/task/{thread.native_id}/schedstat').read_text()
    # It has ended, or the system does not count.
    except OSError:
        return 0.0
    return int(counts.split()[1]) / 1e9


def promptly(call: Callable[[], Any], soon_s: float, name: str) -> Any:
    """Return the answer of a call.

    :raises Waited: it sleeps, or has not returned within ``soon_s`` real seconds, beside the
        time that it waited for a processor.
    """
    ended: list[tuple[Any, BaseException | None]] = []

    def run() -> None:
        _budget.left, _budget.name = _SLEEP_S, name
        try:
            ended.append((call(), None))
        # Whatever it is, the caller gets it.
        except BaseException as exc:
            ended.append((None, exc))

    thread = threading.Thread(target=run, name='kiln-kit-call', daemon=True)
    thread.start()
    began, left_s = time.monotonic(), soon_s
    while left_s > 0 and thread.is_alive():
        thread.join(left_s)
        left_s = soon_s + starved_s(thread) - (time.monotonic() - began)
    if not ended:
        raise Hung(f'{name} has not returned within {soon_s:g} s')
    answer, error = ended[0]
    if error is not None:
        raise error
    return answer


@contextlib.contextmanager
def without_sleep() -> Iterator[None]:
    """Let calls of a driver sleep without real time, and no longer than a moment.

    A driver that waits for its engine would never return: the engine works only while the
    clock of the kit moves.
    """
    time.sleep = _sleep
    try:
        yield
    finally:
        time.sleep = _SLEEP


def _sleep(seconds: float | SupportsIndex) -> None:
    left = getattr(_budget, 'left', None)
    if left is None:
        _SLEEP(seconds)
        return
    _budget.left = left - float(seconds)
    if _budget.left < 0:
        raise Waited(f'{_budget.name} sleeps ({float(seconds):g} s the last time)')
