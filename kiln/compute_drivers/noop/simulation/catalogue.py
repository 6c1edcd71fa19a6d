"""Offer and placement of the simulated cloud: valid names, quota, hosts; pure."""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kiln.exceptions import (
    ConfigurationError,
    InsufficientCapacity,
    InvalidBuildRequest,
    InvalidRequest,
    QuotaExceeded,
)
from kiln.models import BuildRequest

#: A flavor that is valid, but never has capacity.
IMPOSSIBLE = 'impossible'
#: The zone of a machine without a requested zone, in a cloud that accepts any zone.
SOME_ZONE = 'noop-zone'
#: A zone and a host in it.
Spot = tuple[str, str]
_FIELDS = {'security group': 'sec_groups'}
POLICIES = ('affinity', 'anti-affinity', 'soft-affinity', 'soft-anti-affinity')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Catalogue:
    """The valid names of each kind; None accepts any name."""

    zones: Sequence[str] | None = ('az1', 'az2', 'az3')
    flavors: Sequence[str] | None = ('tiny', 'small', 'medium', 'large', IMPOSSIBLE)
    images: Sequence[str] | None = None
    # The properties of each image.
    image_properties: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    # Images by the names that were given to them, which can move.
    image_names: dict[str, str] = dataclasses.field(default_factory=dict)
    networks: Sequence[str] | None = None
    # Ports by id, with the network of each.
    ports: Mapping[str, str] | None = None
    keypairs: Sequence[str] | None = None
    sec_groups: Sequence[str] | None = None
    # The ports that a security group opens to its members; any other opens all to everybody.
    group_ports: dict[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    quota: int | None = None
    capacity: Mapping[str, int] = dataclasses.field(default_factory=dict)
    hosts_per_zone: int = 16

    def __post_init__(self) -> None:
        if (self.zones is not None and not self.zones) or self.hosts_per_zone < 1:
            raise ConfigurationError('Cannot simulate a cloud without a zone and a host in it.')
        if self.zones is not None and (strangers := sorted(set(self.capacity) - set(self.zones))):
            raise ConfigurationError(
                f'Cannot limit the capacity of {", ".join(strangers)}: the zones are '
                f'{", ".join(self.zones)}.'
            )

    @property
    def default_network(self) -> str:
        """The network of machines without a requested network."""
        return self.networks[0] if self.networks else 'noop-net'

    def image(self, name: str) -> str:
        """Return the image that a name stands for; any other text is an image itself."""
        return self.image_names.get(name, name)

    def check_request(self, request: BuildRequest) -> None:
        """Raise if a build names anything that is not offered."""
        wanted: Iterable[tuple[str, Iterable[str], Iterable[str] | None]] = (
            ('flavor', _one(request.flavor), self.flavors),
            ('image', map(self.image, _one(request.image_id)), self.images),
            ('zone', _one(request.availability_zone), self.zones),
            ('network', (network for network, _ in places(request)), self.networks),
            ('port', request.port_ids, self.ports),
            ('key', request.keys, self.keypairs),
            ('security group', request.sec_groups, self.sec_groups),
        )
        for kind, names, offered in wanted:
            for name in names:
                if offered is not None and name not in offered:
                    raise InvalidBuildRequest(
                        f'Cannot build {request.name!r}: {_unknown(kind, name, offered)}',
                        build_key=request.build_key,
                    )

    def check_offered(self, kind: str, name: str) -> None:
        """Raise if a flavor, an image, a zone, a network or a security group is not offered."""
        offered: Sequence[str] | None = getattr(self, _FIELDS.get(kind, f'{kind}s'))
        means = {'image': self.image, 'network': _network_of}
        if offered is not None and means.get(kind, str)(name) not in offered:
            raise InvalidRequest(f'Cannot use {_unknown(kind, name, offered)}', resource_id=name)

    def check_ports(
        self, sec_groups: Sequence[str], ports: Sequence[str], peers: Sequence[str] | None
    ) -> None:
        """Raise if security groups are not offered, or do not open ports to machines of peers."""
        for name in (*sec_groups, *(peers or ())):
            self.check_offered('security group', name)
        # Machines without a group are not guarded.
        if not sec_groups or not self.group_ports.keys() >= set(sec_groups):
            return
        shared = set(sec_groups) if peers is None else set(sec_groups) & set(peers)
        opened = {port for name in shared for port in self.group_ports[name]}
        if closed := [port for port in ports if port not in opened]:
            raise InvalidRequest(
                f'Cannot use security group {", ".join(sec_groups)}: no rule opens '
                f'{", ".join(closed)} to the other machines. Add them to group_ports.',
                resource_id=sec_groups[0],
            )

    def place(
        self,
        request: BuildRequest,
        used: Mapping[str, int],
        policy: str | None,
        members: Sequence[Spot],
    ) -> Spot:
        """Return the spot for a machine, in the zone with the fewest machines.

        ``used`` counts the machines of each zone; ``members`` are the spots of the
        machines in its group.

        :raises QuotaExceeded: the quota of the project is used up.
        :raises InsufficientCapacity: no host can take the machine.
        """
        running = sum(used.values())
        if self.quota is not None and running >= self.quota:
            raise QuotaExceeded(
                f'Cannot build {request.name!r}: {running} of {self.quota} instances are used. '
                f'Delete instances or raise the quota.',
                build_key=request.build_key,
            )
        asked = request.availability_zone
        zones = [
            zone
            for zone in ([asked] if asked else self.zones or (SOME_ZONE,))
            if zone not in self.capacity or used.get(zone, 0) < self.capacity[zone]
        ]
        if not zones or request.flavor == IMPOSSIBLE:
            raise InsufficientCapacity(
                f'Cannot build {request.name!r}: no valid host was found for flavor '
                f'{request.flavor} in zone {asked or "any"}. Try another flavor or zone.',
                build_key=request.build_key,
            )
        zones.sort(key=lambda zone: used.get(zone, 0))
        spots: Iterable[Spot] = self._spots(zones, used)
        if policy and members:
            spots = _allowed(spots, zones, policy, members)
        spot = next(iter(spots), None)
        if spot is None:
            raise InsufficientCapacity(
                f'Cannot build {request.name!r}: no valid host satisfies {policy} in server '
                f'group {request.server_group_id}, which has {len(members)} members. Try '
                f'another zone, or a soft policy.',
                build_key=request.build_key,
            )
        return spot

    def _spots(self, zones: Sequence[str], used: Mapping[str, int]) -> Iterator[Spot]:
        for zone in zones:
            for shift in range(self.hosts_per_zone):
                host = (used.get(zone, 0) + shift) % self.hosts_per_zone
                yield zone, f'{zone}-host-{host + 1}'


def places(request: BuildRequest) -> list[tuple[str, str | None]]:
    """Return the networks of a build, each with the fixed address that is requested there.

    :raises InvalidBuildRequest: what is requested is not an address.
    """
    return [_place(request, network) for network in request.network_ids]


def _network_of(wanted: str) -> str:
    return wanted.partition('=')[0]


def _place(request: BuildRequest, network: str) -> tuple[str, str | None]:
    network_id, equals, address = network.partition('=')
    if not equals:
        return network_id, None
    try:
        return network_id, str(ipaddress.ip_address(address))
    except ValueError:
        raise InvalidBuildRequest(
            f'Cannot build {request.name!r}: {address!r} of network {network!r} is not an IP '
            f'address.',
            build_key=request.build_key,
        ) from None


def _allowed(
    spots: Iterable[Spot], zones: Sequence[str], policy: str, members: Sequence[Spot]
) -> Iterator[Spot]:
    """Yield the spots that a group's policy allows, the preferred ones first."""
    spots = list(spots)
    if policy.endswith('anti-affinity'):
        taken = set(members)
        yield from (spot for spot in spots if spot not in taken)
    else:
        yield from (spot for spot in members if spot[0] in zones)
    if policy.startswith('soft-'):
        yield from spots


def _one(name: str | None) -> tuple[str, ...]:
    return () if name is None else (name,)


def _unknown(kind: str, name: str, offered: Iterable[str]) -> str:
    names = ', '.join(sorted(offered)) or 'none'
    # A key can be given by its whole text instead of a name.
    name = name if len(name) <= 60 else f'{name[:60]}...'
    return f'{kind} {name!r}: it does not exist; known: {names}.'
