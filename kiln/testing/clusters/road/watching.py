"""A driver whose calls by the engine are recorded, or each made on a new instance."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

from kiln.cluster_drivers.base import ClusterDriver, NodeClusterDriver

HOOKS = tuple(
    f'{when}_{what}_cluster' for when in ('pre', 'post') for what in ('create', 'update', 'delete')
)
_METHODS = ('bootstrap', 'is_ready', 'drain', 'update_cluster_status', 'validate', *HOOKS)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class DriverCall:
    """One call that kiln made, and its answer or error."""

    method: str
    arguments: Mapping[str, Any]
    answer: Any = None
    error: BaseException | None = None


def watched(
    driver_class: type[NodeClusterDriver], calls: list[DriverCall], *, fresh: bool = False
) -> type[NodeClusterDriver]:
    """Return a class that does the same, and records its calls.

    :param fresh: Make each call on a driver that was just opened, as after a crash.
    """
    changes: dict[str, Any] = {'__module__': driver_class.__module__}
    for name in _METHODS:
        method = getattr(driver_class, name)
        # A hook of the base does nothing, and overriding it would make the engine call it.
        if name not in HOOKS or method is not getattr(ClusterDriver, name):
            target = driver_class if fresh else None
            changes[name] = _recorded(name, method, calls, target)
    return type(driver_class.__name__, (driver_class,), changes)


def _recorded(
    name: str, method: Callable[..., Any], calls: list[DriverCall], fresh: type[Any] | None
) -> Callable[..., Any]:
    @functools.wraps(method)
    def recorded(self: Any, **arguments: Any) -> Any:
        subject = self if fresh is None else fresh.open()
        try:
            answer = method(subject, **arguments)
        except BaseException as exc:
            calls.append(DriverCall(method=name, arguments=arguments, error=exc))
            raise
        calls.append(DriverCall(method=name, arguments=arguments, answer=answer))
        return answer

    return recorded
