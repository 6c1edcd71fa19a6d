"""``kiln driver contract``: the contract of drivers, from the installed source."""

import inspect

from kiln.cluster_drivers.base import ClusterDriver, NodeClusterDriver
from kiln.cluster_drivers.values import Context
from kiln.compute_drivers.base import AmphoraComputeDriver
from tests.unit.cli.shell import Shell


class Contract(Shell):
    def test_it_has_every_member_and_its_promises_and_no_code(self):
        for kind, classes in (
            ('cluster', (ClusterDriver, NodeClusterDriver, Context)),
            ('compute', (AmphoraComputeDriver,)),
        ):
            text = self.ok('driver', 'contract', '--kind', kind)
            self.assertNotIn('return ', ' '.join(text.split('"""')[::2]))
            for cls in classes:
                for name, member in vars(cls).items():
                    if name[0] != '_':
                        self.assertRegex(text, rf'(def |    ){name}\b')
                        if inspect.isfunction(member) and member.__doc__:
                            self.assertIn(member.__doc__.strip().splitlines()[0], text)

    def test_one_member_is_shown_of_each_class_that_has_it(self):
        found = self.json('driver', 'contract', 'validate')
        self.assertEqual(['ClusterDriver', 'NodeClusterDriver'], list(found))
        self.assertIn('before the first side effect', found['ClusterDriver'])
        self.assertNotIn('get_monitor', found['ClusterDriver'])

    def test_one_class_is_shown_alone(self):
        found = self.json('driver', 'contract', 'StatusReport')
        self.assertEqual(['StatusReport'], list(found))
        self.assertIn('#: Stored with the cluster', found['StatusReport'])

    def test_a_function_and_a_value_are_shown_with_the_line_that_imports_them(self):
        for name, text in (
            ('join_token', 'def join_token(context: Context, node: Node) -> str:'),
            ('READY', 'READY = Readiness(ReadyState.READY)'),
        ):
            found = self.json('driver', 'contract', name)[name]
            self.assertTrue(
                found.startswith(f'from kiln.cluster_drivers.values import {name}\n\n{text}'),
                found,
            )

    def test_constructors_are_shown(self):
        for name, arguments in (
            ('ScaleManager', 'context: Context, cluster: Cluster'),
            ('ClusterDriverError', "reason: str, hint: str = '', retryable: bool | None = None"),
            ('MachineBench', 'clock: VirtualClock'),
        ):
            found = self.json('driver', 'contract', name)[name]
            self.assertIn(f'def __init__(self, {arguments}) -> None:', found)

    def test_each_import_works(self):
        for kind in ('cluster', 'compute'):
            for name, text in self.json('driver', 'contract', '--kind', kind).items():
                line, _, rest = text.partition('\n')
                exec(line, {})
                self.assertIn(name, rest)

    def test_an_unknown_name_is_refused_with_the_classes(self):
        said = self.fails(2, 'driver', 'contract', 'drian')
        self.assertIn("Cannot find 'drian'", said)
        self.assertIn('NodeClusterDriver', said)
