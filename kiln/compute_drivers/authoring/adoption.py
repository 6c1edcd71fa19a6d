"""Adoption check: whether the amphora of a build key matches the request; pure."""

from __future__ import annotations

from kiln.exceptions import BuildDiffers
from kiln.models import Amphora, BuildRequest

#: Fields that a request and an amphora share, by the argument of ``build()``.
_COMPARED = {
    'amphora_type': 'amphora_type',
    'amphora_flavor': 'flavor',
    'image_id': 'image_id',
    'name': 'name',
}

_UNKNOWN = (None, '')


def adopted(request: BuildRequest, found: Amphora) -> str:
    """Return the id of the amphora found under the key of a build.

    Type, flavor, image and name are compared if both sides have them; an empty name, and one
    that kiln derived from the key, count as unknown. Everything else can differ: an amphora
    can have been migrated or attached elsewhere since, and files and user data hold secrets
    that callers create again for each attempt. ``found`` must have the flavor and image
    exactly as in the request that made it, or None.

    :raises BuildDiffers: it was built with other arguments; nothing was done.
    """
    differences = [
        f'{argument} is {str(has)!r} and not {str(asked)!r}'
        for argument, field in _COMPARED.items()
        if (asked := getattr(request, field)) not in _UNKNOWN
        and (has := getattr(found, field)) not in _UNKNOWN
        and asked != has
        and not (field == 'name' and request.made_name in (asked, has))
    ]
    if not differences:
        return found.id
    key = request.build_key
    raise BuildDiffers(
        f'Cannot build {request.name}: amphora {found.id} was built with key {key!r} before, '
        f'and its {", its ".join(differences)}. Use another build key, or delete that amphora '
        f'first; find_build({key!r}) returns it as it is.',
        amphora_id=found.id,
        build_key=key,
    )
