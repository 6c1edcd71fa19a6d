"""Reports of how far Heat is with the stack of a cluster, and the repeats that are due."""

from __future__ import annotations

import dataclasses

from kiln.clock import clock_time
from kiln.cluster_drivers.heat.cluster_stack import ClusterStack
from kiln.cluster_drivers.heat.state import CHANGE_TRIES, Meaning, StackState, meaning
from kiln.cluster_drivers.values import Progress, StatusReport
from kiln.clusters.exceptions import ClusterDriverError
from kiln.openstack.heat.rows import StackRow

#: Seconds for which a request of Heat's API waits for an engine, by Heat's default.
RPC_S = 60.0


def report_of(stack: ClusterStack) -> StatusReport:
    """Return how far Heat is; send the last request again if it was lost on the way.

    :raises HeatUnavailable: Heat does not answer.
    :raises ClusterDriverError: the stack is absent, and the credentials are those of another
        project.
    """
    row = stack.listed()
    if row is not None and stack.state.leaving:
        # From a creation without an answer: once it is seen, its end can be seen as well.
        stack = stack.with_state(dataclasses.replace(stack.state, id=row.id))
    state = stack.state
    found = meaning(row, state)
    if row is None or found is Meaning.ABSENT:
        return _absent(stack)
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


def _absent(stack: ClusterStack) -> StatusReport:
    # In another project, it would be seen as gone too.
    state = stack.placed()
    if state.leaving:
        return _deleted(stack, state)
    return StatusReport(progress=Progress.FAILED, reason=f'Heat has no stack {stack.name}.')


def _deleted(stack: ClusterStack, state: StackState) -> StatusReport:
    """Report the end of a deletion, once no request can make the stack any more."""
    now = stack.poller.clock.time()
    since = state.absent_since or now
    # A creation that got no answer, of which a killed process keeps nothing: Heat can still do it,
    # and the stack would be nobody's.
    end = since + stack.client.limit_s + RPC_S
    if state.id or now >= end:
        return StatusReport(progress=Progress.COMPLETE)
    return _working(
        f'Heat has no stack {stack.name}, but its creation can have been sent without an answer: '
        f'kiln looks for it until {clock_time(end)}.',
        dataclasses.replace(state, absent_since=since),
    )


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
        driver_state=dataclasses.replace(
            stack.state, settled=True, changed_at=row.changed_at, tries=0, rest=0
        ).write(),
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
