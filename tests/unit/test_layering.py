"""Import rules: the table of the architecture, enforced."""

import ast
import functools
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = ROOT / 'kiln'

VALUES = {'kiln.exceptions', 'kiln.extras', 'kiln.models'}
BASE = {
    'kiln.compute_drivers.adoption',
    'kiln.compute_drivers.arguments',
    'kiln.compute_drivers.asked',
    'kiln.compute_drivers.base',
    'kiln.compute_drivers.calls',
    'kiln.compute_drivers.hooks',
    'kiln.compute_drivers.options',
    'kiln.compute_drivers.own_errors',
    'kiln.compute_drivers.pools',
    'kiln.compute_drivers.redaction',
    'kiln.compute_drivers.tables',
    'kiln.compute_drivers.user_data',
    'kiln.compute_drivers.validation',
    'kiln.compute_drivers.wording',
}
CONTRACT = VALUES | BASE | {'kiln.clock'}
CLUSTER_VALUES = VALUES | {'kiln.cluster_exceptions', 'kiln.cluster_models', 'kiln.cluster_spec'}
#: The folders of cluster drivers in tree; nothing but a driver may import its own.
CLUSTER_DRIVERS = sorted(
    folder.name
    for folder in (PACKAGE / 'cluster_drivers').iterdir()
    if (folder / 'driver.yaml').exists() or (folder / 'driver.py').exists()
)

#: A module or folder, and what of kiln it may import beside itself. The
#: longest name that fits a module counts.
MAY_IMPORT = {
    'kiln': VALUES
    | {
        'kiln.compute', 'kiln.driver_manager', 'kiln.goals', 'kiln.wrappers.operation',
        'kiln.wrappers.probe',
    },
    'kiln.exceptions': {'kiln.advice', 'kiln.configuration_exceptions', 'kiln.masking'},
    'kiln.configuration_exceptions': {'kiln.advice', 'kiln.masking'},
    'kiln.advice': set(),
    'kiln.masking': set(),
    'kiln.clock': set(),
    'kiln.signatures': set(),
    'kiln.models': {'kiln.exceptions'},
    'kiln.cluster_exceptions': {'kiln.exceptions'},
    'kiln.cluster_spec': VALUES,
    'kiln.cluster_models': VALUES | {'kiln.cluster_spec'},
    'kiln.cluster_file': CLUSTER_VALUES,
    'kiln.image_exceptions': {'kiln.exceptions', 'kiln.cluster_exceptions'},
    'kiln.images': CLUSTER_VALUES | {'kiln.clock', 'kiln.cluster_file', 'kiln.image_exceptions'},
    'kiln.cluster_drivers': CLUSTER_VALUES
    | {'kiln.clock', 'kiln.cluster_file', 'kiln.signatures'},
    **{
        f'kiln.cluster_drivers.{driver}': CLUSTER_VALUES | {'kiln.clock', 'kiln.cluster_drivers'}
        for driver in CLUSTER_DRIVERS
    },
    'kiln.engine': CLUSTER_VALUES
    | {'kiln.clock', 'kiln.cluster_drivers', 'kiln.compute', 'kiln.db', 'kiln.hooks'},
    # What people ask for; the engine does it, and knows nothing of them.
    'kiln.clusters': CLUSTER_VALUES
    | {
        'kiln.clock', 'kiln.cluster_drivers', 'kiln.cluster_file', 'kiln.compute', 'kiln.db',
        'kiln.engine', 'kiln.hooks',
    },
    'kiln.cluster_drivers.discovery': CLUSTER_VALUES
    | {'kiln.cluster_drivers', 'kiln.loading'},
    'kiln.hooks': CLUSTER_VALUES | {'kiln.clock', 'kiln.cluster_file'},
    'kiln.db': CLUSTER_VALUES | {'kiln.clock'},
    'kiln.listeners': {'kiln.exceptions'},
    'kiln.orphans': VALUES | {'kiln.compute'},
    'kiln.compute_drivers': CONTRACT,
    # What a driver is judged with belongs to the kit; nothing but the kit loads it.
    'kiln.compute_drivers.noop.bench': CONTRACT | {'kiln.compute_drivers.noop', 'kiln.testing'},
    'kiln.wrappers': CONTRACT | {'kiln.listeners'},
    # What a caller holds knows nothing of those who work on it.
    'kiln.wrappers.operation': CONTRACT
    | {'kiln.wrappers.build_key', 'kiln.wrappers.caller_threads', 'kiln.wrappers.promise'},
    'kiln.wrappers.errand': CONTRACT
    | {'kiln.wrappers.build_key', 'kiln.wrappers.caller_threads', 'kiln.wrappers.operation'},
    'kiln.stack': CONTRACT | {'kiln.listeners', 'kiln.wrappers'},
    'kiln.goals': CONTRACT | {'kiln.wrappers'},
    'kiln.flows': CONTRACT
    | {'kiln.flow_errors', 'kiln.goals', 'kiln.listeners', 'kiln.wrappers', 'kiln.stack'},
    'kiln.placement': CONTRACT | {'kiln.wrappers'},
    'kiln.building': CONTRACT
    | {'kiln.flows', 'kiln.goals', 'kiln.placement', 'kiln.stack', 'kiln.wrappers'},
    'kiln.recovery': CONTRACT
    | {'kiln.building', 'kiln.flows', 'kiln.goals', 'kiln.stack', 'kiln.wrappers'},
    'kiln.optional_calls': CONTRACT
    | {'kiln.flows', 'kiln.goals', 'kiln.stack', 'kiln.wrappers'},
    'kiln.compute': CONTRACT
    | {
        'kiln.building', 'kiln.flows', 'kiln.goals', 'kiln.listeners', 'kiln.optional_calls',
        'kiln.recovery', 'kiln.stack', 'kiln.wrappers',
    },
    'kiln.extras': set(),
    'kiln.loading': CONTRACT | {'kiln.signatures'},
    'kiln.telemetry': VALUES | {'kiln.listeners'},
    'kiln.conf': {'kiln.exceptions'},
    'kiln.conf.opts': {
        'kiln.conf', 'kiln.compute_drivers.appliance.conf', 'kiln.compute_drivers.docker.conf',
        'kiln.compute_drivers.noop.conf', 'kiln.compute_drivers.nova.conf',
    },
    'kiln.driver_manager': CONTRACT
    | {
        'kiln.compute', 'kiln.conf', 'kiln.listeners', 'kiln.loading', 'kiln.stack',
        'kiln.telemetry', 'kiln.wrappers',
    },
    'kiln.scaffold': VALUES | {'kiln.cluster_drivers.records'},
    'kiln.testing': CONTRACT,
    # Judges also what kiln's guards make of a driver.
    'kiln.testing.conformance': CONTRACT
    | {'kiln.compute', 'kiln.goals', 'kiln.testing', 'kiln.wrappers'},
    # Judges cluster drivers by what the engine makes of them on the simulated cloud.
    'kiln.testing.clusters': CONTRACT
    | CLUSTER_VALUES
    | {
        'kiln.cluster_drivers', 'kiln.compute', 'kiln.compute_drivers.noop', 'kiln.db',
        'kiln.engine', 'kiln.stack', 'kiln.testing', 'kiln.wrappers',
    },
    'kiln.adapters': VALUES
    | {
        'kiln.clock', 'kiln.compute', 'kiln.conf', 'kiln.driver_manager',
        'kiln.wrappers.operation',
    },
    # The demonstration is about the simulated cloud, so it names it.
    'kiln.cli.demo': {'kiln'},
    'kiln.cli': CONTRACT
    | {
        'kiln.cluster_drivers', 'kiln.cluster_exceptions', 'kiln.cluster_file',
        'kiln.cluster_models', 'kiln.cluster_spec',
        'kiln.clusters', 'kiln.compute', 'kiln.conf', 'kiln.db', 'kiln.driver_manager',
        'kiln.engine', 'kiln.goals', 'kiln.hooks', 'kiln.image_exceptions',
        'kiln.images', 'kiln.loading',
        'kiln.orphans', 'kiln.scaffold', 'kiln.testing', 'kiln.wrappers', 'kiln.stack',
    },
}  # fmt: skip

#: Lines; forty are the aim, and a plain list of things may be a little longer.
LONGEST = 45

#: The only homes of other people's packages.
HOMES = {
    'alembic': ('kiln.db.upgrade', 'kiln.db.migrations'),
    'argcomplete': ('kiln.cli.completion',),
    'cliff': ('kiln.cli',),
    'cryptography': ('kiln.db.keys', 'kiln.cluster_drivers.swarm_debian_v1.pki'),
    'rich': ('kiln.cli',),
    'keystoneauth1': (
        *(
            f'kiln.compute_drivers.nova.{name}'
            for name in ('client', 'conf', 'failures', 'session')
        ),
        'kiln.adapters.octavia.settings',
    ),
    'kombu': ('kiln.compute_drivers.nova.notifications',),
    'novaclient': ('kiln.compute_drivers.nova.client',),
    'openstack': ('kiln.compute_drivers.nova.session',),
    'docker': ('kiln.compute_drivers.docker.client',),
    'requests': (
        'kiln.compute_drivers.docker.client',
        'kiln.compute_drivers.docker.failures',
        'kiln.compute_drivers.docker.ssh',
        'kiln.compute_drivers.nova.session',
        'kiln.compute_drivers.nova.failures',
    ),
    'urllib3': (
        'kiln.compute_drivers.docker.client',
        'kiln.compute_drivers.docker.failures',
        'kiln.compute_drivers.docker.ssh',
        'kiln.compute_drivers.nova.failures',
    ),
    'futurist': ('kiln.wrappers.workers',),
    'octavia': ('kiln.adapters.octavia.driver', 'kiln.adapters.octavia.errors'),
    'opentelemetry': ('kiln.telemetry.tracing',),
    'oslo_config': (
        'kiln.conf',
        'kiln.compute_drivers.appliance.conf',
        'kiln.compute_drivers.docker.conf',
        'kiln.compute_drivers.noop.conf',
        'kiln.compute_drivers.nova.conf',
        'kiln.cli.logs',
        'kiln.adapters.octavia.conf',
        'kiln.adapters.octavia.driver',
    ),
    'oslo_log': ('kiln.cli',),
    'prometheus_client': ('kiln.telemetry.prometheus',),
    'psycopg': ('kiln.db.postgresql',),
    'pybreaker': ('kiln.wrappers.breaker', 'kiln.wrappers.circuit'),
    'redis': ('kiln.wrappers.circuit_storage',),
    'sqlalchemy': ('kiln.db',),
    'stevedore': ('kiln.loading',),
    'taskflow': ('kiln.engine.work_sources.taskflow_board',),
    'yaml': (
        'kiln.cluster_file.yaml_reader',
        'kiln.cluster_file.writing',
        'kiln.cluster_drivers.manifest',
        'kiln.cluster_drivers.places',
    ),
}


def within(name, place):
    return name == place or name.startswith(f'{place}.')


def modules():
    for path in sorted(PACKAGE.rglob('*.py')):
        if 'templates' in path.parts:
            continue
        parts = path.relative_to(ROOT).with_suffix('').parts
        yield '.'.join(parts[:-1] if parts[-1] == '__init__' else parts), path.read_text()


@functools.cache
def statements(source):
    """Return all statements of a module; walking its expressions too would take far longer."""
    found = list(ast.parse(source).body)
    for node in found:
        for part in 'body', 'orelse', 'finalbody', 'handlers', 'cases':
            found += getattr(node, part, ())
    return found


def imports(source):
    for node in statements(source):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level != 1:  # 1: from beside it
            for alias in node.names:
                joined = f'{node.module}.{alias.name}'
                path = ROOT / joined.replace('.', '/')
                is_module = path.is_dir() or path.with_suffix('.py').exists()
                yield joined if is_module else node.module


def driver_of(module):
    """Return the cluster driver that a module belongs to."""
    place, _, rest = module.partition('kiln.cluster_drivers.')
    driver = rest.split('.')[0]
    return driver if not place and driver in CLUSTER_DRIVERS else None


def wrongs(module, source):
    """Yield what a module imports that it may not."""
    row = max((place for place in MAY_IMPORT if within(module, place)), key=len)
    own = module.rpartition('.')[0] if row == 'kiln.compute_drivers' else row
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


class Layering(unittest.TestCase):
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
            ('kiln.cluster_drivers.example_v1.scale', 'import kiln.compute'),
            ('kiln.compute_drivers.nova.errors', 'import keystoneauth1'),
            ('kiln.wrappers.operation', 'from kiln.wrappers.errand import Errand'),
            ('kiln.engine.acts', 'from kiln.wrappers.errand import Errand'),
            ('kiln.adapters.octavia.driver', 'from kiln.wrappers.errand import Errand'),
            ('kiln.flows', 'import futurist'),
            ('kiln.flows', 'import requests'),
        ):
            with self.subTest(module, source=source):
                self.assertEqual(1, len(list(wrongs(module, source))))

    def test_importing_kiln_imports_only_what_is_used(self):
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


class Shape(unittest.TestCase):
    def test_no_module_exceeds_the_line_limit(self):
        long = [name for name, source in modules() if len(source.splitlines()) > 500]
        self.assertEqual([], long, 'split them')

    def test_no_function_exceeds_the_line_limit(self):
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

    def test_no_module_has_a_meaningless_name(self):
        nothings = {'utils', 'util', 'helpers', 'helper', 'common', 'misc', 'manager'}
        named = [name for name, _ in modules() if nothings & set(name.split('.'))]
        self.assertEqual([], named)
