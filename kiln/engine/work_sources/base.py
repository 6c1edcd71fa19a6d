"""The contract of work sources, which name the clusters that a conductor works on."""

from __future__ import annotations

import abc
from collections.abc import Callable, Collection


class WorkSource(abc.ABC):
    """Decides which conductor tries a cluster first, and nothing else.

    The right to write is the lease with its epoch, which only the store gives. So a source
    that is wrong, slow or silent can cost time, but never a node: if it sends two
    conductors to one cluster, the second gets no lease, and what it forgets is found by the
    next sweep of the store.

    No method waits for anything but the store, and all can be called by any thread.
    """

    @abc.abstractmethod
    def start(self, wake: Callable[[], None]) -> None:
        """Begin to search for work; call ``wake`` whenever there is work to take.

        Before that the source only passes on what is offered.
        """

    @abc.abstractmethod
    def offer(self, cluster_id: str) -> None:
        """Report that a cluster has work, once its operation is in the store.

        Safe to repeat. The report can get lost.
        """

    @abc.abstractmethod
    def take(self, besides: Collection[str] = ()) -> tuple[str, ...]:
        """Return the clusters to work on now, the longest waiting first.

        A cluster is returned by each call until ``done``, even if it is being worked on.

        :param besides: clusters that cannot be worked on here for now. They are not returned,
            do not delay others, and are left to other conductors until a call without them.
        :raises StoreError: the store cannot be read; call again.
        """

    @abc.abstractmethod
    def done(self, cluster_id: str) -> None:
        """Report that a cluster has no more work; safe to repeat, and for any cluster."""

    @abc.abstractmethod
    def close(self, wait_s: float = 5.0) -> None:
        """Release what was taken, so that others can take it at once; safe to repeat.

        What was offered before is passed on first, as far as there is time.
        """
