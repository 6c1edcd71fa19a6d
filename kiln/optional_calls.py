"""The calls of the facade that a backend may lack: a driver has them by overriding hooks."""

from __future__ import annotations

import abc
from collections.abc import Collection, Sequence
from typing import Any

from kiln.compute_drivers import validation
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.calls import Call
from kiln.models import Attachment, ImageFacts, Resource, ServerGroup, State
from kiln.wrappers.operation import Operation, Priority


class OptionalCalls(abc.ABC):
    """Returns at once with an Operation; what a backend lacks is refused at once.

    :raises UnsupportedOperation: the backend lacks the ability.
    """

    # ---- execution state -------------------------------------------------

    def suspend(
        self, amphora_id: str, *, wait: bool = False, timeout: float | None = None
    ) -> Operation[None]:
        """Suspend an active amphora."""
        validation.check_text('amphora_id', amphora_id)
        return self._effect(
            Call.SUSPEND, amphora_id, goal={State.SUSPENDED}, wait=wait, timeout=timeout
        )

    def resume(
        self, amphora_id: str, *, wait: bool = False, timeout: float | None = None
    ) -> Operation[None]:
        """Let a suspended amphora go on."""
        validation.check_text('amphora_id', amphora_id)
        return self._effect(
            Call.RESUME, amphora_id, goal={State.ACTIVE}, wait=wait, timeout=timeout
        )

    def reboot(
        self,
        amphora_id: str,
        *,
        hard: bool = False,
        wait: bool = False,
        timeout: float | None = None,
    ) -> Operation[None]:
        """Reboot an amphora; hard means as by its power switch."""
        validation.check_text('amphora_id', amphora_id)
        return self._effect(
            Call.REBOOT, amphora_id, bool(hard), goal={State.ACTIVE}, wait=wait, timeout=timeout
        )

    def rebuild(
        self,
        amphora_id: str,
        *,
        image_id: str | None = None,
        wait: bool = False,
        timeout: float | None = None,
    ) -> Operation[None]:
        """Make an amphora anew under its id, from its image or another."""
        validation.check_text('amphora_id', amphora_id)
        if image_id is not None:
            validation.check_text('image_id', image_id)
        return self._effect(
            Call.REBUILD, amphora_id, image_id, goal={State.ACTIVE}, wait=wait, timeout=timeout
        )

    # ---- ports, networks, groups, resources ------------------------------

    def attach_port(
        self, amphora_id: str, port_id: str, *, timeout: float | None = None
    ) -> Operation[Attachment]:
        """Attach a port; one that hangs there already is a success."""
        return self._submit(
            Call.ATTACH_PORT, *_ids(amphora_id=amphora_id, port_id=port_id), timeout=timeout
        )

    def detach_port(
        self, amphora_id: str, port_id: str, *, timeout: float | None = None
    ) -> Operation[None]:
        """Detach a port; one that does not hang there is a success."""
        return self._submit(
            Call.DETACH_PORT, *_ids(amphora_id=amphora_id, port_id=port_id), timeout=timeout
        )

    def attach_network(
        self,
        amphora_id: str,
        network_id: str,
        *,
        address: str | None = None,
        timeout: float | None = None,
    ) -> Operation[Attachment]:
        """Attach a new port of a network, with a fixed address if one is given."""
        ids = _ids(amphora_id=amphora_id, network_id=network_id)
        if address is not None:
            validation.check_text('address', address)
        return self._submit(Call.ATTACH_NETWORK, *ids, address, timeout=timeout)

    def detach_network(
        self, amphora_id: str, network_id: str, *, timeout: float | None = None
    ) -> Operation[None]:
        """Detach all ports of a network."""
        ids = _ids(amphora_id=amphora_id, network_id=network_id)
        return self._submit(Call.DETACH_NETWORK, *ids, timeout=timeout)

    def create_server_group(
        self, name: str, policy: str, *, timeout: float | None = None
    ) -> Operation[ServerGroup]:
        """Create a group of amphorae with a placement policy."""
        texts = _ids(name=name, policy=policy)
        return self._submit(Call.CREATE_SERVER_GROUP, *texts, timeout=timeout)

    def delete_server_group(
        self, server_group_id: str, *, timeout: float | None = None
    ) -> Operation[None]:
        """Delete a group; its members stay."""
        return self._submit(
            Call.DELETE_SERVER_GROUP, *_ids(server_group_id=server_group_id), timeout=timeout
        )

    def validate_flavor(self, flavor: str, *, timeout: float | None = None) -> Operation[None]:
        """Succeed if builds may use the flavor."""
        return self._submit(Call.VALIDATE_FLAVOR, *_ids(flavor=flavor), timeout=timeout)

    def validate_image(self, image_id: str, *, timeout: float | None = None) -> Operation[None]:
        """Succeed if builds may use the image."""
        return self._submit(Call.VALIDATE_IMAGE, *_ids(image_id=image_id), timeout=timeout)

    def validate_zone(
        self, availability_zone: str, *, timeout: float | None = None
    ) -> Operation[None]:
        """Succeed if builds may use the availability zone."""
        return self._submit(
            Call.VALIDATE_ZONE, *_ids(availability_zone=availability_zone), timeout=timeout
        )

    def describe_image(
        self, image_id: str, *, timeout: float | None = None
    ) -> Operation[ImageFacts]:
        """Ask for what is said of an image."""
        return self._submit(Call.DESCRIBE_IMAGE, *_ids(image_id=image_id), timeout=timeout)

    def list_zones(self, *, timeout: float | None = None) -> Operation[Sequence[str]]:
        """Ask for the names of the zones in which builds may be made now."""
        return self._submit(Call.LIST_ZONES, timeout=timeout)

    def list_resources(
        self, owner: str | None = None, *, timeout: float | None = None
    ) -> Operation[Sequence[Resource]]:
        """Ask for what this site made beside amphorae."""
        owner = validation.check_owner(self.driver.owner if owner is None else owner)
        return self._submit(Call.LIST_RESOURCES, owner, timeout=timeout)

    def delete_resource(
        self, resource: Resource, *, timeout: float | None = None
    ) -> Operation[None]:
        """Delete a resource of this site."""
        validation.check_own_resource(resource, self.driver.owner)
        return self._submit(Call.DELETE_RESOURCE, resource, timeout=timeout)

    def console_log(
        self, amphora_id: str, *, lines: int | None = None, timeout: float | None = None
    ) -> Operation[str]:
        """Ask for what an amphora wrote on its console."""
        validation.check_text('amphora_id', amphora_id)
        validation.check_lines(lines)
        return self._submit(Call.CONSOLE_LOG, amphora_id, lines, timeout=timeout)

    # ---- what they are sent with ------------------------------------------

    @property
    @abc.abstractmethod
    def driver(self) -> AmphoraComputeDriver:
        """The vendor's driver, without any guard; for tests and repairs."""

    @abc.abstractmethod
    def _submit(
        self,
        call: Call,
        *args: Any,
        timeout: float | None,
        priority: Priority = Priority.NORMAL,
    ) -> Operation[Any]:
        """Have a call made with checked arguments."""

    @abc.abstractmethod
    def _effect(
        self,
        call: Call,
        amphora_id: str,
        *args: Any,
        goal: Collection[State] | None,
        wait: bool,
        timeout: float | None,
        priority: Priority = Priority.NORMAL,
    ) -> Operation[None]:
        """Have a call made, and with ``wait`` end when the backend shows its effect."""


def _ids(**texts: str) -> tuple[str, ...]:
    return tuple(validation.check_text(name, text) for name, text in texts.items())
