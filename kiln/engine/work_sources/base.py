"""The contract of what tells a conductor which clusters to look at."""

from __future__ import annotations

import abc
from collections.abc import Callable, Collection


class WorkSource(abc.ABC):
    """Says who looks at a cluster first, and no more than that.

    The right to write is the lease with its epoch, which the store alone gives. A
    source that is wrong, slow or silent may therefore cost time, and never a node:
    of two conductors that it sends to one cluster the second gets no lease, and
    what it forgets is found by the next sweep of the store.

    No method waits for anything but the store, and all may be called by any thread.
    """

    @abc.abstractmethod
    def start(self, wake: Callable[[], None]) -> None:
        """Begin to look for work; call ``wake`` whenever there is some to take.

        Without it the source only passes on what is offered.
        """

    @abc.abstractmethod
    def offer(self, cluster_id: str) -> None:
        """Tell that a cluster has work, once its operation is in the store.

        Safe to repeat. What is told may get lost.
        """

    @abc.abstractmethod
    def take(self, besides: Collection[str] = ()) -> tuple[str, ...]:
        """Return the clusters to look at now, the longest waiting first.

        A cluster is named again by each call until ``done``, be it worked on or not.

        :param besides: those that cannot be worked on here for now. They are not named,
            stand in nobody's way, and are left to others until a call without them.
        :raises StoreError: the store cannot be asked; take again.
        """

    @abc.abstractmethod
    def done(self, cluster_id: str) -> None:
        """Say that a cluster has no work any more; safe to repeat, and for any cluster."""

    @abc.abstractmethod
    def close(self, wait_s: float = 5.0) -> None:
        """Give back what was taken, for others to look at at once; safe to repeat.

        What was offered before is passed on first, as far as there is time.
        """
