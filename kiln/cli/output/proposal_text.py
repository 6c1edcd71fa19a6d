"""Text of a proposal: the changes, and the placement of the nodes; pure functions."""

from __future__ import annotations

from collections.abc import Iterator

from kiln.cluster_service.proposals import Proposal
from kiln.clusters.models import OperationKind
from kiln.engine.plan.changes import GroupPlan, placement_rows
from kiln.foreign.text import visible

#: Operations that replace nodes.
_REPLACING = frozenset({OperationKind.UPGRADE, OperationKind.REBUILD})
_COLOURS = {'+': '32', '-': '31', '~': '33', '!': '33', '=': '90'}


def proposal_lines(proposal: Proposal, *, colours: bool = False) -> Iterator[str]:
    """Yield the changes, then the resulting placement of each changed group."""
    for line in proposal.lines():
        sign = line.partition(': ')[2][:1]
        colour = _COLOURS.get(sign) if colours else None
        # A terminal gets these lines as they are.
        shown = visible(line)
        yield f'\033[{colour}m{shown}\033[0m' if colour else shown
    for notice in proposal.notices:
        yield f'note: {visible(notice)}'
    if proposal.kind is not OperationKind.DELETE:
        for plan in proposal.plan.groups:
            if not plan.empty and len(plan.table) > 1:
                yield ''
                yield from table_lines(plan)


def table_lines(plan: GroupPlan) -> Iterator[str]:
    """Yield the nodes of a group by flavor and zone."""
    head, *body = placement_rows(plan.table)
    # The sums of a single row or column would only repeat it.
    if len(body) == 2:
        body.pop()
    rows = [(f'{plan.group}: {head[0]}', *head[1:]), *body]
    rows = [tuple(map(visible, row)) for row in rows]
    if len(head) == 3:
        rows = [row[:2] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        first, *others = row
        cells = (f'{cell:>{width}}' for cell, width in zip(others, widths[1:], strict=True))
        yield '  '.join((f'{first:<{widths[0]}}', *cells)).rstrip()


def loss(proposal: Proposal) -> str:
    """Return what a proposal loses of what is on nodes; empty if that is nothing."""
    name = proposal.cluster.name
    if proposal.kind is OperationKind.DELETE:
        return f'cluster {name} is deleted with all of its nodes'
    going = sum(len(plan.removes) + len(plan.replaces) for plan in proposal.plan.groups)
    anew = len(proposal.touched) if proposal.kind is OperationKind.REBUILD else 0
    if count := going + anew + proposal.shrinks_by:
        return f'{name} loses {count} node{"" if count == 1 else "s"}'
    if proposal.losses:
        return f'{name} loses what is on nodes'
    # kiln does not know which nodes are kept by a driver that plans them by itself.
    blind = not proposal.plan.groups and proposal.kind in _REPLACING
    return f'{name} can lose what is on its nodes' if blind else ''
