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
        self._given_up = False

    def give_up(self) -> None:
        """Let nothing more be started under the lease, which is about to be released."""
        self._given_up, self.sure_until = True, -math.inf

    def renew(self) -> None:
        """Hold the lease for another term.

        :raises LeaseLost: another conductor has the cluster now, or this one ends.
        """
        if self._given_up:
            raise LeaseLost(f'Nothing more is started for {self.lease.scope}: its lease was given up.')
        term_s = self._parts.settings.lease_s
        sure_until = self._parts.clock.monotonic() + term_s
        self.lease = self._parts.store.leases.renew(self.lease, term_s)
        # The conductor can have given it up meanwhile, on another thread.
        self.sure_until = -math.inf if self._given_up else sure_until
