"""What an operation waits for beyond the backend's yes, in a form that survives a restart."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import Any, Self

from kiln.compute_drivers import validation
from kiln.exceptions import InvalidRequest
from kiln.models import ComputeStatus, State
from kiln.wrappers.operation import Priority
from kiln.wrappers.probe import Probe as Probe
from kiln.wrappers.probe import restored_probe, saved_probe

#: Is called with each status that an amphora is seen in, in their order.
#:
#: It runs where the callbacks of its operation run, and before them:
#: :meth:`Operation.add_done_callback <kiln.wrappers.operation.Operation.add_done_callback>`
#: says what it may do there.
OnStatus = Callable[[ComputeStatus], None]


class Until(enum.StrEnum):
    """How far a build goes before its operation is done."""

    #: The backend has agreed; the id is known.
    ACCEPTED = 'accepted'
    #: The backend says that it runs.
    ACTIVE = 'active'
    #: It runs, and the probe says that it serves.
    READY = 'ready'


@dataclasses.dataclass(frozen=True, slots=True)
class BuildGoal:
    """How far a build is to go, and who hears of its way."""

    until: Until
    probe: Probe | None = None
    on_status: OnStatus | None = None
    priority: Priority = Priority.NORMAL
    #: Whether what a build may have made in vain is removed.
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
        """Return how far a build is to go.

        :raises InvalidRequest: there is no such goal, or its parts do not go together.
        """
        goal = validation.check_choice('until', until, Until)
        if on_status is not None:
            validation.check_callable('on_status', on_status)
        if probe is not None:
            validation.check_callable('probe', probe)
        validation.check_member('priority', priority, Priority)
        validation.check_flag('discard', discards)
        if probe is not None and goal is not Until.READY:
            raise InvalidRequest('A probe is asked only with until=Until.READY.')
        if goal is Until.READY and probe is None:
            raise InvalidRequest('until=Until.READY needs a probe, such as TcpProbe(22).')
        if not discards and goal is not Until.ACCEPTED:
            raise InvalidRequest('discard=False goes with until=Until.ACCEPTED alone.')
        return cls(goal, probe, on_status, priority, discards)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data; a probe of the caller's own is left out."""
        return {'until': self.until.value, 'probe': saved_probe(self.probe)}

    @classmethod
    def from_dict(
        cls, data: Mapping[str, Any], probe: Probe | None, on_status: OnStatus | None
    ) -> Self:
        """Return the goal that was saved; ``probe`` takes the place of the one saved.

        :raises InvalidRequest: it cannot be one, or had a probe that could not be saved.
        """
        until = data.get('until', Until.ACCEPTED)
        if probe is None and (saved := data.get('probe')) is not None:
            probe = restored_probe(saved)
        if until == Until.READY and probe is None:
            raise InvalidRequest(
                'Cannot recover this build without its probe, which was a function of its '
                'own and so could not be saved: give it again, as recover(saved, probe=...).'
            )
        return cls.checked(until, probe, on_status)


@dataclasses.dataclass(frozen=True, slots=True)
class StatesGoal:
    """An amphora is to be in one of some states."""

    states: frozenset[State]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {'states': sorted(self.states)}
