"""Set-up of .venv, with progress messages.

python3 -m tools.environment .venv clusters    # kiln, from this tree, with an extra
python3 -m tools.environment .venv -r FILE     # what a file asks for
"""

import pathlib
import subprocess
import sys
from collections.abc import Callable

if sys.version_info < (3, 11):  # noqa: UP036 -- the system's may be older than what kiln runs on
    sys.exit('kiln needs Python 3.11 or newer; name one with PYTHON=...')

from tools.command import stopwatch

PIP = ['-m', 'pip', 'install', '--disable-pip-version-check', '--no-input', '--progress-bar=off']
if not sys.dont_write_bytecode:
    # To compile all modules takes pip a third of its time, and most are never imported.
    # Python compiles those that are, and keeps what it compiled.
    PIP.append('--no-compile')


class SetUpError(Exception):
    """The environment cannot be made."""


def make(folder: pathlib.Path) -> None:
    """Make the environment; remains of an interrupted run are removed."""
    made = subprocess.run(
        [sys.executable, '-m', 'venv', '--clear', str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if made.returncode:
        raise SetUpError(
            f'{made.stdout}Cannot make a virtual environment: apt-get install python3-venv'
        )


def complete(folder: pathlib.Path) -> bool:
    """Return True if pip can install into the environment."""
    # pip comes last.
    return (folder / 'bin' / 'pip').exists()


def has_slow_pip(folder: pathlib.Path) -> bool:
    """Return True if its pip takes twice as long to choose packages as a newer one."""
    found = folder.glob('lib/python*/site-packages/pip-*.dist-info')
    return any(int(one.name.removeprefix('pip-').partition('.')[0]) < 25 for one in found)


def install(folder: pathlib.Path, wanted: list[str], say: Callable[[str], None]) -> None:
    """Install the requirements with pip, and print the number of packages."""
    heard = []
    with subprocess.Popen(
        [str(folder / 'bin' / 'python'), '-u', *PIP, *wanted],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as pip:
        for line in pip.stdout:
            heard.append(line)
            head, colon, names = line.partition('Installing collected packages:')
            if colon and not head:
                say(f'installing {names.count(",") + 1} packages')
    if pip.returncode:
        raise SetUpError(''.join(heard) + 'Cannot install what kiln needs: pip says why, above.')


def main(args: list[str]) -> str | int:
    """Install everything that is missing; return the exit status."""
    folder, asked = pathlib.Path(args[0]), args[1:]
    say = stopwatch()
    try:
        if not complete(folder):
            say(f'making {folder} with Python {sys.version.split()[0]}')
            make(folder)
        if has_slow_pip(folder):
            say('fetching a faster pip')
            install(folder, ['--upgrade', 'pip'], lambda _: None)
        if asked[0] == '-r':
            say(f'fetching what {asked[1]} asks for')
            install(folder, asked, say)
        else:
            say(f'fetching what kiln needs for: {", ".join(asked)}')
            install(folder, ['-e', f'.[{",".join(asked)}]'], say)
    except SetUpError as exc:
        return str(exc)
    say(f'{folder} is ready')
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
