"""Drivers for tests of the watcher, with and without cursors."""

from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.exceptions import InstanceNotFoundError
from kiln.models import Amphora, Changes, ComputeStatus, Limits, State
from kiln.testing.clock import VirtualClock


class PlainDriver(AmphoraComputeDriver):
    """A driver without cursors: changes() is the default of the base class."""

    limits = Limits()

    def __init__(self, clock=None):
        self.name = 'east'
        self.clock = clock or VirtualClock()
        self.machines = {}
        #: The calls made, each as the name of its hook and the number of requested ids.
        self.calls = []
        #: Called at the start of each bulk call; can raise or block.
        self.on_call = lambda hook: None

    def put(self, amphora_id, state=State.BUILDING, **more):
        self.machines[amphora_id] = Amphora(
            id=amphora_id, name=amphora_id, state=state, owner=self.owner, **more
        )

    def remove(self, amphora_id):
        del self.machines[amphora_id]

    def _build(self, request):
        raise NotImplementedError

    def _delete(self, amphora_id):
        self.remove(amphora_id)

    def _get(self, amphora_id):
        if amphora_id not in self.machines:
            raise InstanceNotFoundError(f'Cannot read {amphora_id}: not found.')
        return self.machines[amphora_id]

    def _list(self, owner):
        return list(self.machines.values())

    def _statuses(self, amphora_ids):
        self._called('statuses', len(amphora_ids))
        now = self.clock.time()
        return {
            amphora_id: self.machines[amphora_id].status(now)
            for amphora_id in amphora_ids
            if amphora_id in self.machines
        }

    def _changes(self, since):
        self._called('changes', 0)
        return super()._changes(since)

    def _called(self, hook, ids):
        self.calls.append((hook, ids))
        self.on_call(hook)


class CursorDriver(PlainDriver):
    """A driver that returns the changes since a cursor, or on request everything."""

    def __init__(self, clock=None):
        super().__init__(clock)
        self._log = []
        self.gone = []
        #: Ids missing from a complete answer.
        self.hidden = set()
        self.always_complete = False
        #: True if it returns cursors without a request.
        self.cursor_at_hand = False
        #: True if it supports reached().
        self.tells_in_short = False
        #: The cursor of the last call of reached().
        self.asked_since = None

    def put(self, amphora_id, state=State.BUILDING, **more):
        super().put(amphora_id, state, **more)
        self._log.append(amphora_id)

    def remove(self, amphora_id):
        super().remove(amphora_id)
        self._log.append(amphora_id)

    def _reached(self, state, since):
        if not self.tells_in_short:
            return None
        self._called('reached', state)
        self.asked_since = int(since)
        changed = dict.fromkeys(self._log[int(since) :])
        there = [one for one in changed if one in self.machines]
        return {one for one in there if self.machines[one].state is state}

    def cursor(self):
        return str(len(self._log)) if self.cursor_at_hand else ''

    def _changes(self, since):
        self._called('changes', 0)
        complete = not since or self.always_complete
        changed = self.machines if complete else dict.fromkeys(self._log[int(since) :])
        now = self.clock.time()
        return Changes(
            statuses=tuple(
                self.machines[amphora_id].status(now)
                for amphora_id in changed
                if amphora_id in self.machines and not (complete and amphora_id in self.hidden)
            ),
            gone=() if complete else tuple(one for one in changed if one not in self.machines),
            cursor=str(len(self._log)),
            complete=complete,
        )


def status(amphora_id='a', state=State.BUILDING, **more):
    return ComputeStatus(amphora_id=amphora_id, state=state, **more)
