"""What the outcome of each act makes of a node."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from kiln.cluster_drivers.values import Drained, Readiness, ReadyState
from kiln.cluster_models import Cause, NodeState
from kiln.engine import lifecycle
from kiln.engine.entry import Entry
from kiln.engine.lifecycle import Act
from kiln.engine.news import News
from kiln.engine.roster import Member, Roster
from kiln.engine.wishes import Wishes
from kiln.exceptions import BuildDiffers, InstanceNotFoundError, InsufficientCapacity
from kiln.models import Amphora, ComputeStatus, State

#: What a look at one of which nothing was known makes of it.
_SEEN = {
    State.ACTIVE: NodeState.READY,
    State.ERROR: NodeState.FAILED,
    State.SUSPENDED: NodeState.UNHEALTHY,
    State.STOPPED: NodeState.UNHEALTHY,
}


class Outcomes:
    """Takes in what is told of nodes; says whether the plan is to be made again."""

    def __init__(self, roster: Roster, *, settle_s: float) -> None:
        self._roster = roster
        self._settle_s = settle_s
        self._ways: dict[Act, Callable[[Any, Entry, Member, Wishes], bool]] = {
            Act.BUILD: self._built,
            Act.FIND: self._found,
            Act.WATCH: self._watched,
            Act.ASK_READY: self._asked,
            Act.DRAIN: self._drained,
            Act.RELIEVE: self._relieved,
            Act.REBOOT: self._rebooted,
            Act.REBUILD: self._rebuilt,
            Act.DELETE: self._deleted,
            Act.LOOK: self._looked,
        }

    def learn(self, news: News, entry: Entry, member: Member, wishes: Wishes) -> bool:
        """Take in one outcome; return whether it changes what is to be planned."""
        self._roster.ended(member)
        if isinstance(news.error, BuildDiffers) and news.error.amphora_id is not None:
            # The key is this attempt's own, so the machine is this node's: it was asked for
            # before the spec changed. What it was made with is in the node's row, and an
            # operation that renews nodes replaces it.
            news = dataclasses.replace(news, value=news.error.amphora_id, error=None)
        if news.error is None:
            member.tries, member.not_before = 0, 0.0
            return self._ways[news.act](news.value, entry, member, wishes)
        missing = isinstance(news.error, InstanceNotFoundError)
        if missing and news.act not in lifecycle.EXPECTING:
            return self.gone(entry, member)
        if news.act is Act.BUILD and isinstance(news.error, InsufficientCapacity):
            return self._full(news.error, entry, member, wishes)
        return self._failed(news.act, news.error, entry, member)

    def gone(self, entry: Entry, member: Member) -> bool:
        """Let go of a node that is in no backend."""
        node = member.node
        entry.confirm_gone(node)
        entry.settle(Act.DELETE, node)
        entry.tell('node-gone', f'{node.name} is gone', node)
        self._roster.drop(entry, member)
        return True

    def elsewhere(self, member: Member, wishes: Wishes) -> bool:
        """Whether a node that found no room is to be tried at another place."""
        node = member.node
        full = node.cause is not None and node.cause.code == InsufficientCapacity.code
        return full and not node.doomed and wishes.has_other_places(node)

    # ---- each of them ----------------------------------------------------------

    def _failed(self, act: Act, error: BaseException, entry: Entry, member: Member) -> bool:
        member.tries += 1
        node = member.node
        verdict = lifecycle.after_failure(act, node, error, member.tries)
        given_up = verdict.again_s is None
        if given_up and act in lifecycle.CHANGING:
            entry.settle(act, node, verdict.cause)
        if member.tries == 1 or given_up:
            entry.tell(f'{act.value}-failed', f'{node.name}: {error}', node)
        self._roster.change(entry, member, state=verdict.state, cause=verdict.cause)
        if verdict.again_s is not None:
            member.not_before = entry.moment + verdict.again_s
        return verdict.state is NodeState.FAILED

    def _full(
        self, error: InsufficientCapacity, entry: Entry, member: Member, wishes: Wishes
    ) -> bool:
        """Try the next place at once; after the last one wait, and begin with the first."""
        at_once = wishes.has_other_places(member.node)
        self._failed(Act.BUILD, error, entry, member)
        if at_once:
            member.not_before = 0.0
        self._roster.change(entry, member, attempt=member.node.attempt + 1)
        return False

    def _built(self, compute_id: str, entry: Entry, member: Member, wishes: Wishes) -> bool:
        self._roster.change(
            entry, member, compute_id=compute_id, state=NodeState.BOOTING, cause=None
        )
        entry.accept(member.node, compute_id)
        entry.settle(Act.BUILD, member.node)
        return False

    def _found(self, amphora: Amphora | None, entry: Entry, member: Member, _: Wishes) -> bool:
        if amphora is not None:
            self._roster.change(entry, member, compute_id=amphora.id, state=NodeState.DELETING)
            entry.accept(member.node, amphora.id)
            return False
        # What was sent may still be on its way, so absence is believed the second time.
        member.absent += 1
        if member.absent >= 2:
            return self.gone(entry, member)
        member.not_before = entry.moment + self._settle_s
        return False

    def _watched(self, amphora: Amphora, entry: Entry, member: Member, _: Wishes) -> bool:
        address = amphora.address
        self._roster.change(entry, member, state=NodeState.JOINING, address=address, cause=None)
        return False

    def _asked(self, ready: Readiness, entry: Entry, member: Member, wishes: Wishes) -> bool:
        node = member.node
        if ready.state is ReadyState.READY:
            self._roster.change(entry, member, state=NodeState.READY, cause=None)
            entry.tell('node-ready', f'{node.name} is ready', node)
            # The others may come now.
            return wishes.has_control(node.group)
        cause = Cause(code=f'readiness_{ready.state.value}', message=ready.reason)
        if ready.state is ReadyState.FAILED:
            self._roster.change(entry, member, state=NodeState.FAILED, cause=cause)
            entry.tell('node-failed', f'{node.name}: {ready.reason}', node)
            return True
        self._look_again(entry, member, cause)
        return False

    def _look_again(self, entry: Entry, member: Member, cause: Cause | None) -> None:
        # It is asked again and again; only what is new is written.
        if member.node.cause != cause:
            self._roster.change(entry, member, cause=cause)
        waited_s = entry.now - member.node.since
        member.not_before = entry.moment + lifecycle.look_pause_s(waited_s, len(self._roster))

    def _drained(self, drained: Drained, entry: Entry, member: Member, _: Wishes) -> bool:
        if drained.done:
            self._roster.change(entry, member, state=NodeState.DELETING, cause=None)
        else:
            self._look_again(entry, member, _why_undrained(drained))
        return False

    def _relieved(self, drained: Drained, entry: Entry, member: Member, _: Wishes) -> bool:
        if drained.done:
            member.relieved = True
            # From now on it has the time of one that starts.
            self._roster.change(entry, member, since=entry.now, cause=None)
        else:
            self._look_again(entry, member, _why_undrained(drained))
        return False

    def _rebooted(self, _: None, entry: Entry, member: Member, __: Wishes) -> bool:
        entry.settle(Act.REBOOT, member.node)
        self._roster.change(entry, member, state=NodeState.JOINING, cause=None)
        return True

    def _rebuilt(self, _: None, entry: Entry, member: Member, wishes: Wishes) -> bool:
        entry.settle(Act.REBUILD, member.node)
        made_with = wishes.made_with(member.node.group)
        self._roster.change(
            entry, member, state=NodeState.JOINING, made_with=made_with, cause=None
        )
        return True

    def _deleted(self, _: None, entry: Entry, member: Member, wishes: Wishes) -> bool:
        if not self.elsewhere(member, wishes):
            return self.gone(entry, member)
        entry.confirm_gone(member.node)
        entry.settle(Act.DELETE, member.node)
        self._roster.change(
            entry, member, state=NodeState.PLANNED, attempt=member.node.attempt + 1,
            compute_id=None, cause=None,
        )  # fmt: skip
        return False

    def _looked(self, status: ComputeStatus, entry: Entry, member: Member, _: Wishes) -> bool:
        state = _SEEN.get(status.state, NodeState.UNKNOWN)
        self._roster.change(entry, member, state=state)
        if state is NodeState.UNKNOWN:
            member.not_before = entry.moment + lifecycle.LOOK_S
        return state is not NodeState.UNKNOWN


def _why_undrained(drained: Drained) -> Cause | None:
    return Cause(code='not_drained', message=drained.reason) if drained.reason else None
