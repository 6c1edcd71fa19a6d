"""The command line: ``python -m tools.freshroot COMMAND``."""

import argparse
import os
import pathlib
import signal
import sys
import time
from collections.abc import Sequence

from tools.command import folder, stopwatch

from . import checkout, roots
from .cases import CASES
from .errors import FreshrootError
from .namespaces import FAILED
from .place import Place, default_home
from .session import SETUP, Order, run

_REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
_ALL = 'all'


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    result = argparse.ArgumentParser(
        prog='freshroot', description='Runs a command as on a fresh Debian machine.'
    )
    result.add_argument(
        '--home', type=folder, default=default_home(), help='its cache (KILN_ROOTS_HOME)'
    )
    commands = result.add_subparsers(dest='command', required=True)
    _add_run(commands.add_parser('run', help='run a command in a checkout in a fresh root'))
    commands.add_parser('cases', help='list the ways in')
    commands.add_parser('clean', help='forget the cached roots')
    return result


def _add_run(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        '--suite', choices=[*roots.SUITES, _ALL], default='bookworm', help='bookworm'
    )
    command.add_argument('--case', choices=[*CASES, _ALL], default='clone', help='clone')
    command.add_argument(
        '--setup',
        default='',
        metavar='COMMAND',
        help=f'run first, with a network (in the case offline: {SETUP})',
    )
    command.add_argument(
        '--env',
        dest='environment',
        type=_variable,
        action='append',
        default=[],
        metavar='NAME=VALUE',
    )
    command.add_argument(
        '--bring-out',
        nargs=2,
        action='append',
        default=[],
        metavar=('PATTERN', 'DIR'),
        help='copy files of the checkout here when the command has ended',
    )
    command.add_argument('words', nargs='+', metavar='COMMAND', help='after --')


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition('=')
    if not name or not equals:
        raise argparse.ArgumentTypeError(f'{text!r} is not NAME=VALUE')
    return name, value


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit status."""
    options = parser().parse_args(arguments)
    try:
        place = Place(options.home)
        match options.command:
            case 'cases':
                for case in CASES.values():
                    print(f'{case.name:10}{case.about}')
            case 'clean':
                roots.clean(place)
            case 'run':
                return _run(place, options)
    except FreshrootError as error:
        print(f'freshroot: {error}', file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 0


def _run(place: Place, options: argparse.Namespace) -> int:
    if os.geteuid() != 0:
        raise FreshrootError('run it as root: it makes namespaces, mounts and users')
    # The clean-up must run then, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if changed := checkout.changed_files(_REPOSITORY):
        print(f'freshroot: HEAD is run; {changed} changed files stay out', file=sys.stderr)
    orders = _orders(options)
    if len(orders) == 1:
        return run(place, orders[0], stopwatch())
    return _run_each(place, orders)


def _orders(options: argparse.Namespace) -> list[Order]:
    suites = list(roots.SUITES) if options.suite == _ALL else [options.suite]
    cases = list(CASES.values()) if options.case == _ALL else [CASES[options.case]]
    return [
        Order(
            suite=suite,
            case=case,
            command=options.words,
            repository=_REPOSITORY,
            setup=options.setup,
            environment=dict(options.environment),
            bring_out=[(pattern, folder(target)) for pattern, target in options.bring_out],
        )
        for suite in suites
        for case in cases
    ]


def _run_each(place: Place, orders: Sequence[Order]) -> int:
    """Run all combinations in sequence, even after failures; end with a table."""
    rows = []
    failed = False
    for order in orders:
        began = time.monotonic()
        result = run(place, order, stopwatch())
        failed |= result != 0
        said = 'passed' if result == 0 else f'failed with {result}'
        took = time.monotonic() - began
        rows.append(f'{order.suite:10}{order.case.name:10}{took:6.0f} s  {said}')
    print('\n'.join(rows))
    return int(failed)
