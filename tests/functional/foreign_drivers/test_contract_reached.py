"""Every promise of the contracts reaches a driver from the command line.

Two drivers of another author write down each call, its keywords, and what it was given. A
member, an argument or a field of the context that no command fills fails here.
"""

import dataclasses
import inspect
import pathlib
import re

import kiln
from kiln.cluster_drivers.base import ClusterDriver, NodeClusterDriver
from kiln.cluster_drivers.values import Context
from tests.unit.cli.cluster.foreign import ForeignShell

SOURCE = """
import dataclasses
import functools
import inspect

from kiln.cluster_drivers.monitor import Metric, Monitor
from kiln.cluster_drivers.values import DRAINED, Context

PLAIN = Context()
DONE = StatusReport(progress=Progress.COMPLETE, driver_handle='stack-1')
RETURNS = {
    'drain': DRAINED, 'get_template_definition': None, 'get_monitor': None,
    'rotate_credential': DONE, 'rotate_ca_certificate': DONE,
}


class Load(Monitor):
    metrics = (Metric('load', 'share', 'Load.'),)

    def pull(self):
        return {'load': 0.5}


def differs(one, other):
    return type(one) is not type(other) or (one != other and type(one).__name__ != 'NoSecrets')


def noted(name, inner, result):
    parameters = inspect.signature(inner).parameters

    @functools.wraps(inner)
    def method(self, *args, **kwargs):
        given = [key for key, value in kwargs.items() if value != parameters[key].default]
        context = kwargs.get('context')
        fields = [
            field.name
            for field in dataclasses.fields(Context)
            if context and differs(getattr(context, field.name), getattr(PLAIN, field.name))
        ]
        record(name, len(args), given, fields)
        return result(self, kwargs, inner)

    method.__isabstractmethod__ = False
    return method


def recording(base, result):
    functions = inspect.getmembers(base, inspect.isfunction)
    names = [name for name, _ in functions if name[0] != '_' and name != 'require']
    return {name: noted(name, getattr(base, name), functools.partial(result, name))
            for name in names}
"""
OF_NODES = (
    SOURCE
    + """

def result(name, self, kwargs, inner):
    if name == 'get_template_definition':
        return TemplateDefinition(directory=None)
    if name == 'get_monitor':
        return Load(**kwargs)
    if name.startswith('rotate'):
        return DONE
    if name == 'get_scale_manager':
        manager = inner(self, **kwargs)
        return type('Manager', (type(manager),), {})(**kwargs)
    return inner(self, **kwargs)


Driver = type('Driver', (NodeClusterDriver,), recording(NodeClusterDriver, result) | {
    '__module__': __name__, 'name': 'spy_v1', 'version': '1.0.0',
    'provides': (('*', '*', 'spy'),),
})
"""
)
OF_AN_ENGINE = (
    SOURCE
    + """

def result(name, self, kwargs, inner):
    if name == 'get_monitor':
        return Load(**kwargs)
    if name == 'create_cluster':
        return StatusReport(progress=Progress.IN_PROGRESS, driver_handle='stack-1')
    if name == 'update_cluster' and kwargs['cluster'].spec.groups[0].shape.count == 7:
        return StatusReport(progress=Progress.FAILED, reason='too many')
    if name.endswith('_cluster') and not name.startswith(('pre_', 'post_')):
        return DONE
    if name.startswith('rotate') or name == 'update_cluster_status':
        return DONE
    return inner(self, **kwargs)


Driver = type('Driver', (ClusterDriver,), recording(ClusterDriver, result) | {
    '__module__': __name__, 'name': 'spy_v1', 'version': '1.0.0',
    'provides': (('*', '*', 'spy'),),
})
"""
)
FILE = """\
template: base
coe: spy
---
cluster: web
template: base
credentials: cloud
image: debian-13
nodegroups:
  - name: work
    count: 2
"""
#: Called by the standing check of a conductor: see the tests of DriverUpkeep.
BY_CONDUCTORS = {'tend'}


class Spied(ForeignShell):
    name = 'spy_v1'
    cluster_file = FILE

    def setUp(self):
        super().setUp()
        secrets = self.folder / 'secrets'
        secrets.mkdir(0o700)
        (secrets / 'cloud').touch(0o600)
        (secrets / 'cloud').write_text('horse-battery')
        with self.config.open('a') as file:
            file.write(f'[secrets]\ndirectory = {secrets}\n')

    def life(self, *commands, failing=()):
        """Create a cluster, run commands on it, and return the calls of its driver by name."""
        self.up()
        for command in commands:
            code = self.sh(*command)
            self.assertIs(command in failing, code != 0, self.out + self.err)
        found = {}
        for name, positional, given, fields in self.calls():
            self.assertEqual(0, positional, f'{name} is called by keyword')
            arguments, context = found.setdefault(name, (set(), set()))
            arguments.update(given)
            context.update(fields)
        return found

    def assert_reached(self, contract, found, excepted=frozenset()):
        for name, function in inspect.getmembers(contract, inspect.isfunction):
            if name[0] == '_' or name == 'require' or name in excepted:
                continue
            with self.subTest(name):
                self.assertIn(name, found, 'no command calls it')
                expected = list(inspect.signature(function).parameters)[1:]
                self.assertEqual(set(expected), found[name][0], 'no command fills the others')


class OfNodes(Spied):
    source = OF_NODES

    def test_each_method_of_a_driver_for_nodes_is_called_with_all_that_it_takes(self):
        found = self.life(
            ('cluster', 'scale', 'web', '1', '--yes'),
            ('cluster', 'rotate', 'web', 'credential'),
            ('cluster', 'rotate', 'web', 'ca-certificate'),
            ('cluster', 'metrics', 'web'),
            ('cluster', 'delete', 'web', '--yes'),
        )
        # The engine works on the nodes itself.
        engine = {name for name in vars(ClusterDriver) if name.endswith('_cluster')}
        engine = {name for name in engine if not name.startswith(('pre_', 'post_'))}
        engine |= {'update_cluster_status', 'find_existing'}
        self.assert_reached(NodeClusterDriver, found, BY_CONDUCTORS | engine)
        filled = set().union(*(context for _, context in found.values()))
        fields = {field.name for field in dataclasses.fields(Context)} - {'defaults', 'poll_soon'}
        self.assertEqual(fields, filled & fields, 'no command fills the others')


class OfAnEngine(Spied):
    source = OF_AN_ENGINE

    def test_each_method_of_a_driver_with_an_engine_is_called_with_all_that_it_takes(self):
        smaller = self.page(FILE.replace('count: 2', 'count: 1'), 'smaller.yaml')
        failing = ('up', self.page(FILE.replace('count: 2', 'count: 7'), 'failing.yaml'))
        other = self.page(FILE.replace('cluster: web', 'cluster: other'), 'other.yaml')
        # The driver goes on with nothing that exists.
        refused = ('cluster', 'adopt-stack', 'stack-0', other, '--yes')
        self.page(FILE)
        found = self.life(
            refused,
            ('up', smaller, '--yes'),
            failing,
            ('cluster', 'rollback', 'web', '--yes'),
            ('cluster', 'scale', 'web', '0', '--remove', 'node-7', '--yes'),
            ('cluster', 'upgrade', 'web', '--image', 'debian-14', '--yes'),
            ('cluster', 'rebuild', 'web', 'node-1', '--yes'),
            ('cluster', 'reboot', 'web', 'node-1', '--hard'),
            ('cluster', 'rotate', 'web', 'credential'),
            ('cluster', 'rotate', 'web', 'ca-certificate'),
            ('cluster', 'metrics', 'web'),
            ('cluster', 'delete', 'web', '--yes'),
            failing=(refused, failing),
        )
        self.assert_reached(ClusterDriver, found)
        filled = set().union(*(context for _, context in found.values()))
        self.assertLessEqual({'operation', 'poll_soon'}, filled, 'of drivers with an engine')


class Attributes(ForeignShell):
    def setUp(self):
        """Need no site."""

    def test_each_attribute_of_the_contracts_is_read_outside_of_them_and_the_kit(self):
        package = pathlib.Path(kiln.__file__).parent
        sources = [
            path.read_text()
            for path in package.rglob('*.py')
            if 'testing' not in path.parts and path.name not in ('base.py', 'driver.py')
        ]
        for contract in (ClusterDriver, NodeClusterDriver):
            for name, value in vars(contract).items():
                # The base class itself takes the missing capabilities away.
                if name[0] == '_' or inspect.isfunction(value) or name == 'missing_capabilities':
                    continue
                with self.subTest(name):
                    used = re.compile(rf"[.']{name}\b")
                    self.assertTrue(any(used.search(source) for source in sources))
