"""Parameters: types, bounds, and messages that show no value."""

import unittest

from hypothesis import given, settings
from hypothesis import strategies as st

from kiln.cluster_drivers.parameters import Parameter, ParameterType

VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.none())


def parameter(**fields):
    return Parameter(**{'name': 'x'} | fields)


class Parameters(unittest.TestCase):
    def test_each_type_accepts_its_own_values_without_conversion(self):
        takes = {
            'string': ['', 'a', '1'],
            'integer': [0, -1, 10**20],
            'number': [1.5],
            'boolean': [True, False],
            'list': [[], ['a'], ()],
            'map': [{}, {'a': 1}],
        }
        for kind in ParameterType:
            for other, values in takes.items():
                for value in values:
                    fits = kind == other or (kind, other) == ('number', 'integer')
                    found = parameter(type=kind).wrong(value)
                    self.assertEqual(fits, not found, (kind, value, found))

    def test_a_wrong_value_is_reported_by_its_kind_and_not_shown(self):
        self.assertEqual('it must be a whole number, not a string',
                         parameter(type=ParameterType.INTEGER).wrong('hunter2'))  # fmt: skip
        self.assertEqual('it must be a string, not nothing', parameter().wrong(None))
        self.assertEqual('it must be a string, not a float', parameter().wrong(float('nan')))

    def test_a_password_in_a_url_is_refused_as_it_would_be_stored(self):
        url = 'https://me:hunter2@mirror:5000/x'
        for kind, value in (
            ('string', url), ('list', ['https://fine', url]), ('map', {'a': [url]}),
            ('map', {url: 1}),
        ):  # fmt: skip
            found = parameter(type=ParameterType(kind)).wrong(value)
            self.assertIn('it has a password in a URL', found)
            self.assertNotIn('hunter2', found)
        for fine in ('https://me@mirror:5000/', 'https://mirror:5000/a@b', 'me:hunter2@x'):
            self.assertEqual('', parameter().wrong(fine))

    def test_bounds_and_choices_are_enforced(self):
        port = parameter(type=ParameterType.INTEGER, minimum=1, maximum=9)
        self.assertEqual(
            ['it must be at least 1', '', '', 'it must be at most 9'],
            [port.wrong(value) for value in (0, 1, 9, 10)],
        )
        self.assertEqual('it must be one of a, b', parameter(choices=('a', 'b')).wrong('c'))
        self.assertEqual('', parameter(choices=('a', 'b')).wrong('b'))

    def test_a_contradiction_is_reported_at_its_field(self):
        number = ParameterType.NUMBER
        cases = {
            'name': {'name': 'X y'},
            'type': {'secret': True, 'type': number},
            'default': {'default': 3},
            'required': {'required': True, 'default': 'a'},
            'minimum': {'minimum': 1},
            'maximum': {'type': number, 'minimum': 2, 'maximum': 1},
            'choices': {'choices': ('a', 1)},
            'help': {'help': True},
        }
        for field, fields in cases.items():
            with self.subTest(field):
                self.assertEqual([field], [one for one, _ in parameter(**fields).contradictions()])
        secret = parameter(secret=True, default='a', choices=('a',))
        self.assertEqual({'default', 'choices'}, {one for one, _ in secret.contradictions()})
        self.assertEqual([], list(parameter(type=number, minimum=1, default=2).contradictions()))

    @settings(deadline=None)
    @given(st.sampled_from(ParameterType), VALUES, VALUES)
    def test_no_value_raises_an_error(self, kind, default, value):
        one = parameter(type=kind, default=default)
        list(one.contradictions())
        self.assertIsInstance(one.wrong(value), str)
