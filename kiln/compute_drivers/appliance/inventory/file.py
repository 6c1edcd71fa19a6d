"""The inventory file of a pool, read again when it changes."""

from __future__ import annotations

import logging
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

from kiln.compute_drivers.appliance.inventory.machines import Inventory
from kiln.compute_drivers.appliance.inventory.reading import (
    InventoryError,
    Mistake,
    located,
    parse,
)
from kiln.exceptions import ConfigurationError

LOG = logging.getLogger(__name__)


class InventoryFile:
    """The machines that a file enrols; thread-safe.

    A mistake is an error when the file is opened. A later mistake is logged, and the
    previous inventory stays in use until the file is correct again.
    """

    def __init__(self, path: Path, secrets: Path | None) -> None:
        """Read the file.

        :raises ConfigurationError: the file cannot be read, or has mistakes.
        """
        self._path = path
        self._secrets = secrets
        self._lock = threading.Lock()
        self._mark = self._look()
        self._known = self._read()
        #: The error in the current file; None if it is correct.
        self.trouble: str | None = None

    @property
    def current(self) -> Inventory:
        """The inventory in the file, or the last correct one."""
        mark = self._look()
        if mark != self._mark:
            with self._lock:
                if mark != self._mark:
                    self._read_again(mark)
        return self._known

    def secret(self, name: str) -> Path | None:
        """Return the file of a secret."""
        return None if self._secrets is None else self._secrets / name

    def _look(self) -> tuple[int, ...]:
        """Return facts that differ after each change; none of a file that cannot be found."""
        try:
            facts = self._path.stat()
        except OSError:
            return ()
        # The change time covers new permissions, too.
        return (facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)

    def _read_again(self, mark: tuple[int, ...]) -> None:
        try:
            self._known = self._read()
            self.trouble = None
            LOG.info('Inventory %s enrols %d machines', self._path, len(self._known.machines))
        except ConfigurationError as exc:
            self.trouble = str(exc)
            LOG.error(
                'Cannot use inventory %s; the previous one stays in use: %s', self._path, exc
            )
        # Also for a file with mistakes: it is not read again until it changes.
        self._mark = mark

    def _read(self) -> Inventory:
        try:
            with self._path.open(encoding='utf-8') as file:
                mode = os.fstat(file.fileno()).st_mode
                text = file.read()
        except (OSError, UnicodeDecodeError) as exc:
            why = exc.strerror if isinstance(exc, OSError) else 'it is not a text file'
            raise ConfigurationError(f'Cannot read inventory {self._path}: {why}.') from exc
        if mode & stat.S_IWOTH:
            # Write access to the file allows running programs as kiln.
            raise ConfigurationError(
                f'Cannot use inventory {self._path}: everybody can write it. Remove that '
                f'permission: chmod o-w.'
            )
        inventory = parse(text, str(self._path))
        if mistakes := list(self._missing(inventory)):
            raise InventoryError(located(mistakes, text, str(self._path)))
        return inventory

    def _missing(self, inventory: Inventory) -> Iterator[Mistake]:
        """Yield a mistake for each program or secret that this host does not have."""
        for machine in inventory:
            path = ('machines', machine.name)
            for key, program in machine.programs():
                if not os.access(program, os.X_OK):
                    yield Mistake(
                        (*path, key), f'names {program}, which is not a program executable here.'
                    )
            if machine.credentials is not None:
                yield from self._unsafe((*path, 'credentials'), machine.credentials)

    def _unsafe(self, path: tuple[str, ...], name: str) -> Iterator[Mistake]:
        file = self.secret(name)
        if file is None:
            yield Mistake(path, 'needs the option secrets_dir.')
        elif not file.is_file():
            yield Mistake(path, f'names {name}, but {file.parent} has no such secret.')
        elif file.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            yield Mistake(path, f'names {file}, which is open to others; chmod 600 it.')
