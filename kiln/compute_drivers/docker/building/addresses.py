"""Container addresses that survive a restart of the container or its engine.

An engine keeps an address for a container only if the address was requested. So kiln
requests a free one on each network where it can: those made with a subnet. The engine
alone decides if the address is still free, when the container starts.
"""

from __future__ import annotations

import dataclasses
import hashlib
import ipaddress
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.docker import translate
from kiln.compute_drivers.docker.api.client import Engine, Session
from kiln.compute_drivers.docker.api.errors import Trouble
from kiln.compute_drivers.docker.building import body

#: Drivers of networks on which the engine assigns the addresses.
_ADDRESSED = frozenset({'bridge', 'macvlan', 'ipvlan'})


class Addresses:
    """Chooses free addresses on the networks of one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        # Only an engine's refusal reveals that a network was made without a subnet.
        self._refusing: set[str] = set()

    def chosen(self, asked: Asked, networks: Sequence[body.Hung]) -> list[body.Hung]:
        """Return networks, each with an address: the given one, or else a free one."""
        return [self._with_address(asked, hung) for hung in networks]

    def may_choose_again(self, networks: Iterable[body.Hung], trouble: Trouble | None) -> bool:
        """Return True if a refused build might succeed with other addresses."""
        ours = [hung.network for hung in networks if hung.chosen]
        if trouble is Trouble.WRONG_ADDRESS:
            self._refusing.update(ours)
        return bool(ours) and trouble in (Trouble.WRONG_ADDRESS, Trouble.ADDRESS_TAKEN)

    def _with_address(self, asked: Asked, hung: body.Hung) -> body.Hung:
        name = hung.network
        if hung.address or name in body.PREDEFINED or name in self._refusing:
            return hung
        network = self._engine.ask(asked, Session.inspect_network, name)
        if network.get('Driver') not in _ADDRESSED:
            return hung
        wanted = {'network': [network['Id']]}
        there = self._engine.ask(asked, Session.containers, all=True, filters=wanted)
        taken = {
            address
            for entry in there
            for one in translate.networks_of(entry).values()
            for address in addresses_in(one)
        }
        address = free_address(network, taken, asked.build_key or '')
        return dataclasses.replace(hung, address=address, chosen=address is not None)


def addresses_in(hung: Mapping[str, Any]) -> Iterator[str]:
    """Yield a container's current and requested addresses on a network."""
    asked_for = (hung.get('IPAMConfig') or {}).get('IPv4Address')
    yield from filter(None, (hung.get('IPAddress'), asked_for))


def free_address(network: Mapping[str, Any], taken: Collection[str], build_key: str) -> str | None:
    """Return an unused address of a network; None if none is known.

    The search starts at a place derived from the build key, so that concurrent builds
    seldom choose the same address.
    """
    for config in (network.get('IPAM') or {}).get('Config') or ():
        pool = _pool(config)
        if pool is None:
            continue
        subnet = ipaddress.IPv4Network(config['Subnet'])
        reserved = {subnet[0], subnet[1], subnet[-1], *_named(config)}
        used = reserved | {ipaddress.IPv4Address(address) for address in taken}
        begin = int.from_bytes(hashlib.sha256(build_key.encode()).digest()[:8])
        size = pool.num_addresses
        # One address more than are used must include a free one, if any exists.
        for step in range(min(size, len(used) + 1)):
            address = pool[(begin + step) % size]
            if address not in used:
                return str(address)
    return None


def _pool(config: Mapping[str, Any]) -> ipaddress.IPv4Network | None:
    """Return the range that the engine assigns from; other machines can use the rest."""
    try:
        return ipaddress.IPv4Network(config.get('IPRange') or config['Subnet'])
    except (ValueError, KeyError):
        return None


def _named(config: Mapping[str, Any]) -> Iterator[ipaddress.IPv4Address]:
    named = [config.get('Gateway'), *(config.get('AuxiliaryAddresses') or {}).values()]
    for address in filter(None, named):
        yield ipaddress.IPv4Address(address)
