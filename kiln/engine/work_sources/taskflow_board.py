"""TaskFlow's jobboards, and what one has to know about them.

Read in TaskFlow 6.5, kazoo 2.11 and etcd3gw 2.7; the only home of TaskFlow:

* The claims on etcd and Redis last for ever unless they are given a time, and then
  nothing in TaskFlow extends them. Those on ZooKeeper last as long as its session.
* On Redis anybody may extend a claim, its former owner too, who would keep alive the
  claim of one that has died. So the owner is asked for before.
* A job on etcd remembers the lease of its first extended claim. Claimed anew, the
  same object would go on extending that one, and say that it did. So what is claimed
  is a copy of the job. How long is said by the claim alone, in whole seconds.
* Only ZooKeeper tells of posts, and it does not tell that a job became free again.
  A look asks the board for everything each time.
* A board on ZooKeeper that lost its session says that it is not connected for ever
  after. The watch of etcd ends in silence, and errors of etcd are not translated. So
  after any error the board is thrown away.
* A client of ZooKeeper that TaskFlow makes is not told which certificates to trust. So
  it is made here; then the board does not end it.
* The version of ZooKeeper can be read only where the operator has allowed it, so it
  is not asked for.
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from taskflow import exceptions as taskflow_exc
from taskflow.jobs import backends
from taskflow.jobs.base import POSTED, NotifyingJobBoard
from taskflow.utils import kazoo_utils

from kiln.engine.work_sources.boards import Board, BoardAway, Job


class TaskflowBoard(Board):
    """One connection to a board of TaskFlow."""

    def __init__(self, conf: Mapping[str, Any], *, name: str, owner: str, claim_s: float) -> None:
        self._conf = dict(conf)
        self._name = name
        self._owner = owner
        self._claim_s = max(1, math.ceil(claim_s))
        self._board: Any = None
        self._client: Any = None

    def connect(self, posted: Callable[[], None]) -> None:
        """Connect, within the time that the configuration gives it."""
        with self._explained('reach'):
            given = {}
            if 'ca' in self._conf:
                self._client = given['client'] = kazoo_utils.make_client(self._conf)
                self._client.ca = self._conf['ca']
            self._board = backends.fetch('kiln', self._conf, **given)
            if isinstance(self._board, NotifyingJobBoard):
                self._board.notifier.register(POSTED, lambda event, details: posted())
            self._board.connect()

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
        """Claim a job; of several at once one gets it."""
        mine = copy.copy(job.posting)
        # Where claims do not end with a session they get a time.
        term = {'expiry': self._claim_s} if _ends(mine) else {}
        with self._explained('claim a job on'):
            try:
                self._board.claim(mine, self._owner, **term)
            except (taskflow_exc.UnclaimableJob, taskflow_exc.NotFound):
                return None
        return Job(job.cluster_id, mine)

    def keep(self, job: Job) -> bool:
        """Extend a claim; that on ZooKeeper holds as long as the connection does."""
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
        client, self._client = self._client, None
        with self._explained('leave'):
            if board is not None:
                board.close()
            if client is not None:
                kazoo_utils.finalize_client(client)

    # ---- within --------------------------------------------------------------------

    def _end(self, job: Job, action: str, way: str) -> None:
        with self._explained(action), contextlib.suppress(taskflow_exc.NotFound):
            if self._is_mine(job):
                getattr(self._board, way)(job.posting, self._owner)

    def _is_mine(self, job: Job) -> bool:
        try:
            return bool(self._board.find_owner(job.posting) == self._owner)
        # That on Redis cannot say that there is no owner.
        except TypeError:
            return False

    def _jobs(self, **which: bool) -> Iterator[Any]:
        self._check_connected()
        return iter(self._board.iterjobs(ensure_fresh=True, **which))

    def _check_connected(self) -> None:
        # Else ZooKeeper's would have no jobs, which is not the same.
        if not self._board.connected:
            raise BoardAway(f'Cannot use the jobboard at {self._name}: the connection is lost.')

    @contextlib.contextmanager
    def _explained(self, action: str) -> Iterator[None]:
        try:
            yield
        except BoardAway:
            raise
        # Three clients have three families of errors, and TaskFlow translates some.
        except Exception as exc:
            why = ' '.join(str(exc).split()) or type(exc).__name__
            raise BoardAway(
                f'Cannot {action} the jobboard at {self._name}: {why.rstrip(".")}.'
            ) from exc


def _ends(job: Any) -> bool:
    return hasattr(job, 'extend_expiry')
