"""What a backend of enrolled machines lets an operator do; beside the contract.

A driver whose machines are there before and after every build has this, too. Commands
ask for it by this class, and so know no driver.
"""

from __future__ import annotations

import abc
import dataclasses
import enum
from collections.abc import Sequence


class Standing(enum.StrEnum):
    """Whether an enrolled machine may be claimed, and why not."""

    FREE = 'free'
    CLAIMED = 'claimed'
    # Its wipe failed: nobody gets it before one has succeeded.
    UNWIPED = 'unwiped'
    # It failed its last claims, and is left alone for a time.
    QUARANTINE = 'quarantine'
    MAINTENANCE = 'maintenance'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class EnrolledMachine:
    """A machine of a pool as its operator sees it."""

    name: str
    standing: Standing
    amphora_type: str
    addresses: tuple[str, ...] = ()
    flavors: tuple[str, ...] = ()
    zone: str | None = None
    #: The amphora that is this machine now, and what its claim is at.
    amphora_id: str | None = None
    amphora_name: str | None = None
    phase: str | None = None
    #: Why it is not free, in words; and until when, in seconds since the epoch.
    reason: str | None = None
    until: float | None = None
    #: False where it is claimed, and no longer in the inventory.
    enrolled: bool = True


class MachinePool(abc.ABC):
    """Mixed into a compute driver whose machines are enrolled, not made."""

    @abc.abstractmethod
    def machines(self) -> Sequence[EnrolledMachine]:
        """Return every machine of the pool, by name; those that are claimed and gone, too."""

    @abc.abstractmethod
    def maintain(self, name: str, reason: str | None) -> None:
        """Put a machine into maintenance, or out of it where there is no reason.

        Safe to repeat. A machine in maintenance is neither claimed nor probed, and no
        command is run on it; one that is claimed stays claimed.

        :raises ResourceNotFoundError: there is no such machine.
        :raises InvalidRequest: the inventory says that it is in maintenance.
        """

    @abc.abstractmethod
    def release(self, name: str) -> None:
        """Take a machine back that a person has wiped; end its quarantine.

        Safe to repeat. No command is run.

        :raises ResourceNotFoundError: there is no such machine.
        :raises InstanceStateConflict: it serves as an amphora, or is being wiped now.
        """
