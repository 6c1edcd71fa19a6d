"""Check of a network by name or by id."""

from __future__ import annotations

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.docker.api.client import Engine, Session
from kiln.compute_drivers.docker.building import body
from kiln.exceptions import InvalidRequest

#: The shortest part of an id that stands for a network.
_LEAST = 12
#: How many names of networks an error lists.
_NAMED = 20


def validate(engine: Engine, asked: Asked, network: str) -> None:
    """Return if builds can use a network, which can have an address behind it.

    :raises InvalidRequest: it does not exist; the error names those that do.
    """
    wanted = body.hung_on(asked, network).network
    if wanted in body.PREDEFINED:
        return
    found = engine.ask(asked, Session.networks)
    names = sorted({str(one['Name']) for one in found})
    if wanted in names or any(_has_id(one['Id'], wanted) for one in found):
        return
    more = f' and {len(names) - _NAMED} more' if len(names) > _NAMED else ''
    raise asked.error(
        InvalidRequest,
        f'network {wanted!r} was not found. Known: {", ".join(names[:_NAMED])}{more}.',
    )


def _has_id(network_id: str, wanted: str) -> bool:
    return len(wanted) >= _LEAST and network_id.startswith(wanted)
