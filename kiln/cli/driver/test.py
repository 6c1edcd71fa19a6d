"""The command ``kiln driver test``, which runs the conformance kits on a driver."""

from __future__ import annotations

import argparse
import contextlib
import inspect
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from kiln.cli.arguments import (
    TEXT_FORMAT,
    argument,
    flag,
    group,
    json_or_text,
    pair,
    repeated,
    seconds,
    whole,
)
from kiln.cli.base import KilnCommand
from kiln.cli.driver.lookup import KIND, cluster_reference, is_cluster, is_path
from kiln.cli.exit_codes import ExitCode, UsageError
from kiln.clusters.exceptions import ClusterDriverUnknown
from kiln.compute.loading import load_compute_driver
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.exceptions import DeleteFailed, DriverNotFound
from kiln.wrappers.base import DriverWrapper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kiln.compute.facade import Compute
    from kiln.testing.conformance import BehaviourResult, ConformanceReport
    from kiln.testing.runner import Behaviour

    Progress = Callable[[BehaviourResult], None] | None


_COMPUTE = group(
    'compute drivers',
    flag('--guarded', 'Test it behind all of its guards.'),
    repeated(
        '--build',
        'ARGUMENT=VALUE',
        'Argument that each build needs, such as amphora_flavor=small or '
        'network_ids=NET1,NET2; can be repeated.',
        type=pair,
    ),
    repeated('--port', 'ID', 'Id of a port for the tests.'),
    repeated('--network', 'ID', 'Id of a network for the tests.'),
    argument(
        '--timeout',
        type=seconds,
        default=0.0,
        metavar='SECONDS',
        help='Time within which a change must take effect (default: timeout_s of the '
        "driver's bench, which is 30 unless it says otherwise).",
    ),
)
_CLUSTER = group(
    'cluster drivers',
    repeated(
        '--parameter',
        'NAME=VALUE',
        'Value of a parameter that needs a certain value, as JSON or as text; can be repeated.',
        type=pair,
    ),
    repeated(
        '--group',
        'ROLE=COUNT',
        'Nodes of a role, for a driver that needs certain ones; can be repeated, and the last '
        'group grows and shrinks (default: three of control and three of worker).',
        type=pair,
    ),
    flag(
        '--thorough',
        'Kill the working process at every commit and call of each operation, not only at '
        'three; takes several times as long.',
    ),
    argument(
        '--crashes',
        type=whole,
        metavar='COUNT',
        help='Number of processes to kill at random moments in addition (default: a few).',
    ),
)


#: The logger of the guards about a build that they could not clean up.
_GUARDS = 'kiln.wrappers.executor.executor'
#: By the verdict of the report.
_STATUS = {
    'passed': ExitCode.OK,
    'failed': ExitCode.UNFORESEEN,
    'not_shown': ExitCode.PARTIAL,
}


class Test(KilnCommand):
    """Test a driver against every promise of its contract.

    A compute driver builds and deletes amphorae in its backend; the test touches only
    what it built, and deletes all of it again. A cluster driver runs on a simulated
    cloud, and the processes that work with it are killed; one with an engine of its own runs
    in the engine that its bench opens. The exit status is 1 if a behaviour failed, and 9 if
    most of them could not be shown.
    """

    arguments = (
        argument(
            'name',
            metavar='NAME_OR_PATH',
            help='A configured backend, a driver, or the folder of a cluster driver written as '
            'a path: ./acme_v1 is a folder, acme_v1 is not.',
        ),
        KIND,
        argument(
            '--select',
            action='append',
            metavar='PATTERN',
            help='Only behaviours with this name or subject, with wildcards; can be repeated.',
        ),
        flag('--list', 'Only list the behaviours by subject, in the words that --select takes.'),
        _COMPUTE,
        _CLUSTER,
        TEXT_FORMAT,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        def progress(result: BehaviourResult) -> None:
            self.app.stderr.write({'passed': '.', 'failed': 'F'}.get(result.outcome.value, '-'))
            self.app.stderr.flush()

        live = parsed_args.formatter == 'text' and self.app.stderr.isatty()
        of_cluster = is_cluster(self.app, parsed_args)
        if parsed_args.list:
            self._list(parsed_args, of_cluster)
            return
        judge = self._cluster if of_cluster else self._compute
        try:
            report = judge(parsed_args, progress if live else None)
        except KeyboardInterrupt as exc:
            # What has ended by now is known, and it names the behaviour that hangs.
            if (known := getattr(exc, 'report', None)) is not None:
                self._write(parsed_args, known, live)
            raise
        except (DriverNotFound, ClusterDriverUnknown) as exc:
            if is_path(parsed_args.name) or not Path(parsed_args.name).is_dir():
                raise
            raise type(exc)(f'{exc} To test the folder, write ./{parsed_args.name}.') from exc
        self._write(parsed_args, report, live)
        self.status = _STATUS[report.verdict.value]

    def _write(self, args: argparse.Namespace, report: ConformanceReport, live: bool) -> None:
        if live:
            self.app.stderr.write('\n')
        self.write_as(args.formatter, text=report.render(), data=report.to_dict())

    def _list(self, args: argparse.Namespace, of_cluster: bool) -> None:
        subjects: dict[str, list[str]] = {}
        for _, subject, name in self._behaviours(args, of_cluster):
            subjects.setdefault(subject, []).append(name.removeprefix('test_').replace('_', ' '))
        _check_selection(args, bool(subjects))
        lines = [
            line
            for subject, names in subjects.items()
            for line in (subject, *(f'  {name}' for name in names))
        ]
        data = [{'subject': one, 'behaviours': names} for one, names in subjects.items()]
        self.write_as(args.formatter, text='\n'.join(lines), data=data)

    def _behaviours(self, args: argparse.Namespace, of_cluster: bool) -> Iterable[Behaviour]:
        if of_cluster:
            from kiln.testing.clusters import suite as clusters
            from kiln.testing.clusters.subjects import find_driver

            driver_class = find_driver(cluster_reference(self.app.settings, args.name))
            return clusters.behaviours(args.select, driver_class)
        # Without SQLAlchemy, which someone who writes a compute driver does not need.
        from kiln.testing.conformance import suite as compute

        self._find(args.name)
        return compute.behaviours(args.select)

    def _find(self, name: str) -> None:
        """Raise DriverNotFound unless a name is that of a backend or of a compute driver."""
        configured = self.app.backends.backends()
        if name in configured:
            return
        try:
            load_compute_driver(name)
        except DriverNotFound as exc:
            raise DriverNotFound(
                f'Backend {name!r} is not configured. Configured: '
                f'{", ".join(sorted(configured)) or "none"}. {exc}'
            ) from exc

    def _compute(self, args: argparse.Namespace, progress: Progress) -> ConformanceReport:
        # Imported here, because only developers need the kit.
        from kiln.testing.conformance import run_conformance
        from kiln.testing.conformance.suite import behaviours

        _check_selection(args, any(behaviours(args.select)))

        def make_driver() -> AmphoraComputeDriver:
            if args.guarded:
                return _Guarded(self.app.backends.open(args.name))
            return self.app.backends.open_driver(args.name)

        with without_provoked_complaints():
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
        from kiln.testing.clusters.suite import behaviours, run_cluster_conformance

        _check_selection(args, any(behaviours(args.select)))
        return run_cluster_conformance(
            cluster_reference(self.app.settings, args.name),
            select=args.select,
            parameters={name: json_or_text(text) for name, text in args.parameter},
            groups=_counts(args.group),
            crashes=args.crashes,
            thorough=args.thorough,
            progress=progress,
        )


@contextlib.contextmanager
def without_provoked_complaints() -> Iterator[None]:
    """Leave out of the log what the faults of the kit provoke in the guards.

    Guards report a build that they could not clean up because of an outage. The kit removes it,
    or reports that it could not.
    """
    logger = logging.getLogger(_GUARDS)
    logger.addFilter(_is_unprovoked)
    try:
        yield
    finally:
        logger.removeFilter(_is_unprovoked)


def _is_unprovoked(record: logging.LogRecord) -> bool:
    args = record.args
    return not (isinstance(args, tuple) and args and isinstance(args[0], DeleteFailed))


def _check_selection(args: argparse.Namespace, found: bool) -> None:
    if not found:
        raise UsageError(
            f'Cannot find a behaviour called {" or ".join(args.select)}. --list names them all.'
        )


class _Guarded(DriverWrapper):
    """A whole backend as the driver of one behaviour; leaves no thread once closed."""

    def __init__(self, compute: Compute) -> None:
        super().__init__(compute.guarded)
        self._compute = compute

    def close(self) -> None:
        """Close the driver and its guards, once their clean-up is done."""
        self._compute.close()


_LISTS = ('keys', 'sec_groups', 'network_ids', 'port_ids')


def _counts(pairs: list[tuple[str, str]]) -> dict[str, int]:
    for role, text in pairs:
        if not text.isdecimal():
            raise UsageError(f'Cannot test with {role}={text}: {text!r} is not a count.')
    return {role: int(text) for role, text in pairs}


def _build_arguments(pairs: list[tuple[str, str]]) -> dict[str, str | list[str]]:
    known = inspect.signature(AmphoraComputeDriver.build).parameters.keys() - {'self'}
    for name, _ in pairs:
        if name not in known:
            raise UsageError(
                f'Cannot build with {name!r}: choose from {", ".join(sorted(known))}.'
            )
    return {name: value.split(',') if name in _LISTS else value for name, value in pairs}
