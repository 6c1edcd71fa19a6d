"""What a driver remembers of its program's requests, and what it does next about them; no I/O."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

from kiln.cluster_drivers.command.protocol import Answer, Ending, Verb
from kiln.clusters.models import Cluster

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
    #: The seconds that it was given.
    timeout_s: float = 3600.0
    #: The id of the operation that it belongs to.
    operation: str | None = None
    #: The number of the first run that counts for it.
    first: int = 1
    #: The group and the names of the nodes to remove, of a resize.
    remove: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """What a driver keeps of a cluster, in its ``driver_state``."""

    #: The state and the handle that the program printed last.
    program: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    handle: str | None = None
    #: What the program is asked now; None once it is done.
    request: Request | None = None
    #: The host of the runs, and the mark of the folder that they are in.
    host: str = ''
    place: str = ''
    #: When all runs have ended that were begun there, or are to be begun.
    over_at: float = 0.0
    #: The id of a request that another host began and did not end, until a run begins here.
    left: str = ''
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

    @classmethod
    def of(cls, cluster: Cluster) -> Memory:
        """Return the memory of a cluster; that of an earlier kiln has no handle."""
        found = cls.read(cluster.driver_state)
        if found.handle is not None:
            return found
        return dataclasses.replace(found, handle=cluster.driver_handle)

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
    #: True if it is at work long after its end.
    overdue: bool = False
    #: How it ended; None while it runs, and if it was lost or stopped.
    answer: Answer | None = None
    #: Why kiln ended it.
    why: str = ''

    @classmethod
    def elsewhere(cls, memory: Memory) -> Seen | None:
        """Return what is known of the last run of another host: that nobody saw its end."""
        request = memory.request
        if not memory.left or request is None:
            return None
        return cls(
            number=memory.run, request=memory.left, verb=request.verb, running=False,
            stopping=False,
        )  # fmt: skip

    @property
    def abandoned(self) -> bool:
        """True if it has begun what is neither finished nor cancelled."""
        return self.answer is None or self.answer.ending is Ending.LATER


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
    #: Give up: it is not done, and its time is over.
    TOO_LATE = enum.auto()
    #: Nothing is left of a request that is no longer wanted.
    FORGET = enum.auto()


def next_step(memory: Memory, last: Seen | None, now: float, *, can_cancel: bool) -> Step:
    """Return what to do next about the request of a memory.

    :param last: the last run on this host; None without any.
    """
    request = memory.request
    assert request is not None
    step = _next(memory, last, now, can_cancel=can_cancel)
    # A run without any time would be ended at once.
    return Step.TOO_LATE if step is Step.START and now >= request.deadline_at else step


def _next(memory: Memory, last: Seen | None, now: float, *, can_cancel: bool) -> Step:
    request = memory.request
    assert request is not None
    if last is None:
        return Step.START
    is_own = last.request == request.id and last.verb is request.verb
    if last.running:
        return _while_running(last, watched=is_own or last.verb is Verb.CANCEL)
    if last.verb is Verb.CANCEL:
        return _after_cancelling(memory, last, now) or Step.START
    if is_own and last.number >= request.first:
        return _after(memory, last, now)
    return Step.CANCEL if can_cancel and last.abandoned and not is_own else Step.START


def last_step(memory: Memory, last: Seen | None, now: float, *, can_cancel: bool) -> Step:
    """Return what to do next about a request that is no longer wanted.

    :param last: the last run on this host; None without any.
    """
    if last is None:
        return Step.FORGET
    if last.running:
        return _while_running(last, watched=last.verb is Verb.CANCEL)
    if last.verb is Verb.CANCEL:
        return _after_cancelling(memory, last, now) or Step.FORGET
    return Step.CANCEL if can_cancel and last.abandoned else Step.FORGET


def _while_running(last: Seen, *, watched: bool) -> Step:
    return Step.WATCH if watched and not last.stopping and not last.overdue else Step.STOP


def _after_cancelling(memory: Memory, last: Seen, now: float) -> Step | None:
    """Return what to do after a cancellation; None if there is nothing more to cancel."""
    if not last.abandoned or memory.lost >= MOST_LOST:
        return None
    return Step.WAIT if _is_early(memory, last, now) else Step.CANCEL


def _after(memory: Memory, last: Seen, now: float) -> Step:
    """Return what to do after a run of the request itself."""
    if last.answer is None:
        # It was killed, or stopped for another request that is no longer wanted.
        return Step.GIVE_UP if memory.lost >= MOST_LOST else Step.START
    if last.answer.ending is Ending.LATER:
        return Step.WAIT if _is_early(memory, last, now) else Step.START
    return Step.FINISH


def _is_early(memory: Memory, last: Seen, now: float) -> bool:
    """Return True until it is time to call a program again that said "later"."""
    if last.answer is None:
        return False
    # A time that is further away than the program asked for is that of a clock which was set back.
    return 0 < memory.again_at - now < last.answer.after_s + _ROUNDING_S
