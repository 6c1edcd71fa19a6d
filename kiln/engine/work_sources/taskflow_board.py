"""TaskFlow jobboards, and their particularities on ZooKeeper, etcd and Redis.

Found in TaskFlow 6.5, kazoo 2.11 and etcd3gw 2.7; they are used only here:

* Claims on etcd and Redis never expire unless they are given a time, and then nothing in
  TaskFlow extends them. Claims on ZooKeeper last as long as its session.
* On Redis anyone can extend a claim, also its former owner, which would keep the claim of
  a dead owner alive. So the owner is read first.
* A job on etcd remembers the lease of its first extended claim. If it is claimed again, the
  same object continues to extend that lease and reports success. So a copy of the job is
  claimed. Only the claim sets the duration, in whole seconds.
* Only ZooKeeper notifies of posts, and it does not notify that a job became free again.
  Each poll reads the whole board.
* A board on ZooKeeper that lost its session reports that it is not connected for ever
  after. The watch of etcd ends silently, and errors of etcd are not translated. So the
  board is discarded after any error.
* TaskFlow does not pass the trusted certificates to the ZooKeeper client that it makes, and
  that client checks no host name. So it is given a handler that opens its connections.
* The client of etcd heeds variables of the environment: REQUESTS_CA_BUNDLE replaces the
  trusted certificates that are configured, and a proxy would see each request. So it is given
  its session.
* No client bounds the length or the whole time of an answer. ``board_clients`` does.
* The version of ZooKeeper can be read only if the operator has allowed that, so it is not
  read.
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from taskflow import exceptions as taskflow_exc
from taskflow.jobs.base import POSTED, NotifyingJobBoard

from kiln.engine.work_sources.board_clients import make_board
from kiln.engine.work_sources.boards import Board, BoardAway, Job
from kiln.foreign.answers import MOST_BYTES
from kiln.foreign.exchange import exchange

#: Seconds that a board is allowed to take for an action, all requests together.
ANSWER_S = 10.0


class TaskflowBoard(Board):
    """One connection to a board of TaskFlow."""

    def __init__(
        self,
        conf: Mapping[str, Any],
        *,
        name: str,
        owner: str,
        claim_s: float,
        answer_s: float = ANSWER_S,
    ) -> None:
        self._conf = dict(conf)
        self._answer_s = answer_s
        self._name = name
        self._owner = owner
        self._claim_s = max(1, math.ceil(claim_s))
        self._board: Any = None

    def connect(self, posted: Callable[[], None]) -> None:
        """Connect, within the time that the configuration gives it."""
        with self._explained('reach'):
            self._board = make_board(self._conf)
            if isinstance(self._board, NotifyingJobBoard):
                self._board.notifier.register(POSTED, lambda event, details: posted())
            # Only the client of ZooKeeper waits on another thread.
            within = {'timeout': self._answer_s} if self._conf['board'] == 'zookeeper' else {}
            self._board.connect(**within)

    def post(self, cluster_id: str) -> None:
        with self._explained('post to'):
            self._board.post(cluster_id)

    def posted(self) -> frozenset[str]:
        with self._explained('read'):
            return frozenset(job.name for job in self._jobs())

    def free(self) -> tuple[Job, ...]:
        with self._explained('read'):
            return tuple(Job(job.name, job) for job in self._jobs(only_unclaimed=True))

    def claim(self, job: Job) -> Job | None:
        """Claim a job; only one of several concurrent claims succeeds."""
        mine = copy.copy(job.posting)
        # Claims that do not end with a session are given a time.
        term = {'expiry': self._claim_s} if _ends(mine) else {}
        with self._explained('claim a job on'):
            try:
                self._board.claim(mine, self._owner, **term)
            except (taskflow_exc.UnclaimableJob, taskflow_exc.NotFound):
                return None
        return Job(job.cluster_id, mine)

    def keep(self, job: Job) -> bool:
        """Extend a claim; on ZooKeeper a claim holds as long as the connection does."""
        if not _ends(job.posting):
            self._check_connected()
            return True
        with self._explained('keep a job on'):
            return self._is_mine(job) and bool(job.posting.extend_expiry(self._claim_s))

    def consume(self, job: Job) -> None:
        self._end(job, 'take a job off', 'consume')

    def abandon(self, job: Job) -> None:
        self._end(job, 'give up a job on', 'abandon')

    def close(self) -> None:
        """Disconnect; ends the threads of TaskFlow."""
        board, self._board = self._board, None
        with self._explained('leave'):
            if board is not None:
                board.close()

    # ---- within --------------------------------------------------------------------

    def _end(self, job: Job, action: str, way: str) -> None:
        with self._explained(action), contextlib.suppress(taskflow_exc.NotFound):
            if self._is_mine(job):
                getattr(self._board, way)(job.posting, self._owner)

    def _is_mine(self, job: Job) -> bool:
        try:
            return bool(self._board.find_owner(job.posting) == self._owner)
        # The board on Redis cannot report that a job has no owner.
        except TypeError:
            return False

    def _jobs(self, **which: bool) -> Iterator[Any]:
        self._check_connected()
        return iter(self._board.iterjobs(ensure_fresh=True, **which))

    def _check_connected(self) -> None:
        # Without this check, a disconnected ZooKeeper board would look empty.
        if not self._board.connected:
            raise BoardAway(f'Cannot use the jobboard at {self._name}: the connection is lost.')

    @contextlib.contextmanager
    def _explained(self, action: str) -> Iterator[None]:
        try:
            with exchange(self._answer_s, MOST_BYTES):
                yield
        except BoardAway:
            raise
        # The three clients have different errors, and TaskFlow translates only some.
        except Exception as exc:
            why = ' '.join(str(exc).split()) or type(exc).__name__
            raise BoardAway(
                f'Cannot {action} the jobboard at {self._name}: {why.rstrip(".")}.'
            ) from exc


def _ends(job: Any) -> bool:
    return hasattr(job, 'extend_expiry')
