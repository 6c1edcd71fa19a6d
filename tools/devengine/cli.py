"""The command line: ``python -m tools.devengine COMMAND``."""

import argparse
import sys
from collections.abc import Sequence

from tools.command import alone, folder, stopwatch

from .engine import Engine
from .errors import EngineError
from .place import Place, default_home

#: Exit status of `status` where nothing runs.
STOPPED = 3


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    result = argparse.ArgumentParser(
        prog='devengine', description="A real Docker Engine, or Podman, of one's own."
    )
    result.add_argument(
        '--home', type=folder, default=default_home(), help='its folder (KILN_ENGINE_HOME)'
    )
    commands = result.add_subparsers(dest='command', required=True)
    up = commands.add_parser('up', help='install and start what is not up yet')
    down = commands.add_parser('down', help='end it and its containers')
    down.add_argument('--wipe', action='store_true', help='forget images and volumes too')
    status = commands.add_parser('status', help='whether it runs, and which process it is')
    env = commands.add_parser('env', help='what a shell evaluates to use it')
    for command in (up, down, status, env):
        command.add_argument(
            '--podman', dest='kind', action='store_const', const='podman', default='docker'
        )
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit status."""
    options = parser().parse_args(arguments)
    try:
        return _run(options)
    except EngineError as error:
        print(f'devengine: {error}', file=sys.stderr)
        return 1


def _run(options: argparse.Namespace) -> int:
    place = Place(options.home, options.kind)
    engine = Engine(place, stopwatch())
    match options.command:
        case 'env':
            print(f'export DOCKER_HOST={place.url}')
        case 'status':
            return _status(engine)
        case 'up':
            with alone(options.home):
                engine.up()
        case 'down':
            with alone(options.home):
                engine.down(wipe=options.wipe)
    return 0


def _status(engine: Engine) -> int:
    running = engine.running()
    if running is None:
        print(f'nothing runs at {engine.place.root}')
        return STOPPED
    well = engine.answers()
    said = 'serves' if well else 'does not answer at'
    print(f'{engine.place.kind} {engine.engine_pid()} {said} {engine.place.url}')
    return 0 if well else 1
