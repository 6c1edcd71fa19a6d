"""Call counts of a walk through kiln: calls, files, moves between files.

``python -m tools.walk`` builds a machine on the simulated cloud, then creates a cluster of two
nodes there, and prints a line for each. A move is a call from one file of kiln to another.
"""

from __future__ import annotations

import collections
import contextlib
import io
import pathlib
import sys
import tempfile
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

import kiln

_FILE = """\
cluster: web
driver: nodes_v1
image: debian-12
flavor: small
nodegroups:
- {name: web, count: 2}
"""
HOME = str(pathlib.Path(kiln.__file__).parent)


class Walk:
    """Counts the calls of all threads into files of kiln."""

    def __init__(self) -> None:
        self.calls: collections.Counter[str] = collections.Counter()
        self.moves: collections.Counter[tuple[str, str]] = collections.Counter()
        self.threads: set[int] = set()

    def __str__(self) -> str:
        return (
            f'{self.calls.total()} calls, {len(self.calls)} files, {self.moves.total()} moves, '
            f'{len(self.threads)} threads'
        )

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """Count until the end of the block, in this thread and in those that begin in it."""
        threading.setprofile(self._count)
        sys.setprofile(self._count)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _count(self, frame: FrameType, event: str, _: Any) -> None:
        here = frame.f_code.co_filename
        if event != 'call' or not here.startswith(HOME):
            return
        self.calls[here] += 1
        self.threads.add(threading.get_ident())
        before = frame.f_back
        while before is not None and not before.f_code.co_filename.startswith(HOME):
            before = before.f_back
        if before is not None and before.f_code.co_filename != here:
            self.moves[before.f_code.co_filename, here] += 1


def build() -> Walk:
    """Build one machine, and wait until it is active."""
    walk = Walk()
    with contextlib.closing(kiln.open_compute('noop')) as compute, walk.counting():
        compute.build(amphora_flavor='small', until='active').result()
    return walk


def create() -> Walk:
    """Create a cluster of two nodes by the command ``kiln up``."""
    from kiln.cli.main import KilnApp

    walk = Walk()
    with tempfile.TemporaryDirectory() as folder:
        config, file = pathlib.Path(folder, 'kiln.conf'), pathlib.Path(folder, 'web.yaml')
        config.write_text(
            f'[compute]\nowner = walk\n[db]\nurl = sqlite:///{folder}/kiln.db\n'
            '[compute:sim]\ndriver = noop\n'
        )
        file.write_text(_FILE)
        app = KilnApp()
        app.stdout = io.StringIO()
        with walk.counting():
            status = app.run(['--config-file', str(config), 'up', '--yes', str(file)])
    if status:
        raise SystemExit(f'kiln up ended with {status}')
    return walk


def main() -> None:
    """Run both walks, and print their counts."""
    print(f'one build:             {build()}')
    print(f'a cluster of two nodes: {create()}')


if __name__ == '__main__':
    main()
