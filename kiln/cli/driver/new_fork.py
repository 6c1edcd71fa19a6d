"""The commands ``kiln driver new`` and ``kiln driver fork``, which write drivers."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from kiln.cli.arguments import Adder, argument, flag
from kiln.cli.base import KilnLister, Rows
from kiln.cli.driver.lookup import DRIVER, KIND, KINDS, class_of_cluster, cluster_record
from kiln.cli.driver.scaffold.skeletons import (
    Base,
    Form,
    fork_cluster_driver,
    fork_templates,
    new_cluster_driver,
    new_compute_driver,
)
from kiln.cli.exit_codes import UsageError
from kiln.models import AmphoraType


def _output(what: str) -> Adder:
    return argument(
        '--output',
        metavar='DIR',
        default='.',
        help=f'Directory to write {what} to (default: the current directory).',
    )


class New(KilnLister):
    """Write the skeleton of a new driver; it works and its tests pass unchanged."""

    arguments = (
        argument('kind', choices=KINDS, help='Kind of driver.'),
        argument('name', metavar='NAME', help='Name of the driver, such as acme or acme_v1.'),
        argument(
            '--type',
            choices=[kind.value for kind in AmphoraType],
            default='vm',
            help='Kind of machine that a compute driver builds (default: vm).',
        ),
        argument(
            '--form',
            choices=[form.value for form in Form],
            default='directory',
            help='Form of a cluster driver: a directory without Python, a directory with '
            'driver.py, or a package with tests (default: directory).',
        ),
        argument(
            '--base',
            choices=[base.value for base in Base],
            default='nodes',
            help="What builds the clusters of a cluster driver: kiln's engine from templates, or "
            'a program of the driver (default: nodes).',
        ),
        _output('the driver'),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        name, target = parsed_args.name, Path(parsed_args.output)
        if parsed_args.kind == 'compute':
            files = _written(lambda: new_compute_driver(name, parsed_args.type, target), target)
        else:
            form, base = parsed_args.form, parsed_args.base
            files = _written(lambda: new_cluster_driver(name, form, target, base=base), target)
        readme = next(path for path in files if path.name == 'README.rst')
        verb = 'works' if parsed_args.kind == 'cluster' else 'installs'
        self.app.say(f'It {verb}, and its tests pass unchanged; {readme} lists the next steps.')
        return ('file',), [[str(path)] for path in files]


class Fork(KilnLister):
    """Copy a cluster driver under a new name, as the start of your own.

    Write the copy to a directory on driver_path, for example. With --templates only the
    templates are copied, as replacements of the driver's own.
    """

    arguments = (
        DRIVER,
        KIND,
        argument('name', metavar='NEWNAME', help='Name of the copy.'),
        argument(
            '--new-version',
            default='1.0.0',
            metavar='VERSION',
            help='Version of the copy (default: 1.0.0).',
        ),
        flag('--templates', 'Copy only the templates.'),
        _output('the copy'),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        from kiln.cluster_drivers.discovery.guide import home_of

        if parsed_args.kind == 'compute':
            raise UsageError('Cannot fork a compute driver: see kiln driver new compute.')
        record = cluster_record(self.app.settings, parsed_args.driver)
        home = home_of(class_of_cluster(self.app.settings, record))
        name, target = parsed_args.name, Path(parsed_args.output)
        if parsed_args.templates:
            files = _written(lambda: fork_templates(home, name, target), target)
        else:
            files = _written(
                lambda: fork_cluster_driver(home, name, target, version=parsed_args.new_version),
                target,
            )
            self.app.say(f'To use driver {name}, add {target} to driver_path.')
        return ('file',), [[str(path)] for path in files]


def _written(write: Callable[[], list[Path]], target: Path) -> list[Path]:
    if not target.is_dir():
        raise UsageError(f'Cannot write to {target}: it is not a directory. Create it first.')
    try:
        return write()
    except OSError as exc:
        raise UsageError(f'Cannot write to {target}: {exc.strerror}.') from exc
