"""Verdicts of the kit on mutants, and survivors that are known, as plain data."""

from __future__ import annotations

import dataclasses
import enum

from kiln.testing.mutants.reach import Reach


class Fate(enum.StrEnum):
    """End of a mutant."""

    CAUGHT = 'caught'
    SURVIVED = 'survived'
    # Not judged: the kit never calls the function, so it would survive.
    NOT_RUN = 'not run'
    # Caught, too: a vendor notices a run that does not end.
    TIMED_OUT = 'timed out'
    # Caught, too: the module cannot be imported or set up, or ended its process.
    BROKEN = 'broken'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What became of a mutant."""

    fate: Fate
    #: The behaviour that caught it, as CLASS.NAME.
    behaviour: str = ''
    reason: str = ''
    #: Number of behaviours that passed before.
    passed: int = 0
    seconds: float = 0.0
    #: What each behaviour calls, of the driver as it is.
    reach: Reach = dataclasses.field(default_factory=Reach)

    @property
    def caught(self) -> bool:
        """True unless the mutant survived."""
        return self.fate not in (Fate.SURVIVED, Fate.NOT_RUN)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Survivor:
    """A mutant that is known to survive, and why."""

    place: str
    operator: str
    change: str
    #: Why no caller can see the difference.
    equivalent: str = ''
    #: What the kit does not test so far.
    missing: str = ''

    @property
    def key(self) -> tuple[str, str, str]:
        """The key of the mutant."""
        return self.place, self.operator, self.change
