"""Key file for the secrets in the store; the only module that uses cryptography.

Each line has a word and a key. The ``current`` key encrypts new secrets. A ``next``
key only decrypts, until all hosts have it. ``former`` keys still decrypt, because a
process that has not reloaded the file can have encrypted with the last of them.
"""

from __future__ import annotations

import dataclasses
import os
import threading
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from kiln.clusters.exceptions import StoreError
from kiln.db.tables.files import drafted
from kiln.plugins.foreign_files import unsafe_because

_HEADER = '# Keys of the secrets in the store of kiln. Keep them as safe as the secrets.\n'


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class _Ring:
    """The content of a key file."""

    current: str
    upcoming: str | None = None
    former: tuple[str, ...] = ()

    def cipher(self) -> MultiFernet:
        keys = (self.current, self.upcoming, *self.former)
        return MultiFernet([Fernet(key) for key in keys if key])

    def render(self) -> str:
        lines = [f'current {self.current}\n']
        lines += [f'next {self.upcoming}\n'] if self.upcoming else []
        lines += [f'former {key}\n' for key in self.former]
        return _HEADER + ''.join(lines)


class KeyFile:
    """The keys in a file, which is read again whenever it changes."""

    def __init__(self, path: str | os.PathLike[str], *, make: bool = False) -> None:
        """Set the path; the file is read, or with ``make`` created, on first use."""
        self.path: Path = Path(path)
        self._make = make
        self._lock = threading.Lock()
        self._seen: tuple[int, ...] = ()
        self._cipher: MultiFernet | None = None

    def encrypt(self, value: str) -> str:
        """Return the encrypted value.

        :raises StoreError: the keys are missing.
        """
        return self._current_cipher().encrypt(value.encode()).decode()

    def decrypt(self, token: str) -> str | None:
        """Return the decrypted value, or None if none of the keys fits.

        :raises StoreError: the keys are missing.
        """
        try:
            return self._current_cipher().decrypt(token.encode()).decode()
        except InvalidToken:
            return None

    def prepare(self) -> None:
        """Add a key that only decrypts, so that it can be copied to other hosts first.

        Safe to repeat: the file has at most one such key.

        :raises StoreError: the file cannot be read or written.
        """
        ring = self._load()
        if ring.upcoming is None:
            self._save(dataclasses.replace(ring, upcoming=_new_key()))

    def advance(self) -> None:
        """Make the prepared key, or a new one, the current key; all keys still decrypt.

        :raises StoreError: the file cannot be read or written.
        """
        if not self.path.exists():
            self._save(_Ring(current=_new_key()), first=True)
            return
        ring = self._load()
        self._save(_Ring(current=ring.upcoming or _new_key(), former=(ring.current, *ring.former)))

    def forget(self) -> None:
        """Drop all former keys except the last.

        :raises StoreError: the file cannot be read or written.
        """
        ring = self._load()
        self._save(dataclasses.replace(ring, former=ring.former[:1]))

    def _current_cipher(self) -> MultiFernet:
        with self._lock:
            if self._make and not self.path.exists():
                self._save(_Ring(current=_new_key()), first=True)
            seen = self._signature()
            if self._cipher is None or seen != self._seen:
                self._cipher, self._seen = self._load().cipher(), seen
            return self._cipher

    def _signature(self) -> tuple[int, ...]:
        try:
            found = self.path.stat()
        except OSError:
            # Reading the file raises the error.
            return ()
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _load(self) -> _Ring:
        try:
            with self.path.open(encoding='ascii') as file:
                if os.fstat(file.fileno()).st_mode & 0o007:
                    raise StoreError(
                        f'Cannot use the keys in {self.path}: every user can read them. Set its '
                        f'mode to 0600, and then rotate the keys.'
                    )
                if unsafe := unsafe_because(self.path):
                    raise StoreError(f'Cannot use the keys in {self.path}: {unsafe}.')
                lines = file.read().splitlines()
        except FileNotFoundError:
            raise StoreError(
                f'Cannot use the keys of the store: file {self.path} does not exist. Copy it '
                f"from another host, or create the first one with 'kiln db rotate-key'."
            ) from None
        except (OSError, UnicodeError) as exc:
            why = exc.strerror if isinstance(exc, OSError) else 'it is not a key file'
            raise StoreError(f'Cannot read the keys in {self.path}: {why}.') from exc
        return self._parse(lines)

    def _parse(self, lines: list[str]) -> _Ring:
        words: dict[str, list[str]] = {'current': [], 'next': [], 'former': []}
        try:
            for line in lines:
                if line and not line.startswith('#'):
                    word, key = line.split(' ')
                    Fernet(key)
                    words[word].append(key)
            (current,) = words['current']
            if len(words['next']) > 1:
                raise ValueError('one key can be the next')
        except (ValueError, KeyError):
            # Without the error of the key, which would quote the key.
            raise StoreError(
                f'Cannot use the keys in {self.path}: it is not a key file. Restore it from '
                f'the backup.'
            ) from None
        upcoming = words['next'][0] if words['next'] else None
        return _Ring(current=current, upcoming=upcoming, former=tuple(words['former']))

    def _save(self, ring: _Ring, *, first: bool = False) -> None:
        """Write the file atomically; with ``first`` only if it does not exist."""
        try:
            with drafted(self.path, replace=not first) as draft:
                draft.write_text(ring.render(), encoding='ascii')
        except OSError as exc:
            raise StoreError(
                f'Cannot write the keys to {self.path}: {exc.strerror}. Name another file in '
                f'option [db] key_file.'
            ) from exc


def _new_key() -> str:
    return Fernet.generate_key().decode()
