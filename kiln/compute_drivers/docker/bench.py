"""Conformance bench of the Docker driver: the time that its backends take."""

from __future__ import annotations

from kiln.compute_drivers.authoring.bench import Bench


class DockerBench(Bench):
    """Waits as long as a backend in use can take."""

    # An engine that creates many containers at once takes long for each.
    timeout_s = 180.0
    soon_s = 60.0
    knows_networks = True
    # An engine connects a container to a network once.
    attaches_networks_once = True
