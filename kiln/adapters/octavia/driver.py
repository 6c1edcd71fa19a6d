"""Compute drivers that Octavia loads by their entry points."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from octavia.common import constants, exceptions
from octavia.common import data_models as octavia_models
from octavia.compute import compute_base
from oslo_config import cfg

from kiln.adapters.octavia import errors, translate
from kiln.adapters.octavia.retry_once import patiently
from kiln.adapters.octavia.shared import SHARED
from kiln.compute.facade import Compute
from kiln.conf import compute as compute_conf
from kiln.exceptions import (
    AmphoraBuildError,
    AmphoraComputeError,
    BuildDiffers,
    InstanceNotFoundError,
    KilnError,
    OperationTimeout,
)
from kiln.models import ServerGroup, State
from kiln.wrappers.operations.operation import Operation

T = TypeVar('T')

LOG = logging.getLogger(__name__)
CONF = cfg.CONF

#: The shortest time to wait for an amphora, even if Octavia's own wait is shorter.
MIN_WAIT_S = 1.0
#: Seconds that a request to Octavia's API can wait for a validation.
ANSWER_S = 15.0
SIMULATED_NETWORK = 'network_noop_driver'


class KilnDriver(compute_base.ComputeBase):  # type: ignore[misc]  # Octavia has no types
    """Octavia compute driver for the backend that [kiln] backend names.

    Octavia creates a driver for each of its tasks, so a driver has no state: all
    drivers of a process share one facade for each backend.
    """

    #: The NAME of the [compute:NAME] group, if the class is for one group only.
    backend: ClassVar[str | None] = None

    # ---- build, delete, read ----------------------------------------------

    def build(
        self,
        name: str = 'amphora_name',
        amphora_flavor: str | None = None,
        image_tag: str | None = None,
        image_owner: str | None = None,
        key_name: str | None = None,
        sec_groups: Sequence[str] | None = None,
        network_ids: Sequence[str] | None = None,
        config_drive_files: Mapping[str, Any] | None = None,
        user_data: Any = None,
        server_group_id: str | None = None,
        availability_zone: Mapping[str, Any] | None = None,
        port_ids: Sequence[str] | None = None,
    ) -> str:
        """Build an amphora; return its id once the backend has accepted the build.

        Safe to repeat: the amphora that was built under the same name is returned, even
        if an option has changed since. The owner of the image comes from the backend's
        option ``image_owner``, which has the value that Octavia passes here each time.

        :raises ComputeNoResourcesException: no capacity is left; nothing was built.
        :raises ComputeBuildException: the build failed for another reason; nothing is left.
        """
        given = availability_zone or {}
        length = CONF.nova.random_amphora_name_length
        with errors.leaving_as(errors.of_build):
            compute = self._compute()
            return self._adopting(
                compute.build,
                amphora_flavor=amphora_flavor or None,
                image_id=translate.image(image_tag, by_tag=CONF.kiln.image_by_tag),
                keys=[key_name] if key_name else None,
                sec_groups=sec_groups,
                network_ids=network_ids,
                config_drive_files=translate.files(config_drive_files),
                user_data=user_data,
                name=translate.random_name(name, length) if length else name,
                build_key=translate.build_key(name),
                port_ids=port_ids,
                availability_zone=given.get(constants.COMPUTE_ZONE, CONF.nova.availability_zone),
                server_group_id=server_group_id,
            )

    def _adopting(self, build: Callable[..., Operation[str]], **given: Any) -> str:
        try:
            return self._patiently(build, **given)
        except BuildDiffers as exc:
            if exc.amphora_id is None:
                raise
            # Each amphora has its own name, so this is that amphora, built before the
            # worker was restarted with another flavor or image. If this raised, Octavia
            # would never get the id of the instance, and would leave it behind.
            LOG.warning('The amphora of an earlier build is used unchanged. %s', exc)
            return exc.amphora_id

    def delete(self, compute_id: str | None) -> None:
        """Delete an amphora; return once the backend has accepted the delete.

        Safe to repeat: an amphora that does not exist is a success.

        :raises ComputeDeleteException: the amphora might still exist.
        """
        if not compute_id:
            # Octavia has no compute id for an amphora whose build failed.
            LOG.info('No instance to delete: the amphora never had one')
            return
        with errors.leaving_as(errors.of_delete):
            self._patiently(self._compute().delete, compute_id)

    def status(self, compute_id: str) -> str:
        """Return UP if the amphora is active, otherwise DOWN."""
        with errors.leaving_as(errors.saying(exceptions.ComputeStatusException)):
            status = self._compute().status(compute_id).result()
        up_or_down: str = constants.UP if status.state is State.ACTIVE else constants.DOWN
        return up_or_down

    def get_amphora(
        self, compute_id: str, management_network_id: str | None = None
    ) -> tuple[octavia_models.Amphora, str | None]:
        """Return the amphora once it is active, with no fault; or in error, with its fault.

        Octavia would poll, sleep for amp_active_wait_sec while the amphora is not
        active, and poll again. This method waits instead of the sleep, for at most
        the same time and no longer than the build takes, and one poll of the backend
        serves all waiting callers.

        :raises ComputeWaitTimeoutException: the amphora is not active so far; call again.
        :raises ComputeGetException: the amphora is gone, or cannot be read.
        """
        with errors.leaving_as(errors.saying(exceptions.ComputeGetException)):
            compute = self._compute()
            try:
                compute.watch(compute_id, timeout=_wait_s()).result()
            except OperationTimeout as exc:
                raise exceptions.ComputeWaitTimeoutException(id=compute_id) from exc
            except AmphoraBuildError as exc:
                return _seen(compute_id, constants.ERROR), exc.fault or str(exc)
            return self._described(compute, compute_id, management_network_id)

    def _described(
        self, compute: Compute, compute_id: str, management_network_id: str | None
    ) -> tuple[octavia_models.Amphora, str | None]:
        try:
            amphora = compute.get_amphora(amphora_id=compute_id, timeout=_wait_s()).result()
        except AmphoraComputeError as exc:
            if not exc.retryable:
                raise
            # An immediate error would use up Octavia's retries at once; for an amphora
            # that is not active, Octavia sleeps before the next retry.
            LOG.warning('Amphora %s is active, but cannot be read: %s', compute_id, exc)
            return _seen(compute_id, _NOT_YET), None
        networks = (
            [management_network_id]
            if management_network_id
            else CONF.controller_worker.amp_boot_network_list
        )
        address = translate.management_address(amphora, networks)
        if networks and address is None:
            # It cannot be reached so far, and Octavia would store the missing address.
            LOG.info('Amphora %s has no address on its management network so far', compute_id)
            return _seen(compute_id, _NOT_YET), None
        found = octavia_models.Amphora(
            compute_id=compute_id,
            status=translate.status(amphora.state),
            lb_network_ip=address,
            cached_zone=amphora.availability_zone,
            image_id=translate.image_id(amphora),
            compute_flavor=amphora.flavor,
        )
        return found, amphora.fault

    # ---- server groups ----------------------------------------------------

    def create_server_group(self, name: str, policy: str) -> ServerGroup:
        """Create a server group; Octavia reads the ``id`` of the result."""
        with errors.leaving_as(errors.saying(exceptions.ServerGroupObjectCreateException)):
            return self._patiently(self._compute().create_server_group, name, policy)

    def delete_server_group(self, server_group_id: str) -> None:
        """Delete a server group; a group that does not exist is a success."""
        with errors.leaving_as(errors.saying(exceptions.ServerGroupObjectDeleteException)):
            self._patiently(self._compute().delete_server_group, server_group_id)

    # ---- ports ------------------------------------------------------------

    def attach_network_or_port(
        self,
        compute_id: str,
        network_id: str | None = None,
        ip_address: str | None = None,
        port_id: str | None = None,
    ) -> translate.Interface:
        """Attach a port, or a new port of a network; an attached port is a success.

        :raises NotFound: the instance, the port or the network does not exist.
        :raises ComputePortInUseException: the port is attached to another instance.
        :raises ComputeNoResourcesException: the host cannot take the port.
        :raises ComputeUnknownException: the attachment failed for another reason.
        """
        try:
            compute = self._compute()
            if port_id:
                attached = self._patiently(compute.attach_port, compute_id, port_id)
            else:
                attached = self._patiently(
                    compute.attach_network, compute_id, network_id or '', address=ip_address
                )
            return translate.Interface.of(attached)
        except KilnError as exc:
            raise errors.of_attach(exc, compute_id, network_id, port_id) from exc

    def detach_port(self, compute_id: str, port_id: str) -> None:
        """Detach a port; log a failure, since Octavia then continues its delete anyway."""
        try:
            self._patiently(self._compute().detach_port, compute_id, port_id)
        except InstanceNotFoundError:
            LOG.info('Port %s is not attached: instance %s is gone', port_id, compute_id)
        except KilnError as exc:
            LOG.error('Port %s stays on instance %s: %s', port_id, compute_id, exc)

    # ---- validation of the operator's profiles ----------------------------

    def validate_flavor(self, flavor_id: str) -> None:
        """Return if amphorae can use the flavor, or else raise InvalidSubresource."""
        with errors.leaving_as(errors.of_validation('Compute flavor', flavor_id)):
            self._compute().validate_flavor(flavor_id, timeout=ANSWER_S).result()

    def validate_availability_zone(self, availability_zone: str) -> None:
        """Return if amphorae can be placed in the zone, or else raise InvalidSubresource."""
        refused = errors.of_validation('Compute availability zone', availability_zone)
        with errors.leaving_as(refused):
            self._compute().validate_zone(availability_zone, timeout=ANSWER_S).result()

    def _compute(self) -> Compute:
        return SHARED.get(self.backend, CONF)

    def _patiently(self, call: Callable[..., Operation[T]], *args: Any, **given: Any) -> T:
        within_s = CONF[f'{compute_conf.GROUP}:{self._compute().name}'].call_timeout
        return patiently(lambda left_s: call(*args, timeout=left_s, **given), within_s)


class KilnNovaDriver(KilnDriver):
    """Nova backend, from the options of Octavia's own Nova driver and [compute:nova]."""

    backend = 'nova'


class KilnNoopDriver(KilnDriver):
    """Simulated cloud, from the options of [compute:noop]."""

    backend = 'noop'

    def attach_network_or_port(
        self,
        compute_id: str,
        network_id: str | None = None,
        ip_address: str | None = None,
        port_id: str | None = None,
    ) -> translate.Interface:
        """Attach a port, and record it in Octavia's simulated network."""
        attached = super().attach_network_or_port(compute_id, network_id, ip_address, port_id)
        if CONF.controller_worker.network_driver == SIMULATED_NETWORK:
            from octavia.compute.drivers.noop_driver.driver import NoopManager

            # Octavia's no-op drivers share a file of ports, which a real network does
            # not need; without an entry there, a load balancer is on no network.
            NoopManager().attach_network_or_port(compute_id, port_id=attached.port_id)
        return attached


#: Neither ACTIVE nor ERROR, so that Octavia polls again.
_NOT_YET = 'BUILD'


def _wait_s() -> float:
    longest_s: float = CONF.controller_worker.amp_active_wait_sec
    return max(MIN_WAIT_S, longest_s)


def _seen(compute_id: str, status: str) -> octavia_models.Amphora:
    return octavia_models.Amphora(compute_id=compute_id, status=status)
