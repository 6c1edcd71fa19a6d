"""The command ``kiln compute watch``, which prints changes as they happen."""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kiln.cli.arguments import TEXT_FORMAT, argument, seconds
from kiln.cli.base import KilnCommand
from kiln.cli.compute.calls import find
from kiln.cli.output.views import moment
from kiln.clock import Deadline
from kiln.exceptions import InstanceNotFoundError, OperationTimeout
from kiln.models import Changes, ComputeStatus, State

if TYPE_CHECKING:
    from kiln.compute.facade import Compute


class Follow:
    """Reduces answers about many amphorae to the changes of the watched ones; pure."""

    def __init__(self, wanted: Collection[str] | None = None, goal: State | None = None) -> None:
        self._wanted = None if wanted is None else frozenset(wanted)
        self._goal = goal
        self._seen: dict[str, ComputeStatus] = {}
        self._gone: set[str] = set()

    def news(self, changes: Changes) -> Iterator[ComputeStatus]:
        """Yield the statuses that changed since the last answer."""
        told = {status.amphora_id: status for status in changes.statuses}
        for status in told.values():
            if self._follows(status.amphora_id) and self._is_news(status):
                self._seen[status.amphora_id] = status
                yield status
        gone = set(changes.gone)
        if changes.complete:
            # The answer lists every amphora, so a missing one is gone.
            gone |= self._seen.keys() - told.keys()
        for amphora_id in sorted(gone - self._gone):
            if self._follows(amphora_id):
                self._gone.add(amphora_id)
                self._seen.pop(amphora_id, None)
                yield ComputeStatus(amphora_id=amphora_id, state=State.DELETED)

    def _follows(self, amphora_id: str) -> bool:
        return self._wanted is None or amphora_id in self._wanted

    def _is_news(self, status: ComputeStatus) -> bool:
        seen = self._seen.get(status.amphora_id)
        return seen is None or (seen.state, seen.task_state, seen.fault) != (
            status.state,
            status.task_state,
            status.fault,
        )

    @property
    def lost(self) -> frozenset[str]:
        """The watched amphorae that are gone and so can never reach the goal."""
        if self._wanted is None or self._goal is State.DELETED:
            return frozenset()
        return self._wanted & self._gone

    @property
    def over(self) -> bool:
        """True if nothing is left to wait for."""
        if self._wanted is None:
            return False
        return all(one in self._gone or self._there(one) for one in self._wanted)

    def _there(self, amphora_id: str) -> bool:
        seen = self._seen.get(amphora_id)
        if seen is None or self._goal is None:
            return False
        return seen.ready if self._goal is State.ACTIVE else seen.state is self._goal


class Watch(KilnCommand):
    """Print every change of amphorae as it happens, one line each.

    Without names it follows all amphorae of this site. It ends when all named amphorae
    are gone or in the state of --until, or with Ctrl-C.
    """

    arguments = (
        argument(
            'amphorae', nargs='*', metavar='NAME_OR_ID', help='Amphorae to follow (default: all).'
        ),
        argument(
            '--until',
            choices=[state.value for state in State if state is not State.UNKNOWN],
            metavar='STATE',
            help='End when all named amphorae are in this state.',
        ),
        argument(
            '--interval', type=seconds, default=1.0, help='Seconds between two polls (default: 1).'
        ),
        argument('--timeout', type=seconds, help='End with an error after this many seconds.'),
        TEXT_FORMAT,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with self.app.open_backend() as compute:
            clock = compute.driver.clock
            deadline = Deadline.after(parsed_args.timeout or float('inf'), clock)
            named = [find(compute, word) for word in parsed_args.amphorae]
            names = {one.id: one.name for one in named}
            goal = State(parsed_args.until) if parsed_args.until else None
            follow = Follow(names if named else None, goal)
            cursor = ''
            while True:
                changes = compute.changes(cursor).result()
                cursor = changes.cursor
                news = list(follow.news(changes))
                self._tell(compute, news, names, parsed_args)
                if follow.over:
                    break
                if deadline.passed:
                    raise OperationTimeout(
                        f'Cannot watch longer than {parsed_args.timeout:g} s: --timeout is over.'
                    )
                clock.sleep(max(0.0, min(parsed_args.interval, deadline.remaining_s())))
        if goal and follow.lost:
            lost = ', '.join(names[one] for one in sorted(follow.lost))
            raise InstanceNotFoundError(f'Cannot wait for {lost} to be {goal}: it is gone.')

    def _tell(
        self,
        compute: Compute,
        news: Collection[ComputeStatus],
        names: dict[str, str],
        args: argparse.Namespace,
    ) -> None:
        if any(one.amphora_id not in names for one in news):
            names.update({one.id: one.name for one in compute.list_amphorae().result()})
        now = compute.driver.clock.time()
        for status in news:
            event = _event(status, names, now)
            line = json.dumps(event) if args.formatter == 'json' else _line(event)
            self.app.stdout.write(f'{line}\n')
        self.app.stdout.flush()


def _event(status: ComputeStatus, names: Mapping[str, str], now: float) -> dict[str, Any]:
    return {
        'at': moment(status.observed_at or now),
        'id': status.amphora_id,
        'name': names.get(status.amphora_id),
        'state': status.state.value,
        'task_state': status.task_state,
        'fault': status.fault,
    }


def _line(event: Mapping[str, Any]) -> str:
    text = f'{event["at"]}  {event["id"]}  {event["name"] or "?"}  {event["state"]}'
    if event['task_state']:
        text += f' ({event["task_state"]})'
    return f'{text}: {event["fault"]}' if event['fault'] else text
