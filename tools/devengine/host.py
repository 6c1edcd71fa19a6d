"""Settings of the machine that engines change, and their restoration.

An engine turns on forwarding, makes the firewall drop unknown traffic, and adds rules and
bridges; and a dozen systemds in containers need more inotify instances than a user usually
has. Each engine removes its own rules and bridges when it stops; the last one also restores
the previous settings. Running engines are recorded in one folder for the whole machine.
"""

import contextlib
import fcntl
import ipaddress
import json
import os
import pathlib
import re
import shlex
import subprocess
import time
from collections.abc import Iterable, Iterator

from .errors import EngineError
from .place import NUMBERS, Networks, Place

NOTES = pathlib.Path('/run/kiln-devengine')
_FORWARDING = pathlib.Path('/proc/sys/net/ipv4/ip_forward')
_INOTIFY = pathlib.Path('/proc/sys/fs/inotify/max_user_instances')
_INSTANCES = 1024
_TABLES = ('filter', 'nat')
#: Chains that engines make.
_CHAINS = ('DOCKER', 'NETAVARK', 'CNI-')
_UNMOUNT_S = 5
_GROUPS = pathlib.Path('/sys/fs/cgroup')


def _run(*command: str, check: bool = True) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise EngineError(f'{shlex.join(command)}: {done.stderr.strip()}')
    return done.stdout


@contextlib.contextmanager
def _notes() -> Iterator[dict[str, object]]:
    """Hold the notes: settings from before the first engine, and the running engines."""
    NOTES.mkdir(parents=True, exist_ok=True)
    with (NOTES / 'lock').open('w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = NOTES / 'notes.json'
        notes = json.loads(path.read_text()) if path.exists() else {'up': {}}
        yield notes
        path.write_text(json.dumps(notes))


def enter(place: Place) -> Networks:
    """Record that an engine starts, and return the networks it can use."""
    with _notes() as notes:
        up = notes['up']
        assert isinstance(up, dict)
        if not up:
            notes['before'] = {
                'forwarding': _FORWARDING.read_text(),
                'inotify': _INOTIFY.read_text(),
                'policy': _run('iptables', '-S', 'FORWARD').split()[2],
                'chains': sorted(_chains()),
            }
            if int(_INOTIFY.read_text()) < _INSTANCES:
                _INOTIFY.write_text(str(_INSTANCES))
        if place.digest not in up:
            up[place.digest] = _free_number(place.first_number, set(up.values()))
        return Networks(up[place.digest])


def leave(place: Place) -> None:
    """Remove the remains of an engine; the last one also restores the settings."""
    unmount(place.root)
    with _notes() as notes:
        up = notes['up']
        assert isinstance(up, dict)
        number = up.pop(place.digest, None)
        if number is None:
            return
        for bridge in {place.bridge, *_bridges(Networks(number)), *_made_for_users(place)}:
            for table in _TABLES:
                _drop_rules(table, lambda rule, bridge=bridge: bridge in rule)
            _run('ip', 'link', 'delete', bridge, check=False)
        if not up:
            _put_back(notes.pop('before'))


def make_bridge(place: Place, networks: Networks) -> None:
    """Make the bridge of an engine that does not make it itself."""
    _run('ip', 'link', 'delete', place.bridge, check=False)
    _run('ip', 'link', 'add', place.bridge, 'type', 'bridge')
    _run('ip', 'address', 'add', f'{networks.gateway}/24', 'dev', place.bridge)
    _run('ip', 'link', 'set', place.bridge, 'up')


def unmount(folder: pathlib.Path) -> None:
    """Unmount everything in a folder."""
    end = time.monotonic() + _UNMOUNT_S
    while mounts := _mounts(folder):
        for mount in mounts:
            _run('umount', '-l', mount, check=False)
        if time.monotonic() > end:
            raise EngineError(f'{mounts[0]} cannot be unmounted')


def forget_groups(containers: Iterable[str]) -> None:
    """Remove the control groups of containers that were killed, as a loss of power does.

    In one with others below it no privileged container can start again.
    """
    for container in containers:
        # One tree for each controller, or one for all of them.
        for pattern in (f'*/docker/{container}', f'docker/{container}'):
            for group in _GROUPS.glob(pattern):
                for folder, _, _ in os.walk(group, topdown=False):
                    with contextlib.suppress(OSError):
                        os.rmdir(folder)


def _mounts(folder: pathlib.Path) -> list[str]:
    lines = pathlib.Path('/proc/self/mountinfo').read_text().splitlines()
    points = [line.split()[4] for line in lines]
    return [point for point in reversed(points) if pathlib.Path(point).is_relative_to(folder)]


def _free_number(first: int, taken: set[object]) -> int:
    """Return a number whose networks nothing on this machine uses."""
    used = [
        ipaddress.ip_network(address)
        for link in json.loads(_run('ip', '-j', '-4', 'route'))
        if (address := link['dst']) != 'default'
    ]
    for number in [*range(first, NUMBERS), *range(first)]:
        networks = Networks(number)
        own = [ipaddress.ip_network(text) for text in (networks.subnet, networks.pool)]
        if number not in taken and not any(one.overlaps(other) for one in own for other in used):
            return number
    raise EngineError('no free network is left for another engine')


def _bridges(networks: Networks) -> list[str]:
    """Return the bridges that an engine made for further networks."""
    pool = ipaddress.ip_network(networks.pool)
    return [
        link['ifname']
        for link in json.loads(_run('ip', '-j', '-4', 'address'))
        if any(ipaddress.ip_address(one['local']) in pool for one in link['addr_info'])
    ]


def _made_for_users(place: Place) -> list[str]:
    """Return the bridges of networks with subnets that a user chose, as the engine noted them."""
    # The engine may have been killed, so its own file is read. It keeps the networks for the
    # next start, which makes their bridges again.
    notes = place.data / 'network/files/local-kv.db'
    if not notes.exists():
        return []
    found = re.findall(rb'"BridgeName":"(br-[0-9a-f]{12})"', notes.read_bytes())
    return [name.decode() for name in found]


def _rules(table: str) -> list[list[str]]:
    return [shlex.split(line) for line in _run('iptables', '-t', table, '-S').splitlines()]


def _drop_rules(table: str, doomed: object) -> None:
    assert callable(doomed)
    for verb, *rule in _rules(table):
        if verb == '-A' and doomed(rule):
            _run('iptables', '-t', table, '-D', *rule, check=False)


def _chains() -> set[str]:
    return {
        f'{table} {rule[1]}'
        for table in _TABLES
        for rule in _rules(table)
        if rule[0] == '-N' and rule[1].startswith(_CHAINS)
    }


def _put_back(before: object) -> None:
    assert isinstance(before, dict)
    chains = [one.split() for one in _chains() - set(before['chains'])]
    for table, chain in chains:
        _run('iptables', '-t', table, '-F', chain)
    for table, chain in chains:
        _drop_rules(table, lambda rule, chain=chain: chain in rule)
    for table, chain in chains:
        _run('iptables', '-t', table, '-X', chain, check=False)
    _run('iptables', '-P', 'FORWARD', before['policy'])
    _FORWARDING.write_text(before['forwarding'])
    _INOTIFY.write_text(before['inotify'])
