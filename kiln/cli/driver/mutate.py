"""The command ``kiln driver mutate``, which judges the conformance kit by wrong drivers."""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kiln.cli.arguments import TEXT_FORMAT, argument, flag, repeated, seconds, whole
from kiln.cli.base import KilnCommand
from kiln.cli.driver.lookup import KIND, cluster_reference, is_cluster
from kiln.cli.exit_codes import ExitCode, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kiln.testing.mutants.mutants import Mutant
    from kiln.testing.mutants.subject import Subject
    from kiln.testing.mutants.verdicts import Survivor
    from kiln.testing.mutants.workers import Progress

#: Seconds in which a promise must come true, in real time and on a virtual clock.
_REAL_S, _VIRTUAL_S = 10.0, 120.0


def _percentage(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 100:
        raise argparse.ArgumentTypeError(f'{text!r} is not a number from 0 to 100')
    return number


_CHOICE = (
    repeated('--module', 'PATTERN', 'Change only modules or files of this name, with wildcards.'),
    repeated('--skip', 'PATTERN', 'Do not change modules or files of this name, with wildcards.'),
    repeated(
        '--operator', 'NAME', 'Make only this mistake, with wildcards (default: every mistake).'
    ),
    argument('--sample', type=whole, metavar='N', help='Judge only N mutants, drawn at random.'),
    argument('--seed', type=int, default=0, metavar='N', help='Seed of the sample (default: 0).'),
    flag('--list', 'Print the mutants, and judge none.'),
)
_JUDGEMENT = (
    repeated(
        '--suite',
        'MODULE[:CLASS]',
        'Test class to judge by, such as tests.test_conformance:AcmeConformance, or a module or '
        'package, for all test classes in it; can be repeated. Without one, a compute driver is '
        'opened as configured, with its bench, and a cluster driver is judged by all but the '
        'kills of processes.',
    ),
    flag('--virtual-time', 'Advance a virtual clock instead of waiting, without --suite.'),
    argument(
        '--timeout',
        type=seconds,
        metavar='SECONDS',
        help='Time within which a change must take effect, without --suite '
        f'(default: {_REAL_S:g}, or {_VIRTUAL_S:g} on a virtual clock).',
    ),
    argument(
        '--time-limit',
        type=seconds,
        metavar='SECONDS',
        help='Time limit of each mutant; one that takes longer counts as caught (default: a '
        'few times as long as the driver itself takes).',
    ),
    argument(
        '--jobs',
        type=whole,
        default=len(os.sched_getaffinity(0)),
        metavar='N',
        help='Number of mutants judged side by side (default: one for each processor).',
    ),
    argument(
        '--survivors',
        metavar='FILE',
        help='YAML file of known survivors, each with the reason why it is equivalent, or what '
        'is missing in the kit.',
    ),
    argument(
        '--least',
        type=_percentage,
        default=95.0,
        metavar='PERCENT',
        help='Share of the mutants that are not equivalent that must be caught (default: 95).',
    ),
)


class Mutate(KilnCommand):
    """Make wrong copies of a driver, and report which of them pass its tests.

    Each copy has one mistake that authors make, in the code, a template or the manifest.
    Copies are made in memory and in temporary folders, but they are as dangerous as any
    wrong driver: never run them against a backend with machines that matter. The exit
    status is 1 if a copy passes for no known reason, or if too few are caught.
    """

    arguments = (
        argument(
            'name',
            metavar='NAME',
            help='A configured backend, a driver, MODULE:CLASS, or the folder of a cluster '
            'driver written as a path. It must pass the tests itself.',
        ),
        KIND,
        *_CHOICE,
        *_JUDGEMENT,
        TEXT_FORMAT,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        # Imported here, because only developers need the kit.
        from kiln.testing.mutants.report import MutationReport
        from kiln.testing.mutants.workers import judge_all

        args = parsed_args
        known = _known(args.survivors)
        subject = self._subject(args)
        subject.load()
        mutants = _mutants(args, subject)
        chosen = _sample(mutants, args.sample, args.seed)
        if args.list:
            self._print(args, chosen)
            return
        self.app.say(f'Judging {len(chosen)} of {len(mutants)} mutants; this takes a while.')
        started = time.monotonic()
        verdicts = judge_all(
            subject,
            chosen,
            jobs=args.jobs,
            limit_s=args.time_limit,
            progress=self._progress(),
        )
        report = MutationReport(
            driver=args.name,
            judged=list(zip(chosen, verdicts, strict=True)),
            known=known,
            keys=frozenset(one.key for one in mutants),
            least=args.least,
            seconds=time.monotonic() - started,
        )
        self.write_as(args.formatter, text=report.render(), data=report.to_dict())
        self.status = ExitCode.OK if report.ok else ExitCode.UNFORESEEN

    def _subject(self, args: argparse.Namespace) -> Subject:
        if _names_cluster(args.name) if ':' in args.name else is_cluster(self.app, args):
            return self._cluster(args)
        from kiln.testing.mutants.compute_subject import ComputeSubject

        files, folders = self.app.options.config_file, self.app.options.config_dir
        return ComputeSubject(
            name=args.name,
            suites=tuple(args.suite),
            config_files=None if files is None else tuple(files),
            config_dirs=None if folders is None else tuple(folders),
            virtual_time=args.virtual_time,
            timeout_s=args.timeout or (_VIRTUAL_S if args.virtual_time else _REAL_S),
        )

    def _cluster(self, args: argparse.Namespace) -> Subject:
        from kiln.testing.mutants.cluster_subject import ClusterSubject

        reference = args.name
        if ':' not in reference:
            reference = cluster_reference(self.app.settings, reference)
        return ClusterSubject.find(reference, suites=tuple(args.suite))

    def _progress(self) -> Progress | None:
        if not self.app.stderr.isatty():
            return None

        def progress(_: object, verdict: object) -> None:
            self.app.stderr.write('.' if getattr(verdict, 'caught', False) else 'S')
            self.app.stderr.flush()

        return progress

    def _print(self, args: argparse.Namespace, mutants: Sequence[Mutant]) -> None:
        lines = [f'{one.place}, line {one.line}: {one.operator}: {one.change}' for one in mutants]
        data = [
            {'place': one.place, 'line': one.line, 'operator': one.operator, 'change': one.change}
            for one in mutants
        ]
        self.write_as(args.formatter, text='\n'.join(lines), data=data)


def _known(path: str | None) -> Mapping[tuple[str, str, str], Survivor]:
    if path is None:
        return {}
    # It needs an extra of kiln, for YAML.
    from kiln.testing.mutants.survivors import read_survivors

    return read_survivors(Path(path))


def _names_cluster(path: str) -> bool:
    """Return True if MODULE:CLASS is a cluster driver."""
    from kiln.cluster_drivers.base import ClusterDriver
    from kiln.testing.mutants.subject import resolved

    found = resolved(path)
    return isinstance(found, type) and issubclass(found, ClusterDriver)


def _mutants(args: argparse.Namespace, subject: Subject) -> list[Mutant]:
    operators = [name for name in subject.operators if _fits(name, args.operator or ['*'])]
    if not operators:
        raise UsageError(
            f'Cannot find operator {" or ".join(args.operator)}: choose from '
            f'{", ".join(subject.operators)}.'
        )
    modules = subject.modules()
    chosen = [
        one for one in modules if _fits(one, args.module or ['*']) and not _fits(one, args.skip)
    ]
    if not chosen:
        raise UsageError(f'Cannot find a module to change: {args.name} has {", ".join(modules)}.')
    return [mutant for one in chosen for mutant in subject.mutants(one, operators)]


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _sample(mutants: list[Mutant], size: int | None, seed: int) -> list[Mutant]:
    if size is None or size >= len(mutants):
        return mutants

    def lot(mutant: Mutant) -> bytes:
        return hashlib.sha256(f'{seed} {mutant.key}'.encode()).digest()

    # Drawn one by one, so that a change of the driver changes little of the sample.
    drawn = {one.key for one in sorted(mutants, key=lot)[:size]}
    return [one for one in mutants if one.key in drawn]
