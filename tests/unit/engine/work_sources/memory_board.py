"""A jobboard in memory, for behaviour that real ones do not show on demand."""

import dataclasses
import itertools

from kiln.engine.work_sources.boards import Board, BoardAway, Job


@dataclasses.dataclass
class Note:
    """A job on the board."""

    cluster_id: str
    number: int
    owner: str = ''
    until: float = 0.0


class Bulletin:
    """The state that all connections share."""

    def __init__(self, clock):
        self.clock = clock
        self.notes = []
        self.away = False
        self.defects = []
        #: The number of connects so far, and of open connections.
        self.connected = self.open = 0
        self.listeners = []
        #: Called once, after the jobs were read and before they are used.
        self.meanwhile = None
        self._numbers = itertools.count(1)

    def names(self):
        return [note.cluster_id for note in self.notes]

    def owners(self):
        return {note.cluster_id: self.owner(note) for note in self.notes}

    def owner(self, note):
        return note.owner if note.until > self.clock.monotonic() else ''

    def post(self, cluster_id):
        self.notes.append(Note(cluster_id, next(self._numbers)))
        for listener in list(self.listeners):
            listener()


class MemoryBoard(Board):
    """One connection."""

    def __init__(self, bulletin, owner, *, claim_s, tells=True):
        self._bulletin = bulletin
        self._owner = owner
        self._claim_s = claim_s
        self._tells = tells
        self._posted = None

    def connect(self, posted):
        self._check()
        self._bulletin.connected += 1
        self._bulletin.open += 1
        self._posted = posted
        if self._tells:
            self._bulletin.listeners.append(posted)

    def post(self, cluster_id):
        self._check()
        self._bulletin.post(cluster_id)

    def posted(self):
        self._check()
        seen = frozenset(self._bulletin.names())
        meanwhile, self._bulletin.meanwhile = self._bulletin.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return seen

    def free(self):
        self._check()
        notes = self._bulletin.notes
        return tuple(Job(one.cluster_id, one) for one in notes if not self._bulletin.owner(one))

    def claim(self, job):
        self._check()
        note = job.posting
        if note not in self._bulletin.notes or self._bulletin.owner(note):
            return None
        note.owner = self._owner
        note.until = self._bulletin.clock.monotonic() + self._claim_s
        return job

    def keep(self, job):
        self._check()
        mine = self._is_mine(job)
        if mine:
            job.posting.until = self._bulletin.clock.monotonic() + self._claim_s
        return mine

    def consume(self, job):
        self._check()
        if self._is_mine(job):
            self._bulletin.notes.remove(job.posting)

    def abandon(self, job):
        self._check()
        if self._is_mine(job):
            job.posting.until = 0.0

    def close(self):
        if self._posted is not None:
            self._bulletin.open -= 1
            if self._tells:
                self._bulletin.listeners.remove(self._posted)
        self._posted = None
        self._check()

    def _is_mine(self, job):
        note = job.posting
        return note in self._bulletin.notes and self._bulletin.owner(note) == self._owner

    def _check(self):
        if self._bulletin.defects:
            raise self._bulletin.defects.pop()
        if self._bulletin.away:
            raise BoardAway('Cannot reach the jobboard at memory: it is away.')
