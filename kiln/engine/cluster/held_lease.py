"""The lease of a cluster, in the process that holds it."""

from __future__ import annotations

import math

from kiln.clusters.models import Lease
from kiln.engine.context import Parts


class HeldLease:
    """A lease, and the monotonic time until which it is certainly held."""

    def __init__(self, parts: Parts, lease: Lease, sure_until: float = math.inf) -> None:
        self._parts = parts
        self.lease = lease
        self.sure_until = sure_until

    def renew(self) -> None:
        """Hold the lease for another term.

        :raises LeaseLost: another conductor has the cluster now.
        """
        term_s = self._parts.settings.lease_s
        sure_until = self._parts.clock.monotonic() + term_s
        self.lease = self._parts.store.leases.renew(self.lease, term_s)
        self.sure_until = sure_until
