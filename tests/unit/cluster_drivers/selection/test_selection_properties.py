"""Properties of driver selection for any drivers, requests and preferences."""

import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.cluster_drivers.records import ClusterType, DriverRecord, DriverState
from kiln.cluster_drivers.selection.matching import Preference
from kiln.cluster_drivers.selection.request import Image, Request
from kiln.cluster_drivers.selection.selection import conflicts, explain, pin_of, resolve
from kiln.clusters.exceptions import AmbiguousClusterDriver, DriverSelectionError

NAMES = ['a_v1', 'b_v1', 'c_v1', 'd_v1']
SERVERS = ['vm', 'bare_metal']
SYSTEMS = ['ubuntu', 'fedora', 'fedora-coreos']
COES = ['kubernetes', 'swarm']


def types(*more):
    words = [SERVERS, SYSTEMS, COES]
    return st.builds(ClusterType, *(st.sampled_from([*some, *more]) for some in words))


RECORDS = st.lists(
    st.builds(
        DriverRecord,
        name=st.sampled_from(NAMES),
        version=st.sampled_from(['1.0.0', '1.2.0', '2.0.0']),
        origin=st.sampled_from(['package a 1', 'directory /b']),
        digest=st.sampled_from(['x', 'y']),
        state=st.sampled_from([DriverState.ACTIVE] * 4 + list(DriverState)),
        reason=st.just('out of use'),
        beta=st.booleans(),
        provides=st.lists(types('*'), min_size=1, max_size=3).map(tuple),
    ),
    max_size=7,
    # One origin has each version of a driver once; two origins can have the same version.
    unique_by=lambda record: (record.name, record.version, record.origin),
)
WISHES = st.none() | st.sampled_from([*NAMES, 'e_v1', 'a_v1==1.*', 'b_v1:ubuntu'])
REQUESTS = st.builds(
    Request,
    driver=WISHES,
    coe=st.none() | st.sampled_from(COES),
    server_type=st.none() | st.sampled_from(SERVERS),
)
IMAGES = st.none() | st.builds(
    Image,
    id=st.just('7c1e'),
    properties=st.dictionaries(
        st.sampled_from(['kiln_distro', 'os_distro']), st.sampled_from(SYSTEMS)
    ),
)
PREFERENCES = st.lists(
    st.builds(
        Preference,
        cluster_type=types('*'),
        drivers=st.lists(st.sampled_from(NAMES), min_size=1).map(tuple),
        reason=st.just('preferred'),
    )
    | st.sampled_from(NAMES).map(Preference.default),
    max_size=3,
)


def outcome(records, **inputs):
    """Return the explanation of a choice or of its refusal, as lines."""
    try:
        return explain(resolve(records=records, **inputs))
    except DriverSelectionError as exc:
        return explain(exc)


def is_ambiguous(wanted, records, preferences):
    request = Request(coe=wanted.coe, server_type=wanted.server_type)
    image = Image(id='7c1e', properties={'kiln_distro': wanted.os})
    try:
        resolve(request, records=records, image=image, preferences=preferences)
    except DriverSelectionError as exc:
        return isinstance(exc, AmbiguousClusterDriver)
    return False


class EveryChoice(unittest.TestCase):
    @given(st.data(), RECORDS, REQUESTS, REQUESTS, IMAGES, PREFERENCES)
    def test_a_choice_does_not_depend_on_the_order_of_installation(
        self, data, records, request, template, image, preferences
    ):
        shuffled = data.draw(st.permutations(records))
        inputs = {'template': template, 'image': image, 'preferences': preferences}
        self.assertEqual(
            outcome(records, request=request, **inputs),
            outcome(shuffled, request=request, **inputs),
        )
        self.assertEqual(conflicts(records, preferences), conflicts(shuffled, preferences))

    @given(RECORDS, REQUESTS, IMAGES, PREFERENCES)
    def test_a_chosen_driver_is_active_and_builds_the_requested_type(
        self, records, request, image, preferences
    ):
        try:
            found = resolve(request, records=records, image=image, preferences=preferences)
        except DriverSelectionError:
            return
        (chosen,) = (record for record in records if pin_of(record) == found.pin)
        self.assertIs(DriverState.ACTIVE, chosen.state)
        server_type, system, coe = found.wanted
        systems = [system, 'fedora'] if system == 'fedora-coreos' else [system]
        self.assertTrue(
            any(
                offered.server_type in ('*', server_type)
                and offered.os in ('*', *systems)
                and (coe == '*' or offered.coe in ('*', coe))
                for offered in chosen.provides
            )
        )

    @given(RECORDS, types(), PREFERENCES)
    def test_without_conflicts_no_choice_is_ambiguous(self, records, wanted, preferences):
        if not any(one.cluster_type for one in conflicts(records, preferences)):
            self.assertFalse(is_ambiguous(wanted, records, preferences))

    @given(RECORDS, PREFERENCES)
    def test_a_choice_with_a_reported_conflict_is_ambiguous(self, records, preferences):
        for conflict in conflicts(records, preferences):
            if conflict.cluster_type and '*' not in conflict.cluster_type:
                self.assertTrue(is_ambiguous(conflict.cluster_type, records, preferences))
