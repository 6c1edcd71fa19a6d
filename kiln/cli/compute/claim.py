"""The command ``kiln compute claim``."""

from __future__ import annotations

import argparse

from kiln.cli.arguments import TIMEOUT, argument
from kiln.cli.base import KilnShow, Rows
from kiln.cli.output.views import amphora_fields, fields
from kiln.exceptions import InstanceNotFoundError


class Claim(KilnShow):
    """Make a machine that belongs to nobody an amphora of this site, and show it.

    The machine itself stays as it is: it keeps running, with its name and its ports. A
    claim that was interrupted can be repeated with the same key.
    """

    arguments = (
        argument(
            'id',
            metavar='ID',
            help='Id of the machine in its backend; the name of a machine of nobody is not known.',
        ),
        argument(
            '--build-key',
            metavar='KEY',
            required=True,
            help='Your own key for the machine, by which it is found as if built with it.',
        ),
        TIMEOUT,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        with self.app.open_backend() as compute:
            given = {'amphora_id': parsed_args.id, 'timeout': parsed_args.timeout}
            try:
                compute.claim(build_key=parsed_args.build_key, **given).result()
            except InstanceNotFoundError as exc:
                exc.args = (f'{exc} A claim takes the id of the machine, not its name.',)
                raise
            found = compute.get_amphora(**given).result()
            return fields(amphora_fields(found, self.app.clock.time()))
