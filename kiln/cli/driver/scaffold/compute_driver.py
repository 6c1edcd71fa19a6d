"""Skeleton of a compute driver: a package with tests, from templates."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kiln.cli.driver.scaffold.filling import check_name, fill
from kiln.exceptions import InvalidRequest
from kiln.models import AmphoraType

_KINDS = {
    AmphoraType.VM: 'virtual machines',
    AmphoraType.CONTAINER: 'containers',
    AmphoraType.BARE_METAL: 'bare metal machines',
    AmphoraType.HW_LOAD_BALANCER: 'hardware load balancers',
}
_HINTS = {
    AmphoraType.VM: 'Return once the machine has an id; kiln watches it boot.',
    AmphoraType.CONTAINER: 'A container that was created but not started is an amphora too.',
    AmphoraType.BARE_METAL: 'Machines are claimed, not created: claim and tag in one step.',
    AmphoraType.HW_LOAD_BALANCER: 'Claim an appliance, or a partition of one, in one step.',
}


def new_compute_driver(name: str, amphora_type: str, target: Path) -> list[Path]:
    """Write the package ``kiln-driver-NAME`` into a folder; return its files.

    It installs and its tests pass unchanged. Nothing is ever overwritten.

    :raises InvalidRequest: the name or the type is invalid, or the package exists.
    """
    words = _words(check_name(name), _check_type(amphora_type))
    return fill('compute', words, target / words['dist'])


def _check_type(amphora_type: str) -> AmphoraType:
    try:
        return AmphoraType(amphora_type)
    except ValueError:
        known = ', '.join(kind.value for kind in AmphoraType)
        raise InvalidRequest(
            f'Cannot write a driver for amphora type {amphora_type!r}: choose one of {known}.'
        ) from None


def _words(name: str, kind: AmphoraType) -> Mapping[str, str]:
    parts = [part.capitalize() for part in name.split('_')]
    dist = f'kiln-driver-{name.replace("_", "-")}'
    return {
        'name': name,
        'dist': dist,
        'rule': '=' * len(dist),
        'module': f'kiln_{name}',
        'cls': ''.join(parts),
        'title': ' '.join(parts),
        'member': kind.name,
        'kinds': _KINDS[kind],
        'hint': _HINTS[kind],
    }
