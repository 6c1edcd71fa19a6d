"""Observer: notifies listeners of every call that is really sent to a backend."""

from __future__ import annotations

from typing import Any

from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.calls import Call
from kiln.models import BuildRequest
from kiln.telemetry.events import CallRecord, Listener
from kiln.wrappers.base import DriverWrapper


class ObserverDriver(DriverWrapper):
    """The innermost wrapper: observes exactly the calls that the backend receives."""

    def __init__(self, inner: AmphoraComputeDriver, listener: Listener) -> None:
        super().__init__(inner)
        self._listener = listener

    def perform(self, call: Call, *args: Any) -> Any:
        record = CallRecord(self.name, call.label, call.traffic.value, _subject(args))
        record.started_at = self.clock.time()
        self._listener.call_started(record)
        started = self.clock.monotonic()
        try:
            return self.inner.perform(call, *args)
        except BaseException as exc:
            record.error = exc
            raise
        finally:
            record.duration_s = self.clock.monotonic() - started
            self._listener.call_finished(record)


def _subject(args: tuple[Any, ...]) -> str:
    if not args:
        return ''
    if isinstance(args[0], BuildRequest):
        return args[0].build_key
    # Only ids: any other argument can hold a secret.
    return args[0] if isinstance(args[0], str) else ''
