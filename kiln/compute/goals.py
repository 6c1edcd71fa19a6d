"""Goals of operations: what each waits for after acceptance."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import Any, Self

from kiln.compute_drivers import validation
from kiln.exceptions import InvalidRequest
from kiln.models import ComputeStatus, State
from kiln.wrappers.operations.operation import Priority
from kiln.wrappers.watcher.probe import Probe as Probe
from kiln.wrappers.watcher.probe import restored_probe, saved_probe

#: Callback for each status in which an amphora is observed, in order.
#:
#: It runs where the callbacks of its operation run, and before them:
#: :meth:`~kiln.wrappers.operations.operation.Operation.add_done_callback`
#: describes what it is allowed to do there.
OnStatus = Callable[[ComputeStatus], None]


class Until(enum.StrEnum):
    """How far a build goes before its operation is done."""

    #: The backend has accepted the build; the id is known.
    ACCEPTED = 'accepted'
    #: The backend reports that the amphora is active.
    ACTIVE = 'active'
    #: The amphora is active, and its probe succeeds.
    READY = 'ready'


@dataclasses.dataclass(frozen=True, slots=True)
class BuildGoal:
    """How far a build goes, and the callback for its progress."""

    until: Until
    probe: Probe | None = None
    on_status: OnStatus | None = None
    priority: Priority = Priority.NORMAL
    #: True if an amphora that a failed build might have made is removed.
    discards: bool = True

    @classmethod
    def checked(
        cls,
        until: Until | str,
        probe: Probe | None,
        on_status: OnStatus | None = None,
        *,
        priority: Priority = Priority.NORMAL,
        discards: bool = True,
    ) -> Self:
        """Return the checked goal of a build.

        :raises InvalidRequest: the goal is not known, or its parts do not fit together.
        """
        goal = validation.check_choice('until', until, Until)
        if on_status is not None:
            validation.check_callable('on_status', on_status)
        if probe is not None:
            validation.check_callable('probe', probe)
        validation.check_member('priority', priority, Priority)
        validation.check_flag('discard', discards)
        if probe is not None and goal is not Until.READY:
            raise InvalidRequest('A probe is used only with until=Until.READY.')
        if goal is Until.READY and probe is None:
            raise InvalidRequest('until=Until.READY needs a probe, such as TcpProbe(22).')
        if not discards and goal is not Until.ACCEPTED:
            raise InvalidRequest('discard=False is valid only with until=Until.ACCEPTED.')
        return cls(goal, probe, on_status, priority, discards)

    def to_dict(self) -> dict[str, Any]:
        """Return the goal as plain data; a probe that is a function is left out."""
        return {'until': self.until.value, 'probe': saved_probe(self.probe)}

    @classmethod
    def from_dict(
        cls, data: Mapping[str, Any], probe: Probe | None, on_status: OnStatus | None
    ) -> Self:
        """Return the saved goal; ``probe`` replaces the saved probe.

        :raises InvalidRequest: not a goal, or its probe could not be saved.
        """
        until = data.get('until', Until.ACCEPTED)
        if probe is None and (saved := data.get('probe')) is not None:
            probe = restored_probe(saved)
        if until == Until.READY and probe is None:
            raise InvalidRequest(
                'Cannot recover this build without its probe, which was a function of the '
                'caller and so could not be saved: pass it again, as recover(saved, probe=...).'
            )
        return cls.checked(until, probe, on_status)


@dataclasses.dataclass(frozen=True, slots=True)
class StatesGoal:
    """The goal that an amphora is in one of some states."""

    states: frozenset[State]

    def to_dict(self) -> dict[str, Any]:
        """Return the goal as plain data."""
        return {'states': sorted(self.states)}
