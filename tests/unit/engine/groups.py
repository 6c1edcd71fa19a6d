"""Groups and nodes for the tests of the planner, and their state after a plan."""

import collections
import dataclasses
import itertools

from hypothesis import settings
from hypothesis import strategies as st

from kiln.clusters.models import Node, NodeState
from kiln.clusters.spec import NodeGroupSpec, Place, Shape, ZoneRule, Zones
from kiln.engine.plan.changes import DesiredGroup, Shared
from kiln.engine.plan.diff import plan_group

#: Properties are about results, not about how busy the machine is.
UNTIMED = settings(deadline=None)
FLAVORS = ('large', 'small', 'tiny')
ZONES = ('az1', 'az2', 'az3')
SPREAD = Zones(rule=ZoneRule.SPREAD)
_NUMBERS = itertools.count(1)


def units(plan):
    """Return the number of resources once a plan is done: nodes, and shared ones."""
    nodes = sum(sum(one.table.values()) for one in plan.groups)
    return nodes + (plan.shared is not Shared.REMOVE)


def even(*names):
    return Zones(rule=ZoneRule.EVEN, names=names)


def counted(**counts):
    return Zones(rule=ZoneRule.COUNTS, counts=counts)


def wanted(count=None, *, flavors=None, zones=None, placements=None, made_with='', **group):
    """Return a group; its count is the sum of whatever counts are given."""
    flavors, placements = flavors or {}, placements or {}
    zones = zones or Zones()
    if count is None:
        count = sum((flavors or placements or zones.counts).values())
    shape = Shape(count=count, flavors=flavors, zones=zones, placements=placements)
    spec = NodeGroupSpec(**{'name': 'work', 'shape': shape, **group})
    return DesiredGroup(group=spec, flavor='small', zones=ZONES, made_with=made_with)


def reshaped(one, shape):
    return dataclasses.replace(one, group=dataclasses.replace(one.group, shape=shape))


def node(flavor='small', zone=None, state=NodeState.READY, **more):
    number = next(_NUMBERS)
    given = {
        'id': f'id-{number:06}', 'cluster_id': 'c', 'group': 'work', 'name': f'c-work-{number}',
        'place': Place(flavor, zone), 'backend': 'noop', 'state': state,
        'created_at': float(number),
    }  # fmt: skip
    return Node(**{**given, **more})


def nodes_in(counts, **more):
    """Return nodes by the number in each place."""
    return [
        node(flavor, zone, **more)
        for (flavor, zone), count in counts.items()
        for _ in range(count)
    ]


def made(plan, **more):
    """Return the nodes of a plan for a new group, all of them ready."""
    return [node(add.place.flavor, add.place.zone, **more) for add in plan.adds]


def new_group(one):
    return made(plan_group(one, ()), made_with=one.made_with)


def done(plan, **more):
    """Return the nodes of a group after all of a plan has been done."""
    kept = [keep.node for keep in plan.keeps]
    places = [act.place for act in (*plan.adds, *plan.replaces)]
    return kept + [node(place.flavor, place.zone, **more) for place in places]


def places(nodes):
    return dict(collections.Counter((one.place.flavor, one.place.zone) for one in nodes))


def along(nodes, axis):
    return dict(collections.Counter(getattr(one.place, axis) for one in nodes))


def changes(plan):
    """Return how many nodes a plan adds, replaces and removes."""
    return len(plan.adds), len(plan.replaces), len(plan.removes)


def split(total, names):
    """Counts by name that add up to a total."""
    cuts = st.lists(st.integers(0, total), min_size=len(names) - 1, max_size=len(names) - 1).map(
        sorted
    )
    return cuts.map(
        lambda at: {
            name: high - low for name, low, high in zip(names, [0, *at], [*at, total], strict=True)
        }
    )


@st.composite
def shapes(draw, most=30):
    """Any shape that a file can have."""
    total = draw(st.integers(0, most))
    flavors = draw(st.none() | split(total, FLAVORS))
    kind = draw(st.sampled_from(ZoneRule))
    zones = Zones(rule=kind)
    if kind is ZoneRule.COUNTS:
        zones = Zones(rule=kind, counts=draw(split(total, ZONES)))
    elif kind is ZoneRule.EVEN:
        zones = even(*draw(st.permutations(ZONES))[: draw(st.integers(1, 3))])
    elif kind is ZoneRule.ANY and draw(st.booleans()):
        cells = [Place(flavor, zone) for flavor in ('large', 'small') for zone in ZONES]
        return Shape(count=total, placements=draw(split(total, cells)))
    return Shape(count=total, flavors=flavors or {}, zones=zones)


@st.composite
def groups(draw, most=30, **more):
    return reshaped(wanted(0, **more), draw(shapes(most)))
