"""The command ``kiln orphans``, which finds and deletes unneeded resources."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kiln.cli.arguments import argument, flag, read_file, seconds
from kiln.cli.base import KilnLister, Rows
from kiln.cli.exit_codes import UsageError
from kiln.cli.output.views import age, moment, table
from kiln.cli.site.stores import belongings
from kiln.compute.orphans import Rules, Suspect, find_orphans, is_orphan, poll_amphorae, remove
from kiln.exceptions import AmphoraComputeError

if TYPE_CHECKING:
    from kiln.compute.facade import Compute

_COLUMNS = ('kind', 'id', 'name', 'age', 'reason', 'sightings', 'first_seen', 'verdict')
_MAX_FILE = 64 * 1024 * 1024
#: Grace times to wait between two sightings. They are compared by the wall clock, which passes
#: a little less than the time that passes while a time service slows it down.
_LONGER = 1.001


def _earlier(path: Path, about: Mapping[str, str]) -> list[Suspect]:
    """Return the suspects of earlier runs; none if the file does not exist.

    :raises UsageError: the file has another format or belongs to another backend.
    """
    if not path.exists():
        return []
    try:
        data = json.loads(read_file(str(path), _MAX_FILE))
        found = {name: data[name] for name in about}
        suspects = [Suspect.from_dict(one) for one in data['suspects']]
    except (ValueError, KeyError, TypeError) as exc:
        raise UsageError(
            f'Cannot use {path}: it is not a file of sightings. Remove it, or name another.'
        ) from exc
    if found != about:
        raise UsageError(
            f'Cannot use {path}: it belongs to backend {found["backend"]!r} and owner '
            f'{found["owner"]!r}. Name another file for this one.'
        )
    return suspects


def _keep(path: Path, about: Mapping[str, str], suspects: Sequence[Suspect]) -> None:
    """Replace the file of sightings, all of it or nothing.

    :raises UsageError: the file cannot be written.
    """
    data = {**about, 'suspects': [suspect.to_dict() for suspect in suspects]}
    try:
        with tempfile.NamedTemporaryFile(
            'w', dir=path.parent, prefix=f'.{path.name}.', delete=False
        ) as file:
            json.dump(data, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        Path(file.name).replace(path)
    except OSError as exc:
        raise UsageError(f'Cannot write {path}: {exc.strerror}.') from exc


class Orphans(KilnLister):
    """Find unneeded resources of this site by two sightings; --delete deletes them.

    Orphans are ports and volumes whose amphora is gone, and machines that were abandoned
    with their cluster; with --known, amphorae that are not in the list; with --errors,
    amphorae in ERROR. Resources that are younger than the grace time, in transition, or
    of another site are left alone. Without --state the command waits for the grace time
    between the two sightings.
    """

    arguments = (
        flag('--delete', 'Delete the orphans instead of only listing them.'),
        argument(
            '--grace',
            type=seconds,
            default=900.0,
            metavar='SECONDS',
            help='Time between the two sightings, and the minimum age (default: 900).',
        ),
        argument(
            '--known',
            metavar='FILE',
            help='File with the ids or build keys of the needed amphorae, one per line; read '
            'again for each sighting.',
        ),
        flag('--errors', 'Count amphorae in ERROR as orphans, too.'),
        argument(
            '--state',
            metavar='FILE',
            help='Keep the sightings in this file and look only once, for runs by cron.',
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        with self.app.open_backend() as compute:
            suspects = self._sightings(compute, parsed_args)
            failures, verdicts = [], []
            for suspect in suspects:
                try:
                    verdicts.append(self._verdict(compute, suspect, parsed_args))
                except AmphoraComputeError as exc:
                    failures.append(exc)
                    verdicts.append('failed')
        self.settle(failures, len(suspects))
        rows = [
            {
                'kind': one.kind,
                'id': one.id,
                'name': one.name,
                'age': age(one.age_s()),
                'reason': one.reason,
                'sightings': one.sightings,
                'first_seen': moment(one.first_seen),
                'verdict': verdict,
            }
            for one, verdict in zip(suspects, verdicts, strict=True)
        ]
        return table(_COLUMNS, rows)

    def _sightings(self, compute: Compute, args: argparse.Namespace) -> list[Suspect]:
        owner = compute.driver.owner
        rules = self._rules(args, compute)
        if args.state:
            path, about = Path(args.state), {'backend': compute.name, 'owner': owner}
            found = find_orphans(poll_amphorae(compute, owner), rules, _earlier(path, about))
            # Saved before the deletion, so that the next run retries what fails now.
            _keep(path, about, found)
            return found
        first = find_orphans(poll_amphorae(compute, owner), rules)
        if not first:
            return []
        self.app.say(f'{len(first)} suspects; looking again after {age(args.grace)}.')
        compute.driver.clock.sleep(args.grace * _LONGER)
        return find_orphans(poll_amphorae(compute, owner), self._rules(args, compute), first)

    def _verdict(self, compute: Compute, suspect: Suspect, args: argparse.Namespace) -> str:
        if not suspect.confirmed(args.grace):
            return 'suspect'
        rules = self._rules(args, compute)
        if args.delete:
            return 'deleted' if remove(compute, suspect, rules) else 'spared'
        return 'orphan' if is_orphan(compute, suspect, rules) else 'spared'

    def _rules(self, args: argparse.Namespace, compute: Compute) -> Rules:
        known = None
        if args.known:
            try:
                text = read_file(args.known, _MAX_FILE).decode()
            except UnicodeDecodeError as exc:
                raise UsageError(f'Cannot read {args.known}: it is not a text file.') from exc
            known = frozenset(line.strip() for line in text.splitlines() if line.strip())
        return Rules(
            owner=compute.driver.owner,
            grace_s=args.grace,
            known=known,
            errors=args.errors,
            **belongings(self.app.settings, compute.name),
        )
