"""Hook value: target, point, timeouts and failure policy; no I/O."""

from __future__ import annotations

import dataclasses
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from kiln.clusters.models import OperationKind
from kiln.hooks.points import OnDeadline, OnFailure, Point
from kiln.hooks.replies import Answer
from kiln.programs.accounts import Account

#: Allowed names of hooks.
NAME = re.compile(r'[a-z0-9][a-z0-9._-]{0,62}')
#: Name reserved for the hook methods of the cluster driver.
DRIVER = 'driver'
#: Default order of a hook.
MIDDLE = 50

_SPACE = uuid.UUID('6f1d7a3e-2c58-5b0f-9e64-0a7c1d93b8e2')


@dataclasses.dataclass(frozen=True, slots=True)
class Executable:
    """A program: payload on stdin; exit status 0, 75 for later, any other is a failure."""

    argv: tuple[str, ...]
    #: The user that the program runs as; None is the user of kiln.
    account: Account | None = None

    def __str__(self) -> str:
        return ' '.join(self.argv)


@dataclasses.dataclass(frozen=True, slots=True)
class Webhook:
    """An HTTP server: the payload is posted, and signed if a secret is configured."""

    url: str
    #: File with the secret for signatures.
    secret_file: str | None = None
    #: CA certificates to trust instead of those of the system.
    ca_file: str | None = None

    def __str__(self) -> str:
        return self.url


#: Takes the payload. None is success, an exception is a failure.
PluginFunction = Callable[[Mapping[str, Any]], Answer | None]


@dataclasses.dataclass(frozen=True, slots=True)
class Plugin:
    """A function called in this process; trusted code."""

    function: PluginFunction

    def __str__(self) -> str:
        return f'{self.function.__module__}:{self.function.__qualname__}'


#: What a hook calls.
Target = Executable | Webhook | Plugin


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class HookOptions:
    """When a hook is called, how often, and what its failure means."""

    name: str
    point: Point
    #: Lower is called earlier at pre_ points, and later at post_ points.
    order: int = MIDDLE
    #: Time limit of one call, in seconds.
    timeout_s: float = 30.0
    #: Seconds from the first call until ``on_deadline`` applies.
    deadline_s: float = 600.0
    #: None is the default of the point.
    on_failure: OnFailure | None = None
    on_deadline: OnDeadline | None = None
    #: Calls after the first failed call; None is limited by the deadline only.
    retries: int | None = None
    #: Seconds until the first retry; doubled for each further retry.
    backoff_s: float = 5.0
    #: Call the hook for these only; empty is any.
    clusters: tuple[str, ...] = ()
    drivers: tuple[str, ...] = ()
    kinds: tuple[OperationKind, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Hook(HookOptions):
    """A target that is called at one point of the lifecycle of clusters or nodes."""

    target: Target
    #: Where the hook is declared: a file or a package.
    origin: str = ''

    def __str__(self) -> str:
        return f'{self.point.value}/{self.name}'

    @property
    def at_failure(self) -> OnFailure:
        """What happens when a call fails."""
        return self.on_failure or self.point.on_failure

    @property
    def at_deadline(self) -> OnDeadline:
        """What happens at the deadline."""
        return self.on_deadline or self.point.on_deadline

    def is_named(self, name: str) -> bool:
        """Return True if a name, or POINT/NAME, means the hook."""
        return name in (self.name, str(self))

    def is_for(self, *, cluster: str, driver: str, kind: OperationKind) -> bool:
        """Return True if the hook is called for such an operation."""
        return (
            (not self.clusters or cluster in self.clusters)
            and (not self.drivers or driver in self.drivers)
            and (not self.kinds or kind in self.kinds)
        )

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Yield contradictory fields, each with a message that says what to write."""
        if not self.point.may_fail:
            for field in ('on_failure', 'on_deadline'):
                if getattr(self, field) == 'fail':
                    others = 'warn or retry' if field == 'on_failure' else 'continue'
                    yield field, f'nothing can fail at {self.point.value}; write {others}'
        if self.timeout_s > self.deadline_s:
            yield 'timeout', 'it is longer than the deadline of all calls; lower it'
        if self.retries is not None and self.at_failure is not OnFailure.RETRY:
            yield 'retries', 'failures are not retried; write on_failure: retry, or remove retries'


def invocation_id(operation_id: str, point: Point, hook: str, node_id: str | None) -> str:
    """Return the idempotency key of all calls of a hook at one point of an operation.

    The key is the same in every process and after a crash, so the hook can
    distinguish a repeated call from a new one.
    """
    return str(uuid.uuid5(_SPACE, '\0'.join((operation_id, point.value, hook, node_id or ''))))


def in_order(hooks: Iterable[Hook], point: Point) -> tuple[Hook, ...]:
    """Return the hooks of a point in the order of their calls.

    The lowest order is called first at pre_ points, and last at post_ points.
    """
    mine = [hook for hook in hooks if hook.point is point]
    return tuple(sorted(mine, key=lambda hook: (hook.order, hook.name), reverse=not point.before))
