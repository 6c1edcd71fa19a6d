"""Commands that list and maintain the enrolled machines of a pool."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator

from kiln.cli.app import KilnApp
from kiln.cli.arguments import argument, flag
from kiln.cli.base import KilnCommand, KilnLister, Rows
from kiln.cli.exit_codes import UsageError
from kiln.cli.output.views import moment, table
from kiln.compute_drivers.authoring.machine_pool import EnrolledMachine, MachinePool

_BRIEF = ('name', 'standing', 'type', 'zone', 'amphora_name', 'phase', 'reason')
MACHINE = argument('machine', metavar='MACHINE', help='Name of a machine of the pool.')
_ALL = (*_BRIEF, 'until', 'addresses', 'flavors', 'amphora_id', 'enrolled')


class List(KilnLister):
    """List the machines of the pool, their amphorae, and why a machine is not free."""

    arguments = (flag('--long', 'Show all columns.'),)

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        with _pool(self.app) as pool:
            rows = [_fields(machine) for machine in pool.machines()]
        everything = parsed_args.long or parsed_args.formatter != 'table'
        return table(_ALL if everything else _BRIEF, rows)


class Maintain(KilnCommand):
    """Put a machine into maintenance: it is not claimed, not probed and runs no command."""

    arguments = (
        MACHINE,
        argument('reason', metavar='REASON', help="Reason, shown by 'kiln appliance list'."),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        if not parsed_args.reason.strip():
            raise UsageError('Cannot maintain a machine without a reason.')
        with _pool(self.app) as pool:
            pool.maintain(parsed_args.machine, parsed_args.reason)
        self.app.say(f'Machine {parsed_args.machine} is in maintenance.')


class Return(KilnCommand):
    """Take a machine out of maintenance."""

    arguments = (MACHINE,)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with _pool(self.app) as pool:
            pool.maintain(parsed_args.machine, None)
        self.app.say(f'Machine {parsed_args.machine} is out of maintenance.')


class Release(KilnCommand):
    """Return a machine that was wiped by hand to the pool, and end its quarantine."""

    arguments = (MACHINE,)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with _pool(self.app) as pool:
            pool.release(parsed_args.machine)
        self.app.say(f'Machine {parsed_args.machine} is released.')


def _fields(machine: EnrolledMachine) -> dict[str, object]:
    return {
        'name': machine.name,
        'standing': machine.standing.value,
        'type': machine.amphora_type,
        'zone': machine.zone,
        'amphora_name': machine.amphora_name,
        'phase': machine.phase,
        'reason': machine.reason,
        'until': moment(machine.until),
        'addresses': list(machine.addresses),
        'flavors': list(machine.flavors),
        'amphora_id': machine.amphora_id,
        'enrolled': machine.enrolled,
    }


@contextlib.contextmanager
def _pool(app: KilnApp) -> Iterator[MachinePool]:
    with app.open_backend() as compute:
        driver = compute.driver
        if not isinstance(driver, MachinePool):
            raise UsageError(
                f'Cannot list the machines of {compute.name!r}: it creates a machine for '
                f'each build. Name a backend of enrolled machines with --backend.'
            )
        yield driver
