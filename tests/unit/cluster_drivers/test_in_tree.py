"""The in-tree drivers: each keeps the contract, in a folder as in the founding note."""

import ast
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest
from importlib.metadata import EntryPoint

import yaml

from kiln.cluster_drivers import example_v1
from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.discovery.contract import contract_violations
from kiln.cluster_drivers.discovery.directory import DirectoryDriver, load_directory
from kiln.cluster_drivers.discovery.guide import home_of, image_guide
from kiln.cluster_drivers.discovery.manifest import Manifest, from_class
from kiln.cluster_drivers.discovery.sources import DirectorySource, PackageSource
from kiln.cluster_drivers.example_v1.driver import Driver as ExampleDriver
from kiln.cluster_drivers.heat_generated_v1.driver import Driver as GeneratedDriver
from kiln.cluster_drivers.heat_group_v1.driver import Driver as GroupDriver
from kiln.cluster_drivers.monitor import Gauge
from kiln.cluster_drivers.readiness import WhenActive
from kiln.cluster_drivers.swarm_debian_v1.driver import Driver as SwarmDriver
from kiln.cluster_drivers.values import READY, Cap, PlannedChange, PlannedGroup
from kiln.cluster_service.verbs import run_verb
from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import NodeState, OperationKind
from kiln.clusters.spec import Place
from tests.unit.cluster_drivers.samples import cluster, context, group, node
from tests.unit.test_layering import CLUSTER_DRIVERS, PACKAGE, driver_of, modules

NodesDriver = load_directory(PACKAGE / 'cluster_drivers' / 'nodes_v1')
#: Drivers whose nodes are ready when their machines run; no other system is polled.
ALONE = (NodesDriver, ExampleDriver)
IN_TREE = (*ALONE, GeneratedDriver, GroupDriver, SwarmDriver)


class EachDriver(unittest.TestCase):
    def test_000_17_all_in_tree_drivers_are_tested_here(self):
        self.assertEqual(set(CLUSTER_DRIVERS), {one.name for one in IN_TREE})

    def test_000_17_each_driver_keeps_the_contract(self):
        for driver_class in IN_TREE:
            self.assertEqual([], list(contract_violations(driver_class)), driver_class.name)

    def test_000_17_each_method_returns_what_the_contract_requires(self):
        for driver_class in ALONE:
            with self.subTest(driver_class.name):
                driver = driver_class.open()
                of = {'context': context(), 'cluster': cluster()}
                groups = (PlannedGroup(name='work', added=(Place(),)),)
                plan = PlannedChange(kind=OperationKind.CREATE, groups=groups)
                self.assertEqual((), driver.validate(**of, plan=plan))
                given = driver.bootstrap(**of, node=node())
                self.assertEqual(given, driver.bootstrap(**of, node=node()))
                self.assertEqual(READY, driver.is_ready(**of, node=node()))
                self.assertTrue(driver.drain(**of, node=node()).done)
                ids = {one.id for one in driver.get_scale_manager(**of).order(group(), [node()])}
                self.assertLessEqual(ids, {'n-1'})

    def test_each_driver_is_named_like_its_folder(self):
        for driver_class in IN_TREE:
            self.assertEqual(driver_class.name, home_of(driver_class).name)

    def test_each_driver_is_found_by_its_entry_point(self):
        written = dict(
            re.findall(
                r'^    (\w+) = (kiln\.cluster_drivers\.\S+)$',
                (PACKAGE.parent / 'setup.cfg').read_text(),
                re.MULTILINE,
            )
        )
        self.assertEqual({one.name for one in IN_TREE}, set(written))
        for driver_class in IN_TREE:
            entry = EntryPoint(
                driver_class.name, written[driver_class.name], 'kiln.cluster_drivers'
            )
            source = PackageSource(entry)
            self.assertEqual(home_of(driver_class), source.folder())
            known = source.manifest().filled_by(Manifest(beta=False))
            self.assertEqual(from_class(driver_class), known)
            self.assertIn(source.driver_class(), (driver_class, None))

    def test_a_renamed_copy_of_each_folder_is_a_driver(self):
        place = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for driver_class in IN_TREE:
            name = f'mine_{driver_class.name}'
            copy = shutil.copytree(home_of(driver_class), place / name)
            for manifest in (copy / 'driver.yaml', copy / 'version.py'):
                if manifest.exists():
                    text = manifest.read_text().replace(driver_class.name, name)
                    manifest.write_text(text)
            source = DirectorySource(copy)
            copied = source.driver_class() or load_directory(copy)
            self.assertEqual([], list(contract_violations(copied)))
            self.assertEqual(name, copied.name)
            self.assertEqual(place, home_of(copied).parent)
            opened = copied.open()
            if not isinstance(opened, NodeClusterDriver):
                continue  # it gives nothing to machines itself
            given = opened.bootstrap(context=context(), cluster=cluster(), node=node())
            self.assertIn(b'blue-work-1', given.user_data)

    def test_001_3_a_folder_can_describe_how_to_make_an_image(self):
        for driver_class in IN_TREE:
            guide = image_guide(driver_class)
            self.assertIn('kiln_distro', guide.text)
            self.assertEqual((driver_class.name,), guide.properties['kiln_driver'])
            systems = ('debian',) if driver_class is SwarmDriver else ()
            self.assertEqual(systems, guide.properties['kiln_distro'])

    def test_001_3_without_an_image_guide_the_distros_come_from_provides(self):
        class Silent(ExampleDriver):
            directory = pathlib.Path(__file__).parent
            provides = (('vm', 'ubuntu', 'x'), ('vm', '*', 'x'), ('vm', 'debian', 'x'))

        guide = image_guide(Silent)
        self.assertEqual(('', ('debian', 'ubuntu')), (guide.text, guide.properties['kiln_distro']))

    def test_001_24_the_code_of_the_core_names_no_coe(self):
        words = re.compile(r'swarm|kubernetes|mesos|k8s|kubelet', re.IGNORECASE)
        for name, source in modules():
            if name.startswith('kiln.cluster_drivers') and not driver_of(name):
                found = [word for word in spoken(source) if words.search(word)]
                self.assertEqual([], found, name)


def spoken(source):
    """Return the words that code can act on: its names, and strings of one word."""
    for one in ast.walk(ast.parse(source)):
        if isinstance(one, ast.Constant) and isinstance(one.value, str):
            yield from [one.value] if ' ' not in one.value else []
        for field in ('id', 'attr', 'name', 'arg'):
            if isinstance(word := getattr(one, field, None), str):
                yield word


class Nodes(unittest.TestCase):
    def given(self, **parameters):
        found = NodesDriver.open().bootstrap(
            context=context(), cluster=cluster(parameters=parameters), node=node()
        )
        self.assertEqual('#cloud-config', found.user_data.decode().splitlines()[0])
        return yaml.safe_load(found.user_data)

    def test_001_6_nodes_v1_has_no_python(self):
        self.assertTrue(issubclass(NodesDriver, DirectoryDriver))
        self.assertEqual([], list(home_of(NodesDriver).rglob('*.py')))

    def test_user_data_has_the_name_packages_and_script_of_a_node(self):
        script = 'echo "a: b" # c\nfoo \'d\' {{ x }}\n'
        self.assertEqual(
            {'hostname': 'blue-work-1', 'packages': ['jq'], 'runcmd': [['sh', '-c', script]]},
            self.given(run=script, packages=['jq']),
        )

    def test_a_node_without_parameters_runs_nothing(self):
        self.assertEqual(
            {'hostname': 'blue-work-1', 'packages': [], 'runcmd': [['sh', '-c', '']]}, self.given()
        )

    def test_the_addresses_of_the_nodes_are_an_output(self):
        nodes = (node(2, address='10.0.0.2'), node(1, address='10.0.0.1'))
        report = NodesDriver.open().update_cluster_status(
            context=context(nodes=nodes), cluster=cluster()
        )
        self.assertEqual({'addresses': ['10.0.0.1', '10.0.0.2']}, report.outputs)


class Example(unittest.TestCase):
    def setUp(self):
        self.driver = ExampleDriver.open()
        self.nodes = (
            node(1, address='10.0.0.1'),
            node(2, address='10.0.0.2', state=NodeState.FAILED),
            node(3),
            node(4, group='more', address='10.0.0.4'),
        )
        self.of = {
            'context': context(nodes=self.nodes),
            'cluster': cluster(group(), group('more', parameters={'port': 81})),
        }

    def test_the_folder_of_the_example_has_the_files_of_the_founding_note(self):
        home = pathlib.Path(example_v1.__file__).parent
        self.assertEqual(
            {'driver.py', 'template_def.py', 'version.py', 'monitor.py', 'scale.py', 'api.py',
             'templates', 'image', '__init__.py'},
            # The bench is of the kit, which came later.
            {one.name for one in home.iterdir()} - {'bench.py', '__pycache__'},
        )  # fmt: skip

    def test_001_23_template_def_py_can_replace_driver_yaml(self):
        for driver_class in (*ALONE, SwarmDriver):
            self.assertTrue(issubclass(driver_class, NodeClusterDriver))
            self.assertIsInstance(driver_class.ready, WhenActive)
            self.assertTrue(driver_class.open().template_definition.outputs)

    def test_the_script_of_the_example_is_valid_for_any_value(self):
        nasty = 'it\'s "$(id)"\n'
        of = cluster(parameters={'greeting': nasty, 'port': 8081})
        given = self.driver.bootstrap(context=context(), cluster=of, node=node(name=nasty))
        script = given.user_data.partition(b'\nmkdir')[0] + b'\nprintf "%s|%s" "$PORT" "$HOST"'
        done = subprocess.run(['/bin/sh', '-c', script], capture_output=True, check=True)
        self.assertEqual(f'8081|{nasty}', done.stdout.decode())
        (file,) = given.files
        self.assertEqual(
            {'cluster': 'blue', 'node': nasty, 'greeting': nasty}, yaml.safe_load(file.content)
        )

    def test_a_cluster_without_nodes_is_refused(self):
        plan = PlannedChange(kind=OperationKind.CREATE)
        (problem,) = self.driver.validate(
            context=context(), cluster=cluster(group(count=0)), plan=plan
        )
        self.assertEqual('nodegroups', problem.path)

    def test_the_monitor_of_the_example_counts_nodes(self):
        self.assertIn(Cap.MONITOR, self.driver.capabilities)
        readings = Gauge(self.driver.get_monitor(**self.of)).read()
        self.assertEqual({'nodes': 4.0, 'ready': 0.75},
                         {one.metric.name: one.value for one in readings})  # fmt: skip
        nothing = Gauge(self.driver.get_monitor(context=context(), cluster=cluster())).read()
        self.assertEqual([0.0, None], [one.value for one in nothing])

    def test_001_22_the_scale_manager_of_the_example_keeps_the_oldest_node(self):
        scale = self.driver.get_scale_manager(**self.of)
        here = self.nodes[:3]
        self.assertEqual(self.nodes[1:3], scale.victims(group(), here, 2))
        with self.assertRaises(ClusterDriverError):
            scale.victims(group(), here, 3)

    def test_001_5_the_verb_of_the_example_returns_the_url_of_each_node(self):
        def pages(**given):
            return run_verb(self.driver, 'pages', *self.of.values(), given)

        self.assertEqual(
            {
                'blue-work-1': 'http://10.0.0.1:8080/',
                'blue-work-2': 'http://10.0.0.2:8080/',
                'blue-more-4': 'http://10.0.0.4:81/',
            },
            pages(),
        )
        self.assertEqual({'blue-more-4': 'http://10.0.0.4:81/'}, pages(group='more'))
