"""Clients of Heat that a process has open: one for each set of credentials."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from kiln.cluster_drivers.heat.client import HeatClient
from kiln.cluster_drivers.heat.settings import settings_of

#: Projects whose connections are kept open.
_MOST = 256


class Connections:
    """Opens clients, and keeps them with their tokens; for any number of threads."""

    def __init__(self, read: Callable[[str], Any] = settings_of) -> None:
        """Take the function that reads the document of a secret."""
        self._read = read
        self._lock = threading.Lock()
        # By a digest: what is kept for long should not be the secret itself.
        self._clients: OrderedDict[bytes, HeatClient] = OrderedDict()

    def client(self, document: str) -> HeatClient:
        """Return the client with the credentials in a document; sends no request.

        :raises ClusterDriverError: they cannot be used.
        """
        key = hashlib.sha256(document.encode()).digest()
        with self._lock:
            if key not in self._clients:
                self._clients[key] = HeatClient(self._read(document))
            self._clients.move_to_end(key)
            if len(self._clients) > _MOST:
                # One that is in use finishes its requests on connections of its own.
                self._clients.popitem(last=False)[1].close()
            return self._clients[key]
