"""Reports of how far Heat is with the stack of a cluster, and the repeats that are due."""

from __future__ import annotations

import dataclasses

from kiln.cluster_drivers.heat.cluster_stack import ClusterStack
from kiln.cluster_drivers.heat.state import CHANGE_TRIES, Meaning, StackState, meaning
from kiln.cluster_drivers.values import Progress, StatusReport
from kiln.clusters.exceptions import ClusterDriverError
from kiln.openstack.heat.rows import StackRow


def report_of(stack: ClusterStack) -> StatusReport:
    """Return how far Heat is; send the last request again if it was lost on the way.

    :raises HeatUnavailable: Heat does not answer.
    """
    row, state = stack.listed(), stack.state
    found = meaning(row, state)
    if row is None or found is Meaning.ABSENT:
        return _absent(state, stack.name)
    match found:
        case Meaning.WORKING:
            return _at_work(stack, row)
        case Meaning.REST:
            return _working(f'{stack.why(row)} kiln tries again.', state.rested())
        case Meaning.REPEAT:
            return _repeated(stack, row, stack.why(row))
        case Meaning.DONE:
            return _done(stack, row)
        case Meaning.ALIEN:
            why = (
                f'Stack {row.name} is {row.state}, and is not as kiln left it: somebody else '
                f'has changed it. Update the cluster to take it back.'
            )
    if found is Meaning.FAILED:
        why = stack.why(row)
    return StatusReport(progress=Progress.FAILED, reason=why)


def _absent(state: StackState, name: str) -> StatusReport:
    if state.leaving:
        return StatusReport(progress=Progress.COMPLETE)
    return StatusReport(progress=Progress.FAILED, reason=f'Heat has no stack {name}.')


def _at_work(stack: ClusterStack, row: StackRow) -> StatusReport:
    state, news = stack.state, stack.news(row)
    of_kiln = row.action != 'DELETE' or state.leaving
    # An engine of Heat that was killed leaves its stacks in progress for ever. Another one goes
    # on where it was as soon as it gets a request about the stack.
    if of_kiln and state.tries < CHANGE_TRIES and news.quiet:
        return _repeated(stack, row, f'Stack {row.name} is {row.state}, and nothing happens.')
    if news.events:
        state = dataclasses.replace(state, told=news.events[-1].id)
    report = _working(f'Heat works on stack {row.name}: {row.state}.', state)
    return dataclasses.replace(report, events=stack.told(news))


def _repeated(stack: ClusterStack, row: StackRow, why: str) -> StatusReport:
    """Send the last request again; the report has the reason until it is done."""
    stack.resend(row)
    return _working(f'{why} kiln has tried again.', stack.state.repeated())


def _done(stack: ClusterStack, row: StackRow) -> StatusReport:
    outputs, reason, missed = None, '', ''
    try:
        found = stack.outputs(row)
        outputs = stack.template.get_outputs(found)
        missed = stack.template.missed(stack.cluster, found)
    except ClusterDriverError as exc:
        reason = f'The outputs are unknown. {exc.reason}'
        # It can pass, as when an engine of Heat is killed. But Heat has been seen to list a stack
        # for hours that it could not show.
        if not stack.state.settled and stack.state.tries < CHANGE_TRIES:
            return _working(f'{reason} kiln tries again.', stack.state.repeated())
    if missed:
        return _missed(stack, row, missed)
    return StatusReport(
        progress=Progress.COMPLETE,
        reason=reason,
        driver_state=dataclasses.replace(stack.state, settled=True, tries=0, rest=0).write(),
        outputs=outputs,
    )


def _missed(stack: ClusterStack, row: StackRow, missed: str) -> StatusReport:
    """Have what was not made requested again, unless somebody else has changed it since."""
    why = f'Stack {row.name} is {row.state}, and is not as it was wanted. {missed}'
    if stack.state.settled or stack.state.tries >= CHANGE_TRIES:
        return StatusReport(progress=Progress.FAILED, reason=f'{why} Update the cluster.')
    return _repeated(stack, row, why)


def _working(reason: str, state: StackState) -> StatusReport:
    return StatusReport(progress=Progress.IN_PROGRESS, reason=reason, driver_state=state.write())
