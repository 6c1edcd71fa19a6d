"""The guide for authors of cluster drivers: what it shows works, what it mentions is found."""

import ast
import builtins
import contextlib
import importlib
import inspect
import re

from tests.unit.cli.shell import Shell
from tests.unit.cluster_drivers.discovery.test_guide import BLOCK, GUIDE, blocks
from tests.unit.test_layering import ROOT

#: The modules from which authors import, as the guide says.
MODULES = (
    'kiln.cluster_drivers.values',
    'kiln.cluster_drivers.readiness',
    'kiln.cluster_drivers.scale',
    'kiln.cluster_drivers.monitor',
    'kiln.cluster_drivers.verbs',
    'kiln.cluster_drivers.parameters',
    'kiln.cluster_drivers.expectations',
    'kiln.cluster_drivers.templates.definition',
    'kiln.cluster_drivers.templates.mappings',
    'kiln.testing.clusters',
)
#: What kiln itself uses of them.
OURS = {'Gauge', 'Reading', 'checked_order', 'Mapped', 'Spot'}
#: Names that the guide mentions and kiln does not define: those of its examples, and Python's.
OTHERS = {'Driver', 'AgentBench', 'StackBench', 'SSLContext', 'sleep', 'replace'}


def imports(source):
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or '').startswith('kiln.'):
            yield from (f'from {node.module} import {one.name}' for one in node.names)


def examples():
    """Yield the Python of the guide, and of the files that it includes."""
    for language, _, text in BLOCK.findall(GUIDE):
        if language == 'python':
            yield inspect.cleandoc(text)
    for path in re.findall(r'literalinclude:: (\S+\.py)', GUIDE):
        yield (ROOT / 'doc/source/contributor' / path).read_text()


def mentions():
    """Yield the classes and functions that the text mentions."""
    for name in re.findall(r':(?:class|func):`~?([\w.]+)`', GUIDE):
        yield name.rpartition('.')[2]
    for name, arguments in re.findall(r'``([A-Za-z][A-Za-z_.]*)(\(|``)', GUIDE):
        last = name.rpartition('.')[2]
        if arguments == '(' or re.fullmatch('([A-Z][a-z]+)+', last):
            yield last


class Mentions(Shell):
    def setUp(self):
        super().setUp()
        self.contract = self.json('driver', 'contract')

    def test_every_import_of_an_example_is_in_the_contract(self):
        shown = {text.partition('\n')[0] for text in self.contract.values()}
        self.assertEqual(set(), {one for text in examples() for one in imports(text)} - shown)

    def test_every_class_and_function_of_the_guide_is_in_the_contract(self):
        text = '\n'.join(self.contract.values())
        defined = re.findall(r'^ *(?:(?:class|def) (\w+)|(\w+)(?::| =) )', text, re.MULTILINE)
        found = {name for names in defined for name in names} | set(dir(builtins))
        self.assertEqual(set(), set(mentions()) - found - OTHERS)

    def test_whatever_the_modules_of_authors_define_is_in_the_contract(self):
        for name in MODULES:
            module = importlib.import_module(name)
            defined = {
                key
                for key, value in vars(module).items()
                if key[0] != '_' and getattr(value, '__module__', '') == name and callable(value)
            }
            exported = set(getattr(module, '__all__', defined))
            self.assertEqual(set(), exported - self.contract.keys() - OURS, name)

    def test_the_shown_commands_find_something(self):
        for name in re.findall(r'\$ kiln driver contract (\w+)', GUIDE):
            self.assertTrue(self.json('driver', 'contract', name))


class Trial(Shell):
    def setUp(self):
        super().setUp()
        for name, text in blocks():
            if name:
                path = self.folder / ('drivers' if name.startswith('web_v1') else '') / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        (self.folder / 'secrets').mkdir(mode=0o700)
        self.enterContext(contextlib.chdir(self.folder))

    def test_the_first_driver_of_the_guide_comes_up_as_shown(self):
        said = self.ok('up', 'web.yaml')
        for line in ('web: + cluster of driver web_v1 1.0.0', 'create succeeded', 'web: pages: '):
            self.assertIn(line, GUIDE)
            self.assertIn(line, said)
        (node, *_) = self.json('node', 'list', 'web')
        self.assertRegex(node['address'], r'^127\.')
