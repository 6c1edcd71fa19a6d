"""A driver whose calls by the engine are recorded, or each made on a new instance."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

from kiln.cluster_drivers.base import ClusterDriver, NodeClusterDriver
from kiln.exceptions import KilnError

HOOKS = tuple(
    f'{when}_{what}_cluster' for when in ('pre', 'post') for what in ('create', 'update', 'delete')
)
_METHODS = ('bootstrap', 'is_ready', 'drain', 'update_cluster_status', 'validate')
#: Methods that declare something when they are overridden.
_OPTIONAL = (*HOOKS, 'tend', 'rotate_credential', 'rotate_ca_certificate')
#: Called with a method and its arguments before a call of it.
Before = Callable[[str, Mapping[str, Any]], None]
#: The same, with the answer.
After = Callable[[str, Mapping[str, Any], Any], None]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class DriverCall:
    """One call that kiln made, and its answer or error."""

    method: str
    arguments: Mapping[str, Any]
    answer: Any = None
    error: BaseException | None = None


@dataclasses.dataclass(kw_only=True, slots=True)
class Watch:
    """How the calls of a driver are made."""

    calls: list[DriverCall] = dataclasses.field(default_factory=list)
    #: Make each call on a driver that was just opened, as after a crash.
    fresh: bool = False
    #: Make each call twice; the first answer is lost.
    twice: bool = False
    before: Before | None = None
    after: After | None = None


def watched(driver_class: type[NodeClusterDriver], watch: Watch) -> type[NodeClusterDriver]:
    """Return a class that does the same, and records its calls."""
    changes: dict[str, Any] = {'__module__': driver_class.__module__}
    for name in (*_METHODS, *_OPTIONAL):
        method = getattr(driver_class, name)
        if name not in _OPTIONAL or method is not _inherited(name):
            changes[name] = _recorded(name, method, watch, driver_class)
    return type(driver_class.__name__, (driver_class,), changes)


def _inherited(name: str) -> Any:
    return getattr(NodeClusterDriver, name, getattr(ClusterDriver, name, None))


def _recorded(
    name: str, method: Callable[..., Any], watch: Watch, driver_class: type[NodeClusterDriver]
) -> Callable[..., Any]:
    def once(self: Any, arguments: Mapping[str, Any]) -> Any:
        if watch.before is not None:
            watch.before(name, arguments)
        subject = driver_class.open() if watch.fresh else self
        try:
            answer = method(subject, **arguments)
        except BaseException as exc:
            watch.calls.append(DriverCall(method=name, arguments=arguments, error=exc))
            raise
        watch.calls.append(DriverCall(method=name, arguments=arguments, answer=answer))
        if watch.after is not None:
            watch.after(name, arguments, answer)
        return answer

    @functools.wraps(method)
    def recorded(self: Any, **arguments: Any) -> Any:
        if watch.twice:
            with contextlib.suppress(KilnError):
                once(self, arguments)
        return once(self, arguments)

    return recorded
