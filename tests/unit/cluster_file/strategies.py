"""Hypothesis strategies for clusters and templates as returned by the reader."""

import string
from types import MappingProxyType

from hypothesis import settings
from hypothesis import strategies as st

from kiln.clusters.spec import (
    ClusterSpec,
    ClusterTemplate,
    Fallback,
    Health,
    MachineSpec,
    NodeGroupSpec,
    Place,
    Portion,
    Shape,
    Strategy,
    VictimRule,
    ZoneRule,
    Zones,
)
from kiln.models import AmphoraType
from tests.examples import examples

#: The first example of a strategy is slow, and the machine can be busy.
CALM = settings(deadline=None)
FEW = settings(max_examples=examples(20), deadline=None)

NAMES = st.from_regex(r'[a-z]([a-z0-9-]{0,6}[a-z0-9])?', fullmatch=True)
#: Includes text that YAML could parse as something else.
TEXTS = st.text(
    st.characters(exclude_categories=('C', 'Z')), min_size=1, max_size=12
) | st.sampled_from(['yes', '010', '1.10', '1e5', '~', 'null', '1:30', '- a', 'a: b', '#', '<<'])
COUNTS = st.integers(0, 50)
NUMBERS = st.integers(-(10**13), 10**13) | st.floats(allow_nan=False, allow_infinity=False)
#: Includes characters that need escapes, but no lone surrogates.
WORDS = TEXTS | st.text(st.characters(exclude_categories=['Cs']), max_size=12)
PARAMETERS = st.dictionaries(
    WORDS,
    st.recursive(
        st.none() | st.booleans() | NUMBERS | WORDS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=3,
)
SECONDS = st.integers(1, 7 * 86_400).map(float) | st.floats(1, 7 * 86_400)


def mappings(keys, values, **size):
    return st.dictionaries(keys, values, **size).map(MappingProxyType)


def several(values, least=0):
    return st.lists(values, unique=True, min_size=least, max_size=3).map(tuple)


MACHINES = st.builds(
    MachineSpec,
    compute_driver=st.none() | TEXTS,
    server_type=st.none() | st.sampled_from(AmphoraType),
    image=st.none() | TEXTS,
    flavor=st.none() | TEXTS,
    keys=st.none() | several(TEXTS),
    networks=st.none() | several(TEXTS),
    sec_groups=st.none() | several(TEXTS),
    parameters=PARAMETERS.map(MappingProxyType),
)
GROUP_MACHINES = st.builds(
    MachineSpec,
    image=st.none() | TEXTS,
    flavor=st.none() | TEXTS,
    keys=st.none() | several(TEXTS),
    parameters=mappings(TEXTS, NUMBERS, max_size=2),
)
PORTIONS = st.builds(Portion, st.integers(0, 100), st.booleans())
PORTIONS_ABOVE_0 = st.builds(Portion, st.integers(1, 100), st.booleans())
STRATEGIES = st.builds(
    Strategy,
    max_surge=PORTIONS,
    max_unavailable=PORTIONS_ABOVE_0,
    batch=st.none() | st.integers(1, 9),
    drain_timeout_s=st.none() | SECONDS,
)
FALLBACKS = st.builds(Fallback, flavors=several(TEXTS), zones=several(TEXTS))
HEALTHS = st.builds(
    Health,
    startup_timeout_s=SECONDS,
    unhealthy_after_s=SECONDS,
    max_unhealthy=PORTIONS,
    max_in_flight=st.integers(1, 9),
)
SPREADS = st.one_of(
    st.builds(Zones, rule=st.sampled_from([ZoneRule.ANY, ZoneRule.SPREAD])),
    st.builds(Zones, rule=st.just(ZoneRule.EVEN), names=several(TEXTS, 1)),
)


def parted(draw, total):
    """Return counts of some names that add up to a total."""
    names = draw(several(TEXTS, 1))
    counts = dict.fromkeys(names, 0)
    for name in names[:-1]:
        counts[name] = draw(st.integers(0, total - sum(counts.values())))
    counts[names[-1]] = total - sum(counts.values())
    return MappingProxyType(counts)


@st.composite
def shapes(draw):
    total = draw(COUNTS)
    how = draw(st.sampled_from(['count', 'flavors', 'zones', 'both', 'placements']))
    if how == 'placements':
        places = st.builds(Place, TEXTS, TEXTS)
        placements = draw(mappings(places, COUNTS, min_size=1, max_size=3))
        return Shape(count=sum(placements.values()), placements=placements)
    parts = {}
    if how in ('flavors', 'both'):
        parts['flavors'] = parted(draw, total)
    if how in ('zones', 'both'):
        parts['zones'] = Zones(rule=ZoneRule.COUNTS, counts=parted(draw, total))
    else:
        parts['zones'] = draw(SPREADS)
    return Shape(count=total, **parts)


@st.composite
def groups(draw):
    shape, machine = draw(shapes()), draw(GROUP_MACHINES)
    if shape.flavors or shape.placements:
        machine = MachineSpec(image=machine.image)
    return NodeGroupSpec(
        name=draw(NAMES),
        shape=shape,
        role=draw(NAMES),
        machine=machine,
        min_count=draw(st.integers(0, shape.count)),
        max_count=draw(st.none() | st.integers(shape.count, 999)),
        strategy=draw(STRATEGIES),
        fallback=draw(FALLBACKS),
        health=draw(HEALTHS),
        deletion=draw(several(st.sampled_from(VictimRule), 1)),
    )


GROUPS = st.lists(groups(), min_size=1, max_size=2, unique_by=lambda group: group.name).map(tuple)
SCOPES = {
    'coe': st.none() | TEXTS,
    'driver': st.none() | st.sampled_from(['swarm_v1', 'k8s==1.2.*', 'swarm:fedora']),
    'machine': MACHINES,
}
TEMPLATE_NAMES = st.text(string.ascii_letters + string.digits, min_size=1, max_size=8)
CLUSTERS = st.builds(
    ClusterSpec,
    name=NAMES,
    template=st.none() | TEMPLATE_NAMES,
    groups=GROUPS,
    create_timeout_s=SECONDS,
    credentials=st.none() | TEMPLATE_NAMES,
    **SCOPES,
)
TEMPLATES = st.builds(ClusterTemplate, name=TEMPLATE_NAMES, groups=st.just(()) | GROUPS, **SCOPES)
