"""Client of the engine: here a stand-in, a folder with a file for each stack.

It works on a stack whenever somebody looks at it: one machine more, or one less.
"""

from __future__ import annotations

import configparser
import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: Where operators name the folder, on each host that runs kiln.
CONFIG = Path('/etc/stack/client.conf')


class Engine:
    """A connection; each request can be repeated. An OSError means that the engine is away."""

    def __init__(self, config: Path, password: str) -> None:
        settings = configparser.ConfigParser()
        settings.read(config)
        folder = settings.get('stack', 'folder', fallback=None)
        self._folder = Path(folder) if folder else Path.home() / '.stack'
        # A real engine has accounts; this one remembers by which a stack was made.
        self._account = hashlib.sha256(password.encode()).hexdigest()

    def apply(self, name: str, groups: Mapping[str, int], **settings: Any) -> None:
        """Create a stack, or change it: the number of machines in each group, and settings."""
        stack = self._read(name) or {'built': {}}
        asked = {'groups': groups, 'account': self._account, 'trouble': ''}
        self._write(name, {**stack, **settings, **asked})

    def delete(self, name: str) -> None:
        """Remove a stack, once it has no machines left."""
        if stack := self._read(name):
            self._write(name, {**stack, 'groups': {}, 'ending': True, 'trouble': ''})

    def look(self, name: str) -> Mapping[str, Any] | None:
        """Return a stack after the next step of the work on it; None if it does not exist.

        If the work has failed, ``trouble`` says why.
        """
        stack = self._read(name)
        if stack is None or stack['trouble']:
            return stack
        built, wanted = Counter(stack['built']), Counter(stack['groups'])
        for group in [*(wanted - built), *(built - wanted)][:1]:
            built[group] += 1 if wanted[group] > built[group] else -1
        stack['built'] = dict(+built)
        if stack.get('ending') and not stack['built']:
            self._path(name).unlink(missing_ok=True)
            return None
        self._write(name, stack)
        return stack

    def _path(self, name: str) -> Path:
        return self._folder / f'{name}.json'

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            stack: dict[str, Any] = json.loads(self._path(name).read_text())
        except FileNotFoundError:
            return None
        return stack

    def _write(self, name: str, stack: Mapping[str, Any]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        # Renamed into place, so that no reader finds half a file.
        half = self._path(name).with_suffix('.new')
        half.write_text(json.dumps(stack))
        half.replace(self._path(name))
