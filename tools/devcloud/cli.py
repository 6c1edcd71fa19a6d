"""The command line: ``python -m tools.devcloud COMMAND``."""

import argparse
import sys
from collections.abc import Sequence

from tools.command import alone, folder, stopwatch

from .clients import exports
from .cloud import Cloud
from .errors import CloudError, last_lines
from .place import Place, default_home
from .processes import Supervisor
from .services import OPTIONAL
from .settings import Setting
from .status import uses
from .wishes import Wishes

# Exit statuses of `status`.
DEAD, STOPPED = 1, 3


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    result = argparse.ArgumentParser(
        prog='devcloud', description='A real, small OpenStack on loopback.'
    )
    result.add_argument(
        '--home', type=folder, default=default_home(), help='its folder (KILN_CLOUD_HOME)'
    )
    commands = result.add_subparsers(dest='command', required=True)
    _add_up(commands.add_parser('up', help='install, start and fill what is not up yet'))
    down = commands.add_parser('down', help='end all processes, or those named')
    down.add_argument('names', nargs='*', metavar='PROCESS')
    down.add_argument(
        '--wipe', action='store_true', help='forget the data, keep what is installed'
    )
    commands.add_parser('status', help='what runs, and what it uses')
    commands.add_parser('env', help='what a shell evaluates to use the cloud')
    logs = commands.add_parser('logs', help='the end of a log, or the names of all')
    logs.add_argument('name', nargs='?')
    logs.add_argument('-n', '--lines', type=int, default=50)
    commands.add_parser('snapshot', help='keep the present state')
    commands.add_parser('reset', help='return to the state of the snapshot')
    return result


def _add_up(up: argparse.ArgumentParser) -> None:
    names = [kind.name for kind in OPTIONAL]
    up.add_argument('--with', dest='services', type=_services, default=(), metavar=','.join(names))
    up.add_argument('--hosts', type=int, help="Nova's hosts (3)")
    up.add_argument('--port-base', type=int, help='added to every port (10000)')
    up.add_argument(
        '--set',
        dest='settings',
        type=_setting,
        action='append',
        default=[],
        metavar='SERVICE.SECTION.OPTION=VALUE',
    )
    up.add_argument(
        '--octavia-package',
        dest='octavia_packages',
        action='append',
        default=[],
        metavar='PACKAGE',
        help='a driver under test: a folder or a requirement',
    )


def _setting(text: str) -> Setting:
    try:
        return Setting.parse(text)
    except CloudError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _services(text: str) -> tuple[str, ...]:
    known = {kind.name for kind in OPTIONAL}
    names = tuple(name for name in text.split(',') if name)
    if unknown := set(names) - known:
        raise argparse.ArgumentTypeError(
            f'{", ".join(sorted(unknown))}: there are {", ".join(sorted(known))}'
        )
    return names


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit status."""
    options = parser().parse_args(arguments)
    try:
        return _run(options)
    except CloudError as error:
        print(f'devcloud: {error}', file=sys.stderr)
        return 1


def _run(options: argparse.Namespace) -> int:
    say = stopwatch()
    wishes = Wishes.load(options.home / 'wishes.json')
    if options.command == 'up':
        wishes = wishes.and_also(
            options.port_base,
            options.services,
            options.hosts,
            options.settings,
            options.octavia_packages,
        )
    place = Place(options.home, wishes.base_port)
    if options.command in REPORTS:
        return REPORTS[options.command](place, options)
    cloud = Cloud(place, wishes, say)
    with alone(options.home):
        if options.command == 'down' and options.wipe:
            cloud.wipe()
        elif options.command == 'down':
            cloud.down(options.names)
        else:
            {'up': cloud.up, 'snapshot': cloud.snapshot, 'reset': cloud.reset}[options.command]()
    say(f'{options.command}: done')
    return 0


def _status(place: Place, _: argparse.Namespace) -> int:
    found = list(uses(Supervisor(place)))
    if not found:
        print(f'nothing runs at {place.home}')
        return STOPPED
    for use in found:
        print(use)
    print(f'{"total":36} {sum(use.memory_mb for use in found):6.0f} MB')
    return DEAD if any(use.pid is None for use in found) else 0


def _env(place: Place, _: argparse.Namespace) -> int:
    print(exports(place))
    return 0


def _logs(place: Place, options: argparse.Namespace) -> int:
    if options.name is None:
        print('\n'.join(sorted(path.stem for path in place.log.glob('*.log'))))
        return 0
    path = place.log / f'{options.name}.log'
    if not path.exists():
        raise CloudError(f'{path}: no such log')
    print('\n'.join([f'{path}:', *last_lines(path, options.lines)]))
    return 0


REPORTS = {'status': _status, 'env': _env, 'logs': _logs}
