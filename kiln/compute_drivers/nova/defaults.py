"""Check of a backend's configured defaults: all that is wrong with them, in one error."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.authoring.openstack_networks import check_networks
from kiln.compute_drivers.nova.catalogue import Catalogue
from kiln.exceptions import InvalidRequest

_Check = Callable[[], Any]


def check_defaults(asked: Asked, conf: Any, catalogue: Catalogue) -> None:
    """Raise InvalidRequest with each default that builds cannot use, and what exists instead."""
    problems = []
    for option, check in _checks(asked, conf, catalogue):
        try:
            check()
        except InvalidRequest as exc:
            why = str(exc).removeprefix(f'Cannot {asked.verb} {asked.subject}: ')
            problems.append(f'option {option}: {why}')
    if problems:
        raise asked.error(InvalidRequest, ' '.join(problems))


def _checks(asked: Asked, conf: Any, catalogue: Catalogue) -> Iterator[tuple[str, _Check]]:
    if conf.flavor:
        yield 'flavor', functools.partial(catalogue.flavor_id, asked, conf.flavor)
    if conf.image:
        yield 'image', functools.partial(catalogue.check_image, asked, conf.image)
    if conf.networks:
        yield 'networks', functools.partial(check_networks, asked, conf.networks, ())
    for network in conf.networks:
        yield 'networks', functools.partial(catalogue.networks.ids, asked, [network])
    for group in conf.security_groups:
        yield 'security_groups', functools.partial(catalogue.networks.group_ids, asked, [group])
    if conf.availability_zone:
        zone = conf.availability_zone
        yield 'availability_zone', functools.partial(catalogue.check_zone, asked, zone)
    for name in conf.keypairs:
        # A whole public key has a space; the name of a key pair has none.
        if ' ' not in name:
            yield 'keypairs', functools.partial(catalogue.public_key, asked, name)
