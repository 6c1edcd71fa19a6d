"""What the simulated cloud offers, and where it puts a machine; pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from kiln.exceptions import (
    ConfigurationError,
    InsufficientCapacity,
    InvalidBuildRequest,
    InvalidRequest,
    QuotaExceeded,
)
from kiln.models import BuildRequest

#: A flavor that everybody may ask for and nobody ever gets.
IMPOSSIBLE = 'impossible'
POLICIES = ('affinity', 'anti-affinity', 'soft-affinity', 'soft-anti-affinity')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Latencies:
    """Seconds that things take; ``jitter`` is the part by which they vary.

    ``accept_s`` is how long each call blocks its caller. The others are the
    time from there until the effect.
    """

    accept_s: float = 0.0
    build_s: float = 0.0
    delete_s: float = 0.0
    suspend_s: float = 0.0
    resume_s: float = 0.0
    reboot_s: float = 0.0
    rebuild_s: float = 0.0
    jitter: float = 0.0

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            if value < 0:
                raise ConfigurationError(f'Cannot simulate {name}={value}: give 0 or more.')
        if self.jitter > 1:
            raise ConfigurationError(f'Cannot simulate jitter={self.jitter}: give 0 to 1.')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Catalogue:
    """What may be asked for; None stands for "anything"."""

    zones: Sequence[str] = ('az1', 'az2', 'az3')
    flavors: Sequence[str] = ('tiny', 'small', 'medium', 'large', IMPOSSIBLE)
    images: Sequence[str] | None = None
    networks: Sequence[str] | None = None
    # Ports by id, with the network of each.
    ports: Mapping[str, str] | None = None
    keys: Sequence[str] | None = None
    sec_groups: Sequence[str] | None = None
    quota: int | None = None
    capacity: Mapping[str, int] = dataclasses.field(default_factory=dict)
    hosts_per_zone: int = 16

    def __post_init__(self) -> None:
        if not self.zones or self.hosts_per_zone < 1:
            raise ConfigurationError('Cannot simulate a cloud without a zone and a host in it.')
        if strangers := sorted(set(self.capacity) - set(self.zones)):
            raise ConfigurationError(
                f'Cannot limit the capacity of {", ".join(strangers)}: the zones are '
                f'{", ".join(self.zones)}.'
            )

    @property
    def default_network(self) -> str:
        """The network of machines that ask for none."""
        return self.networks[0] if self.networks else 'noop-net'

    def check_request(self, request: BuildRequest) -> None:
        """Refuse a build that names what is not on offer."""
        wanted: Iterable[tuple[str, Iterable[str], Iterable[str] | None]] = (
            ('flavor', (request.flavor,) if request.flavor else (), self.flavors),
            ('image', (request.image_id,) if request.image_id else (), self.images),
            (
                'zone',
                (request.availability_zone,) if request.availability_zone else (),
                self.zones,
            ),
            ('network', request.network_ids, self.networks),
            ('port', request.port_ids, self.ports),
            ('key', request.keys, self.keys),
            ('security group', request.sec_groups, self.sec_groups),
        )
        for kind, names, offered in wanted:
            for name in names:
                if offered is not None and name not in offered:
                    raise InvalidBuildRequest(
                        f'Cannot build {request.name!r}: {_unknown(kind, name, offered)}',
                        build_key=request.build_key,
                    )

    def check_offered(self, kind: str, name: str, offered: Sequence[str] | None) -> None:
        """Refuse a flavor, image or zone that is not on offer."""
        if offered is not None and name not in offered:
            raise InvalidRequest(f'Cannot use {_unknown(kind, name, offered)}', resource_id=name)

    def place(
        self,
        request: BuildRequest,
        number: int,
        used: Mapping[str, int],
        policy: str | None,
        member_hosts: Sequence[tuple[str, str]],
    ) -> tuple[str, str]:
        """Return zone and host for a machine.

        :raises QuotaExceeded: the project has none left.
        :raises InsufficientCapacity: no host can take it.
        """
        running = sum(used.values())
        if self.quota is not None and running >= self.quota:
            raise QuotaExceeded(
                f'Cannot build {request.name!r}: {running} of {self.quota} instances are used. '
                f'Delete some or raise the quota.',
                build_key=request.build_key,
            )
        asked = request.availability_zone
        turn = number % len(self.zones)
        zones = [asked] if asked else [*self.zones[turn:], *self.zones[:turn]]
        zones = [z for z in zones if z not in self.capacity or used.get(z, 0) < self.capacity[z]]
        if not zones or request.flavor == IMPOSSIBLE:
            raise InsufficientCapacity(
                f'Cannot build {request.name!r}: no valid host was found for flavor '
                f'{request.flavor} in zone {asked or "any"}. Try another of either.',
                build_key=request.build_key,
            )
        if policy is None or not member_hosts:
            return zones[0], self._host(zones[0], number)
        return self._place_in_group(request, number, zones, policy, member_hosts)

    def _place_in_group(
        self,
        request: BuildRequest,
        number: int,
        zones: Sequence[str],
        policy: str,
        member_hosts: Sequence[tuple[str, str]],
    ) -> tuple[str, str]:
        taken = set(member_hosts)
        if policy.endswith('anti-affinity'):
            for zone in zones:
                for shift in range(self.hosts_per_zone):
                    spot = (zone, self._host(zone, number + shift))
                    if spot not in taken:
                        return spot
        else:
            for spot in member_hosts:
                if spot[0] in zones:
                    return spot
        if policy.startswith('soft-'):
            return zones[0], self._host(zones[0], number)
        raise InsufficientCapacity(
            f'Cannot build {request.name!r}: no valid host satisfies {policy} in server group '
            f'{request.server_group_id}, which has {len(member_hosts)} members. Try another '
            f'zone, or a soft policy.',
            build_key=request.build_key,
        )

    def _host(self, zone: str, number: int) -> str:
        return f'{zone}-host-{number % self.hosts_per_zone + 1}'


def _unknown(kind: str, name: str, offered: Iterable[str]) -> str:
    names = ', '.join(sorted(offered)) or 'none'
    return f'{kind} {name!r}: there is none of that name; on offer: {names}.'
