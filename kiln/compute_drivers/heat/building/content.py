"""User data of a build as text: a parameter of Heat cannot be anything else; pure."""

from __future__ import annotations

from collections.abc import Sequence

from kiln.compute_drivers.authoring import user_data
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.nova.building.body import Content, too_large
from kiln.exceptions import InvalidBuildRequest
from kiln.models import BuildRequest


def content_of(asked: Asked, request: BuildRequest, public_keys: Sequence[str]) -> Content:
    """Return user data that holds files and keys.

    :raises UserDataTooLarge: they do not fit.
    :raises InvalidBuildRequest: they cannot be text.
    """
    whole = user_data.compose_text(request.user_data, request.files, public_keys)
    if whole is not None and len(whole) > user_data.MAX_BYTES:
        raise too_large(asked, request, len(whole), form='as text')
    if whole is not None and not user_data.is_text(whole):
        raise asked.error(
            InvalidBuildRequest, 'its user data is a MIME message with bytes that are not UTF-8.'
        )
    return Content(user_data=whole)
