"""What a person says to have a hook passed over; pure."""

from __future__ import annotations

from collections.abc import Iterable

from kiln.cluster_exceptions import HookNotFound
from kiln.cluster_models import Event, Operation, Step, StepState
from kiln.hooks.answers import clean
from kiln.hooks.hook import DRIVER, Hook
from kiln.hooks.invocation import STEP_KIND
from kiln.hooks.run import SKIP_EVENT


def skip_event(
    operation: Operation,
    steps: Iterable[Step],
    hooks: Iterable[Hook],
    *,
    name: str,
    reason: str,
    by: str,
) -> Event:
    """Return the event by which the engine has an operation pass over a hook.

    It stays as the record of who did so, and why. May be repeated.

    :param steps: The steps of the operation.
    :param hooks: All hooks of the site, for one whose turn has not come yet.
    :param name: NAME, or POINT/NAME.
    :raises HookNotFound: the operation waits for no such hook, and never will.
    """
    if operation.state.ended:
        raise HookNotFound(
            f'Cannot have a hook of operation {operation.id} passed over: it is '
            f'{operation.state.value} and waits for none.'
        )
    known = {str(hook): True for hook in hooks}
    for step in steps:
        if step.kind == STEP_KIND:
            called = f'{step.result["point"]}/{step.result["hook"]}'
            # At a point of nodes it may have succeeded for one and wait for another.
            known[called] = known.get(called, False) or step.state is not StepState.DONE
    found = [one for one in known if name in (one, one.partition('/')[2])]
    if not found and name.rpartition('/')[2] != DRIVER:
        there = ', '.join(known) or 'none'
        raise HookNotFound(f'Cannot find a hook {name!r}. There are: {there}.')
    if found and not any(known[one] for one in found):
        raise HookNotFound(
            f'Cannot have {", ".join(found)} passed over in operation {operation.id}: it is '
            f'over there already.'
        )
    reason = clean(reason)
    return Event(
        cluster_id=operation.cluster_id,
        kind=SKIP_EVENT,
        message=f'{by} has hook {name} passed over: {reason}',
        operation_id=operation.id,
        facts={'hook': name, 'reason': reason, 'by': by},
    )
