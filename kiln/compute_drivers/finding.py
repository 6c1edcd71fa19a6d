"""Look-ups of one amphora by name or id, and the choice of the one that matches; pure."""

from __future__ import annotations

from collections.abc import Sequence

from kiln.compute_drivers import validation
from kiln.compute_drivers.calls import Call
from kiln.exceptions import AmbiguousInstanceError, InstanceNotFoundError, InvalidRequest
from kiln.models import Amphora


def look_up(amphora_name: str | None, amphora_id: str | None) -> tuple[Call, str]:
    """Return the call, and its argument, that finds an amphora by name or id."""
    if amphora_name is not None:
        amphora_name = validation.check_text('amphora_name', amphora_name)
    if amphora_id is not None:
        return Call.GET, validation.check_text('amphora_id', amphora_id)
    if amphora_name is not None:
        return Call.FIND, amphora_name
    raise InvalidRequest('Cannot find an amphora: give its name or its id.')


def choose(
    found: Amphora | Sequence[Amphora], amphora_name: str | None, *, backend: str
) -> Amphora:
    """Return the one amphora that matches the result of a look-up, or raise."""
    candidates = [found] if isinstance(found, Amphora) else found
    matching = [a for a in candidates if amphora_name is None or a.name == amphora_name]
    if not matching:
        others = ''.join(f' Id {a.id} is called {a.name!r}.' for a in candidates)
        raise InstanceNotFoundError(
            f'Cannot find {amphora_name!r}: {backend!r} has no such amphora.{others}',
            backend=backend,
        )
    if len(matching) > 1:
        ids = ', '.join(amphora.id for amphora in matching)
        raise AmbiguousInstanceError(
            f'Cannot choose {amphora_name!r}: {len(matching)} amphorae have that name: {ids}.',
            backend=backend,
        )
    return matching[0]
