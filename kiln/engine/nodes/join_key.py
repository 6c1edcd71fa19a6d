"""The key of a cluster, from which the tokens are made that its nodes join with."""

from __future__ import annotations

import secrets
import threading

from kiln.clusters.exceptions import ClusterNotFound
from kiln.clusters.models import Lease, Secret
from kiln.db.store import Store

_NAME = 'join-key'
_BYTES = 32


def known_key(store: Store, cluster_id: str) -> bytes:
    """Return the key of a cluster that has one.

    :raises ClusterNotFound: none of its nodes was to join yet.
    :raises StoreError: it cannot be read.
    """
    return bytes.fromhex(store.secrets.read(cluster_id, _NAME).value)


class JoinKey:
    """Reads the key when it is first needed, and makes it where there is none.

    It is in the store before anybody is given a token, behind the fence: so whoever
    takes the cluster over makes the same ones. Few clusters have nodes that join,
    and a site without any needs no keys to encrypt it with.
    """

    def __init__(self, store: Store, lease: Lease) -> None:
        self._store = store
        self._lease = lease
        self._lock = threading.Lock()
        self._key = b''

    def __call__(self) -> bytes:
        """Return the key.

        :raises LeaseLost: somebody else has the cluster now, and there was no key yet.
        :raises StoreError: it cannot be read or written.
        """
        with self._lock:
            if not self._key:
                self._key = self._kept()
            return self._key

    def _kept(self) -> bytes:
        scope = self._lease.scope
        try:
            return known_key(self._store, scope)
        except ClusterNotFound:
            fresh = secrets.token_bytes(_BYTES)
        with self._store.writing(self._lease) as batch:
            batch.secret(Secret(cluster_id=scope, name=_NAME, value=fresh.hex()))
        return fresh
