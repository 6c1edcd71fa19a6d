"""What a hook is: a frozen value; no I/O."""

from __future__ import annotations

import dataclasses
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from kiln.cluster_models import OperationKind
from kiln.hooks.answers import Answer
from kiln.hooks.points import OnDeadline, OnFailure, Point

#: What a hook may be called.
NAME = re.compile(r'[a-z0-9][a-z0-9._-]{0,62}')
#: The name of what a cluster driver does at a point; no other hook may have it.
DRIVER = 'driver'
#: The order of a hook that says none.
MIDDLE = 50

_SPACE = uuid.UUID('6f1d7a3e-2c58-5b0f-9e64-0a7c1d93b8e2')


@dataclasses.dataclass(frozen=True, slots=True)
class Executable:
    """A program: the document on stdin, exit status 0, 75 for later, or any other."""

    argv: tuple[str, ...]

    def __str__(self) -> str:
        return ' '.join(self.argv)


@dataclasses.dataclass(frozen=True, slots=True)
class Webhook:
    """A server: the document is posted, signed if there is a secret."""

    url: str
    #: The file of the secret that signatures are made with.
    secret_file: str | None = None
    #: The certificates to trust, where the system's are not those.
    ca_file: str | None = None

    def __str__(self) -> str:
        return self.url


#: Gets the document. None is success, an exception a failure.
PluginFunction = Callable[[Mapping[str, Any]], Answer | None]


@dataclasses.dataclass(frozen=True, slots=True)
class Plugin:
    """A function in this process: trusted code."""

    function: PluginFunction

    def __str__(self) -> str:
        return f'{self.function.__module__}:{self.function.__qualname__}'


#: What is called, and how.
Target = Executable | Webhook | Plugin


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Hook:
    """Something that is called at one point of the life of clusters."""

    name: str
    point: Point
    target: Target
    #: The lower, the farther outside: first before something, last after it.
    order: int = MIDDLE
    #: Seconds for one call.
    timeout_s: float = 30.0
    #: Seconds from the first call until ``on_deadline`` decides.
    deadline_s: float = 600.0
    #: What the point says, where it is None.
    on_failure: OnFailure | None = None
    on_deadline: OnDeadline | None = None
    #: Calls after the first that failed; None is as many as the deadline leaves time for.
    retries: int | None = None
    #: Seconds until the first retry; doubled each time.
    backoff_s: float = 5.0
    #: Only for these; empty is any.
    clusters: tuple[str, ...] = ()
    drivers: tuple[str, ...] = ()
    kinds: tuple[OperationKind, ...] = ()
    #: Who declared it: a file, or a package.
    origin: str = ''

    def __str__(self) -> str:
        return f'{self.point.value}/{self.name}'

    @property
    def at_failure(self) -> OnFailure:
        """What a failure leads to."""
        return self.on_failure or self.point.on_failure

    @property
    def at_deadline(self) -> OnDeadline:
        """What its deadline leads to."""
        return self.on_deadline or self.point.on_deadline

    def is_for(self, *, cluster: str, driver: str, kind: OperationKind) -> bool:
        """Whether it is called for an operation on a cluster of a driver."""
        return (
            (not self.clusters or cluster in self.clusters)
            and (not self.drivers or driver in self.drivers)
            and (not self.kinds or kind in self.kinds)
        )

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Yield what cannot be: the field, and what to write."""
        if not self.point.may_fail:
            for field in ('on_failure', 'on_deadline'):
                if getattr(self, field) == 'fail':
                    others = 'warn or retry' if field == 'on_failure' else 'continue'
                    yield field, f'nothing can fail at {self.point.value}; write {others}'
        if self.timeout_s > self.deadline_s:
            yield 'timeout', 'one call may take longer than all may together; lower it'
        if self.retries is not None and self.at_failure is not OnFailure.RETRY:
            yield 'retries', 'a failure is not retried; write on_failure: retry, or take it out'


def invocation_id(operation_id: str, point: Point, hook: str, node_id: str | None) -> str:
    """Return the key of all calls of a hook at one point of one operation.

    The same in each process and after each crash, so whoever is called can tell
    a repeated call from a new one.
    """
    return str(uuid.uuid5(_SPACE, '\0'.join((operation_id, point.value, hook, node_id or ''))))


def in_order(hooks: Iterable[Hook], point: Point) -> tuple[Hook, ...]:
    """Return the hooks of a point in the order in which they are called.

    An onion: the lowest order comes first before something, and last after it.
    """
    mine = [hook for hook in hooks if hook.point is point]
    return tuple(sorted(mine, key=lambda hook: (hook.order, hook.name), reverse=not point.before))
