"""Minimal driver: the smallest correct one, a starting point for vendors."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable

from kiln.compute_drivers.authoring.adoption import adopted
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.exceptions import InstanceNotFoundError
from kiln.models import Amphora, BuildRequest, Limits, State


class MinimalDriver(AmphoraComputeDriver):
    """Keeps amphorae in a dict; each is active as soon as it is built."""

    # There is no machine that could have them, and kiln refuses them before _build() is
    # called. A driver that takes an argument of a build and drops it is wrong.
    limits = Limits(
        refused_options=frozenset(
            {
                'config_drive_files',
                'keys',
                'network_ids',
                'port_ids',
                'sec_groups',
                'server_group_id',
                'user_data',
            }
        )
    )
    name = 'minimal'
    bench = 'kiln.testing.minimal_bench:MinimalBench'

    def __init__(self, conf: object = None) -> None:
        self._amphorae: dict[str, Amphora] = {}
        self._lock = threading.Lock()

    def _build(self, request: BuildRequest) -> str:
        # Look up and build under one hold of the lock: two threads with
        # one key must get one instance.
        with self._lock:
            for known in self._amphorae.values():
                if (known.owner, known.build_key) == (request.owner, request.build_key):
                    return adopted(request, known)
            amphora = Amphora(
                id=str(uuid.uuid4()),
                name=request.name,
                state=State.ACTIVE,
                amphora_type=request.amphora_type,
                build_key=request.build_key,
                owner=request.owner,
                flavor=request.flavor,
                image_id=request.image_id,
                availability_zone=request.availability_zone,
                metadata=request.metadata,
                created_at=self.clock.time(),
            )
            self._amphorae[amphora.id] = amphora
            return amphora.id

    def _delete(self, amphora_id: str) -> None:
        with self._lock:
            self._amphorae.pop(amphora_id, None)

    def _get(self, amphora_id: str) -> Amphora:
        with self._lock:
            if amphora_id in self._amphorae:
                return self._amphorae[amphora_id]
        raise InstanceNotFoundError(
            f'Cannot find amphora {amphora_id}: no amphora has that id.', amphora_id=amphora_id
        )

    def _list(self, owner: str) -> Iterable[Amphora]:
        with self._lock:
            return [known for known in self._amphorae.values() if known.owner == owner]
