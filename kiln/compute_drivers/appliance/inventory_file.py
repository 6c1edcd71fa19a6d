"""The file of an inventory, read again when it changes."""

from __future__ import annotations

import logging
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

from kiln.compute_drivers.appliance.inventory import InventoryError, Mistake, located, parse
from kiln.compute_drivers.appliance.machines import Inventory
from kiln.exceptions import ConfigurationError

LOG = logging.getLogger(__name__)


class InventoryFile:
    """What a file enrols; safe to use from many threads.

    What is wrong when it is opened is an error; a file that becomes wrong later is told
    of in the log, and what it said before holds until it is right again.
    """

    def __init__(self, path: Path, secrets: Path | None) -> None:
        """Read it.

        :raises ConfigurationError: it cannot be read, or has mistakes.
        """
        self._path = path
        self._secrets = secrets
        self._lock = threading.Lock()
        self._mark = self._look()
        self._known = self._read()
        #: What is wrong with the file as it is now; None where nothing is.
        self.trouble: str | None = None

    @property
    def current(self) -> Inventory:
        """What the file says now, or said when it was last right."""
        try:
            mark: tuple[int, ...] = self._look()
        except ConfigurationError:
            mark = ()
        if mark != self._mark:
            with self._lock:
                if mark != self._mark:
                    self._read_again(mark)
        return self._known

    def secret(self, name: str) -> Path | None:
        """Return the file of a secret."""
        return None if self._secrets is None else self._secrets / name

    def _look(self) -> tuple[int, ...]:
        try:
            facts = self._path.stat()
        except OSError as exc:
            raise ConfigurationError(
                f'Cannot read inventory {self._path}: {exc.strerror}.'
            ) from exc
        # The time of change tells of new rights, too.
        return (facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)

    def _read_again(self, mark: tuple[int, ...]) -> None:
        try:
            self._known = self._read()
            self.trouble = None
            LOG.info('Inventory %s enrols %d machines', self._path, len(self._known.machines))
        except ConfigurationError as exc:
            self.trouble = str(exc)
            LOG.error('What inventory %s said before holds on: %s', self._path, exc)
        # Also of one that is wrong: it is not read again before it changes.
        self._mark = mark

    def _read(self) -> Inventory:
        try:
            with self._path.open(encoding='utf-8') as file:
                mode = os.fstat(file.fileno()).st_mode
                text = file.read()
        except (OSError, UnicodeDecodeError) as exc:
            why = exc.strerror if isinstance(exc, OSError) else 'it is no text'
            raise ConfigurationError(f'Cannot read inventory {self._path}: {why}.') from exc
        if mode & stat.S_IWOTH:
            # Who writes it has programs run as kiln.
            raise ConfigurationError(
                f'Cannot use inventory {self._path}: everybody may write it. Take that right '
                f'away: chmod o-w.'
            )
        inventory = parse(text, str(self._path))
        if mistakes := list(self._missing(inventory)):
            raise InventoryError(located(mistakes, text, str(self._path)))
        return inventory

    def _missing(self, inventory: Inventory) -> Iterator[Mistake]:
        """Yield what a machine names and this host does not have."""
        for machine in inventory:
            path = ('machines', machine.name)
            for key, program in machine.programs():
                if not os.access(program, os.X_OK):
                    yield Mistake(
                        (*path, key), f'names {program}, which is no program that can be run here.'
                    )
            if machine.credentials is not None:
                yield from self._unsafe((*path, 'credentials'), machine.credentials)

    def _unsafe(self, path: tuple[str, ...], name: str) -> Iterator[Mistake]:
        file = self.secret(name)
        if file is None:
            yield Mistake(path, 'needs the option secrets_dir.')
        elif not file.is_file():
            yield Mistake(path, f'names {name}, and {file.parent} has no such secret.')
        elif file.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            yield Mistake(path, f'names {file}, which is open to others; chmod 600 it.')
