"""Key file for the secrets in the store.

Each line has a word and a key. The ``current`` key encrypts new secrets. A ``next``
key only decrypts, until all hosts have it. ``former`` keys still decrypt, because a
process that has not reloaded the file can have encrypted with the last of them.

The line ``tokens bound`` is in files that no former version of kiln has encrypted with:
secrets that are bound to no cluster and name are refused. A rotation adds it.
"""

from __future__ import annotations

import dataclasses
import os
import threading
from pathlib import Path

from kiln.clusters.exceptions import StoreError
from kiln.clusters.models import Secret
from kiln.db.tables.files import drafted
from kiln.db.tokens import Cipher, Ring, UnreadableToken, check_key, new_key
from kiln.exceptions import KNOWN_SECRETS
from kiln.plugins.foreign_files import unsafe_because
from kiln.plugins.service_credentials import is_credential

_HEADER = '# Keys of the secrets in the store of kiln. Keep them as safe as the secrets.\n'
_BOUND = 'tokens bound'


class KeyFile:
    """The keys in a file, which is read again whenever it changes."""

    def __init__(self, path: str | os.PathLike[str], *, make: bool = False) -> None:
        """Set the path; the file is read, or with ``make`` created, on first use."""
        self.path: Path = Path(path)
        self._make = make
        self._lock = threading.Lock()
        self._seen: tuple[int, ...] = ()
        self._cipher: Cipher | None = None

    def encrypt(self, secret: Secret) -> str:
        """Return the encrypted value, bound to the cluster and name of the secret.

        :raises StoreError: the keys are missing.
        """
        return self._current_cipher().encrypt(secret.cluster_id, secret.name, secret.value)

    def decrypt(self, cluster_id: str, name: str, token: str) -> Secret:
        """Return the secret of a cluster and name.

        :raises StoreError: the keys are missing, none of them fits, or the token was
            written for another secret.
        """
        cipher = self._current_cipher()
        try:
            value = cipher.decrypt(cluster_id, name, token)
        except UnreadableToken as exc:
            raise StoreError(
                f'Cannot read secret {name!r} of cluster {cluster_id} with the keys in '
                f'{self.path}: {exc}.'
            ) from None
        return Secret(cluster_id=cluster_id, name=name, value=value)

    def prepare(self) -> None:
        """Add a key that only decrypts, so that it can be copied to other hosts first.

        Safe to repeat: the file has at most one such key.

        :raises StoreError: the file cannot be read or written.
        """
        ring = self._load()
        if ring.upcoming is None:
            self._save(dataclasses.replace(ring, upcoming=new_key()))

    def advance(self) -> None:
        """Make the prepared key, or a new one, the current key; all keys still decrypt.

        :raises StoreError: the file cannot be read or written.
        """
        if not self.path.exists():
            self._save(Ring(current=new_key()), first=True)
            return
        ring = self._load()
        former = (ring.current, *ring.former)
        current = ring.upcoming or new_key()
        self._save(dataclasses.replace(ring, current=current, upcoming=None, former=former))

    def forget(self) -> None:
        """Drop all former keys except the last, and refuse tokens that are bound to no row.

        Call it after all secrets were encrypted again.

        :raises StoreError: the file cannot be read or written.
        """
        ring = self._load()
        self._save(dataclasses.replace(ring, former=ring.former[:1], bound=True))

    def _current_cipher(self) -> Cipher:
        with self._lock:
            if self._make and not self.path.exists():
                self._save(Ring(current=new_key()), first=True)
            seen = self._signature()
            if self._cipher is None or seen != self._seen:
                self._cipher, self._seen = Cipher(self._load()), seen
            return self._cipher

    def _signature(self) -> tuple[int, ...]:
        try:
            found = self.path.stat()
        except OSError:
            # Reading the file raises the error.
            return ()
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _load(self) -> Ring:
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

    def _parse(self, lines: list[str]) -> Ring:
        words: dict[str, list[str]] = {'current': [], 'next': [], 'former': []}
        try:
            for line in lines:
                if line and line != _BOUND and not line.startswith('#'):
                    word, key = line.split(' ')
                    check_key(key)
                    KNOWN_SECRETS.note(key)
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
        return Ring(
            current=current,
            upcoming=words['next'][0] if words['next'] else None,
            former=tuple(words['former']),
            bound=_BOUND in lines,
        )

    def _save(self, ring: Ring, *, first: bool = False) -> None:
        """Write the file atomically; with ``first`` only if it does not exist."""
        if is_credential(self.path):
            # Where the copy can be written, its new keys would end with the service.
            raise StoreError(
                f'Cannot change the keys in {self.path}: they are a copy that systemd made for '
                f"this service. Run 'kiln db rotate-key' outside of it, and restart the service."
            )
        try:
            with drafted(self.path, replace=not first) as draft:
                draft.write_text(_rendered(ring), encoding='ascii')
        except OSError as exc:
            raise StoreError(
                f'Cannot write the keys to {self.path}: {exc.strerror}. Name another file in '
                f'option [db] key_file.'
            ) from exc


def _rendered(ring: Ring) -> str:
    lines = [f'current {ring.current}']
    lines += [f'next {ring.upcoming}'] if ring.upcoming else []
    lines += [f'former {key}' for key in ring.former]
    lines += [_BOUND] if ring.bound else []
    return _HEADER + ''.join(f'{line}\n' for line in lines)
