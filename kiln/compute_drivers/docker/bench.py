"""Conformance bench of the Docker driver: the time that its backends take, and image names."""

from __future__ import annotations

import contextlib

from kiln.compute_drivers.authoring.bench import Bench
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.docker.api.client import Session
from kiln.exceptions import InvalidRequest


class DockerBench(Bench):
    """Waits as long as a backend in use can take."""

    # An engine that creates many containers at once takes long for each.
    timeout_s = 180.0
    soon_s = 60.0
    knows_networks = True
    # An engine connects a container to a network once.
    attaches_networks_once = True

    def name_image(self, name: str, image_id: str | None) -> None:
        asked, engine = Asked(verb='name image', subject=name), self.driver._engine
        if image_id is not None:
            engine.ask(asked, Session.tag, image_id, name, 'latest', force=True)
            return
        # The image stays, as it has other names.
        with contextlib.suppress(InvalidRequest):
            engine.ask(asked, Session.remove_image, name, noprune=True)
