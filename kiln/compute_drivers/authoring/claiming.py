"""Claim check: whether a machine can become an amphora of this site; pure."""

from __future__ import annotations

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.exceptions import AmphoraComputeError, BuildConflict, InvalidRequest


def about_claim(amphora_id: str, build_key: str) -> Asked:
    """Return the context of the requests of a claim."""
    return Asked(verb='claim', subject=amphora_id, amphora_id=amphora_id, build_key=build_key)


def is_claimed(asked: Asked, owner: str, *, has_owner: str | None, has_key: str | None) -> bool:
    """Return True if a machine is claimed already, and False if it can be.

    A machine of this site without a key can be claimed, too.

    :raises InvalidRequest: it has another owner, or is this site's with another key.
    """
    if has_owner not in (None, owner):
        raise asked.error(
            InvalidRequest,
            f'it belongs to site {has_owner!r}, and this site is {owner!r}. Leave it to '
            f'{has_owner!r}, or take it out of that site first.',
        )
    if has_owner is None or has_key is None:
        return False
    if has_key != asked.build_key:
        raise asked.error(
            InvalidRequest,
            f'it belongs to this site already, with build key {has_key!r} and not '
            f'{asked.build_key!r}. Claim it with {has_key!r}, or not at all.',
        )
    return True


def key_in_use(asked: Asked, other_id: str) -> AmphoraComputeError:
    """Return the error for a build key that another amphora of the site has."""
    return asked.error(
        BuildConflict,
        f'amphora {other_id} of this site has build key {asked.build_key!r}. Use another key.',
    )
