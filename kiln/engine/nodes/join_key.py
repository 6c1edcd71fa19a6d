"""The join key of a cluster, from which the join tokens of its nodes are derived."""

from __future__ import annotations

import secrets
import threading

from kiln.clusters.exceptions import ClusterNotFound
from kiln.clusters.models import Lease, Secret
from kiln.db.store import Store

_NAME = 'join-key'
_BYTES = 32


def known_key(store: Store, cluster_id: str) -> bytes:
    """Return the join key of a cluster.

    :raises ClusterNotFound: the cluster has no key, since no node was to join so far.
    :raises StoreError: the key cannot be read.
    """
    return bytes.fromhex(store.secrets.read(cluster_id, _NAME).value)


def new_key() -> bytes:
    """Return a join key that no cluster has."""
    return secrets.token_bytes(_BYTES)


class JoinKey:
    """Reads the key when it is first needed, and creates it if it does not exist.

    The key is in the store, behind the fence, before any token is issued, so a conductor
    that takes the cluster over derives the same tokens. Few clusters have nodes that join,
    and a site without such clusters needs no keys to encrypt it with.
    """

    def __init__(self, store: Store, lease: Lease) -> None:
        self._store = store
        self._lease = lease
        self._lock = threading.Lock()
        self._key = b''

    def __call__(self) -> bytes:
        """Return the key.

        :raises LeaseLost: another conductor has the cluster now, and no key existed.
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
            fresh = new_key()
        with self._store.writing(self._lease) as batch:
            batch.secret(Secret(cluster_id=scope, name=_NAME, value=fresh.hex()))
        return fresh
