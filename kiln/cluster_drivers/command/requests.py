"""What a driver remembers of its program's requests, and what it does next about them; no I/O."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

from kiln.cluster_drivers.command.protocol import Answer, Ending, Verb

#: Seconds by which a time can be further away than was asked for.
_ROUNDING_S = 1.0
#: Runs of one request that can be lost, one after the other, before the request fails.
MOST_LOST = 10


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What is asked of a program, once for each operation."""

    id: str
    verb: Verb
    #: What users asked for: ``create``, ``resize``, ``rollback`` and so on.
    kind: str
    deadline_at: float
    #: The id of the operation that it belongs to.
    operation: str | None = None
    #: The number of the first run that counts for it.
    first: int = 1
    #: The group and the names of the nodes to remove, of a resize.
    remove: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """What a driver keeps of a cluster, in its ``driver_state``."""

    #: The state that the program printed last.
    program: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    #: What the program is asked now; None once it is done.
    request: Request | None = None
    #: The host of the runs, and the mark of the folder that they are in.
    host: str = ''
    place: str = ''
    #: The number of the last run that was begun or seen, and its lines that were reported.
    run: int = 0
    told: int = 0
    #: The runs that were lost, one after the other.
    lost: int = 0
    #: When to call the program again that said "later".
    again_at: float = 0.0
    #: True once the deletion of the cluster is done.
    deleted: bool = False

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Memory:
        """Return the memory in a ``driver_state``."""
        names = {field.name for field in dataclasses.fields(cls)} & stored.keys()
        values = {name: stored[name] for name in names}
        request = values.pop('request', None)
        if request is not None:
            request = Request(**{**request, 'verb': Verb(request['verb'])})
        return cls(**values, request=request)

    def stored(self) -> dict[str, Any]:
        """Return the memory as plain data."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """The last run of a program, as it is now."""

    number: int
    #: The id of its request, and what it was asked.
    request: str
    verb: Verb
    running: bool
    stopping: bool
    #: How it ended; None while it runs, and if it was lost or stopped.
    answer: Answer | None = None
    #: Why kiln ended it.
    why: str = ''

    @property
    def abandoned(self) -> bool:
        """True if it has begun what is neither finished nor cancelled."""
        unfinished = self.answer is None or self.answer.ending is Ending.LATER
        return unfinished and self.verb is not Verb.CANCEL


class Step(enum.Enum):
    """What to do next about a request."""

    #: Begin a run.
    START = enum.auto()
    #: The program is at work on it.
    WATCH = enum.auto()
    #: End the run of another request first.
    STOP = enum.auto()
    #: Have the program cancel what that request has begun.
    CANCEL = enum.auto()
    #: The program said "later".
    WAIT = enum.auto()
    #: Report how it ended.
    FINISH = enum.auto()
    #: Give up: run after run was lost.
    GIVE_UP = enum.auto()
    #: Nothing is left of a request that is no longer wanted.
    FORGET = enum.auto()


def next_step(memory: Memory, last: Seen | None, now: float, *, can_cancel: bool) -> Step:
    """Return what to do next about the request of a memory.

    :param last: the last run on this host; None without any.
    """
    request = memory.request
    assert request is not None
    if last is None:
        return Step.START
    is_own = last.request == request.id and last.verb is request.verb
    if last.running:
        watched = (is_own or last.verb is Verb.CANCEL) and not last.stopping
        return Step.WATCH if watched else Step.STOP
    if is_own and last.number >= request.first:
        return _after(memory, last, now)
    return Step.CANCEL if can_cancel and last.abandoned and not is_own else Step.START


def last_step(last: Seen | None, *, can_cancel: bool) -> Step:
    """Return what to do next about a request that is no longer wanted.

    :param last: the last run on this host; None without any.
    """
    if last is None:
        return Step.FORGET
    if last.running:
        watched = last.verb is Verb.CANCEL and not last.stopping
        return Step.WATCH if watched else Step.STOP
    return Step.CANCEL if can_cancel and last.abandoned else Step.FORGET


def _after(memory: Memory, last: Seen, now: float) -> Step:
    """Return what to do after a run of the request itself."""
    if last.answer is None:
        # It was killed, or stopped for another request that is no longer wanted.
        return Step.GIVE_UP if memory.lost >= MOST_LOST else Step.START
    if last.answer.ending is Ending.LATER:
        # A time that is further away than the program asked for is that of a clock which was set
        # back.
        longest_s = last.answer.after_s + _ROUNDING_S
        return Step.WAIT if 0 < memory.again_at - now < longest_s else Step.START
    return Step.FINISH
