"""What a plan costs by the number of nodes: it must grow no faster than they do.

    python -m tests.bench.bench_planner [--nodes 10000]

Each row is the plan of a group of two flavors over three counted zones, which
is the hardest shape there is, and what may be begun of it.
"""

import argparse
import dataclasses
import statistics
import sys
import time

from kiln.clusters.models import Node, NodeState
from kiln.clusters.spec import NodeGroupSpec, Place, Shape, ZoneRule, Zones
from kiln.engine.plan.changes import DesiredGroup
from kiln.engine.plan.diff import plan_group, resize
from kiln.engine.plan.rollout import next_round

SMALL = 100
ROUNDS = 5
RATIO = 1.5
LONGEST_S = 1.0


def wanted(count, made_with='new'):
    counts = {'az1': count // 2, 'az2': count // 4, 'az3': count - count // 2 - count // 4}
    shape = Shape(
        count=count,
        flavors={'large': count // 3, 'small': count - count // 3},
        zones=Zones(rule=ZoneRule.COUNTS, counts=counts),
    )
    return DesiredGroup(group=NodeGroupSpec(name='work', shape=shape), made_with=made_with)


def nodes_of(plan):
    return [
        Node(
            id=f'id-{number:06}',
            cluster_id='c',
            group='work',
            name=f'c-work-{number}',
            place=Place(add.place.flavor, add.place.zone),
            backend='noop',
            state=NodeState.READY,
            made_with='old',
            created_at=float(number),
        )
        for number, add in enumerate(plan.adds)
    ]


def resized(one, nodes, count):
    found = resize(one, nodes, count)
    group = dataclasses.replace(one.group, shape=found.shape)
    plan = plan_group(dataclasses.replace(one, group=group), nodes, victims=found.victims)
    return next_round(plan)


def cases(count):
    one = wanted(count)
    nodes = nodes_of(plan_group(one, ()))
    return {
        'create': lambda: next_round(plan_group(one, ())),
        'nothing to do': lambda: next_round(plan_group(one, nodes)),
        'upgrade': lambda: next_round(plan_group(one, nodes, upgrade=True)),
        'half of them go': lambda: resized(one, nodes, count // 2),
        'twice as many': lambda: resized(one, nodes, count * 2),
    }


def cost_s(case, repeats):
    def once():
        started = time.process_time()
        for _ in range(repeats):
            case()
        return (time.process_time() - started) / repeats

    return statistics.median(once() for _ in range(ROUNDS))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--nodes', type=int, default=10_000)
    count = parser.parse_args().nodes
    good = True
    large = cases(count)
    for name, case in cases(SMALL).items():
        # A small plan lasts a moment: take as many as make the large one.
        small_s, large_s = cost_s(case, count // SMALL), cost_s(large[name], 1)
        ratio = (large_s / count) / (small_s / SMALL)
        good = good and ratio <= RATIO and large_s <= LONGEST_S
        print(
            f'{name:>16}: {count} nodes in {large_s * 1000:.0f} ms, '
            f'{large_s / count * 1e6:.1f} us each, {ratio:.2f} x that of {SMALL}'
        )
    if not good:
        print('BEYOND ITS BOUND')
    return 0 if good else 1


if __name__ == '__main__':
    sys.exit(main())
