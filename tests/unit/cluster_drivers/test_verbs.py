"""Verbs: operations that only one driver has."""

import unittest

from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.parameters import Parameter, ParameterType
from kiln.cluster_drivers.verbs import Verb
from kiln.cluster_service.verbs import run_verb
from kiln.clusters.exceptions import ClusterDriverError, MissingCapability
from tests.unit.cluster_drivers.samples import cluster, context
from tests.unit.cluster_drivers.test_base import ForeignDriver

SCALE = Verb(
    run=lambda context, cluster, arguments: {'cluster': cluster.name, **arguments},
    help='Say what it was given.',
    parameters=(
        Parameter(name='number', type=ParameterType.INTEGER, required=True, maximum=9),
        Parameter(name='colour', default='red'),
    ),
)


class Speaker(ForeignDriver):
    verbs = {'say': SCALE}  # noqa: RUF012


class Verbs(unittest.TestCase):
    def run_verb(self, verb, driver_class=Speaker, **given):
        return run_verb(driver_class(), verb, context(), cluster(), given)

    def test_001_5_a_driver_can_declare_its_own_verbs(self):
        self.assertEqual({}, dict(ClusterDriver.verbs))
        self.assertEqual(
            {'cluster': 'blue', 'number': 3, 'colour': 'red'}, self.run_verb('say', number=3)
        )
        self.assertEqual('blue', self.run_verb('say', number=3, colour='blue')['colour'])

    def test_an_unknown_verb_is_refused_with_the_existing_verbs(self):
        with self.assertRaisesRegex(MissingCapability, "no verb 'tell'. It has: say."):
            self.run_verb('tell')
        with self.assertRaisesRegex(MissingCapability, 'It has: none.'):
            self.run_verb('say', driver_class=ForeignDriver)

    def test_all_wrong_arguments_of_a_verb_are_refused_at_once(self):
        with self.assertRaises(ClusterDriverError) as caught:
            self.run_verb('say', colour=7, size=1)
        self.assertIn('there is no size; number is missing; colour: it must be a string, not a '
                      'whole number', str(caught.exception))  # fmt: skip
        with self.assertRaisesRegex(ClusterDriverError, 'number: it must be at most 9'):
            self.run_verb('say', number=10)
