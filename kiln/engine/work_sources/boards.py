"""The contract of jobboards; each kind of jobboard has a module of its own."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Any

from kiln.clusters.exceptions import ClusterError


class BoardAway(ClusterError):
    """The jobboard did not answer, or its answer cannot be used."""

    code = 'board_away'
    remedy = 'Check the jobboard; until it is back, the store is polled instead.'
    retryable = True


@dataclasses.dataclass(frozen=True, slots=True)
class Job:
    """A job on a board; it names a cluster that has work, and nothing else."""

    cluster_id: str
    #: The board's own object for the job.
    posting: Any = dataclasses.field(compare=False, repr=False)


class Board(abc.ABC):
    """One connection to a jobboard, used by one thread until it fails once.

    Any method can take as long as the board does, and raise BoardAway. After that the
    board is closed, and another one is opened.
    """

    @abc.abstractmethod
    def connect(self, posted: Callable[[], None]) -> None:
        """Connect; call ``posted`` at each post, if the board notifies of posts."""

    @abc.abstractmethod
    def post(self, cluster_id: str) -> None:
        """Post a job."""

    @abc.abstractmethod
    def posted(self) -> frozenset[str]:
        """Return the clusters that have a job, claimed or not."""

    @abc.abstractmethod
    def free(self) -> tuple[Job, ...]:
        """Return the jobs that are not claimed, or whose owner is dead."""

    @abc.abstractmethod
    def claim(self, job: Job) -> Job | None:
        """Return a job as its owner holds it; None if another owner claimed it first."""

    @abc.abstractmethod
    def keep(self, job: Job) -> bool:
        """Extend a claim for another term; return False if it is lost."""

    @abc.abstractmethod
    def consume(self, job: Job) -> None:
        """Remove a claimed job from the board; does nothing if the claim is lost."""

    @abc.abstractmethod
    def abandon(self, job: Job) -> None:
        """Release a claim; does nothing if it is lost."""

    @abc.abstractmethod
    def close(self) -> None:
        """Disconnect; safe to repeat, and without a connection."""
