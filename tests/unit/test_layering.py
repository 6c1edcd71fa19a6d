"""Allowed imports: the table of the architecture, enforced."""

import ast
import collections
import functools
import graphlib
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = ROOT / 'kiln'

#: The storeys of doc/source/contributor/architecture.rst, from the ground up.
STOREYS = (
    (
        'kiln.foreign', 'kiln.fairness', 'kiln.errors', 'kiln.exceptions', 'kiln.models',
        'kiln.clock', 'kiln.openstack', 'kiln.plugins', 'kiln.programs', 'kiln.telemetry',
    ),
    ('kiln.compute_drivers', 'kiln.wrappers', 'kiln.conf', 'kiln.compute'),
    (
        'kiln.clusters', 'kiln.yaml_schema', 'kiln.cluster_file', 'kiln.cluster_drivers',
        'kiln.hooks', 'kiln.images', 'kiln.db', 'kiln.engine', 'kiln.cluster_service',
    ),
    ('kiln.adapters', 'kiln.testing', 'kiln.cli', 'kiln'),
)  # fmt: skip

GROUND = {
    'kiln.clock', 'kiln.exceptions', 'kiln.foreign', 'kiln.models', 'kiln.plugins',
    'kiln.telemetry.events',
}  # fmt: skip
CONTRACT = GROUND | {
    f'kiln.compute_drivers.{name}'
    for name in ('arguments', 'authoring', 'base', 'calls', 'finding', 'hooks', 'validation')
}
VALUES = {
    'kiln.clock', 'kiln.clusters', 'kiln.exceptions', 'kiln.fairness', 'kiln.foreign',
    'kiln.models', 'kiln.plugins', 'kiln.programs',
}  # fmt: skip
#: The folders of cluster drivers in tree; nothing but a driver may import its own.
CLUSTER_DRIVERS = sorted(
    folder.name
    for folder in (PACKAGE / 'cluster_drivers').iterdir()
    if (folder / 'driver.yaml').exists() or (folder / 'driver.py').exists()
)

#: A module or folder, and what of kiln it may import beside itself. The
#: longest name that fits a module counts.
MAY_IMPORT = {
    'kiln': {
        'kiln.compute', 'kiln.exceptions', 'kiln.models', 'kiln.plugins.moved_paths',
        'kiln.wrappers.operations.operation', 'kiln.wrappers.watcher.probe',
    },
    # ---- ground
    'kiln.foreign': set(),
    'kiln.fairness': set(),
    'kiln.errors': {'kiln.foreign.text'},
    'kiln.exceptions': {'kiln.errors', 'kiln.foreign.text'},
    'kiln.clock': set(),
    'kiln.models': {'kiln.exceptions'},
    'kiln.plugins': {'kiln.exceptions'},
    'kiln.programs': {'kiln.exceptions', 'kiln.foreign.text'},
    'kiln.telemetry': {'kiln.exceptions', 'kiln.models'},
    'kiln.openstack': {'kiln.clock', 'kiln.exceptions', 'kiln.foreign'},
    # ---- compute
    'kiln.compute_drivers': CONTRACT,
    'kiln.compute_drivers.authoring.openstack_answers': CONTRACT | {'kiln.openstack'},
    'kiln.compute_drivers.authoring.openstack_failures': CONTRACT | {'kiln.openstack'},
    'kiln.compute_drivers.ironic': CONTRACT | {'kiln.openstack'},
    'kiln.compute_drivers.nova': CONTRACT | {'kiln.openstack'},
    # The server in a stack is one of Nova's, and does what that can.
    'kiln.compute_drivers.heat': CONTRACT | {'kiln.compute_drivers.nova', 'kiln.openstack'},
    'kiln.wrappers': CONTRACT,
    'kiln.wrappers.operations': CONTRACT,
    # What a caller holds knows nothing of those who work on it.
    'kiln.wrappers.operations.operation': CONTRACT
    | {
        'kiln.wrappers.operations.build_key', 'kiln.wrappers.operations.caller_threads',
        'kiln.wrappers.operations.promise',
    },
    'kiln.wrappers.circuit': CONTRACT | {'kiln.wrappers.base'},
    'kiln.wrappers.watcher': CONTRACT | {'kiln.wrappers.operations'},
    'kiln.wrappers.executor': CONTRACT
    | {'kiln.fairness.turns', 'kiln.wrappers.base', 'kiln.wrappers.operations'},
    'kiln.conf': {'kiln.exceptions'},
    'kiln.conf.opts': {
        'kiln.conf', 'kiln.compute_drivers.appliance.conf', 'kiln.compute_drivers.docker.conf',
        'kiln.compute_drivers.heat.conf', 'kiln.compute_drivers.ironic.conf',
        'kiln.compute_drivers.noop.conf', 'kiln.compute_drivers.nova.conf',
    },
    'kiln.compute': CONTRACT | {'kiln.wrappers'},
    'kiln.compute.backends': CONTRACT
    | {'kiln.compute', 'kiln.conf', 'kiln.telemetry', 'kiln.wrappers'},
    # ---- clusters
    'kiln.clusters': {'kiln.exceptions', 'kiln.models'},
    'kiln.yaml_schema': VALUES,
    'kiln.cluster_file': VALUES | {'kiln.yaml_schema'},
    'kiln.cluster_drivers': VALUES | {'kiln.yaml_schema'},
    'kiln.cluster_drivers.heat': VALUES
    | {'kiln.cluster_drivers', 'kiln.openstack', 'kiln.yaml_schema'},
    **{
        f'kiln.cluster_drivers.{driver}': VALUES | {'kiln.cluster_drivers'}
        for driver in CLUSTER_DRIVERS
    },
    'kiln.hooks': VALUES | {'kiln.yaml_schema'},
    'kiln.images': VALUES | {'kiln.yaml_schema'},
    'kiln.db': VALUES,
    'kiln.engine': VALUES | {'kiln.cluster_drivers', 'kiln.compute', 'kiln.db', 'kiln.hooks'},
    # From the plan up, and nothing the other way: a plan is pure.
    'kiln.engine.plan': VALUES | {'kiln.cluster_drivers'},
    'kiln.engine.nodes': VALUES
    | {
        'kiln.cluster_drivers', 'kiln.compute', 'kiln.db', 'kiln.engine.context',
        'kiln.engine.driver_context', 'kiln.engine.measuring', 'kiln.engine.plan', 'kiln.hooks',
    },
    'kiln.engine.health': VALUES
    | {
        'kiln.cluster_drivers', 'kiln.compute', 'kiln.engine.context',
        'kiln.engine.driver_context', 'kiln.engine.failures', 'kiln.engine.measuring',
        'kiln.engine.nodes', 'kiln.engine.plan',
    },
    # What people ask for; the engine does it, and knows nothing of them.
    'kiln.cluster_service': VALUES
    | {
        'kiln.cluster_drivers', 'kiln.cluster_file', 'kiln.compute', 'kiln.db', 'kiln.engine',
        'kiln.hooks',
    },
    # ---- outside
    'kiln.testing': CONTRACT | {'kiln.wrappers.base'},
    # Judges also what kiln's guards make of a driver.
    'kiln.testing.conformance': CONTRACT
    | {'kiln.compute', 'kiln.telemetry.frames', 'kiln.testing', 'kiln.wrappers'},
    # Opens wrong copies of a driver as they are configured, and reads a file about them.
    'kiln.testing.mutants': CONTRACT
    | {
        'kiln.cluster_drivers', 'kiln.clusters.exceptions', 'kiln.compute', 'kiln.conf',
        'kiln.testing', 'kiln.yaml_schema',
    },
    # Judges cluster drivers by what the engine makes of them on the simulated cloud.
    'kiln.testing.clusters': CONTRACT
    | VALUES
    | {
        'kiln.cluster_drivers', 'kiln.cluster_file', 'kiln.cluster_service', 'kiln.compute',
        'kiln.compute_drivers.noop', 'kiln.db', 'kiln.engine', 'kiln.hooks', 'kiln.testing',
        'kiln.wrappers',
    },
    'kiln.adapters': {
        'kiln.clock', 'kiln.compute', 'kiln.conf', 'kiln.exceptions', 'kiln.models',
        'kiln.wrappers.operations.operation',
    },
    # The demonstration is about the simulated cloud, so it names it.
    'kiln.cli.demo': {'kiln'},
    'kiln.cli': CONTRACT
    | VALUES
    | {
        'kiln.cluster_drivers', 'kiln.cluster_file', 'kiln.cluster_service', 'kiln.compute',
        'kiln.conf', 'kiln.db', 'kiln.engine', 'kiln.hooks', 'kiln.images', 'kiln.testing',
        'kiln.telemetry', 'kiln.wrappers', 'kiln.yaml_schema',
    },
}  # fmt: skip

#: Lines; forty are the aim, and a plain list of things may be a little longer.
LONGEST = 45

#: The only homes of other people's packages.
HOMES = {
    'alembic': ('kiln.db.tables.upgrade', 'kiln.db.tables.migrations'),
    'argcomplete': ('kiln.cli.completion',),
    'cliff': ('kiln.cli',),
    'cryptography': ('kiln.db.tokens', 'kiln.cluster_drivers.swarm_debian_v1.pki'),
    'rich': ('kiln.cli',),
    'keystoneauth1': (
        'kiln.openstack',
        'kiln.compute_drivers.authoring.openstack_failures',
        'kiln.compute_drivers.ironic.api',
        'kiln.compute_drivers.nova.api',
        'kiln.cluster_drivers.heat.client',
        'kiln.adapters.octavia.settings',
    ),
    'amqp': ('kiln.compute_drivers.nova.notifications.broker',),
    'kombu': ('kiln.compute_drivers.nova.notifications',),
    'novaclient': ('kiln.compute_drivers.nova.api',),
    'openstack': ('kiln.openstack.session',),
    'docker': ('kiln.compute_drivers.docker.api',),
    'requests': (
        'kiln.foreign.connection_failures',
        'kiln.foreign.http_adapter',
        'kiln.compute_drivers.authoring.openstack_failures',
        'kiln.compute_drivers.docker.api',
        'kiln.openstack.session',
        'kiln.engine.work_sources.board_clients',
    ),
    'urllib3': (
        'kiln.foreign.connection_failures',
        'kiln.foreign.http_adapter',
        'kiln.compute_drivers.docker.api',
    ),
    'futurist': ('kiln.wrappers.executor.workers',),
    'octavia': ('kiln.adapters.octavia.driver', 'kiln.adapters.octavia.errors'),
    'opentelemetry': ('kiln.telemetry.tracing', 'kiln.telemetry.tracing_export'),
    'oslo_config': (
        'kiln.conf',
        'kiln.compute_drivers.appliance.conf',
        'kiln.compute_drivers.docker.conf',
        'kiln.compute_drivers.heat.conf',
        'kiln.compute_drivers.ironic.conf',
        'kiln.compute_drivers.noop.conf',
        'kiln.compute_drivers.nova.conf',
        'kiln.openstack.identity',
        'kiln.cluster_drivers.heat.settings',
        'kiln.cli.logs',
        'kiln.adapters.octavia.conf',
        'kiln.adapters.octavia.driver',
    ),
    'oslo_log': ('kiln.cli',),
    'prometheus_client': ('kiln.telemetry.prometheus', 'kiln.telemetry.prometheus_site'),
    'psycopg': ('kiln.db.postgresql',),
    'pybreaker': ('kiln.wrappers.circuit',),
    'redis': ('kiln.wrappers.circuit.redis', 'kiln.engine.work_sources.board_clients'),
    'sqlalchemy': ('kiln.db',),
    'stevedore': ('kiln.compute.loading',),
    'taskflow': ('kiln.engine.work_sources',),
    'kazoo': ('kiln.engine.work_sources.board_clients',),
    'yaml': (
        'kiln.yaml_schema.reader',
        'kiln.yaml_schema.syntax_errors',
        'kiln.cluster_file.writing',
        'kiln.cluster_drivers.discovery.manifest',
        'kiln.cluster_drivers.heat.retaining',
        'kiln.cluster_drivers.templates.quoting',
        'kiln.cluster_drivers.templates.literal_places',
        'kiln.testing.clusters.cloud_config',
        'kiln.testing.clusters.languages',
    ),
}


def within(name, place):
    return name == place or name.startswith(f'{place}.')


def modules():
    for path in sorted(PACKAGE.rglob('*.py')):
        parts = path.relative_to(ROOT).with_suffix('').parts
        yield '.'.join(parts[:-1] if parts[-1] == '__init__' else parts), path.read_text()


@functools.cache
def statements(source):
    """Return all statements of a module; a walk of all nodes would spend most on expressions."""
    found = list(ast.parse(source).body)
    for node in found:
        for part in 'body', 'orelse', 'finalbody', 'handlers', 'cases':
            found += getattr(node, part, ())
    return found


@functools.cache
def is_module(name):
    path = ROOT / name.replace('.', '/')
    return path.is_dir() or path.with_suffix('.py').exists()


def imports(source, folder=None):
    """Yield what a module imports; what it imports from beside it, where its folder is given."""
    for node in statements(source):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.level != 1 or folder):
            home = '.'.join(filter(None, (folder, node.module))) if node.level else node.module
            for alias in node.names:
                joined = f'{home}.{alias.name}'
                yield joined if is_module(joined) else home


def driver_of(module):
    """Return the cluster driver that a module belongs to."""
    place, _, rest = module.partition('kiln.cluster_drivers.')
    driver = rest.split('.')[0]
    return driver if not place and driver in CLUSTER_DRIVERS else None


def wrongs(module, source):
    """Yield what a module imports that it may not."""
    row = max((place for place in MAY_IMPORT if within(module, place)), key=len)
    # A driver's folder is all of it that it may import.
    own = '.'.join(module.split('.')[:3]) if row == 'kiln.compute_drivers' else row
    for imported in imports(source):
        top = imported.split('.')[0]
        if top == 'kiln':
            allowed = {*MAY_IMPORT[row], module, own if own != 'kiln' else module}
            driver = driver_of(imported)
            if not any(within(imported, place) for place in allowed):
                yield f'{module} may not import {imported}'
            elif driver and driver != driver_of(module):
                yield f'{module} may not import {imported}, which is a driver'
        elif top in HOMES:
            if not any(module.startswith(home) for home in HOMES[top]):
                yield f'{top} has its home in {HOMES[top]}, not in {module}'
        elif top not in sys.stdlib_module_names and not top.startswith('_'):
            yield f'{module} imports {imported}, which has no home in the table'


def room_of(module):
    """Return the folder or module directly under kiln/ that a module belongs to."""
    return '.'.join(module.split('.')[:2])


def storey_of(module):
    """Return the number of a module's storey, 0 for the ground."""
    (storey,) = (number for number, rooms in enumerate(STOREYS) if room_of(module) in rooms)
    return storey


def arrows():
    """Yield each import of one module of kiln by another, both by their whole names."""
    names = {name for name, _ in modules()}
    for module, source in modules():
        for imported in imports(source, module.rpartition('.')[0]):
            known = imported if imported in names else imported.rpartition('.')[0]
            if known in names and known != module:
                yield module, known


class Layering(unittest.TestCase):
    def test_no_import_leads_to_a_higher_storey(self):
        upward = [
            (module, imported)
            for module, imported in arrows()
            if storey_of(module) < storey_of(imported)
        ]
        self.assertEqual([], upward)

    def test_neither_modules_nor_rooms_import_each_other_in_a_circle(self):
        for name, place_of in ('modules', str), ('rooms', room_of):
            below = collections.defaultdict(set)
            for module, imported in arrows():
                if place_of(module) != place_of(imported):
                    below[place_of(module)].add(place_of(imported))
            with self.subTest(name):
                # A circle is refused with its members.
                list(graphlib.TopologicalSorter(below).static_order())

    def test_every_module_imports_only_what_its_layer_may(self):
        found = [wrong for module, source in modules() for wrong in wrongs(module, source)]
        self.assertEqual([], found)

    def test_the_check_finds_a_wrong_import(self):
        for module, source in (
            ('kiln.wrappers.new', 'from kiln.compute_drivers.noop.driver import NoopDriver'),
            ('kiln.compute_drivers.acme.driver', 'import kiln.compute_drivers.noop.cloud'),
            ('kiln.models', 'from kiln import conf'),
            ('kiln.cluster_drivers.base', 'import kiln.cluster_drivers.nodes_v1'),
            ('kiln.cluster_drivers.nodes_v1', 'import kiln.cluster_drivers.example_v1.scale'),
            ('kiln.cluster_drivers.example_v1.scale', 'import kiln.compute.facade'),
            ('kiln.compute_drivers.nova.translate', 'import keystoneauth1'),
            (
                'kiln.wrappers.operations.operation',
                'from kiln.wrappers.operations.errand import Errand',
            ),
            ('kiln.engine.nodes.action', 'from kiln.wrappers.operations.errand import Errand'),
            ('kiln.adapters.octavia.driver', 'from kiln.wrappers.operations.errand import Errand'),
            ('kiln.compute.effect', 'import futurist'),
            ('kiln.compute.effect', 'import requests'),
        ):
            with self.subTest(module, source=source):
                self.assertEqual(1, len(list(wrongs(module, source))))

    def test_importing_kiln_imports_nothing_that_is_not_asked_for(self):
        heavy = [
            'alembic', 'cryptography', 'docker', 'futurist', 'heatclient', 'keystoneauth1',
            'kombu', 'novaclient', 'openstack', 'oslo_config', 'oslo_log', 'prometheus_client',
            'pybreaker', 'redis', 'requests', 'sqlalchemy', 'stevedore', 'taskflow', 'yaml',
        ]  # fmt: skip
        code = f'import sys, kiln; print([name for name in {heavy!r} if name in sys.modules])'
        done = subprocess.run(
            [sys.executable, '-c', code], cwd=ROOT, capture_output=True, text=True, check=True
        )
        self.assertEqual('[]', done.stdout.strip())


class Guide(unittest.TestCase):
    def test_every_path_that_the_architecture_names_is_there(self):
        text = (ROOT / 'doc/source/contributor/architecture.rst').read_text()
        named = re.findall(r'``(kiln/[\w/.]+)``', text)
        self.assertGreaterEqual(len(named), 20)
        self.assertEqual([], [path for path in named if not (ROOT / path).exists()])
        rooms = {room_of(module) for module, _ in modules()} - {'kiln'}
        lacking = [room for room in rooms if f'``{room[5:]}' not in text]
        self.assertEqual([], lacking)


class Shape(unittest.TestCase):
    def test_no_module_outgrows_its_reader(self):
        long = [name for name, source in modules() if len(source.splitlines()) > 500]
        self.assertEqual([], long, 'split them')

    def test_no_function_outgrows_its_reader(self):
        # Arguments and docstring are the contract; the rest must fit a head.
        long = []
        for module, source in modules():
            for node in statements(source):
                if isinstance(node, ast.FunctionDef):
                    lines = node.end_lineno - node.body[0].lineno + 1
                    if ast.get_docstring(node):
                        lines -= node.body[0].end_lineno - node.body[0].lineno + 1
                    if lines > LONGEST:
                        long.append(f'{module}.{node.name}: {lines}')
        self.assertEqual([], long, 'split them')

    def test_no_room_is_named_after_nothing(self):
        nothings = {'utils', 'util', 'helpers', 'helper', 'common', 'misc', 'manager'}
        named = [name for name, _ in modules() if nothings & set(name.split('.'))]
        self.assertEqual([], named)
