"""Adoption: the amphora of a key matches the build, or the build is refused."""

import dataclasses
import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.compute_drivers import validation
from kiln.compute_drivers.authoring.adoption import adopted
from kiln.exceptions import BuildConflict, BuildDiffers, Outcome, Verdict
from kiln.models import Amphora, AmphoraType, BuildRequest, Limits, State

#: Pairs of a field that both have: its name in a request, and the argument of build().
COMPARED = {
    'amphora_type': 'amphora_type',
    'flavor': 'amphora_flavor',
    'image_id': 'image_id',
    'name': 'name',
}
WORDS = st.sampled_from(['a', 'b', 'c d', "it's", '%s', '{}'])
FACTS = {
    'amphora_type': st.sampled_from(AmphoraType),
    'flavor': st.none() | WORDS,
    'image_id': st.none() | WORDS,
    'name': WORDS,
}
REQUESTS = st.builds(
    BuildRequest,
    build_key=st.just('k'),
    owner=st.just('o'),
    availability_zone=st.none() | WORDS,
    server_group_id=st.none() | WORDS,
    network_ids=st.lists(WORDS).map(tuple),
    keys=st.lists(WORDS).map(tuple),
    metadata=st.dictionaries(WORDS, WORDS),
    user_data=st.none() | st.binary(),
    fresh=st.booleans(),
    **FACTS,
)
FOUND = st.builds(
    Amphora,
    id=st.just('id-1'),
    state=st.sampled_from(State),
    availability_zone=st.none() | WORDS,
    server_group_id=st.none() | WORDS,
    metadata=st.dictionaries(WORDS, WORDS),
    **FACTS,
)


def request(**more):
    return BuildRequest(build_key='k', owner='o', name='web', **more)


def found(**more):
    return Amphora(**{'id': 'id-1', 'name': 'web', 'state': State.ACTIVE, **more})


class Adopting(unittest.TestCase):
    @given(REQUESTS, FOUND)
    def test_it_is_refused_exactly_if_a_value_known_to_both_differs(self, request, found):
        differing = [
            field
            for field in COMPARED
            if getattr(request, field) is not None
            and getattr(found, field) is not None
            and getattr(request, field) != getattr(found, field)
        ]
        try:
            self.assertEqual('id-1', adopted(request, found))
        except BuildDiffers as exc:
            self.assertTrue(differing)
            self.assertEqual(('id-1', 'k'), (exc.amphora_id, exc.build_key))
            for field, argument in COMPARED.items():
                told = f'its {argument} is {str(getattr(found, field))!r} and not '
                self.assertEqual(field in differing, told in str(exc))
        else:
            self.assertFalse(differing)

    def test_a_name_derived_from_the_key_is_not_compared(self):
        limits = Limits(max_name_length=12)
        left_out, given_one, other = (
            validation.build_request(limits, {'build_key': 'web-1', 'name': name}, owner='o')
            for name in (None, 'web', 'other')
        )
        self.assertEqual('amphora-web-', left_out.name)
        for asked, made in (
            (left_out, given_one), (given_one, left_out), (left_out, left_out),
            (given_one, given_one),
        ):  # fmt: skip
            with self.subTest(asked=asked.name, made=made.name):
                self.assertEqual('id-1', adopted(asked, found(name=made.name)))
        # The beginning of a generated name is an ordinary name.
        for made in ('web', 'amphora', 'amphora-web-1'):
            with self.subTest(asked='other', made=made), self.assertRaises(BuildDiffers):
                adopted(other, found(name=made))

    @given(REQUESTS, st.sampled_from(State))
    def test_a_repeat_adopts_the_amphora_of_its_request(self, request, state):
        facts = {field: getattr(request, field) for field in COMPARED}
        made = Amphora(id='id-1', state=state, **facts)
        again = dataclasses.replace(request, keys=('another',), user_data=b'another', metadata={})
        self.assertEqual('id-1', adopted(again, made))

    def test_a_name_that_the_backend_cannot_read_is_unknown(self):
        self.assertEqual('id-1', adopted(request(), found(name='')))

    def test_the_error_names_the_amphora_each_difference_and_the_remedy(self):
        with self.assertRaises(BuildDiffers) as caught:
            adopted(request(flavor='large', image_id='i'), found(flavor='small', image_id='j'))
        self.assertEqual(
            "Cannot build web: amphora id-1 was built with key 'k' before, and its "
            "amphora_flavor is 'small' and not 'large', its image_id is 'j' and not 'i'. Use "
            "another build key, or delete that amphora first; find_build('k') returns it as it "
            'is.',
            str(caught.exception),
        )

    def test_the_error_is_a_conflict_that_left_nothing(self):
        with self.assertRaises(BuildConflict) as caught:
            adopted(request(), found(name='other'))
        error = caught.exception
        self.assertEqual(
            ('build_differs', Outcome.NOT_APPLIED, Verdict.NEUTRAL, False),
            (error.code, error.outcome, error.circuit, error.retryable),
        )
