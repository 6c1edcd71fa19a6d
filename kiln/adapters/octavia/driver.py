"""The compute drivers that Octavia loads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from octavia.common import constants, exceptions
from octavia.common import data_models as octavia_models
from octavia.compute import compute_base
from oslo_config import cfg

from kiln.adapters.octavia import errors, translate
from kiln.adapters.octavia.patience import patiently
from kiln.adapters.octavia.shared import SHARED
from kiln.compute import Compute
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
from kiln.wrappers.operation import Operation

T = TypeVar('T')

LOG = logging.getLogger(__name__)
CONF = cfg.CONF

#: The least time to look for a change in, whatever Octavia's wait is set to.
MIN_WAIT_S = 1.0
#: How long a request to Octavia's API may wait for what is asked on its behalf.
ANSWER_S = 15.0
SIMULATED_NETWORK = 'network_noop_driver'


class KilnDriver(compute_base.ComputeBase):  # type: ignore[misc]  # Octavia has no types
    """Any backend of kiln: the one that [kiln] backend names.

    Octavia makes one for each of its tasks, so that there is nothing in it:
    all share one facade in each process.
    """

    #: The NAME of the [compute:NAME] group, where the class is for one.
    backend: ClassVar[str | None] = None

    # ---- build, delete, look ----------------------------------------------

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
        """Build an amphora; return its id once the backend has agreed.

        Safe to repeat: what was built under the same name is returned, even if an
        option has another value by now. Whose image it may be is an option of the
        backend, ``image_owner``, which has the value that Octavia hands in here each time.

        :raises ComputeNoResourcesException: there is no room; nothing was built.
        :raises ComputeBuildException: for any other reason; nothing is left.
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
            # The name is one amphora's own, so this is that amphora, built before the
            # worker was restarted with another flavor or image. Octavia would never
            # learn the id of an instance that is refused, and leave it behind.
            LOG.warning('An earlier build is taken as it is. %s', exc)
            return exc.amphora_id

    def delete(self, compute_id: str | None) -> None:
        """Delete an amphora; return once the backend has agreed.

        Safe to repeat: one already gone is a success.

        :raises ComputeDeleteException: it may still exist.
        """
        if not compute_id:
            # Of an amphora whose build failed, Octavia never learnt it.
            LOG.info('There is no instance to delete: the amphora never had one')
            return
        with errors.leaving_as(errors.of_delete):
            self._patiently(self._compute().delete, compute_id)

    def status(self, compute_id: str) -> str:
        """Return UP for an amphora that is active, DOWN for any other."""
        with errors.leaving_as(errors.saying(exceptions.ComputeStatusException)):
            status = self._compute().status(compute_id).result()
        up_or_down: str = constants.UP if status.state is State.ACTIVE else constants.DOWN
        return up_or_down

    def get_amphora(
        self, compute_id: str, management_network_id: str | None = None
    ) -> tuple[octavia_models.Amphora, str | None]:
        """Return an amphora as soon as it is active, and no fault; or in error, and why.

        Octavia would look, sleep for amp_active_wait_sec while it is not
        active, and look again. This waits for it in place of the sleep: as
        long at most, but no longer than it takes, and for all who wait the
        backend is asked once.

        :raises ComputeWaitTimeoutException: it is not active yet; look again.
        :raises ComputeGetException: it is gone, or cannot be looked at.
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
            # What is refused at once would use up Octavia's retries at once:
            # of an amphora that is not active yet it sleeps before the next.
            LOG.warning('Amphora %s is active, but cannot be looked at: %s', compute_id, exc)
            return _seen(compute_id, _NOT_YET), None
        networks = (
            [management_network_id]
            if management_network_id
            else CONF.controller_worker.amp_boot_network_list
        )
        address = translate.management_address(amphora, networks)
        if networks and address is None:
            # Nobody can reach it so far, and Octavia would store that.
            LOG.info('Amphora %s has no address on its management network yet', compute_id)
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
        """Create a group; Octavia reads its ``id``."""
        with errors.leaving_as(errors.saying(exceptions.ServerGroupObjectCreateException)):
            return self._patiently(self._compute().create_server_group, name, policy)

    def delete_server_group(self, server_group_id: str) -> None:
        """Delete a group; one already gone is a success."""
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
        """Attach a port, or a new one of a network; one that hangs there is a success.

        :raises NotFound: the instance, the port or the network does not exist.
        :raises ComputePortInUseException: the port hangs elsewhere.
        :raises ComputeNoResourcesException: the host cannot take it.
        :raises ComputeUnknownException: for any other reason.
        """
        try:
            if port_id:
                attached = self._patiently(self._compute().attach_port, compute_id, port_id)
            else:
                attached = self._patiently(
                    self._compute().attach_network,
                    compute_id,
                    network_id or '',
                    address=ip_address,
                )
            return translate.Interface.of(attached)
        except KilnError as exc:
            raise errors.of_attach(exc, compute_id, network_id, port_id) from exc

    def detach_port(self, compute_id: str, port_id: str) -> None:
        """Detach a port; Octavia goes on deleting whether or not it can be done."""
        try:
            self._patiently(self._compute().detach_port, compute_id, port_id)
        except InstanceNotFoundError:
            LOG.info('Port %s hangs nowhere: instance %s is gone', port_id, compute_id)
        except KilnError as exc:
            LOG.error('Port %s stays on instance %s: %s', port_id, compute_id, exc)

    # ---- what profiles of the operator may name ---------------------------

    def validate_flavor(self, flavor_id: str) -> None:
        """Return if amphorae may have the flavor.

        :raises InvalidSubresource: they may not.
        """
        with errors.leaving_as(errors.of_validation('Compute flavor', flavor_id)):
            self._compute().validate_flavor(flavor_id, timeout=ANSWER_S).result()

    def validate_availability_zone(self, availability_zone: str) -> None:
        """Return if amphorae may be in the zone.

        :raises InvalidSubresource: they may not.
        """
        refused = errors.of_validation('Compute availability zone', availability_zone)
        with errors.leaving_as(refused):
            self._compute().validate_zone(availability_zone, timeout=ANSWER_S).result()

    def _compute(self) -> Compute:
        return SHARED.get(self.backend, CONF)

    def _patiently(self, call: Callable[..., Operation[T]], *args: Any, **given: Any) -> T:
        within_s = CONF[f'{compute_conf.GROUP}:{self._compute().name}'].call_timeout
        return patiently(lambda left_s: call(*args, timeout=left_s, **given), within_s)


class KilnNovaDriver(KilnDriver):
    """Nova, as the options of Octavia's own driver and [compute:nova] describe it."""

    backend = 'nova'


class KilnNoopDriver(KilnDriver):
    """A simulated cloud, which [compute:noop] describes."""

    backend = 'noop'

    def attach_network_or_port(
        self,
        compute_id: str,
        network_id: str | None = None,
        ip_address: str | None = None,
        port_id: str | None = None,
    ) -> translate.Interface:
        """Attach a port, and let Octavia's simulated network know where it hangs."""
        attached = super().attach_network_or_port(compute_id, network_id, ip_address, port_id)
        if CONF.controller_worker.network_driver == SIMULATED_NETWORK:
            from octavia.compute.drivers.noop_driver.driver import NoopManager

            # They share a file of ports, which no part of a real network needs:
            # without it Octavia finds its load balancers on no network at all.
            NoopManager().attach_network_or_port(compute_id, port_id=attached.port_id)
        return attached


#: Neither ACTIVE nor ERROR: to Octavia, a reason to look again.
_NOT_YET = 'BUILD'


def _wait_s() -> float:
    longest_s: float = CONF.controller_worker.amp_active_wait_sec
    return max(MIN_WAIT_S, longest_s)


def _seen(compute_id: str, status: str) -> octavia_models.Amphora:
    return octavia_models.Amphora(compute_id=compute_id, status=status)
