"""Translation of rows of the simulated cloud to values of the contract; pure."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kiln.compute_drivers.noop.simulation.state_machine import Row
from kiln.exceptions import InsufficientCapacity, QuotaExceeded
from kiln.models import Address, Amphora, AmphoraType, BuildRequest, ComputeStatus, State

_STATES = {state.value: state for state in State}
_TYPES = {kind.value: kind for kind in AmphoraType}
_NOTHING: Mapping[str, str] = MappingProxyType({})


def amphora(row: Row, amphora_id: str) -> Amphora:
    """Return the amphora for a machine's row with its ports as JSON."""
    return Amphora(
        id=amphora_id,
        name=row['name'],
        state=_STATES[row['state']],
        amphora_type=_TYPES[row['amphora_type']],
        build_key=row['build_key'],
        owner=row['owner'] or None,
        flavor=row['flavor'],
        image_id=row['image_id'],
        availability_zone=row['zone'],
        server_group_id=row['group_id'],
        addresses=addresses(row['ports']),
        metadata=metadata(row['metadata']),
        created_at=row['created_at'],
        fault=row['fault'],
        fault_code=fault_code(row['fault']),
        task_state=row['task'],
        served=row['boots'] > 0,
        raw=_raw(row, amphora_id) | _known(row['spec']),
    )


def status(row: Row, amphora_id: str, observed_at: float) -> ComputeStatus:
    """Return the status for a machine's row."""
    fault = row['fault']
    return ComputeStatus(
        amphora_id=amphora_id,
        state=_STATES[row['state']],
        fault=fault,
        fault_code=fault_code(fault) if fault else None,
        task_state=row['task'],
        observed_at=observed_at,
        raw=_raw(row, amphora_id),
    )


def _known(spec: str) -> dict[str, Any]:
    known: dict[str, Any] = {} if spec == '{}' else json.loads(spec)
    return known


def addresses(ports: str) -> tuple[Address, ...]:
    """Return the addresses in the JSON of a machine's ports."""
    return tuple(
        Address(port_id=port_id, network_id=network_id, address=address, mac=mac)
        for port_id, network_id, address, mac in json.loads(ports)
    )


def metadata(text: str) -> Mapping[str, str]:
    """Return the stored metadata of a request."""
    return _NOTHING if text == '{}' else MappingProxyType(json.loads(text))


def fault_code(fault: str | None) -> str | None:
    """Return the code of the build error that matches a fault text."""
    text = (fault or '').lower()
    if 'no valid host' in text or 'exceeded maximum number of retries' in text:
        return InsufficientCapacity.code
    return QuotaExceeded.code if 'quota' in text else None


def spec(request: BuildRequest) -> str:
    """Return the JSON that the cloud keeps of a request beside its columns.

    Files and user data are kept as digests: they show that the content arrived,
    and do not reveal it in a file or a log.
    """
    known: dict[str, Any] = {}
    if request.keys:
        known['keys'] = len(request.keys)
    if request.sec_groups:
        known['sec_groups'] = request.sec_groups
    if request.files:
        known['files'] = {
            file.path: {'sha256': file.digest, 'mode': f'{file.mode:04o}', 'owner': file.owner}
            for file in request.files
        }
    if request.user_data is not None:
        known['user_data_sha256'] = hashlib.sha256(request.user_data).hexdigest()[:12]
    return json.dumps(known) if known else '{}'


def automatic_address(number: int) -> tuple[str, str]:
    """Return address and MAC of the port with that number, the same in every run."""
    low, middle, high = number & 255, number >> 8 & 255, number >> 16 & 255
    # Within 127/8: packets to a simulated machine stay on this host.
    return f'127.{64 + (high & 63)}.{middle}.{low}', f'fa:16:3e:{high:02x}:{middle:02x}:{low:02x}'


def console(row: Row, lines: int | None) -> str:
    """Return the console output of a machine."""
    if row['state'] == State.BUILDING:
        return ''
    text = []
    rng = random.Random(row['number'])  # noqa: S311  # looks like a boot, secures nothing
    found = addresses(row['ports'])
    for boot in range(1, max(1, row['boots']) + 1):
        at = rng.random()
        text += [
            f'[{at:12.6f}] Booting image {row["image_id"] or "default"} (boot {boot})',
            f'[{at * 2:12.6f}] Host {row["host"]} in zone {row["zone"]}',
            *(f'[{at * 3:12.6f}] {port.network_id}: {port.address}' for port in found),
            f'[{at * 4:12.6f}] Reached target multi-user',
            f'{row["name"]} login:',
        ]
    if row['fault']:
        text.append(f'Stopped: {row["fault"]}')
    return ''.join(f'{line}\n' for line in (text if lines is None else text[-lines:]))


def _raw(row: Row, amphora_id: str) -> dict[str, Any]:
    return {
        'id': amphora_id,
        'name': row['name'],
        'status': row['state'],
        'task': row['task'],
        'fault': row['fault'],
        'host': row['host'],
    }
