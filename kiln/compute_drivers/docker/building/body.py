"""The body of the request that creates a container; pure."""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.docker import names
from kiln.compute_drivers.docker.flavors import Flavor
from kiln.compute_drivers.docker.settings import Settings
from kiln.exceptions import InvalidBuildRequest, InvalidRequest
from kiln.models import BuildRequest

#: What a machine that boots systemd needs, and the signal that stops systemd.
_SYSTEMD_TMPFS = {'/run': '', '/run/lock': ''}
_SYSTEMD_SIGNAL = 'SIGRTMIN+3'
#: Networks on which neither aliases nor fixed addresses can be set.
PREDEFINED = frozenset({'bridge', 'host', 'none', 'default', 'podman'})


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Hung:
    """A network to connect a container to, and the container's address there."""

    network: str
    address: str | None = None
    #: True if kiln chose the address, so that any other would do.
    chosen: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chosen:
    """Everything that a build uses, found and checked."""

    image: str
    #: The id at the time of the build: the name can move to another image.
    image_id: str
    image_labels: Mapping[str, str]
    flavor: Flavor
    networks: Sequence[Hung]
    labels: Mapping[str, str]
    systemd: bool

    def volumes(self, settings: Settings) -> list[str]:
        """Return the paths at which the container has its own volumes."""
        own = self.image_labels.get(names.VOLUMES, '')
        return list(dict.fromkeys([*settings.volumes, *filter(None, own.split(','))]))

    def tmpfs(self, settings: Settings) -> dict[str, str]:
        """Return the paths at which the container has in-memory file systems."""
        return {**(_SYSTEMD_TMPFS if self.systemd else {}), **settings.tmpfs}


def hung_on(asked: Asked, network: str) -> Hung:
    """Parse a network as a build names it: ``NAME`` or ``NAME=ADDRESS``."""
    kind = InvalidBuildRequest if asked.building else InvalidRequest
    name, equals, address = network.partition('=')
    if not names.is_network(name):
        raise asked.error(kind, f'{name!r} cannot be the name of a network.')
    if not equals:
        return Hung(network=name)
    try:
        # In the notation of the engines.
        return Hung(network=name, address=str(ipaddress.ip_address(address)))
    except ValueError:
        raise asked.error(kind, f'{address!r} is not an address.') from None


def endpoint(hung: Hung, host_name: str) -> dict[str, Any]:
    """Return the settings that connect a container to a network."""
    if hung.network in PREDEFINED:
        return {}
    wanted: dict[str, Any] = {'Aliases': [host_name]}
    if hung.address:
        field = 'IPv6Address' if ':' in hung.address else 'IPv4Address'
        wanted['IPAMConfig'] = {field: hung.address}
    return wanted


def create_body(request: BuildRequest, chosen: Chosen, settings: Settings) -> dict[str, Any]:
    """Return the body with the first network; later requests connect the others."""
    host_name = names.host_name(request.name)
    body: dict[str, Any] = {
        'Image': chosen.image,
        'Hostname': host_name,
        'Labels': dict(chosen.labels),
        'Tty': settings.tty or chosen.systemd,
        'StopTimeout': settings.stop_timeout,
        'ExposedPorts': {port: {} for port, _ in settings.publish},
        'HostConfig': _host_config(chosen, settings),
    }
    if signal := settings.stop_signal or (_SYSTEMD_SIGNAL if chosen.systemd else None):
        body['StopSignal'] = signal
    if chosen.systemd:
        # systemd detects by this variable that it runs in a container.
        body['Env'] = ['container=docker']
    if chosen.networks:
        first = chosen.networks[0]
        body['HostConfig']['NetworkMode'] = first.network
        if wanted := endpoint(first, host_name):
            body['NetworkingConfig'] = {'EndpointsConfig': {first.network: wanted}}
    return body


def _host_config(chosen: Chosen, settings: Settings) -> dict[str, Any]:
    policy, times = settings.restart
    wanted: dict[str, Any] = {
        'Privileged': settings.privileged,
        'Init': settings.init or None,
        'RestartPolicy': {'Name': policy, 'MaximumRetryCount': times},
        'Tmpfs': chosen.tmpfs(settings),
        'Dns': list(settings.dns),
        'NanoCpus': chosen.flavor.nano_cpus,
        'Memory': chosen.flavor.memory,
        'PidsLimit': chosen.flavor.pids,
        'CgroupParent': settings.cgroup_parent,
        'ShmSize': settings.shm_size,
        'PortBindings': _bindings(settings),
        'Devices': list(settings.devices),
        'Mounts': _mounts(chosen, settings),
    }
    return {key: value for key, value in wanted.items() if value not in (None, [], {})}


def _bindings(settings: Settings) -> dict[str, list[Mapping[str, str]]]:
    bindings: dict[str, list[Mapping[str, str]]] = {}
    for port, binding in settings.publish:
        bindings.setdefault(port, []).append(binding)
    return bindings


def _mounts(chosen: Chosen, settings: Settings) -> list[Mapping[str, Any]]:
    # An unnamed volume is removed with its container.
    owned = {label: chosen.labels[label] for label in (names.OWNER, names.KEY)}
    return [
        *(
            {'Type': 'volume', 'Target': path, 'VolumeOptions': {'Labels': owned}}
            for path in chosen.volumes(settings)
        ),
        *settings.mounts,
    ]
