"""Options of a Docker backend, parsed and checked when it is opened; pure."""

from __future__ import annotations

import dataclasses
import ipaddress
import re
from collections.abc import Mapping, Sequence
from typing import Any

from kiln.compute_drivers.docker.flavors import Flavor, parse_flavors, parse_size
from kiln.exceptions import ConfigurationError

_RESTART = re.compile(r'(no|always|unless-stopped|on-failure)(?::(\d+))?')
_PORT = re.compile(r'(\d+)(?:/(tcp|udp|sctp))?')
_MOST_PORTS = 65_535


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Defaults and limits for the containers of a backend."""

    image: str | None
    flavor: str | None
    flavors: Mapping[str, Flavor]
    networks: Sequence[str]
    zones: Sequence[str]
    pull: str
    seed: str
    #: Ports of a container, each with its binding on the engine's host.
    publish: Sequence[tuple[str, Mapping[str, str]]]
    volumes: Sequence[str]
    tmpfs: Mapping[str, str]
    #: Devices and folders of the engine's host, in the form of its API.
    devices: Sequence[Mapping[str, str]]
    mounts: Sequence[Mapping[str, Any]]
    dns: Sequence[str]
    restart: tuple[str, int]
    privileged: bool
    init: bool
    tty: bool
    stop_signal: str | None
    stop_timeout: int
    cgroup_parent: str | None
    shm_size: int | None


def read(conf: Any, backend: str) -> Settings:
    """Return the settings of a backend.

    :raises ConfigurationError: an option cannot be parsed, or names an unknown flavor.
    """
    flavors = parse_flavors(conf.flavors)
    if conf.flavor is not None and conf.flavor not in flavors:
        known = ', '.join(flavors) or 'none'
        raise ConfigurationError(
            f'Cannot use flavor {conf.flavor!r}: it is not among flavors ({known}).'
        )
    parsed = {
        'flavors': flavors,
        'networks': tuple(conf.networks),
        'zones': tuple(conf.zones) or (backend,),
        'publish': tuple(_each('publish', conf.publish, _published)),
        'volumes': tuple(_each('volumes', conf.volumes, _absolute)),
        'tmpfs': dict(_each('tmpfs', conf.tmpfs, _tmpfs)),
        'devices': tuple(_each('devices', conf.devices, _device)),
        'mounts': tuple(_each('mounts', conf.mounts, _mount)),
        'dns': tuple(_each('dns', conf.dns, lambda text: str(ipaddress.ip_address(text)))),
        'restart': _each('restart', [conf.restart], _restart)[0],
        'shm_size': _each('shm_size', [conf.shm_size], parse_size)[0] if conf.shm_size else None,
    }
    names = {field.name for field in dataclasses.fields(Settings)}
    return Settings(**parsed, **{name: getattr(conf, name) for name in names - parsed.keys()})


def _each(option: str, texts: Sequence[str], parse: Any) -> list[Any]:
    try:
        return [parse(text) for text in texts]
    except ValueError as exc:
        raise ConfigurationError(f'Cannot read {option}: {exc}.') from exc


def _absolute(text: str) -> str:
    if not text.startswith('/') or '..' in text.split('/'):
        raise ValueError(f'{text!r} is not an absolute path')
    return text


def _published(text: str) -> tuple[str, Mapping[str, str]]:
    """Parse ``PORT``, ``HOST_PORT:PORT`` or ``ADDRESS:HOST_PORT:PORT``; '' is any host port."""
    address, _, rest = text.rpartition(':')
    host_address, _, host_port = address.rpartition(':')
    port = _port(rest)
    if host_port:
        host_port = _port(host_port).partition('/')[0]
    if host_address:
        host_address = str(ipaddress.ip_address(host_address.strip('[]')))
    return port, {'HostIp': host_address, 'HostPort': host_port}


def _port(text: str) -> str:
    found = _PORT.fullmatch(text)
    if found is None or not 0 < int(found[1]) <= _MOST_PORTS:
        raise ValueError(f'{text!r} is not a port such as 80 or 53/udp')
    return f'{int(found[1])}/{found[2] or "tcp"}'


def _tmpfs(text: str) -> tuple[str, str]:
    path, _, options = text.partition(':')
    return _absolute(path), options


def _device(text: str) -> Mapping[str, str]:
    source, _, rest = text.partition(':')
    target, _, rights = rest.partition(':')
    if set(rights) - set('rwm'):
        raise ValueError(f'{rights!r} are not rights such as rwm')
    return {
        'PathOnHost': _absolute(source),
        'PathInContainer': _absolute(target or source),
        'CgroupPermissions': rights or 'rwm',
    }


def _mount(text: str) -> Mapping[str, Any]:
    source, _, rest = text.partition(':')
    target, _, mode = rest.partition(':')
    if mode not in ('', 'ro', 'rw'):
        raise ValueError(f'{mode!r} is neither ro nor rw')
    inside = {'Source': _absolute(source), 'Target': _absolute(target)}
    return {'Type': 'bind', **inside, 'ReadOnly': mode == 'ro'}


def _restart(text: str) -> tuple[str, int]:
    found = _RESTART.fullmatch(text)
    if found is None or (found[2] and found[1] != 'on-failure'):
        raise ValueError(f'{text!r} is neither no, always, unless-stopped nor on-failure:TIMES')
    return found[1], int(found[2] or 0)
