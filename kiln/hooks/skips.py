"""Skip event: a request of a user to skip a hook; no I/O."""

from __future__ import annotations

from collections.abc import Iterable

from kiln.clusters.exceptions import HookNotFound
from kiln.clusters.models import Event, Operation, Step, StepState
from kiln.hooks.hook import DRIVER, Hook
from kiln.hooks.invocation import STEP_KIND
from kiln.hooks.run import SKIP_EVENT
from kiln.programs.output import clean


def skip_event(
    operation: Operation,
    steps: Iterable[Step],
    hooks: Iterable[Hook],
    *,
    name: str,
    reason: str,
    by: str,
) -> Event:
    """Return the event that makes the engine skip a hook in an operation.

    The event remains as the record of the user and the reason. Safe to repeat.

    :param steps: The steps of the operation.
    :param hooks: All hooks of the site, to find hooks that have not been called.
    :param name: NAME, or POINT/NAME.
    :raises HookNotFound: no such hook can still be skipped in the operation.
    """
    if operation.state.ended:
        raise HookNotFound(
            f'Cannot skip a hook of operation {operation.id}: the operation is '
            f'{operation.state.value} and does not wait for hooks.'
        )
    known = {str(hook): True for hook in hooks}
    for step in steps:
        if step.kind == STEP_KIND:
            called = f'{step.result["point"]}/{step.result["hook"]}'
            # A hook of a node point can have succeeded for one node and wait for another.
            known[called] = known.get(called, False) or step.state is not StepState.DONE
    found = [one for one in known if name in (one, one.partition('/')[2])]
    if not found and name.rpartition('/')[2] != DRIVER:
        there = ', '.join(known) or 'none'
        raise HookNotFound(f'Cannot find a hook {name!r}. There are: {there}.')
    if found and not any(known[one] for one in found):
        raise HookNotFound(
            f'Cannot skip {", ".join(found)} in operation {operation.id}: it has already '
            f'ended there.'
        )
    reason = clean(reason)
    return Event(
        cluster_id=operation.cluster_id,
        kind=SKIP_EVENT,
        message=f'{by} skipped hook {name}: {reason}',
        operation_id=operation.id,
        facts={'hook': name, 'reason': reason, 'by': by},
    )
