"""Machine pool: operator commands for a backend of enrolled machines.

For drivers whose machines exist before and after every build, in addition to the compute
contract. Commands look this class up and so do not depend on a driver.
"""

from __future__ import annotations

import abc
import dataclasses
import enum
from collections.abc import Sequence


class Standing(enum.StrEnum):
    """Availability of an enrolled machine for claims."""

    FREE = 'free'
    CLAIMED = 'claimed'
    # Its wipe failed: it cannot be claimed until a wipe succeeds.
    UNWIPED = 'unwiped'
    # Its last claims failed, and it is not claimed for a while.
    QUARANTINE = 'quarantine'
    MAINTENANCE = 'maintenance'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class EnrolledMachine:
    """A machine of a pool, as its operator sees it."""

    name: str
    standing: Standing
    amphora_type: str
    addresses: tuple[str, ...] = ()
    flavors: tuple[str, ...] = ()
    zone: str | None = None
    #: The amphora that uses this machine now, and the progress of its claim.
    amphora_id: str | None = None
    amphora_name: str | None = None
    phase: str | None = None
    #: Why it is not free, as text; and until when, in seconds since the epoch.
    reason: str | None = None
    until: float | None = None
    #: False if it is claimed but no longer in the inventory.
    enrolled: bool = True


class MachinePool(abc.ABC):
    """Mixin for a compute driver whose machines are enrolled, not made."""

    @abc.abstractmethod
    def machines(self) -> Sequence[EnrolledMachine]:
        """Return every machine of the pool, by name, including claimed machines that are gone."""

    @abc.abstractmethod
    def maintain(self, name: str, reason: str | None) -> None:
        """Put a machine into maintenance, or out of it if the reason is None.

        Safe to repeat. A machine in maintenance is neither claimed nor probed, and no
        command runs on it; a claimed machine stays claimed.

        :raises ResourceNotFoundError: the machine does not exist.
        :raises InvalidRequest: the inventory itself puts it into maintenance.
        """

    @abc.abstractmethod
    def release(self, name: str) -> None:
        """Release a machine from quarantine after an operator has wiped it.

        Safe to repeat. No command runs.

        :raises ResourceNotFoundError: the machine does not exist.
        :raises InstanceStateConflict: it serves as an amphora, or is being wiped now.
        """
