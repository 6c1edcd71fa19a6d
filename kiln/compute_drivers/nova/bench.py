"""Conformance bench of the Nova driver: the time that its backends take."""

from __future__ import annotations

from kiln.compute_drivers.authoring.bench import Bench


class NovaBench(Bench):
    """Waits as long as a backend in use can take."""

    # A server boots in minutes where its image is new to a host.
    timeout_s = 600.0
    soon_s = 60.0
    knows_ports = True
    knows_networks = True
