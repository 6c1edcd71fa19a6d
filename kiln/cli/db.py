"""Commands about the database that clusters are kept in."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kiln.cli.base import KilnCommand, KilnShow, Rows, argument, span
from kiln.cli.exit_codes import ExitCode
from kiln.cli.stores import configured_database
from kiln.cli.views import fields, moment

if TYPE_CHECKING:
    from kiln.db.database import Database


class _OnDatabase(KilnCommand):
    """A command on the database itself, whatever version its tables are of."""

    @contextlib.contextmanager
    def database(self) -> Iterator[Database]:
        """Open the database that the configuration names.

        Imports of what needs it come after: this one says what is not installed.
        """
        with contextlib.closing(configured_database(self.app.settings)) as opened:
            yield opened


class Upgrade(_OnDatabase):
    """Bring the tables to this version; make them where there are none.

    Stop all other processes of kiln, and make a backup first. Repeating it does
    no harm.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with self.database() as database:
            from kiln.db.schema import REVISION
            from kiln.db.upgrade import upgrade

            before = upgrade(database)
            if before == REVISION:
                self.app.say(f'The store at {database.name} has revision {REVISION} already.')
            else:
                was = f'was {before}' if before else 'had no tables'
                self.app.say(f'The store at {database.name} has revision {REVISION}; it {was}.')


class Check(KilnShow, _OnDatabase):
    """Show the version of the tables, how much is in them, and leases whose owners are gone.

    The exit status is 6 where this version of kiln cannot use the database.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        with self.database() as database:
            from kiln.db.upkeep import check

            health = check(database)
        if not health.usable:
            self.status = ExitCode.UNAVAILABLE
        return fields(
            {
                'store': health.where,
                'revision': health.revision,
                'wanted_revision': health.wanted,
                'usable': health.usable,
                **health.counts,
                'dangling_leases': [
                    f'{lease.scope} of {lease.owner}, over since {moment(lease.expires_at)}'
                    for lease in health.dangling
                ],
            }
        )


class Purge(KilnShow, _OnDatabase):
    """Remove what ended long ago: operations with their steps, events, gone nodes, receipts.

    What a living cluster has its status from stays.
    """

    arguments = (
        argument(
            '--older-than',
            type=span,
            required=True,
            metavar='SPAN',
            help='How long ago it must have ended: a number with s, m, h, d or w, such as 30d.',
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        with self.database() as database:
            from kiln.db.upkeep import purge

            purged = purge(database, parsed_args.older_than)
        return fields(dataclasses.asdict(purged))


class RotateKey(_OnDatabase):
    """Encrypt all secrets with a new key, and keep the former one for reading.

    Where several hosts share the database, prepare first, copy the key file to
    each of them, and then rotate on one and copy the file once more. What was
    encrypted before the rotation before this one cannot be read any more.
    """

    arguments = (
        argument(
            '--prepare',
            action='store_true',
            help='Only add the next key to the file, so that it can be copied.',
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with self.database() as database:
            from kiln.db.secrets import Secrets
            from kiln.db.store import key_file

            keys = key_file(database, self.app.settings.db.key_file)
            if parsed_args.prepare:
                keys.prepare()
                self.app.say(f'The next key is in {keys.path}; nothing is written with it yet.')
            else:
                count = Secrets(database, keys).rotate()
                self.app.say(f'{count} secrets are encrypted with a new key in {keys.path}.')
