"""The work source that shares work between conductors through a jobboard."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Collection

from kiln.clock import SYSTEM_CLOCK, Clock
from kiln.clusters.exceptions import ClusterError
from kiln.db.store import Store
from kiln.engine.work_sources.base import WorkSource
from kiln.engine.work_sources.boards import Board, BoardAway, Job

LOG = logging.getLogger(__name__)

#: Seconds between two polls of a board that does not notify of posts.
POLL_S = 1.0
#: Seconds after which an unavailable board is tried again: doubled up to the second value.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0
#: The most clusters that a sweep returns at once; the next poll returns the others.
SWEEP = 100


class JobboardSource(WorkSource):
    """Claims jobs on a board, and holds them while their clusters are worked on.

    All calls of the board are made by one thread, so a board that hangs holds up nothing
    else. A claim is renewed three times in ``claim_s``; the job of an owner that died can be
    claimed after that time. What the board lost is found by a sweep of the store every
    ``sweep_s``, and by each ``take`` while the board is unavailable.
    """

    def __init__(
        self,
        open_board: Callable[[], Board],
        store: Store,
        *,
        claim_s: float,
        sweep_s: float = 30.0,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._open_board = open_board
        self._store = store
        self._claim_s = claim_s
        self._sweep_s = sweep_s
        self._clock = clock
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._wake: Callable[[], None] | None = None
        self._closed = False
        # Tasks of the thread, guarded by the condition.
        self._poll_now = False
        self._offered: dict[str, None] = {}
        self._finished: set[str] = set()
        self._unwanted: frozenset[str] = frozenset()
        self._held: dict[str, Job] = {}
        # Used by the thread only.
        self._board: Board | None = None
        self._keep_at = 0.0
        self._pause_s = FIRST_PAUSE_S
        self._away = False
        self._sweep_at = 0.0

    # ---- called by others ------------------------------------------------------

    def start(self, wake: Callable[[], None]) -> None:
        """Begin to claim jobs; ``wake`` is called after each new claim."""
        with self._changed:
            self._wake = wake
            self._poll_soon()

    def offer(self, cluster_id: str) -> None:
        """Post a job, unless the cluster has one."""
        with self._changed:
            self._offered[cluster_id] = None
            self._poll_soon()

    def take(self, besides: Collection[str] = ()) -> tuple[str, ...]:
        """Return what is claimed, and at intervals what a sweep finds.

        Jobs of unwanted clusters are released, so that others can claim them.
        """
        with self._changed:
            self._unwanted = frozenset(besides)
            if not self._unwanted.isdisjoint(self._held):
                self._poll_soon()
            claimed = tuple(one for one in self._held if one not in self._unwanted)
        now = self._clock.monotonic()
        if not self._away and now < self._sweep_at:
            return claimed
        found = self._store.operations.runnable(besides=besides, limit=SWEEP)
        if len(found) < SWEEP:
            self._sweep_at = now + self._sweep_s
        return tuple(dict.fromkeys((*claimed, *found)))

    def done(self, cluster_id: str) -> None:
        """Remove the job from the board."""
        with self._changed:
            if cluster_id in self._held:
                self._finished.add(cluster_id)
                self._poll_soon()

    def close(self, wait_s: float = 5.0) -> None:
        """Release all claims, and disconnect from the board."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(wait_s)

    def _poll_soon(self) -> None:
        with self._changed:
            self._poll_now = True
            self._changed.notify_all()
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(
                    target=self._run, name='kiln-jobboard', daemon=True
                )
                self._thread.start()

    # ---- the thread --------------------------------------------------------------

    def _run(self) -> None:
        while not self._closed:
            self._attempt(self._round)
            self._rest()
        if self._board is not None or self._offered:
            self._attempt(self._part)
        self._disconnect()

    def _attempt(self, what: Callable[[Board], None]) -> None:
        try:
            what(self._connected())
        except BoardAway as exc:
            self._lose(exc)
        # A defect must not end the thread; the sweep finds what it leaves undone.
        except Exception:
            LOG.exception('A poll of the jobboard failed')
            self._lose(None)
        else:
            if self._away:
                LOG.info('The jobboard is back')
            self._away, self._pause_s = False, FIRST_PAUSE_S

    def _connected(self) -> Board:
        if self._board is None:
            self._board = self._open_board()
            self._board.connect(self._poll_soon)
        return self._board

    def _round(self, board: Board) -> None:
        self._finish(board)
        self._give_back(board)
        self._post(board)
        self._keep(board)
        if self._wake is not None:
            self._claim(board)

    def _finish(self, board: Board) -> None:
        with self._changed:
            finished = [self._held[one] for one in self._finished if one in self._held]
        for job in finished:
            board.consume(job)
            with self._changed:
                self._finished.discard(job.cluster_id)
                self._held.pop(job.cluster_id, None)
            # A process that offered more work meanwhile saw this job, and posted no other.
            if self._has_more(job.cluster_id):
                board.post(job.cluster_id)

    def _give_back(self, board: Board) -> None:
        with self._changed:
            unwanted = [self._held[one] for one in self._unwanted if one in self._held]
        for job in unwanted:
            board.abandon(job)
            with self._changed:
                self._held.pop(job.cluster_id, None)

    def _has_more(self, cluster_id: str) -> bool:
        try:
            return self._store.operations.has_work(cluster_id)
        except ClusterError:
            return True

    def _post(self, board: Board) -> None:
        # Taken before the board is read: that reading is too old for what is offered from
        # here on, since a job that it shows can be finished by then.
        with self._changed:
            offered, self._offered = self._offered, {}
        try:
            posted = board.posted() if offered else frozenset()
            for cluster_id in tuple(offered):
                if cluster_id not in posted:
                    board.post(cluster_id)
                del offered[cluster_id]
        finally:
            with self._changed:
                self._offered = offered | self._offered

    def _keep(self, board: Board) -> None:
        now = self._clock.monotonic()
        if now < self._keep_at:
            return
        self._keep_at = now + self._claim_s / 3
        for job in tuple(self._held.values()):
            if not board.keep(job):
                LOG.info('The claim of cluster %s on the jobboard is lost', job.cluster_id)
                with self._changed:
                    self._held.pop(job.cluster_id, None)

    def _claim(self, board: Board) -> None:
        for job in board.free():
            # A second job of a cluster waits until the first one is done.
            if job.cluster_id in self._held or job.cluster_id in self._unwanted:
                continue
            if (claimed := board.claim(job)) is None:
                continue
            with self._changed:
                self._held[job.cluster_id] = claimed
            assert self._wake is not None
            self._wake()

    def _part(self, board: Board) -> None:
        """Leave the board for good."""
        self._finish(board)
        self._post(board)
        for job in self._held.values():
            board.abandon(job)

    # ---- trouble and rest ----------------------------------------------------------

    def _lose(self, error: BoardAway | None) -> None:
        """Drop the claims in memory: the board itself keeps them, if it comes back."""
        if error is not None and not self._away:
            LOG.warning('%s Until it is back, the store is polled for work instead.', error)
        self._away = True
        with self._changed:
            self._held.clear()
            self._finished.clear()
        self._disconnect()

    def _disconnect(self) -> None:
        board, self._board = self._board, None
        if board is not None:
            with contextlib.suppress(BoardAway):
                board.close()

    def _rest(self) -> None:
        pause_s = POLL_S
        if self._away:
            pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, LONGEST_PAUSE_S)
        until = self._clock.monotonic() + pause_s
        with self._changed:
            while not self._closed:
                left_s = until - self._clock.monotonic()
                # Nothing is urgent enough to retry an unavailable board at once.
                if left_s <= 0 or (self._poll_now and not self._away):
                    break
                self._clock.wait(self._changed, left_s)
            self._poll_now = False
