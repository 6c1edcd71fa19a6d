"""Conformance bench of the Ironic driver: the time that its backends take."""

from __future__ import annotations

from kiln.compute_drivers.authoring.bench import Bench


class IronicBench(Bench):
    """Waits as long as a backend in use can take."""

    # A machine boots twice in a deploy, and copies an image in between.
    timeout_s = 3600.0
    soon_s = 60.0
    knows_ports = True
    knows_networks = True
