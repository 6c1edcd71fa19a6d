"""Noop compute driver: a simulated cloud behind the compute contract."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self, cast

from kiln.clock import SYSTEM_CLOCK, Clock
from kiln.compute_drivers.authoring.lazy_options import LazyOptions
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.faults import Fault
from kiln.exceptions import ConfigurationError
from kiln.models import (
    Ability,
    Amphora,
    AmphoraType,
    Attachment,
    BuildRequest,
    Changes,
    ComputeStatus,
    DriverHealth,
    ImageFacts,
    Limits,
    Resource,
    ServerGroup,
)

# The options that are passed to the cloud unchanged, under the same names.
_CLOUD_OPTIONS = (
    'path', 'seed', 'accept_s', 'build_s', 'delete_s', 'suspend_s', 'resume_s', 'reboot_s',
    'rebuild_s', 'jitter', 'zones', 'flavors', 'images', 'networks', 'ports', 'keypairs',
    'sec_groups', 'quota', 'capacity', 'hosts_per_zone',
)  # fmt: skip


class NoopDriver(AmphoraComputeDriver):
    """Builds nothing real, and fulfils the whole contract.

    No machine runs: files, keys and user data are checked and then only counted or hashed,
    and no address can be reached. A cloud in memory ends with its process; one in a file is
    shared, but its latencies, faults and what it offers belong to each process.

    Each driver has its own cloud unless it is given one; two drivers with
    different owners can share a cloud.
    """

    options: ClassVar[Sequence[Any]] = cast(
        'Sequence[Any]', LazyOptions('kiln.compute_drivers.noop.conf')
    )
    limits = Limits(amphora_types=frozenset(AmphoraType))
    name = 'noop'
    #: The bench of the conformance kit; only the kit imports it.
    bench = 'kiln.compute_drivers.noop.bench:NoopBench'

    def __init__(self, conf: Any = None, *, cloud: NoopCloud | None = None) -> None:
        self.cloud: NoopCloud = cloud or cloud_of(conf, SYSTEM_CLOCK)
        self.clock = self.cloud.clock
        if conf is not None:
            self.missing_abilities = _abilities(conf.missing_abilities)

    @classmethod
    def open(cls, conf: Any, *, name: str, owner: str, clock: Clock = SYSTEM_CLOCK) -> Self:
        """Return the driver of one configured backend; its cloud uses the same clock."""
        driver = cls(conf, cloud=cloud_of(conf, clock))
        driver.name, driver.owner, driver.clock = name, owner, clock
        return driver

    def close(self) -> None:
        """Close the cloud's file; a cloud in memory exists as long as it is referenced."""
        self.cloud.close()

    # ---- hooks: the cloud takes and returns the contract's own values ----

    def _build(self, request: BuildRequest) -> str:
        return self.cloud.build(request)

    def _delete(self, amphora_id: str) -> None:
        self.cloud.delete(amphora_id)

    def _get(self, amphora_id: str) -> Amphora:
        return self.cloud.get(amphora_id)

    def _list(self, owner: str) -> Iterable[Amphora]:
        return self.cloud.list_machines(owner)

    def _find(self, name: str) -> Sequence[Amphora]:
        return self.cloud.find(name, self.owner)

    def _find_build(self, build_key: str) -> Amphora | None:
        return self.cloud.find_build(build_key, self.owner)

    def _status(self, amphora_id: str) -> ComputeStatus:
        return self.cloud.status(amphora_id)

    def _statuses(self, amphora_ids: tuple[str, ...]) -> Mapping[str, ComputeStatus]:
        return self.cloud.statuses(amphora_ids)

    def _changes(self, since: str) -> Changes:
        return self.cloud.changes(self.owner, since)

    def _check(self) -> DriverHealth:
        return self.cloud.check()

    def _suspend(self, amphora_id: str) -> None:
        self.cloud.suspend(amphora_id)

    def _resume(self, amphora_id: str) -> None:
        self.cloud.resume(amphora_id)

    def _reboot(self, amphora_id: str, hard: bool) -> None:
        self.cloud.reboot(amphora_id, hard=hard)

    def _rebuild(self, amphora_id: str, image_id: str | None) -> None:
        self.cloud.rebuild(amphora_id, image_id)

    def _attach_port(self, amphora_id: str, port_id: str) -> Attachment:
        return self.cloud.attach_port(amphora_id, port_id)

    def _detach_port(self, amphora_id: str, port_id: str) -> None:
        self.cloud.detach_port(amphora_id, port_id)

    def _attach_network(self, amphora_id: str, network_id: str, address: str | None) -> Attachment:
        return self.cloud.attach_network(amphora_id, network_id, address, self.owner)

    def _detach_network(self, amphora_id: str, network_id: str) -> None:
        self.cloud.detach_network(amphora_id, network_id)

    def _create_server_group(self, name: str, policy: str) -> ServerGroup:
        return self.cloud.create_server_group(name, policy, self.owner)

    def _delete_server_group(self, server_group_id: str) -> None:
        self.cloud.delete_server_group(server_group_id)

    def _validate_flavor(self, flavor: str) -> None:
        self.cloud.validate_flavor(flavor)

    def _validate_image(self, image_id: str) -> None:
        self.cloud.validate_image(image_id)

    def _validate_zone(self, availability_zone: str) -> None:
        self.cloud.validate_zone(availability_zone)

    def _describe_image(self, image_id: str) -> ImageFacts:
        return self.cloud.describe_image(image_id)

    def _list_zones(self) -> Sequence[str]:
        return self.cloud.list_zones()

    def _list_resources(self, owner: str) -> Iterable[Resource]:
        return self.cloud.list_resources(owner)

    def _delete_resource(self, resource: Resource) -> None:
        self.cloud.delete_resource(resource)

    def _console_log(self, amphora_id: str, lines: int | None) -> str:
        return self.cloud.console_log(amphora_id, lines)


def cloud_of(conf: Any, clock: Clock) -> NoopCloud:
    """Return the cloud that a backend's options describe."""
    if conf is None:
        return NoopCloud(clock=clock)
    given = {name: getattr(conf, name) for name in _CLOUD_OPTIONS}
    faults = [Fault.parse(text) for text in conf.faults.split(';') if text.strip()]
    return NoopCloud(clock=clock, faults=faults, **given)


def _abilities(names: Sequence[str]) -> frozenset[Ability]:
    try:
        return frozenset(map(Ability, names))
    except ValueError as exc:
        raise ConfigurationError(
            f'Cannot use missing_abilities: {exc}. Choose from {", ".join(Ability)}.'
        ) from exc
