"""States of amphorae by those of allocations and nodes; pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from kiln.compute_drivers.ironic.claims import Claim
from kiln.exceptions import AmphoraBuildError, InsufficientCapacity
from kiln.models import State

#: What a list of nodes must have for kiln.
FIELDS = (
    'uuid',
    'name',
    'instance_uuid',
    'provision_state',
    'target_provision_state',
    'power_state',
    'target_power_state',
    'maintenance',
    'maintenance_reason',
    'fault',
    'last_error',
)

AVAILABLE, ACTIVE = 'available', 'active'
_OFF, _BROKEN = 'power off', 'error'
#: Until a node is deployed or has failed.
_BUILDING = frozenset({'deploying', 'wait call-back', 'deploy hold'})
#: States of a node whose instance was deployed, and is out of use for a while.
_BUSY = frozenset(
    {
        'rescue', 'rescuing', 'rescue wait', 'unrescuing', 'servicing', 'service wait',
        'service hold', 'adopting',
    }
)  # fmt: skip
DEPLOY_FAILED = 'deploy failed'
_FAILED = frozenset(
    {'error', 'rescue failed', 'unrescue failed', 'service failed', 'adopt failed'}
)
#: A node that Ironic gives back. The claim has ended before, so these last a moment.
_LEAVING = frozenset(
    {'deleting', 'deleted', 'cleaning', 'clean wait', 'clean hold', 'clean failed'}
)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """State of an amphora, and what goes with it."""

    state: State
    task: str | None = None
    fault: str | None = None
    fault_code: str | None = None
    served: bool | None = None


def condition_of(
    claim: Claim, node: Mapping[str, Any] | None, *, age_s: float, claim_s: float
) -> Condition:
    """Return the condition of a claim and its node, that is None if it cannot be seen.

    ``age_s`` is the age of the claim, and ``claim_s`` the time in which a claim must be deployed.
    """
    if claim.state == 'error':
        code = None if claim.deleting else InsufficientCapacity.code
        return Condition(state=State.ERROR, fault=claim.error, fault_code=code, served=False)
    if claim.deleting:
        return Condition(state=State.DELETING, served=None)
    if claim.node_uuid is None:
        return _waiting('Ironic has found no node for it', age_s, claim_s)
    if node is None:
        why = f'Its node {claim.node_uuid} is not among those that kiln can see.'
        return Condition(state=State.UNKNOWN, fault=why)
    if node.get('provision_state') == AVAILABLE:
        return _waiting('its node was claimed, but not deployed', age_s, claim_s)
    return _provisioned(claim, node, str(node.get('provision_state')))


def _waiting(what: str, age_s: float, claim_s: float) -> Condition:
    if age_s <= claim_s:
        return Condition(state=State.PENDING, served=False)
    return Condition(
        state=State.ERROR,
        fault=f'After {age_s:.0f} s {what}: the process that built it has ended. Build again '
        f'with its key, or delete it.',
        fault_code=AmphoraBuildError.code,
        served=False,
    )


def _provisioned(claim: Claim, node: Mapping[str, Any], at: str) -> Condition:
    if at in _BUILDING:
        return Condition(state=State.BUILDING, task=at, served=claim.rebuilt)
    if at == ACTIVE:
        return _powered(node)
    if at in _BUSY:
        return Condition(state=State.ACTIVE, task=at, served=True)
    if at == DEPLOY_FAILED:
        return Condition(
            state=State.ERROR,
            fault=reason_of(node) or 'The deployment failed; Ironic gives no reason.',
            fault_code=None if claim.rebuilt else AmphoraBuildError.code,
            served=claim.rebuilt,
        )
    if at in _FAILED:
        return Condition(state=State.ERROR, fault=reason_of(node) or f'{at}.', served=True)
    if at in _LEAVING:
        return Condition(state=State.DELETING, task=at)
    return Condition(state=State.UNKNOWN, fault=f'Its node is {at}.')


def _powered(node: Mapping[str, Any]) -> Condition:
    """Return the condition of a deployed node; its power alone decides."""
    power, target = node.get('power_state'), node.get('target_power_state')
    task = None if target is None else f'to {target}'
    if node.get('fault') or power == _BROKEN:
        # Its controller does not answer, so whether it runs is not known.
        why = f'{node.get("fault") or "power failure"}: {reason_of(node) or "no reason given"}'
        return Condition(state=State.UNKNOWN, fault=why, served=True)
    state = State.SUSPENDED if power == _OFF else State.ACTIVE
    return Condition(state=state, task=task, served=True)


def reason_of(node: Mapping[str, Any]) -> str | None:
    """Return what Ironic says about the failure of a node."""
    for name in ('last_error', 'maintenance_reason'):
        if isinstance(text := node.get(name), str) and text.strip():
            return ' '.join(text.split())
    return None


def is_off(node: Mapping[str, Any]) -> bool:
    """Return True if a node is powered off."""
    return node.get('power_state') == _OFF
