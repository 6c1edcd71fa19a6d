"""What holds for the machines of a group, and where it was written."""

import unittest

from kiln.clusters.spec import MachineSpec, Portion, Scope, effective
from kiln.models import AmphoraType

DEFAULT = MachineSpec(
    compute_driver='noop', server_type=AmphoraType.VM, keys=(), networks=(), sec_groups=()
)


class Effective(unittest.TestCase):
    def effective(self, **scopes):
        given = {name: MachineSpec(**values) for name, values in scopes.items()}
        nothing = dict.fromkeys(('template', 'cluster', 'group'), MachineSpec())
        return effective(default=DEFAULT, **nothing | given)

    def test_the_narrower_scope_wins_and_is_named(self):
        found = self.effective(
            template={'image': 'a', 'flavor': 'small'}, cluster={'image': 'b'}, group={'keys': ()}
        )
        self.assertEqual(('b', 'small'), (found.machine.image, found.machine.flavor))
        self.assertEqual(
            {
                'compute_driver': Scope.DEFAULT, 'server_type': Scope.DEFAULT,
                'networks': Scope.DEFAULT, 'sec_groups': Scope.DEFAULT,
                'flavor': Scope.TEMPLATE, 'image': Scope.CLUSTER, 'keys': Scope.GROUP,
            },
            dict(found.origins),
        )  # fmt: skip

    def test_zero_is_a_value(self):
        found = self.effective(template={'keys': ('mine',)}, group={'keys': ()})
        self.assertEqual((), found.machine.keys)

    def test_parameters_are_merged_one_by_one(self):
        found = self.effective(
            template={'parameters': {'a': 1, 'b': 1}}, group={'parameters': {'b': 2, 'c': None}}
        )
        self.assertEqual({'a': 1, 'b': 2, 'c': None}, dict(found.machine.parameters))
        self.assertEqual(Scope.TEMPLATE, found.origins['parameters.a'])
        self.assertEqual(Scope.GROUP, found.origins['parameters.b'])


class Portions(unittest.TestCase):
    def test_a_percentage_is_rounded_down(self):
        self.assertEqual([0, 1, 4], [Portion(40, percent=True).of(n) for n in (2, 4, 10)])

    def test_a_number_is_unchanged(self):
        self.assertEqual(3, Portion(3).of(1))
        self.assertEqual(['3', '40%'], [str(Portion(3)), str(Portion(40, percent=True))])
