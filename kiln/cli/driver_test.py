"""The command that judges a driver of either kind by its conformance kit."""

from __future__ import annotations

import argparse
import inspect
import os
from pathlib import Path
from typing import TYPE_CHECKING

from kiln.cli.base import (
    TEXT_FORMAT,
    KilnCommand,
    argument,
    json_or_text,
    pair,
    seconds,
    whole,
)
from kiln.cli.driver import KIND
from kiln.cli.drivers import catalogue_of, cluster_record
from kiln.cli.exit_codes import ExitCode, UsageError
from kiln.cluster_exceptions import ClusterDriverUnknown
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.exceptions import DriverNotFound
from kiln.wrappers.base import DriverWrapper

if TYPE_CHECKING:
    from collections.abc import Callable

    from kiln.compute import Compute
    from kiln.testing.conformance import BehaviourResult, ConformanceReport

    Progress = Callable[[BehaviourResult], None] | None


def _add_compute(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group('compute drivers').add_argument
    add('--guarded', action='store_true', help='Judge it behind all of its guards.')
    add(
        '--build',
        action='append',
        type=pair,
        default=[],
        metavar='ARGUMENT=VALUE',
        help='What each build needs here, such as amphora_flavor=small or '
        'network_ids=NET1,NET2; may be repeated.',
    )
    add('--port', action='append', default=[], metavar='ID', help='A port to try with.')
    add('--network', action='append', default=[], metavar='ID', help='A network to try with.')
    add(
        '--timeout',
        type=seconds,
        default=600.0,
        metavar='SECONDS',
        help='Seconds within which a change must have its effect (default: 600).',
    )


def _add_cluster(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group('cluster drivers').add_argument
    add(
        '--parameter',
        action='append',
        type=pair,
        default=[],
        metavar='NAME=VALUE',
        help='A parameter for which no value that fits its declaration will do, as JSON or '
        'as text; may be repeated.',
    )
    add(
        '--thorough',
        action='store_true',
        help='Kill the process at work at each commit of each operation, not at some.',
    )
    add(
        '--crashes',
        type=whole,
        metavar='COUNT',
        help='How many processes die at random moments beside that (default: a few).',
    )


class Test(KilnCommand):
    """Judge a driver by every promise of its contract.

    A compute driver builds and deletes amphorae in its backend; only what this run
    built is touched, and all of it is deleted again. A cluster driver is given a
    simulated cloud, and the processes that work with it are killed.
    """

    arguments = (
        argument(
            'name',
            metavar='NAME_OR_PATH',
            help='A backend of the configuration, a driver, or the folder of a cluster driver, '
            'written as a path: ./acme_v1 is a folder, and acme_v1 never is.',
        ),
        KIND,
        argument(
            '--select',
            action='append',
            metavar='PATTERN',
            help='Only behaviours of this name or subject, with wildcards; may be repeated.',
        ),
        _add_compute,
        _add_cluster,
        TEXT_FORMAT,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        def progress(result: BehaviourResult) -> None:
            self.app.stderr.write({'passed': '.', 'failed': 'F'}.get(result.outcome.value, '-'))
            self.app.stderr.flush()

        live = parsed_args.formatter == 'text' and self.app.stderr.isatty()
        judge = self._cluster if self._is_cluster(parsed_args) else self._compute
        try:
            report = judge(parsed_args, progress if live else None)
        except (DriverNotFound, ClusterDriverUnknown) as exc:
            if _is_path(parsed_args.name) or not Path(parsed_args.name).is_dir():
                raise
            raise type(exc)(f'{exc} To judge the folder, write ./{parsed_args.name}.') from exc
        if live:
            self.app.stderr.write('\n')
        self.write_as(parsed_args.formatter, text=report.render(), data=report.to_dict())
        self.status = ExitCode.OK if report.ok else ExitCode.UNFORESEEN

    def _is_cluster(self, args: argparse.Namespace) -> bool:
        if args.kind is not None:
            return bool(args.kind == 'cluster')
        # A backend of the configuration may be called as anything.
        if args.name in self.app.backends.backends():
            return False
        named = {one.name for one in catalogue_of(self.app.settings).records}
        return _is_path(args.name) or args.name in named

    def _compute(self, args: argparse.Namespace, progress: Progress) -> ConformanceReport:
        # The kit is for developers: nobody else pays for it.
        from kiln.testing.conformance import run_conformance
        from kiln.testing.conformance.run import behaviours

        _check_selection(args, any(behaviours(args.select)))

        def make_driver() -> AmphoraComputeDriver:
            if args.guarded:
                return _Guarded(self.app.backends.open(args.name))
            return self.app.backends.open_driver(args.name)

        return run_conformance(
            make_driver,
            select=args.select,
            build_arguments=_build_arguments(args.build),
            port_ids=args.port,
            network_ids=args.network,
            timeout_s=args.timeout,
            progress=progress,
        )

    def _cluster(self, args: argparse.Namespace, progress: Progress) -> ConformanceReport:
        from kiln.testing.clusters.run import behaviours, run_cluster_conformance

        _check_selection(args, any(behaviours(args.select)))
        return run_cluster_conformance(
            self._reference(args.name),
            select=args.select,
            parameters={name: json_or_text(text) for name, text in args.parameter},
            crashes=args.crashes,
            thorough=args.thorough,
            progress=progress,
        )

    def _reference(self, name: str) -> str:
        """Return what another process, that has no configuration, finds the driver by."""
        if _is_path(name):
            if not Path(name).is_dir():
                raise UsageError(f'Cannot judge {name}: it is no directory.')
            return name
        from kiln.cluster_drivers.selection import pin_of

        catalogue, record = (
            catalogue_of(self.app.settings),
            cluster_record(self.app.settings, name),
        )
        loaded = catalogue.load_pinned(pin_of(record))
        folder, driver_class = loaded.folder, loaded.driver_class
        if folder and any((folder / file).is_file() for file in ('driver.yaml', 'driver.py')):
            return str(folder)
        # A module without a folder of its own; by its name alone, a folder in the current
        # directory would be taken for it.
        return f'{driver_class.__module__}:{driver_class.__qualname__}' if driver_class else name


def _is_path(name: str) -> bool:
    """Whether a driver is named by its folder; what lies in the current one does not count."""
    return name.startswith('.') or os.sep in name


def _check_selection(args: argparse.Namespace, found: bool) -> None:
    if not found:
        raise UsageError(f'Cannot find a behaviour called {" or ".join(args.select)}.')


class _Guarded(DriverWrapper):
    """A whole backend as the driver of one behaviour: closed, it leaves no thread."""

    def __init__(self, compute: Compute) -> None:
        super().__init__(compute.guarded)
        self._compute = compute

    def close(self) -> None:
        """Close the guards with the driver, once what they clean up is gone."""
        self._compute.close()


_LISTS = ('keys', 'sec_groups', 'network_ids', 'port_ids')


def _build_arguments(pairs: list[tuple[str, str]]) -> dict[str, str | list[str]]:
    known = inspect.signature(AmphoraComputeDriver.build).parameters.keys() - {'self'}
    for name, _ in pairs:
        if name not in known:
            raise UsageError(
                f'Cannot build with {name!r}: choose from {", ".join(sorted(known))}.'
            )
    return {name: value.split(',') if name in _LISTS else value for name, value in pairs}
