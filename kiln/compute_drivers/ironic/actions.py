"""Actions on deployed nodes: power, reboot and rebuild."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.ironic import claims, states
from kiln.compute_drivers.ironic.api.client import Services
from kiln.compute_drivers.ironic.catalogue import Catalogue
from kiln.compute_drivers.ironic.ports import Ports
from kiln.compute_drivers.ironic.reading import Reader, Seen
from kiln.exceptions import (
    InstanceStateConflict,
    InvalidRequest,
    NotSuspendedError,
    UnsupportedOperation,
)
from kiln.models import Attachment, State

#: What checks an image, of which a new image can need less.
_CHECKS = ('image_os_hash_algo', 'image_os_hash_value', 'image_checksum')
#: States that end by themselves.
_PASSING = frozenset({State.PENDING, State.BUILDING, State.DELETING, State.UNKNOWN})


class Actions:
    """Starts actions; Ironic performs them later."""

    def __init__(
        self, services: Services, reader: Reader, catalogue: Catalogue, ports: Ports
    ) -> None:
        self._services = services
        self._ports = ports
        self._reader = reader
        self._catalogue = catalogue

    def suspend(self, asked: Asked) -> None:
        """Power a node off."""
        seen = self._deployed(asked)
        target = (seen.node or {}).get('target_power_state')
        if target == 'power off' or (target is None and _is(seen, State.SUSPENDED)):
            return
        self._power(asked, seen, 'power off')

    def resume(self, asked: Asked) -> None:
        """Power a node on.

        :raises NotSuspendedError: it is on.
        """
        seen = self._deployed(asked, or_else=NotSuspendedError)
        target = (seen.node or {}).get('target_power_state')
        if target == 'power off':
            raise asked.error(
                InstanceStateConflict, 'it is still being powered off.', retryable=True
            )
        if not _is(seen, State.SUSPENDED):
            raise asked.error(NotSuspendedError, 'its node is powered on.')
        if target is None:
            self._power(asked, seen, 'power on')

    def reboot(self, asked: Asked, *, hard: bool) -> None:
        """Reboot a node that is on."""
        seen = self._running(asked)
        try:
            self._power(asked, seen, 'rebooting' if hard else 'soft rebooting')
        except InvalidRequest as exc:
            if hard or 'does not support' not in str(exc):
                raise
            raise asked.error(
                UnsupportedOperation,
                'the power interface of its node has no soft reboot. Reboot it hard.',
            ) from exc

    def rebuild(self, asked: Asked, image_name: str | None) -> None:
        """Deploy a node again, with its config drive, from its image or another."""
        seen = self._reader.one(asked)
        if not _is(seen, State.ERROR) or not seen.condition.served:
            seen = self._running(asked)
        assert seen.node is not None
        path = f'/nodes/{seen.node["uuid"]}'
        facts: dict[str, Any] = {'rebuilt': True}
        if image_name is not None:
            image = self._catalogue.image(asked, image_name)
            self._change_image(asked, path, {'image_source': image.source, **image.checks})
            facts['image'] = image_name
        # First, as from then on the node is as one that never ran.
        body = claims.patch(**facts)
        self._services.ask(asked, 'PATCH', f'/allocations/{seen.claim.uuid}', body=body)
        self._services.ask(asked, 'PUT', f'{path}/states/provision', body={'target': 'rebuild'})

    # ---- ports -----------------------------------------------------------------

    def attach_port(self, asked: Asked, port_id: str) -> Attachment:
        """Hang a port on a node."""
        seen = self._reader.one(asked)
        if found := self._ports.hangs(asked, seen.claim.id, port_id):
            return found
        return self._ports.attach(asked, self._in_use(asked, seen), port_id)

    def attach_network(self, asked: Asked, network_id: str, address: str | None) -> Attachment:
        """Hang a new port of a network on a node."""
        seen = self._in_use(asked, self._reader.one(asked))
        return self._ports.attach_network(asked, seen, network_id, address)

    def detach_port(self, asked: Asked, port_id: str) -> None:
        """Take a port from a node, if it hangs there."""
        self._ports.detach(asked, self._reader.one(asked), port_id)

    def detach_network(self, asked: Asked, network_id: str) -> None:
        """Take all ports of a network from a node."""
        self._ports.detach_network(asked, self._reader.one(asked), network_id)

    def _change_image(self, asked: Asked, path: str, info: Mapping[str, str]) -> None:
        before = self._services.ask(asked, 'GET', path, query={'fields': 'instance_info'})
        former = before.get('instance_info') or {}
        change = [
            {'op': 'remove', 'path': f'/instance_info/{name}'}
            for name in _CHECKS
            if name in former and name not in info
        ]
        change += [
            {'op': 'add', 'path': f'/instance_info/{name}', 'value': value}
            for name, value in info.items()
        ]
        self._services.ask(asked, 'PATCH', path, body=change)

    def _power(self, asked: Asked, seen: Seen, target: str) -> None:
        assert seen.node is not None
        path = f'/nodes/{seen.node["uuid"]}/states/power'
        self._services.ask(asked, 'PUT', path, body={'target': target})

    def _running(self, asked: Asked) -> Seen:
        """Return an amphora whose node is on."""
        seen = self._deployed(asked)
        if _is(seen, State.SUSPENDED):
            raise asked.error(InstanceStateConflict, 'its node is powered off. Resume it first.')
        return seen

    def _deployed(
        self, asked: Asked, or_else: type[InstanceStateConflict] = InstanceStateConflict
    ) -> Seen:
        """Return an amphora whose node is deployed, and in use."""
        return self._in_use(asked, self._reader.one(asked), or_else)

    def _in_use(
        self,
        asked: Asked,
        seen: Seen,
        or_else: type[InstanceStateConflict] = InstanceStateConflict,
    ) -> Seen:
        # The amphora is to blame, and not the port that is to be attached.
        asked = dataclasses.replace(asked, resource_id=None)
        at = (seen.node or {}).get('provision_state')
        if at == states.ACTIVE and not seen.claim.deleting:
            return seen
        state = seen.condition.state
        if state in _PASSING or seen.condition.task:
            raise asked.error(
                InstanceStateConflict, f'it is {state.value} ({at}).', retryable=True
            )
        raise asked.error(or_else, f'it is in state {state.value} ({at}).')


def _is(seen: Seen, state: State) -> bool:
    return seen.condition.state is state
