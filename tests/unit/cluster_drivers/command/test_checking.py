"""Values of a cluster are compared with what driver.yaml declares, each told with its place."""

import dataclasses
import unittest

from kiln.cluster_drivers.command.checking import value_problems
from kiln.cluster_drivers.parameters import Parameter, ParameterType
from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.spec import MachineSpec, NodeGroupSpec, Shape
from kiln.testing.clusters import samples
from tests.unit.cluster_drivers.test_base import ForeignDriver

PARAMETERS = {
    'port': Parameter(name='port', type=ParameterType.INTEGER, minimum=1),
    'token': Parameter(name='token', secret=True),
    'color': Parameter(name='color', required=True),
}


class Secrets:
    def get(self, name):
        if name != 'known':
            raise ClusterDriverError(f'There is no secret {name}.')
        return 'value'


class Checking(unittest.TestCase):
    def told(self, cluster=None, group=None):
        made = samples.cluster(ForeignDriver, MachineSpec(parameters=cluster or {}), 1)
        spec = NodeGroupSpec(
            name='work', shape=Shape(count=1), machine=MachineSpec(parameters=group or {})
        )
        made = dataclasses.replace(made, spec=dataclasses.replace(made.spec, groups=(spec,)))
        context = samples.context(secrets=Secrets())
        return {one.path: one.message for one in value_problems(context, made, PARAMETERS)}

    def test_right_values_are_no_problem(self):
        right = {'port': 5, 'token': 'known', 'color': 'red'}
        self.assertEqual({}, self.told(right))
        self.assertEqual({}, self.told({'color': 'red'}, {'port': 7}))
        self.assertEqual({}, self.told({'color': 'red', 'port': None}))

    def test_a_wrong_value_has_the_place_where_it_stands(self):
        of_cluster = self.told({'color': 'red', 'port': 0})
        of_group = self.told({'color': 'red'}, {'port': 0})
        self.assertEqual(['parameters.port'], list(of_cluster))
        self.assertEqual(['nodegroups[work].parameters.port'], list(of_group))

    def test_what_the_driver_does_not_have_is_refused_with_what_it_has(self):
        (message,) = self.told({'color': 'red', 'colour': 'red'}).values()
        self.assertEqual('the driver has no such parameter; it has port, token, color', message)

    def test_a_parameter_that_is_needed_is_missed(self):
        self.assertEqual(
            {'nodegroups[work]': 'the driver needs parameter color'}, self.told({'port': 5})
        )

    def test_a_secret_that_the_site_does_not_have_is_told(self):
        found = self.told({'color': 'red', 'token': 'unknown'})
        self.assertEqual({'parameters.token': 'There is no secret unknown.'}, found)
