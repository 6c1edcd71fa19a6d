"""The lease of a cluster, in the process that holds it."""

from __future__ import annotations

import math

from kiln.clusters.exceptions import LeaseLost
from kiln.clusters.models import Lease
from kiln.engine.context import Parts


class HeldLease:
    """A lease, and the monotonic time until which it is certainly held."""

    def __init__(self, parts: Parts, lease: Lease, sure_until: float = math.inf) -> None:
        self._parts = parts
        self.lease = lease
        self.sure_until = sure_until
        self.given_up = False

    def give_up(self) -> None:
        """Let nothing more be started under the lease; called by any thread."""
        self.given_up = True

    def ensure(self) -> None:
        """Hold the lease for another term, unless it is certainly held.

        :raises LeaseLost: another conductor has the cluster now, or the lease was given up.
        """
        if self.given_up or self._parts.clock.monotonic() >= self.sure_until:
            self.renew()

    def renew(self) -> None:
        """Hold the lease for another term.

        :raises LeaseLost: another conductor has the cluster now, or the lease was given up.
        """
        if self.given_up:
            raise LeaseLost(
                f'Cannot continue with {self.lease.scope}: its lease was given up. Nothing more '
                f'is started.'
            )
        term_s = self._parts.settings.lease_s
        sure_until = self._parts.clock.monotonic() + term_s
        self.lease = self._parts.store.leases.renew(self.lease, term_s)
        self.sure_until = sure_until
