"""Commands that list, open and close the circuits of a backend."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kiln.cli.app import KilnApp
from kiln.cli.arguments import argument
from kiln.cli.base import KilnCommand, KilnLister, Rows
from kiln.cli.exit_codes import UsageError
from kiln.cli.output.views import cells

if TYPE_CHECKING:
    from kiln.compute.facade import Compute


class List(KilnLister):
    """List the circuits of the backend, as all processes share them.

    Circuits that are not stored in Redis belong to one process each, where no other one sees
    them.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        with self.app.open_backend() as compute:
            _check_shared(self.app, compute, 'list the circuits')
            circuits = compute.circuits()
        counts = ('trips', 'calls', 'failure_rate', 'slow_call_rate')
        columns = ('name', 'state', 'storage', 'retry_after', 'opened_by', 'manual', *counts)
        return columns, [
            cells(['redis' if name == 'storage' else getattr(one, name) for name in columns])
            for one in circuits
        ]


class _Change(KilnCommand):
    """Changes a circuit for all processes that share it."""

    opens: bool
    arguments = (
        argument(
            'circuit', metavar='NAME', help="Name of a circuit, such as 'build' or 'east/build'."
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        verb = 'open' if self.opens else 'close'
        with self.app.open_backend() as compute:
            _check_shared(self.app, compute, f'{verb} circuit {parsed_args.circuit!r}')
            change = compute.open_circuit if self.opens else compute.close_circuit
            change(parsed_args.circuit)
        self.app.say(f'Circuit {parsed_args.circuit} is {"open" if self.opens else "closed"}.')


class Open(_Change):
    """Open a circuit for all processes, until 'kiln circuit close' or for a day."""

    opens = True


class Close(_Change):
    """Close a circuit for all processes, and forget why it was open."""

    opens = False


def _check_shared(app: KilnApp, compute: Compute, what: str) -> None:
    if not app.conf[f'compute:{app.backend_name}'].circuit_redis_url:
        raise UsageError(
            f'Cannot {what}: the circuits of {compute.name!r} belong to each process that uses '
            f'it. Set circuit_redis_url in [compute:{compute.name}] to share them.'
        )
