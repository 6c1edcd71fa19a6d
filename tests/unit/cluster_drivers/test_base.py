"""The contract of cluster drivers: required and optional members, and signatures."""

import dataclasses
import inspect
import pickle
import subprocess
import sys
import unittest

from kiln.cluster_drivers.base import ClusterDriver, NodeClusterDriver
from kiln.cluster_drivers.calls import driver_errors
from kiln.cluster_drivers.discovery.contract import contract_violations
from kiln.cluster_drivers.discovery.manifest import from_class
from kiln.cluster_drivers.records import ClusterType
from kiln.cluster_drivers.scale import DefaultScaleManager
from kiln.cluster_drivers.templates.definition import TemplateDefinition
from kiln.cluster_drivers.values import DRAINED, READY, Cap, Context, Progress, StatusReport
from kiln.clusters.exceptions import ClusterDriverError, MissingCapability
from kiln.clusters.models import OperationKind
from tests.unit.cluster_drivers.samples import cluster, context, group, node
from tests.unit.test_layering import ROOT, imports, modules, wrongs


class ForeignDriver(ClusterDriver):
    """A minimal driver with an engine of its own, without optional members."""

    name = 'foreign_v1'
    version = '1.0.0'
    provides = (('vm', 'ubuntu', 'swarm'),)

    def create_cluster(self, context, cluster, cluster_create_timeout):
        return StatusReport(
            progress=Progress.IN_PROGRESS, driver_handle='stack-1', driver_state={'step': 1}
        )

    def update_cluster(self, context, cluster, scale_manager=None, rollback=False):
        return StatusReport(progress=Progress.IN_PROGRESS)

    def delete_cluster(self, context, cluster):
        return StatusReport(progress=Progress.COMPLETE)


class PlainNodes(NodeClusterDriver):
    """A minimal node driver, without templates."""

    name = 'plain_v1'
    version = '1.0.0'
    provides = (('*', '*', 'nodes'),)

    def get_template_definition(self):
        return TemplateDefinition(ROOT)


class Rotating(ForeignDriver):
    """Overrides two methods and only calls the base class."""

    def rotate_credential(self, context, cluster):
        return super().rotate_credential(context, cluster)

    def rotate_ca_certificate(self, context, cluster):
        return super().rotate_ca_certificate(context, cluster)


def defined(base, **members):
    """Define a class of drivers."""
    return type('NewDriver', (base,), members)


#: A call for each capability.
CALLS = {
    Cap.RESIZE: lambda driver, **of: driver.resize_cluster(**of, nodegroup=group(), node_count=3),
    Cap.UPGRADE: lambda driver, **of: driver.upgrade_cluster(
        **of, cluster_template=None, nodegroups=(), strategy=None
    ),
    Cap.REBUILD: lambda driver, **of: driver.rebuild_cluster(**of),
    Cap.REBOOT: lambda driver, **of: driver.reboot_cluster(**of, hard=True),
    Cap.ROTATE_CREDENTIAL: lambda driver, **of: driver.rotate_credential(**of),
    Cap.ROTATE_CA_CERTIFICATE: lambda driver, **of: driver.rotate_ca_certificate(**of),
}


class Contract(unittest.TestCase):
    def test_000_1_cluster_drivers_import_no_engine_and_no_cloud(self):
        sources = {
            name: source
            for name, source in modules()
            if name.startswith(('kiln.cluster_drivers', 'kiln.clusters'))
            and not name.startswith('kiln.cluster_drivers.heat')
        }
        self.assertIn('kiln.cluster_drivers.base', sources)
        for name, source in sources.items():
            for imported in imports(source):
                self.assertNotRegex(imported, 'heat|taskflow|openstack|novaclient|compute', name)

    def test_000_2_provides_can_be_tuples_or_mappings(self):
        written = {'server_type': 'bm', 'os': '*', 'coe': 'swarm'}
        driver_class = defined(ForeignDriver, provides=[('vm', 'ubuntu', 'swarm'), written])
        self.assertEqual(
            (ClusterType('bare_metal', '*', 'swarm'), ClusterType('vm', 'ubuntu', 'swarm')),
            from_class(driver_class).provides,
        )

    def test_000_2_provides_is_read_without_an_instance(self):
        def never(self):
            raise AssertionError('a driver was made')

        provides = property(lambda self: [('vm', 'fedora', 'mesos')])
        driver_class = defined(ForeignDriver, __init__=never, provides=provides)
        self.assertEqual(
            (ClusterType('vm', 'fedora', 'mesos'),), from_class(driver_class).provides
        )

    def test_a_wrong_provides_is_one_contract_violation(self):
        needs_more = property(lambda self: self.nothing_of_the_class)
        for provides in ('vm', [('vm', 'ubuntu')], [{'coe': 'swarm'}], ['abc'], None, needs_more):
            with self.subTest(provides=provides):
                found = list(contract_violations(defined(ForeignDriver, provides=provides)))
                self.assertEqual(1, len(found), found)
                self.assertIn('provides', found[0])

    def test_000_3_to_000_5_signatures_are_those_of_the_founding_note(self):
        required = inspect.Parameter.empty
        wanted = {
            'create_cluster': {'cluster_create_timeout': required},
            'update_cluster': {'scale_manager': None, 'rollback': False},
            'delete_cluster': {},
        }
        for name, arguments in wanted.items():
            for driver_class in (ClusterDriver, NodeClusterDriver):
                parameters = inspect.signature(getattr(driver_class, name)).parameters
                self.assertEqual(
                    {'self': required, 'context': required, 'cluster': required} | arguments,
                    {one.name: one.default for one in parameters.values()},
                )
                self.assertEqual(['self', 'context', 'cluster', *arguments], list(parameters))

    def test_000_6_no_method_takes_a_client_of_a_cloud(self):
        for name, method in inspect.getmembers(NodeClusterDriver, inspect.isfunction):
            parameters = set(inspect.signature(method).parameters)
            self.assertFalse(parameters & {'osc', 'client', 'session', 'conf'}, name)
        self.assertEqual(
            ['site', 'credentials', 'secrets', 'template', 'operation', 'defaults', 'nodes',
             'join_key', 'console', 'readings', 'poll_soon'],
            [field.name for field in dataclasses.fields(Context)],
        )  # fmt: skip

    def test_a_context_shows_no_secret(self):
        self.assertNotIn('kkkk', repr(context()))

    def test_001_28_only_four_members_are_required(self):
        required = {'provides', 'create_cluster', 'update_cluster', 'delete_cluster'}
        self.assertEqual(required, set(ClusterDriver.__abstractmethods__))
        self.assertEqual(
            {'provides', 'get_template_definition'}, set(NodeClusterDriver.__abstractmethods__)
        )
        self.assertEqual([], list(contract_violations(ForeignDriver)))
        self.assertEqual([], list(contract_violations(PlainNodes)))

    def test_missing_members_are_reported_by_name(self):
        class Empty(ClusterDriver):
            pass

        self.assertEqual(
            ['it lacks create_cluster, delete_cluster, provides, update_cluster, name, version'],
            list(contract_violations(Empty)),
        )

    def test_an_object_that_is_not_a_driver_class_is_reported(self):
        for thing in (object, ForeignDriver(), None, 'name'):
            (found,) = contract_violations(thing)
            self.assertIn('is not a subclass of ClusterDriver', found)

    def test_a_driver_for_another_contract_version_is_reported(self):
        (found,) = contract_violations(defined(ForeignDriver, contract_version=99))
        self.assertEqual('it is written for contract 99, this kiln has 1', found)

    def test_000_12_the_core_imports_no_driver(self):
        found = [
            wrong
            for module, source in modules()
            if 'cluster_drivers' in source
            for wrong in wrongs(module, source)
            if 'cluster_drivers' in wrong
        ]
        self.assertEqual([], found)
        imported = 'from kiln.cluster_drivers.example_v1.driver import ExampleDriver'
        for module in ('kiln.cluster_drivers.base', 'kiln.cluster_drivers.discovery.directory'):
            self.assertEqual(1, len(list(wrongs(module, imported))), module)

    def test_000_15_handle_and_state_are_optional_and_kept_if_reported(self):
        made = cluster()
        self.assertIsNone(made.driver_handle)
        self.assertEqual({}, dict(made.driver_state))
        report = ForeignDriver().create_cluster(
            context=context(), cluster=made, cluster_create_timeout=60.0
        )
        self.assertEqual('stack-1', report.driver_handle)
        self.assertEqual({'step': 1}, report.driver_state)
        self.assertIsNone(StatusReport(progress=Progress.COMPLETE).driver_handle)
        self.assertEqual(report, pickle.loads(pickle.dumps(report)))

    def test_000_19_the_contract_imports_no_large_library(self):
        code = (
            'import sys, kiln.cluster_drivers.base, kiln.cluster_drivers.discovery.contract\n'
            'heavy = ["yaml", "sqlalchemy", "keystoneauth1", "openstack", "novaclient", '
            '"heatclient", "docker", "stevedore", "oslo_config"]\n'
            'print([name for name in heavy if name in sys.modules])'
        )
        done = subprocess.run(
            [sys.executable, '-c', code], cwd=ROOT, capture_output=True, text=True, check=True
        )
        self.assertEqual('[]', done.stdout.strip())


class Signatures(unittest.TestCase):
    def test_magnums_signature_of_upgrade_cluster_is_refused(self):
        def upgrade_cluster(
            self, context, cluster, cluster_template, max_batch_size, nodegroup,
            scale_manager=None, rollback=False,
        ):  # fmt: skip
            pass

        with self.assertRaisesRegex(
            TypeError,
            r'NewDriver breaks the contract: upgrade_cluster\(.*max_batch_size.*\) should be '
            r'upgrade_cluster\(self, context, cluster, \*, cluster_template, nodegroups, strategy',
        ):
            defined(ForeignDriver, upgrade_cluster=upgrade_cluster)

    def test_a_method_with_another_signature_cannot_be_defined(self):
        def swapped(self, context, cluster, rollback=False, scale_manager=None): ...
        def renamed(self, context, bay, scale_manager=None, rollback=False): ...
        def with_osc(self, context, osc, cluster, scale_manager=None, rollback=False): ...
        def other_default(self, context, cluster, scale_manager=None, rollback=True): ...
        def too_many(self, context, cluster, scale_manager=None, rollback=False, force=False): ...

        wrong = (swapped, renamed, with_osc, other_default, too_many, None, 'update')
        for function in wrong:
            for base in (ForeignDriver, PlainNodes, NodeClusterDriver):
                with self.subTest(function=function, base=base), self.assertRaises(TypeError):
                    defined(base, update_cluster=function)

    def test_hooks_of_node_drivers_must_have_their_signatures(self):
        with self.assertRaisesRegex(TypeError, r'bootstrap\(self, node\) should be'):
            defined(PlainNodes, bootstrap=lambda self, node: None)

    def test_annotations_of_a_method_are_not_checked(self):
        def update_cluster(
            self, context: object, cluster: object, scale_manager: object = None,
            rollback: bool = False,
        ) -> None: ...  # fmt: skip

        self.assertTrue(defined(ForeignDriver, update_cluster=update_cluster))


class Capabilities(unittest.TestCase):
    def test_000_16_capabilities_are_the_overridden_methods(self):
        self.assertEqual(frozenset(), ForeignDriver.capabilities)

        def reboot_cluster(self, context, cluster, *, hard=False, nodes=None): ...
        def get_monitor(self, context, cluster): ...

        driver_class = defined(
            ForeignDriver, reboot_cluster=reboot_cluster, get_monitor=get_monitor
        )
        self.assertEqual({Cap.REBOOT, Cap.MONITOR}, driver_class.capabilities)
        driver_class().require(Cap.REBOOT)

    def test_000_16_each_optional_kind_of_operation_is_a_capability(self):
        of_kinds = {'resize', 'upgrade', 'rebuild', 'reboot'}
        self.assertLessEqual(of_kinds, {kind.value for kind in OperationKind} & set(Cap))

    def test_a_missing_capability_is_refused_with_the_existing_ones(self):
        for cap, call in CALLS.items():
            with self.subTest(cap), self.assertRaises(MissingCapability) as caught:
                call(ForeignDriver(), context=context(), cluster=cluster())
            self.assertIn(cap.value.replace('_', ' '), str(caught.exception))
            self.assertIn('foreign_v1', str(caught.exception))
            self.assertIn('create, delete, update', str(caught.exception))
            with self.assertRaises(MissingCapability):
                ForeignDriver().require(cap)

    def test_capabilities_cannot_be_declared_by_hand(self):
        with self.assertRaisesRegex(TypeError, 'missing_capabilities'):
            defined(ForeignDriver, capabilities=frozenset({Cap.RESIZE}))

    def test_an_inherited_capability_can_be_removed(self):
        driver_class = defined(PlainNodes, missing_capabilities=frozenset({Cap.REBUILD}))
        self.assertNotIn(Cap.REBUILD, driver_class.capabilities)
        self.assertIn(Cap.REBOOT, driver_class.capabilities)
        with self.assertRaises(MissingCapability):
            driver_class().rebuild_cluster(context=context(), cluster=cluster())

    def test_an_override_can_call_the_method_of_the_base_class(self):
        for name in ('rotate_credential', 'rotate_ca_certificate'):
            found = getattr(Rotating(), name)(context=context(), cluster=cluster())
            self.assertIsNone(found)


class NodeDrivers(unittest.TestCase):
    def setUp(self):
        self.driver = PlainNodes.open()
        self.of = {'context': context(), 'cluster': cluster(group(compute_driver='nova'))}

    def test_001_7_create_update_and_delete_are_left_to_the_engine(self):
        self.assertIsNone(self.driver.create_cluster(**self.of, cluster_create_timeout=60))
        self.assertIsNone(self.driver.update_cluster(**self.of, scale_manager=None, rollback=True))
        self.assertIsNone(self.driver.delete_cluster(**self.of))
        self.assertEqual(StatusReport(outputs={}), self.driver.update_cluster_status(**self.of))

    def test_operations_that_the_engine_does_are_accepted(self):
        for cap in self.driver.capabilities:
            found = CALLS[cap](self.driver, **self.of)
            self.assertIn(found, (None, [None, None, None]), cap)

    def test_001_8_rebuild_and_both_kinds_of_reboot_are_supported(self):
        self.assertLessEqual({Cap.REBUILD, Cap.REBOOT}, self.driver.capabilities)
        self.assertIsNone(self.driver.rebuild_cluster(**self.of, nodes=[node()]))
        self.assertIsNone(self.driver.reboot_cluster(**self.of, hard=False))
        self.assertIsNone(self.driver.reboot_cluster(**self.of, hard=True))

    def test_a_node_without_templates_gets_no_user_data_and_is_ready_at_once(self):
        found = self.driver.bootstrap(**self.of, node=node())
        self.assertEqual((None, (), None), (found.user_data, found.files, found.join_token))
        self.assertEqual(READY, self.driver.is_ready(**self.of, node=node()))
        self.assertEqual(DRAINED, self.driver.drain(**self.of, node=node()))

    def test_the_compute_driver_is_that_of_the_group(self):
        of = self.of['cluster']
        found = self.driver.compute_driver_for(cluster=of, nodegroup=of.spec.groups[0])
        self.assertEqual('nova', found)
        self.assertIsNone(self.driver.compute_driver_for(cluster=of, nodegroup=group()))

    def test_optional_methods_have_harmless_defaults(self):
        driver = ForeignDriver.open()
        self.assertIsNone(driver.update_cluster_status(**self.of))
        self.assertEqual((), driver.validate(**self.of, plan=None))
        self.assertIsNone(driver.get_monitor(**self.of))
        self.assertIsInstance(driver.get_scale_manager(**self.of), DefaultScaleManager)
        for moment in ('pre', 'post'):
            for verb in ('create', 'update', 'delete'):
                hook = getattr(driver, f'{moment}_{verb}_cluster')
                self.assertIsNone(hook(**self.of, operation=None))

    def test_templates_are_read_once(self):
        asked = []

        def get_template_definition(self):
            asked.append(self)
            return TemplateDefinition(ROOT)

        made = defined(PlainNodes, get_template_definition=get_template_definition)
        for driver in (made.open(), made()):
            for _ in range(3):
                driver.bootstrap(**self.of, node=node())
            self.assertEqual(driver, asked.pop())
            self.assertEqual([], asked)


class Faults(unittest.TestCase):
    def test_an_error_of_a_driver_names_the_driver(self):
        with (
            self.assertRaisesRegex(
                ClusterDriverError,
                "x_v1 failed in bootstrap: KeyError: 'port' .*test_base.py:[0-9]+",
            ) as caught,
            driver_errors('x_v1', 'bootstrap'),
        ):
            raise KeyError('port')
        self.assertFalse(caught.exception.retryable)
        self.assertIsInstance(caught.exception.__cause__, KeyError)

    def test_an_error_of_kilns_own_types_is_raised_unchanged(self):
        said = ClusterDriverError('No room.', 'Wait.', retryable=True)
        with self.assertRaises(ClusterDriverError) as caught, driver_errors('x_v1', 'create'):
            raise said
        self.assertIs(said, caught.exception)

    def test_a_secret_in_the_error_of_a_driver_is_masked(self):
        with self.assertRaises(ClusterDriverError) as caught, driver_errors('x_v1', 'create'):
            raise ValueError('bad password=hunter2')
        self.assertNotIn('hunter2', str(caught.exception))
