"""Translation of claims and nodes to amphorae; pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kiln.compute_drivers.ironic.claims import Claim
from kiln.compute_drivers.ironic.states import Condition
from kiln.models import Amphora, AmphoraType, State


def amphora_of(claim: Claim, node: Mapping[str, Any] | None, condition: Condition) -> Amphora:
    """Return the amphora of a claim."""
    return Amphora(
        id=claim.id,
        name=claim.text('name') or '',
        state=condition.state,
        amphora_type=AmphoraType.BARE_METAL,
        build_key=claim.text('key'),
        owner=claim.owner,
        flavor=claim.text('flavor') or claim.resource_class,
        image_id=claim.text('image') or claim.text('default_image'),
        availability_zone=claim.text('zone') or claim.text('node_zone'),
        addresses=claim.addresses,
        metadata=MappingProxyType(claim.metadata),
        created_at=claim.created_at,
        fault=condition.fault,
        fault_code=condition.fault_code,
        task_state=condition.task,
        served=condition.served,
        raw={'allocation': dict(claim.raw), 'node': None if node is None else dict(node)},
    )


def as_built(claim: Claim) -> Amphora:
    """Return a claim with the flavor and image of its request; None if it named none."""
    amphora = amphora_of(claim, None, Condition(state=State.UNKNOWN))
    return dataclasses.replace(amphora, flavor=claim.text('flavor'), image_id=claim.text('image'))
