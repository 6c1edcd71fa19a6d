"""Conformance bench of the Appliance driver: the time that its backends take."""

from __future__ import annotations

from kiln.compute_drivers.authoring.bench import Bench


class ApplianceBench(Bench):
    """Waits as long as a backend in use can take."""

    # A machine is claimed by a command of the operator, which can take minutes.
    timeout_s = 600.0
    soon_s = 5.0
