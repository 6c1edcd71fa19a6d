"""Helpers shared by the command lines of the tools."""

import contextlib
import fcntl
import os
import pathlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping


def default_home(
    variable: str, name: str, environ: Mapping[str, str] = os.environ, *, cached: bool = False
) -> pathlib.Path:
    """Return the folder that a variable names, or one in the user's state or cache."""
    kind, usual = ('CACHE', '~/.cache') if cached else ('STATE', '~/.local/state')
    among = environ.get(f'XDG_{kind}_HOME') or os.path.expanduser(usual)
    return pathlib.Path(environ.get(variable) or f'{among}/{name}').absolute()


def folder(text: str) -> pathlib.Path:
    """Return a folder as it was given on a command line."""
    return pathlib.Path(text).absolute()


@contextlib.contextmanager
def alone(home: pathlib.Path) -> Iterator[None]:
    """Lock a folder against changes by a second command."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / 'lock').open('w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def stopwatch() -> Callable[[str], None]:
    """Return a function that prints progress with the elapsed time."""
    began = time.monotonic()

    def say(text: str) -> None:
        print(f'{time.monotonic() - began:6.1f} s  {text}', file=sys.stderr, flush=True)

    return say
