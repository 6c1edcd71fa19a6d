"""Has Heat forget a stack, and leave all that the stack has made as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kiln.clock import Clock
from kiln.cluster_drivers.heat.adoption import check_free, find_stack
from kiln.cluster_drivers.heat.errors import HeatRefused
from kiln.cluster_drivers.heat.retaining import loose, retained, same
from kiln.clusters.exceptions import ClusterDriverError
from kiln.openstack.heat.rows import Preview, StackRow, listed_names
from kiln.plugins.extras import importing

if TYPE_CHECKING:
    from kiln.cluster_drivers.heat.client import HeatClient

LOOK_S = 1.0
#: Seconds for which a stack may be in progress without an end.
LIMIT_S = 1800.0

Say = Callable[[str], None]


class Forgetting:
    """A stack that Heat is to forget. Each step can be repeated after an interruption."""

    def __init__(self, client: HeatClient, reference: str, clock: Clock, say: Say) -> None:
        """Find the stack.

        :raises ClusterDriverError: it does not exist, is a part of another stack or that of a
            cluster, or Heat changes it now.
        """
        self._client, self._clock, self._say = client, clock, say
        self._row = find_stack(client, reference)
        check_free(self._row)

    @property
    def name(self) -> str:
        """The name of the stack."""
        return self._row.name

    def server_ids(self) -> frozenset[str]:
        """Return the ids of the servers that Heat has for the stack."""
        return frozenset(one.id for one in self._client.servers(self._row.name, self._row.id))

    def run(self) -> None:
        """Have nothing of the stack deleted with it, see that it is so, and delete the stack.

        :raises ClusterDriverError: it cannot be done; the stack has lost nothing.
        """
        if self._loose():
            self._retain()
        if left := self._loose():
            names = listed_names(left)
            raise HeatRefused(
                f'Cannot have Heat forget stack {self.name}: it would delete {names}.',
                'Run the command again.',
            )
        self._say(f'Stack {self.name}: nothing is deleted with it. Deleting the stack.')
        self._client.delete(self._row.name, self._row.id)
        row = self._settled()
        if row is not None and not row.gone:
            raise HeatRefused(
                f'Heat has not forgotten stack {row.name}: it is {row.state}: {row.reason}',
                'What it has made is as it was. Run the command again.',
            )

    def _retain(self) -> None:
        row, client = self._row, self._client
        if row.action == 'DELETE':
            raise HeatRefused(
                f'Cannot have Heat forget stack {row.name}: it is {row.state}, and Heat changes '
                f'no such stack.',
                f"'openstack stack abandon {row.name}' does it where operators allow it.",
            )
        now = client.template(row.name, row.id)
        files_now = client.files(row.name, row.id)
        template, files = retained(now, files_now, client.environment(row.name, row.id))
        if row.status == 'FAILED' and not same(now, files_now, template, files):
            raise HeatRefused(
                f'Cannot have Heat forget stack {row.name}: it is {row.state}, and an update '
                f'would also do what was not done then, which no preview shows.',
                f"Have Heat do that first: 'openstack stack update --existing {row.name}'.",
            )
        _check(row, client.preview_rewriting(row, template, files))
        self._say(f'Stack {row.name}: updating it, so that nothing is deleted with it.')
        client.rewrite(row, template, files, LIMIT_S)
        after = self._settled()
        if after is None or after.status != 'COMPLETE':
            state = 'gone' if after is None else f'{after.state}: {after.reason}'
            raise HeatRefused(
                f'Cannot have Heat forget stack {row.name}: after the update it is {state}',
                'Correct the cause, and run the command again.',
            )

    def _loose(self) -> tuple[str, ...]:
        found = self._client.resources(self._row.name, self._row.id)
        return tuple(loose(found, self._client.template))

    def _settled(self) -> StackRow | None:
        """Return the stack once Heat is done with it; None if it is gone."""
        end = self._clock.monotonic() + LIMIT_S
        while True:
            row = self._client.with_id(self._row.id)
            if row is None or row.status != 'IN_PROGRESS':
                return row
            if self._clock.monotonic() >= end:
                raise ClusterDriverError(
                    f'Stack {row.name} is {row.state} for over {LIMIT_S / 60:.0f} min.',
                    'See the log of heat-engine, and run the command again.',
                )
            self._clock.sleep(LOOK_S)


def forgetting(document: str, reference: str, clock: Clock, say: Say) -> Forgetting:
    """Return a stack that Heat is to forget, by the credentials of its project."""
    with importing('Cannot reach Heat', ClusterDriverError):
        from kiln.cluster_drivers.heat.connections import Connections
    return Forgetting(Connections().client(document), reference, clock, say)


def _check(row: StackRow, preview: Preview) -> None:
    """Return if an update would change nothing but what Heat does at the end.

    :raises HeatRefused: it would.
    """
    names = [name for name, _ in (*preview.replaced, *preview.added, *preview.deleted)]
    if names:
        raise HeatRefused(
            f'Cannot have Heat forget stack {row.name}: an update to its own template would also '
            f'add, replace or delete {listed_names(names)}.',
            f"Have it mended first, or use 'openstack stack abandon {row.name}'.",
        )
