"""Check of a plan against the quorum of the swarm.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kiln.cluster_drivers.values import Context, PlannedChange
from kiln.clusters.exceptions import Problem
from kiln.clusters.models import Cluster, NodeState

from . import rules
from .view import CONTROL


def problems(context: Context, cluster: Cluster, plan: PlannedChange) -> Iterator[Problem]:
    """Yield the reasons why a plan must not start; send no request.

    The check only counts nodes of the plan; each action checks the current majority.
    """

    def controls(group: str) -> bool:
        return context.group(cluster, group).role == CONTROL

    groups = [group for group in cluster.spec.groups if group.role == CONTROL]
    count = sum(group.shape.count for group in groups)
    if not count:
        message = 'a swarm needs managers: give it a group of role control, of 1, 3 or 5 nodes'
        yield Problem(message=message, path='nodegroups')
    elif count % 2 == 0:
        yield Problem(
            message=f'{count} managers survive no more failures than {count - 1}, and agree '
            f'more slowly: use an odd number',
            path='nodegroups',
        )
    for group in groups:
        # Two managers that leave at once would each count on the other.
        if group.strategy.max_unavailable.of(group.shape.count) > max(0, (count - 1) // 2):
            yield Problem(
                message=f'max_unavailable of {group.strategy.max_unavailable} would break the '
                f'majority of {count} managers',
                path=f'nodegroups[{group.name}].strategy',
            )
    if count == 1 and any(group.reset for group in plan.groups if controls(group.name)):
        yield Problem(
            message=f'the only manager cannot leave the swarm for a {plan.kind.value}: use '
            f'three managers, or name workers',
            path='nodegroups',
        )
    yield from _lost(context, plan, controls)


def _lost(
    context: Context, plan: PlannedChange, controls: Callable[[str], bool]
) -> Iterator[Problem]:
    """Yield a problem if too few managers would work after the plan."""
    there = [node for node in context.nodes if controls(node.group) and not node.doomed]
    going = {node.id for group in plan.groups for node in group.removed}
    stay = [node for node in there if node.id not in going]
    dead = [node for node in stay if node.state is not NodeState.READY]
    come = sum(len(group.added) for group in plan.groups if controls(group.name))
    after = len(stay) + come
    if len(stay) < len(there) and after - len(dead) < rules.majority(after):
        why = f'{len(dead)} of the remaining managers do not work, so the swarm would lose its '
        why += 'quorum: replace them first'
        if not after:
            why = 'no manager would remain, and with the last one the swarm is lost: delete the '
            why += 'cluster instead, or keep a manager'
        yield Problem(message=why, path='nodegroups')
