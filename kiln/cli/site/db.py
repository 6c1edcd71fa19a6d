"""Commands about the database of clusters: upgrade, check, purge, rotate-key, backup, restore."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from kiln.cli.arguments import argument, flag, span
from kiln.cli.base import KilnCommand, KilnShow, Rows
from kiln.cli.exit_codes import ExitCode
from kiln.cli.output.views import fields, moment
from kiln.cli.site.stores import configured_database

if TYPE_CHECKING:
    from kiln.cli.app import KilnApp
    from kiln.db.database import Database


def _database(app: KilnApp) -> contextlib.closing[Database]:
    """Open the configured database, whatever the revision of its tables.

    Import modules that need SQLAlchemy after this: it reports what is not installed.
    """
    return contextlib.closing(configured_database(app.settings, app.say))


class Upgrade(KilnCommand):
    """Upgrade the tables to this version of kiln; create them in an empty database.

    Stop all other processes of kiln and make a backup first. Safe to repeat.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with _database(self.app) as database:
            from kiln.db.tables.schema import REVISION
            from kiln.db.tables.upgrade import upgrade

            before = upgrade(database)
            if before == REVISION:
                self.app.say(
                    f'The store at {database.name} has revision {REVISION}, as this kiln needs.'
                )
            else:
                was = f'was {before}' if before else 'had no tables'
                self.app.say(f'The store at {database.name} has revision {REVISION}; it {was}.')


class Check(KilnShow):
    """Show the revision of the tables, their row counts, and leases of dead owners.

    Finds damage, missing tables and columns, and tables of something else. Unbound secrets were
    written by a former version: rotate-key binds them. The exit status is 6 if this version of
    kiln cannot use the database.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        with _database(self.app) as database:
            from kiln.db.upkeep import check

            health = check(database)
        if not health.usable:
            self.status = ExitCode.UNAVAILABLE
        if health.faults:
            self.app.say(f'The store cannot be used. {health.faults[0].remedy}')
        return fields(
            {
                'store': health.where,
                'revision': health.revision,
                'wanted_revision': health.wanted,
                'usable': health.usable,
                'faults': [one.text for one in health.faults],
                **health.counts,
                'unbound_secrets': health.unbound,
                'dangling_leases': [
                    f'{lease.scope} of {lease.owner}, expired at {moment(lease.expires_at)}'
                    for lease in health.dangling
                ],
            }
        )


class Purge(KilnShow):
    """Remove old records: ended operations with their steps, events, gone nodes, receipts.

    Records that the status of an existing cluster needs stay.
    """

    arguments = (
        argument(
            '--older-than',
            type=span,
            required=True,
            metavar='SPAN',
            help='Remove what ended longer ago: a number with s, m, h, d or w, such as 30d.',
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        with _database(self.app) as database:
            from kiln.db.upkeep import purge

            purged = purge(database, parsed_args.older_than)
        return fields(dataclasses.asdict(purged))


class RotateKey(KilnCommand):
    """Encrypt all secrets with a new key, and keep the former key for reading.

    If several hosts share the database: run it with --prepare, copy the key file to all
    hosts, rotate on one host, and copy the file again. Secrets that are still encrypted
    with an older key than the former one can no longer be read. Secrets that a former
    version of kiln wrote are bound to their cluster and name from then on.
    """

    arguments = (
        flag('--prepare', 'Only add the next key to the key file, so that it can be copied.'),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with _database(self.app) as database:
            from kiln.db.records.secrets import Secrets
            from kiln.db.store import check_revision, key_file

            keys = key_file(database, self.app.settings.db.key_file)
            if parsed_args.prepare:
                keys.prepare()
                self.app.say(
                    f'The next key is in {keys.path}; it encrypts nothing before the rotation.'
                )
            else:
                check_revision(database)
                count = Secrets(database, keys).rotate()
                self.app.say(f'{count} secrets are encrypted with a new key in {keys.path}.')


class Backup(KilnCommand):
    """Write a copy of a store that is a file, while it is used; the keys are not in it.

    PostgreSQL and MariaDB have tools of their own.
    """

    arguments = (argument('file', metavar='FILE', help='File to write; it must not exist.'),)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with _database(self.app) as database:
            from kiln.db.backup import back_up
            from kiln.db.store import key_file

            back_up(database, Path(parsed_args.file))
            keys = key_file(database, self.app.settings.db.key_file)
            self.app.say(
                f'The store at {database.name} is in {parsed_args.file}. Keep {keys.path} too, '
                f'in another place: without it the secrets of clusters cannot be read.'
            )


class Restore(KilnCommand):
    """Put a backup in the place of a store that is a file; the former store is kept beside it.

    Stop all conductors first.
    """

    arguments = (argument('file', metavar='FILE', help="A backup that 'kiln db backup' wrote."),)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with _database(self.app) as database:
            from kiln.db.backup import restore

            former = restore(database, Path(parsed_args.file))
            self.app.say(
                f'The store at {database.name} is that of {parsed_args.file}; the former one is '
                f"in {former}. 'kiln orphans' finds machines that were built since the backup."
            )
