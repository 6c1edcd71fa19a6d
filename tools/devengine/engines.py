"""Configuration of Docker Engine and Podman; pure except for files of the place."""

import dataclasses
import json
import pathlib
from collections.abc import Mapping

from . import packages
from .place import Networks, Place

_WRAPPER = 'kiln-runc'
#: The id that Podman gives to its first network.
_PODMAN_NETWORK = '2f259bab93aaaaa2542ba43ef33eb990d0999ee1b9924b557b7be53c0b7a1bb9'


@dataclasses.dataclass(frozen=True)
class Start:
    """How an engine is started."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    files: Mapping[pathlib.Path, str] = dataclasses.field(default_factory=dict)
    # What ends its containers, where they would outlive it.
    before_end: tuple[str, ...] = ()


def docker(place: Place, networks: Networks, wrapper: pathlib.Path | None) -> Start:
    """Return the launch of dockerd."""
    command = [
        'dockerd',
        f'--data-root={place.data}',
        f'--exec-root={place.run}',
        f'--pidfile={place.run / "docker.pid"}',
        f'--host={place.url}',
        f'--bridge={place.bridge}',
        f'--default-address-pool=base={networks.pool},size=24',
        f'--config-file={place.etc / "daemon.json"}',
        # A container that ignores its signal must not hold up the end.
        '--shutdown-timeout=1',
    ]
    if wrapper is not None:
        command += [f'--add-runtime={_WRAPPER}={wrapper}', f'--default-runtime={_WRAPPER}']
    return Start(tuple(command), files={place.etc / 'daemon.json': '{}'})


def podman(place: Place, networks: Networks, wrapper: pathlib.Path | None) -> Start:
    """Return the launch of Podman with the API of Docker."""
    runtime = _WRAPPER if wrapper else 'runc'
    runtimes = f'[engine.runtimes]\n{_WRAPPER} = ["{wrapper}"]\n' if wrapper else ''
    containers = f"""[containers]
log_driver = "k8s-file"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "{runtime}"
{runtimes}[network]
network_backend = "netavark"
network_config_dir = "{place.data / 'networks'}"
default_subnet_pools = [{{base = "{networks.pool}", size = 24}}]
"""
    storage = f"""[storage]
driver = "overlay"
graphroot = "{place.data / 'storage'}"
runroot = "{place.run / 'storage'}"
"""
    network = {
        'name': 'podman',
        'id': _PODMAN_NETWORK,
        'driver': 'bridge',
        'network_interface': place.bridge,
        'created': '2024-01-01T00:00:00Z',
        'subnets': [{'subnet': networks.subnet, 'gateway': networks.gateway}],
        'ipam_options': {'driver': 'host-local'},
    }
    podman_ = ('podman', f'--tmpdir={place.run / "tmp"}')
    return Start(
        (*podman_, 'system', 'service', '--time=0', place.url),
        environment={
            'CONTAINERS_CONF': str(place.etc / 'containers.conf'),
            'CONTAINERS_STORAGE_CONF': str(place.etc / 'storage.conf'),
        },
        files={
            place.etc / 'containers.conf': containers,
            place.etc / 'storage.conf': storage,
            place.data / 'networks' / 'podman.json': json.dumps(network),
        },
        before_end=(*podman_, 'stop', '--all', '--time=0'),
    )


#: By the name of its kind: how it is started, and the packages it needs.
KINDS = {'docker': (docker, packages.DOCKER), 'podman': (podman, packages.PODMAN)}
