"""The commands ``kiln driver explain`` and ``kiln driver lint``."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kiln.cli.arguments import TEXT_FORMAT, argument, pair, repeated
from kiln.cli.base import KilnCommand
from kiln.cli.driver.lookup import catalogue_of, with_its_code
from kiln.cli.exit_codes import ExitCode, UsageError, code_of
from kiln.clusters.exceptions import DriverSelectionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kiln.cluster_drivers.discovery.discovery import Catalogue
    from kiln.cluster_drivers.selection.request import Image, Request
    from kiln.cluster_drivers.selection.selection import Decision
    from kiln.clusters.exceptions import Problem


class Explain(KilnCommand):
    """Explain step by step which cluster driver a cluster would get; create nothing.

    The exit status is 2 if no driver can be chosen.
    """

    arguments = (
        argument('--driver', metavar='NAME', help='Requested driver: NAME, NAME==1.2.*.'),
        argument('--coe', help='What the cluster runs, such as kubernetes.'),
        argument('--server-type', metavar='TYPE', help='What it runs on (default: vm).'),
        argument('--template', metavar='NAME', help='A template in the store.'),
        argument(
            '--image',
            metavar='ID',
            help='An image of the backend; its properties are read from there.',
        ),
        repeated(
            '--property',
            'KEY=VALUE',
            'A property of the image, such as kiln_distro=ubuntu, instead of those in '
            'the backend; repeatable.',
            type=pair,
        ),
        TEXT_FORMAT,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        from kiln.cluster_drivers.selection.matching import preferences_of
        from kiln.cluster_drivers.selection.request import Request
        from kiln.cluster_drivers.selection.selection import explain, resolve

        asked = Request(
            driver=parsed_args.driver, coe=parsed_args.coe, server_type=parsed_args.server_type
        )
        catalogue = catalogue_of(self.app.settings)
        outcome: Any
        try:
            outcome = resolve(
                asked,
                records=catalogue.records,
                template=self._template(parsed_args.template),
                image=self._image(parsed_args),
                preferences=preferences_of(self.app.settings.clusters),
            )
            _open(catalogue, outcome)
            data = outcome.to_dict()
        except DriverSelectionError as exc:
            outcome = exc
            data = {'error': exc.code, 'message': str(exc), 'steps': list(exc.steps)}
            self.status = code_of(exc)
        self.write_as(parsed_args.formatter, text='\n'.join(explain(outcome)), data=data)

    def _image(self, args: argparse.Namespace) -> Image | None:
        from kiln.cluster_drivers.selection.request import Image

        if args.property:
            return Image(id=args.image or 'of the command line', properties=dict(args.property))
        if not args.image:
            return None
        with self.app.open_backend() as compute:
            facts = compute.describe_image(args.image).result()
        return Image(id=facts.id, name=facts.name, properties=facts.properties)

    def _template(self, name: str | None) -> Request:
        from kiln.cli.site.stores import configured_store
        from kiln.cluster_drivers.selection.request import Request

        if name is None:
            return Request()
        with configured_store(self.app.settings, report=self.app.say) as store:
            found = store.templates.get(name)
        kind = found.machine.server_type
        return Request(driver=found.driver, coe=found.coe, server_type=kind and kind.value)


def _open(catalogue: Catalogue, decision: Decision) -> None:
    """Return if the chosen driver can be opened, as creating the cluster would do.

    :raises ClusterDriverUnusable: it is broken, or an extra is missing.
    """
    from kiln.cluster_drivers.records import DriverState
    from kiln.cluster_drivers.selection.selection import pin_of
    from kiln.clusters.exceptions import ClusterDriverUnusable

    chosen = next(one for one in catalogue.records if pin_of(one) == decision.pin)
    opened = with_its_code(catalogue, chosen)
    if opened.state is DriverState.BROKEN:
        named = f'Cluster driver {opened.name}'
        # An error of its code names the driver.
        lead = '' if opened.reason.startswith('Cluster driver ') else f'{named} cannot be used: '
        error = ClusterDriverUnusable(f'{lead}{opened.reason}')
        error.steps, error.install = decision.steps, opened.install
        raise error


def _unmistaken(folder: Path, unchecked: Sequence[Problem]) -> str:
    return '\n'.join([*map(str, unchecked), f'{folder}: no mistakes.'])


class Lint(KilnCommand):
    """Report all mistakes in the folder of a cluster driver, each with its place.

    The exit status is 1 if there are mistakes. Templates whose places kiln does not check are
    reported, too, without such a status.
    """

    arguments = (argument('path', metavar='PATH', help='The folder.'), TEXT_FORMAT)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        from kiln.cluster_drivers.discovery.lint import mistakes_in, unchecked_in

        folder = Path(parsed_args.path)
        if not parsed_args.path or not folder.is_dir():
            raise UsageError(f'Cannot lint {parsed_args.path!r}: it is not a directory.')
        found = mistakes_in(folder)
        self.write_as(
            parsed_args.formatter,
            text='\n'.join(map(str, found)) or _unmistaken(folder, unchecked_in(folder)),
            data=[dataclasses.asdict(one) for one in found],
        )
        self.status = ExitCode.UNFORESEEN if found else ExitCode.OK
