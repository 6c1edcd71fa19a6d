"""Deletes: nodes are given back, at once or as soon as Ironic can take them.

Ironic refuses to give back a node while a task holds it, such as the first part of a
deployment. kiln accepts the delete nevertheless: it is recorded on the allocation, so that
every process that sees the allocation can finish the delete. Nothing waits for the cleaning
of a node, which begins when the claim has ended.
"""

from __future__ import annotations

import logging
import threading

from kiln.clock import Clock
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.ironic import claims, states
from kiln.compute_drivers.ironic.api.client import Services
from kiln.compute_drivers.ironic.api.errors import is_locked
from kiln.compute_drivers.ironic.claims import Claim
from kiln.compute_drivers.ironic.ports import Ports
from kiln.compute_drivers.ironic.reading import Node, Reader
from kiln.exceptions import (
    AmphoraComputeError,
    DeleteFailed,
    InstanceNotFoundError,
    ResourceNotFoundError,
)

LOG = logging.getLogger(__name__)

_FIRST_S, _LONGEST_S = 0.5, 30.0
#: States in which Ironic refuses for a while, even without a task that holds the node.
_PASSING = frozenset({'deploying', 'rescuing', 'unrescuing', 'servicing', 'adopting'})
#: States from which Ironic gives a node back.
_GIVEN_BACK = frozenset({'deleting', 'cleaning', 'clean wait', 'clean hold', 'clean failed'})


class Releases:
    """Gives nodes back; one thread runs while deletes wait."""

    def __init__(self, services: Services, ports: Ports, clock: Clock) -> None:
        self._services = services
        self._ports = ports
        self._clock = clock
        #: Set by the driver: both need each other.
        self.reader: Reader
        self._wake = threading.Condition()
        # By the uuid of the claim: when to try next, the pause after that, and the amphora.
        self._waiting: dict[str, tuple[float, float, str]] = {}
        self._thread: threading.Thread | None = None
        self._closed = False

    def delete(self, asked: Asked, claim: Claim) -> None:
        """Give the node of a claim back, or record that it must be.

        :raises DeleteFailed: Ironic refuses it, and waiting would not help.
        """
        if self._gives_back(asked, claim):
            self._ports.try_take_down(asked, claim)
            return
        path = f'/allocations/{claim.uuid}'
        try:
            self._services.ask(asked, 'PATCH', path, body=claims.patch(deleting=True))
        except ResourceNotFoundError as exc:
            raise asked.error(InstanceNotFoundError, 'it has ended meanwhile.') from exc
        self.add(claim)

    def abandon(self, asked: Asked, claim: Claim) -> None:
        """End a claim whose node is not deployed."""
        if claim.node_uuid is not None:
            node = self.reader.node(asked, claim.node_uuid)
            if node is not None and node.get('instance_uuid') == claim.uuid:
                self._bare(asked, node)
                self._ports.take_down(asked, claim, node)
        try:
            self._services.ask(asked, 'DELETE', f'/allocations/{claim.uuid}')
        except ResourceNotFoundError:
            return

    def _bare(self, asked: Asked, node: Node) -> None:
        """Remove what would be deployed: a request that is late then finds nothing to deploy."""
        gone = [
            {'op': 'remove', 'path': f'/instance_info/{name}'}
            for name in ('image_source', 'display_name')
            if name in (node.get('instance_info') or {})
        ]
        if gone:
            self._services.ask(asked, 'PATCH', f'/nodes/{node["uuid"]}', body=gone)

    def _gives_back(self, asked: Asked, claim: Claim) -> bool:
        """Return True if the node is given back, and False if Ironic is busy with it."""
        node = None if claim.node_uuid is None else self.reader.node(asked, claim.node_uuid)
        if claim.node_uuid is not None and node is None:
            raise asked.error(DeleteFailed, f'its node {claim.node_uuid} cannot be seen.')
        at = None if node is None else node.get('provision_state')
        if node is not None and (node.get('instance_uuid') != claim.uuid or at in _GIVEN_BACK):
            return True
        try:
            if node is None or at == states.AVAILABLE:
                self.abandon(asked, claim)
            else:
                body = {'target': 'deleted'}
                path = f'/nodes/{node["uuid"]}/states/provision'
                self._services.ask(asked, 'PUT', path, body=body)
        except DeleteFailed as exc:
            # Another delete of it can have been faster.
            again = self.reader.claim(asked, claim.uuid)
            if again is None or again.draw != claim.draw:
                return True
            if is_locked(exc) or self._passes(asked, again):
                return False
            raise
        return True

    def _passes(self, asked: Asked, claim: Claim) -> bool:
        """Return True if the node of a claim is in a state that ends by itself."""
        node = None if claim.node_uuid is None else self.reader.node(asked, claim.node_uuid)
        if node is None:
            return False
        at = node.get('provision_state')
        return at in _PASSING or at in _GIVEN_BACK or node.get('instance_uuid') != claim.uuid

    # ---- deletes that wait -------------------------------------------------

    def add(self, claim: Claim) -> None:
        """Finish the delete of a claim; nothing happens if that is under way."""
        with self._wake:
            if claim.uuid in self._waiting or self._closed:
                return
            due = self._clock.monotonic() + _FIRST_S
            self._waiting[claim.uuid] = (due, _FIRST_S, claim.id)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name='kiln-ironic-releases', daemon=True
                )
                self._thread.start()

    def close(self) -> None:
        """Stop; another process, or the next one, finishes what is left."""
        with self._wake:
            self._closed = True
            self._wake.notify()

    def _run(self) -> None:
        while True:
            with self._wake:
                if self._closed or not self._waiting:
                    self._thread = None
                    break
                uuid = min(self._waiting, key=lambda one: self._waiting[one])
                due, pause_s, amphora_id = self._waiting[uuid]
                left_s = due - self._clock.monotonic()
                if left_s > 0:
                    self._clock.wait(self._wake, left_s)
                    continue
            done = self._finished(uuid, amphora_id)
            with self._wake:
                if done:
                    del self._waiting[uuid]
                else:
                    again_s = min(_LONGEST_S, 1.5 * pause_s)
                    due = self._clock.monotonic() + again_s
                    self._waiting[uuid] = (due, again_s, amphora_id)
        if self._closed:
            # Its last request can have opened connections after the others were closed.
            self._services.close()

    def _finished(self, uuid: str, amphora_id: str) -> bool:
        asked = Asked.about('delete', amphora_id)
        try:
            claim = self.reader.claim(asked, uuid)
            if claim is None or claim.id != amphora_id:
                return True
            if not self._gives_back(asked, claim):
                return False
            self._ports.try_take_down(asked, claim)
            return True
        except AmphoraComputeError as exc:
            LOG.warning('Amphora %s is not deleted so far: %s', amphora_id, exc)
            return False
        # A thread that dies would leave all deletes undone.
        except Exception:
            LOG.exception('Amphora %s is not deleted so far', amphora_id)
            return False
