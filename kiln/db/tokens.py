"""Tokens of secrets: encrypted, and bound to the cluster and name of their row; pure."""

from __future__ import annotations

import base64
import dataclasses
import json
import os
from collections.abc import Iterator

from cryptography.exceptions import InvalidTag
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

#: How the tokens begin that are bound to their row. Fernet's begin with gAAAA.
BOUND = 'k1.'
_KEY_BYTES = 32
_ID_BYTES = 6
_NONCE_BYTES = 12
_WHO = 'Find out who can write to the database, and restore the secret from the backup'


class UnreadableToken(ValueError):
    """A token cannot be decrypted; the text says why, and what to do."""


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Ring:
    """The keys of a site."""

    current: str
    upcoming: str | None = None
    former: tuple[str, ...] = ()
    #: False if the store can have tokens of Fernet, which are bound to no row.
    bound: bool = True

    def __iter__(self) -> Iterator[str]:
        return (key for key in (self.current, self.upcoming, *self.former) if key)


class Cipher:
    """Encrypts with the current key of a ring, and decrypts with all of them."""

    def __init__(self, ring: Ring) -> None:
        derived = [_derived(key) for key in ring]
        self._current = derived[0][0]
        self._ciphers = {key_id: AESGCM(key) for key_id, key in derived}
        self._unbound = None if ring.bound else MultiFernet(map(Fernet, ring))

    def encrypt(self, cluster_id: str, name: str, value: str) -> str:
        """Return a token that no other row can use."""
        nonce = os.urandom(_NONCE_BYTES)
        cipher = self._ciphers[self._current]
        sealed = nonce + cipher.encrypt(nonce, value.encode(), _row(cluster_id, name))
        return f'{BOUND}{self._current}.{base64.urlsafe_b64encode(sealed).decode()}'

    def decrypt(self, cluster_id: str, name: str, token: str) -> str:
        """Return the value of a secret.

        :raises UnreadableToken: the token was written for another row or with another key, or
            it was changed.
        """
        if not token.startswith(BOUND):
            return self._decrypt_unbound(token)
        key_id, _, text = token.removeprefix(BOUND).partition('.')
        if key_id not in self._ciphers:
            raise _without_key()
        try:
            sealed = base64.urlsafe_b64decode(text)
            nonce, sealed = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
            return self._ciphers[key_id].decrypt(nonce, sealed, _row(cluster_id, name)).decode()
        # A changed token can have a short nonce and characters that base64 does not have.
        except (InvalidTag, ValueError):
            raise UnreadableToken(
                f'it was written for another cluster or name, or changed. {_WHO}'
            ) from None

    def _decrypt_unbound(self, token: str) -> str:
        if self._unbound is None:
            raise UnreadableToken(
                f'it is bound to no cluster and name, and since the last rotation of the keys '
                f'all secrets are. {_WHO}'
            )
        try:
            return self._unbound.decrypt(token.encode()).decode()
        except InvalidToken:
            raise _without_key() from None


def check_key(key: str) -> None:
    """Check the form of a key.

    :raises ValueError: it is not a key; the text can quote it.
    """
    Fernet(key)


def new_key() -> str:
    """Return a random key."""
    return Fernet.generate_key().decode()


def _derived(key: str) -> tuple[str, bytes]:
    """Return the identity of a key, which tokens show, and the key of their cipher."""
    hkdf = HKDF(SHA256(), length=_KEY_BYTES + _ID_BYTES, salt=None, info=b'kiln secrets 1')
    derived = hkdf.derive(base64.urlsafe_b64decode(key))
    key_id = base64.urlsafe_b64encode(derived[_KEY_BYTES:]).decode()
    return key_id, derived[:_KEY_BYTES]


def _row(cluster_id: str, name: str) -> bytes:
    # As a list, so that no other pair has the same text.
    return json.dumps([cluster_id, name]).encode()


def _without_key() -> UnreadableToken:
    return UnreadableToken('none of the keys fits. Restore the key file from the backup')
