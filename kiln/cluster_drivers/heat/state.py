"""State of a cluster's stack that is kept between calls, and what a row means for it; pure."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any, Self

from kiln.cluster_drivers.heat.names import mark_of
from kiln.openstack.heat.rows import StackRow

#: Times that a deletion is requested before what Heat cannot delete is reported.
DELETE_TRIES = 5
#: Times that a change is requested that Heat accepted and dropped.
CHANGE_TRIES = 3
#: Actions after which a stack is as it was wanted.
GOOD = frozenset({'CREATE', 'UPDATE', 'CHECK', 'RESUME', 'ADOPT', 'SNAPSHOT', 'RESTORE'})

#: Actions that can change what a stack consists of.
CHANGES = frozenset({'UPDATE', 'RESTORE'})


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class StackState:
    """What a driver keeps of a stack, as plain data with the cluster."""

    #: The id of the stack: another stack can have its name once it is deleted.
    id: str = ''
    #: The project and the region that it is in; empty if they are not known.
    project: str = ''
    region: str = ''
    #: The name of a stack that existed before its cluster; empty for one that kiln has named.
    name: str = ''
    #: The mark of what was wanted last.
    mark: str = ''
    #: True once the deletion was requested: from then on it is right that nothing is left.
    leaving: bool = False
    #: When a stack that is to be deleted, and whose id was never known, was first found absent, in
    #: seconds since the epoch; 0 before.
    absent_since: float = 0.0
    #: True once the stack was as it was wanted.
    settled: bool = False
    #: When it was changed last, as Heat had it then.
    changed_at: str = ''
    #: Times that a request was repeated, and polls to let pass before the next one.
    tries: int = 0
    rest: int = 0
    #: The newest event of Heat that was told.
    told: str = ''
    #: The image of each group, by the last change that was requested.
    images: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    #: What a generator keeps; see its own description.
    nodes: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def adopting(self) -> bool:
        """True for a stack that existed, as long as no change of it is known to be accepted."""
        return bool(self.name) and not self.mark and not self.leaving

    def is_overridden(self, row: StackRow) -> bool:
        """Return True if somebody else has changed the stack since it was as it was wanted.

        Such a change can keep all tags.
        """
        return (
            self.settled
            and bool(self.changed_at)
            and row.action in CHANGES
            and row.changed_at != self.changed_at
        )

    @classmethod
    def read(cls, kept: Mapping[str, Any]) -> Self:
        """Return the state in the data of a cluster; the beginning of one without data."""
        names = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in kept.items() if name in names})

    def write(self) -> dict[str, Any]:
        """Return the state as plain data."""
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if getattr(self, field.name)
        }

    def begun(self) -> Self:
        """Return the state at the beginning of a change: which stack it is, and its nodes."""
        return type(self)(
            id=self.id, project=self.project, region=self.region, name=self.name, nodes=self.nodes
        )

    def repeated(self) -> Self:
        """Return the state after another request, with twice the polls to let pass."""
        # From now on, a later change is that of kiln itself.
        return dataclasses.replace(self, tries=self.tries + 1, rest=2**self.tries, changed_at='')

    def rested(self) -> Self:
        """Return the state after a poll that was let pass."""
        return dataclasses.replace(self, rest=self.rest - 1)


class Meaning(enum.Enum):
    """What a row of a list means for a cluster."""

    WORKING = 'working'
    DONE = 'done'
    FAILED = 'failed'
    #: Deleted, or never there.
    ABSENT = 'absent'
    #: The last request was dropped, or has failed in a way that a repeat can mend.
    REPEAT = 'repeat'
    #: A repeat is due, but not with this poll.
    REST = 'rest'
    #: Somebody else has changed the stack since it was as it was wanted.
    ALIEN = 'alien'


def meaning(row: StackRow | None, state: StackState) -> Meaning:
    """Return what the row of a stack means; None stands for no stack."""
    # What Heat still lists is not gone: it can keep it, if its engine is killed just then.
    if row is None or (row.gone and not state.leaving):
        return Meaning.ABSENT
    if state.leaving:
        return _leaving(row, state)
    if row.action == 'DELETE':
        return Meaning.WORKING if row.status == 'IN_PROGRESS' else Meaning.FAILED
    if mark_of(row.tags) != state.mark:
        if state.settled:
            return Meaning.ALIEN
        return _again(state, CHANGE_TRIES)
    if row.status == 'IN_PROGRESS':
        return Meaning.WORKING
    is_good = row.status == 'COMPLETE' and row.action in GOOD
    if not is_good:
        return Meaning.FAILED
    return Meaning.ALIEN if state.is_overridden(row) else Meaning.DONE


def _leaving(row: StackRow, state: StackState) -> Meaning:
    if row.action != 'DELETE' or row.status == 'FAILED':
        return _again(state, DELETE_TRIES)
    return Meaning.WORKING


def _again(state: StackState, most: int) -> Meaning:
    if state.tries >= most:
        return Meaning.FAILED
    return Meaning.REST if state.rest > 0 else Meaning.REPEAT
