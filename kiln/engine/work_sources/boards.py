"""What a jobboard must be able to do; each kind of it has a module of its own."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Any

from kiln.clusters.exceptions import ClusterError


class BoardAway(ClusterError):
    """The jobboard gave no answer, or none that can be used."""

    code = 'board_away'
    remedy = 'Look after the jobboard; until it is back the store is asked instead.'
    retryable = True


@dataclasses.dataclass(frozen=True, slots=True)
class Job:
    """A job on a board; it says which cluster has work, and nothing else."""

    cluster_id: str
    #: What the board itself calls it.
    posting: Any = dataclasses.field(compare=False, repr=False)


class Board(abc.ABC):
    """One connection to a jobboard, used by one thread until it fails once.

    Any method may take as long as the board does, and raise BoardAway. After that
    the board is closed, and another one is opened.
    """

    @abc.abstractmethod
    def connect(self, posted: Callable[[], None]) -> None:
        """Connect; have ``posted`` called at each post, if the board can tell of it."""

    @abc.abstractmethod
    def post(self, cluster_id: str) -> None:
        """Post a job."""

    @abc.abstractmethod
    def posted(self) -> frozenset[str]:
        """Return the clusters that have a job, be it claimed or not."""

    @abc.abstractmethod
    def free(self) -> tuple[Job, ...]:
        """Return the jobs that nobody has claimed, or whose owner is dead."""

    @abc.abstractmethod
    def claim(self, job: Job) -> Job | None:
        """Return a job as its owner holds it; None where somebody else was faster."""

    @abc.abstractmethod
    def keep(self, job: Job) -> bool:
        """Hold a claim for another term; return False where it is lost."""

    @abc.abstractmethod
    def consume(self, job: Job) -> None:
        """Take a claimed job off the board; nothing happens where the claim is lost."""

    @abc.abstractmethod
    def abandon(self, job: Job) -> None:
        """Give up a claim; nothing happens where it is lost."""

    @abc.abstractmethod
    def close(self) -> None:
        """Disconnect; safe to repeat, and where there is no connection."""
