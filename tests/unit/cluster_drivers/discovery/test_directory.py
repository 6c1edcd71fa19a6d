"""Drivers that are a directory with driver.yaml and templates, without Python."""

import itertools
import json
import pathlib
import re
import shutil
import tempfile
import textwrap
import unittest

import jsonschema
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.discovery.contract import contract_violations
from kiln.cluster_drivers.discovery.directory import MANIFEST, load_directory
from kiln.cluster_drivers.discovery.guide import readme_in
from kiln.cluster_drivers.discovery.manifest import ManifestError
from kiln.cluster_drivers.discovery.sources import DirectorySource
from kiln.cluster_drivers.discovery.yaml_fields import DRIVER
from kiln.cluster_drivers.readiness import WhenActive, WhenConsole, WhenHttp, WhenTcp
from kiln.cluster_drivers.records import ClusterType
from kiln.cluster_drivers.values import Cap, PlannedChange, PlannedGroup
from kiln.clusters.exceptions import InvalidClusterDriver
from kiln.clusters.models import OperationKind
from kiln.clusters.spec import Place
from tests.examples import examples
from tests.unit.cluster_drivers.samples import cluster, context, group, node
from tests.unit.test_layering import PACKAGE

NODES_V1 = PACKAGE / 'cluster_drivers' / 'nodes_v1'

WHOLE = """\
name: web_v1
version: 1.2.3
beta: true
base: nodes
provides:
  - [vm, ubuntu, web]
  - {server_type: '*', os: debian, coe: web}
parameters:
  port: {type: integer, default: 80, minimum: 1, maximum: 65535, help: Where it listens.}
  mode: {choices: [fast, safe], default: safe}
  key: {secret: true}
  host: {from: node.name}
user_data: start.sh
files:
  /etc/web.conf: web.conf
  /etc/web.key: {template: web.key, mode: 0600, owner: 'web:web'}
outputs:
  urls: {each: true, text: 'http://{{ node.address }}:{{ port }}/', help: Where it is.}
ready: {http: 80, path: /health}
"""
TEMPLATES = {
    'start.sh': '#!/bin/sh\nPORT={{ port }}\nHOST={{ host | shell }}\n',
    'web.conf': 'mode={{ mode }}\n',
    'web.key': '{{ key | base64 }}',
}


def marked(text):
    """Return a text without its marks (@), and the line and column of each mark."""
    lines = textwrap.dedent(text).split('\n')
    places = []
    for number, line in enumerate(lines, 1):
        ends = itertools.accumulate(map(len, line.split('@')[:-1]))
        places += [(number, end + 1) for end in ends]
    return '\n'.join(lines).replace('@', ''), places


class DirectoryCase(unittest.TestCase):
    name = 'web_v1'

    def setUp(self):
        place = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.directory = place / self.name
        (self.directory / 'templates').mkdir(parents=True)

    def write(self, manifest, **templates):
        (self.directory / MANIFEST).write_text(textwrap.dedent(manifest))
        for name, text in (TEMPLATES | templates).items():
            (self.directory / 'templates' / name).write_text(text)

    def problems(self, manifest, **templates):
        self.write(manifest, **templates)
        with self.assertRaises(InvalidClusterDriver) as caught:
            load_directory(self.directory)
        return caught.exception.problems

    def places(self, manifest, **templates):
        return [(one.line, one.column) for one in self.problems(manifest, **templates)]


class Links(DirectoryCase):
    """Finding M4: a driver of data alone sent the keys of kiln to machines."""

    def setUp(self):
        super().setUp()
        self.keys = self.directory.parent / 'kiln.keys'
        self.keys.write_text('current hunter2')
        self.write(WHOLE)

    def refused(self):
        with self.assertRaises(InvalidClusterDriver) as caught:
            load_directory(self.directory)
        found = str(caught.exception)
        self.assertIn('link', found)
        self.assertNotIn('hunter2', found)

    def test_a_template_that_is_a_link_is_refused(self):
        template = self.directory / 'templates' / 'start.sh'
        template.unlink()
        template.symlink_to(self.keys)
        self.refused()

    def test_a_folder_of_templates_that_is_a_link_is_refused(self):
        templates = self.directory / 'templates'
        templates.rename(self.directory.parent / 'elsewhere')
        templates.symlink_to(self.directory.parent / 'elsewhere')
        self.refused()

    def test_a_declaration_that_is_a_link_is_refused(self):
        (self.directory / MANIFEST).unlink()
        (self.directory / MANIFEST).symlink_to(self.keys)
        self.refused()
        # Neither does a search for drivers quote it.
        with self.assertRaisesRegex(ManifestError, 'its driver.yaml is a link') as caught:
            DirectorySource(self.directory).manifest()
        self.assertNotIn('hunter2', str(caught.exception))

    def test_a_readme_that_is_a_link_is_not_shown(self):
        (self.directory / 'image').mkdir()
        for folder in '', 'image':
            (self.directory / folder / 'README').symlink_to(self.keys)
            self.assertIsNone(readme_in(self.directory, folder))
            # Another one is.
            (self.directory / folder / 'README.rst').write_text('text')
            self.assertEqual('text', readme_in(self.directory, folder))


class CompleteDriver(DirectoryCase):
    def setUp(self):
        super().setUp()
        self.write(WHOLE)
        self.driver_class = load_directory(self.directory)

    def test_000_9_a_directory_without_python_is_a_node_driver(self):
        self.assertTrue(issubclass(self.driver_class, NodeClusterDriver))
        self.assertEqual([], list(contract_violations(self.driver_class)))
        self.assertEqual(
            ('web_v1', '1.2.3', True),
            (self.driver_class.name, self.driver_class.version, self.driver_class.beta),
        )
        self.assertEqual(
            (ClusterType('vm', 'ubuntu', 'web'), ClusterType('*', 'debian', 'web')),
            self.driver_class.provides,
        )
        self.assertLessEqual({Cap.RESIZE, Cap.REBOOT}, self.driver_class.capabilities)
        self.assertEqual(WhenHttp(80, '/health'), self.driver_class.ready)
        self.assertFalse(list(self.directory.rglob('*.py')))

    def test_000_9_user_data_files_and_outputs_come_from_the_templates(self):
        class Secrets:
            def get(self, name):
                return f'<{name}>'

        of = {
            'context': context(secrets=Secrets(), nodes=(node(address='10.0.0.1'),)),
            'cluster': cluster(group(parameters={'port': 8080, 'key': 'tls'})),
        }
        driver = self.driver_class.open()
        found = driver.bootstrap(**of, node=node())
        self.assertEqual(b'#!/bin/sh\nPORT=8080\nHOST=blue-work-1\n', found.user_data)
        self.assertEqual(
            [('/etc/web.conf', b'mode=safe\n', 0o644, 'root'),
             ('/etc/web.key', b'PHRscz4=', 0o600, 'web:web')],
            [(one.path, one.content, one.mode, one.owner) for one in found.files],
        )  # fmt: skip
        report = driver.update_cluster_status(**of)
        self.assertEqual({'urls': ['http://10.0.0.1:8080/']}, report.outputs)
        self.assertIsNone(report.progress)

    def test_parameter_values_are_validated_if_the_plan_adds_nodes(self):
        of = cluster(group('a'), group('b'), parameters={'port': 0, 'prot': 1})
        groups = tuple(PlannedGroup(name=name, added=(Place(),)) for name in 'ab')
        plan = PlannedChange(kind=OperationKind.CREATE, groups=groups)
        driver = self.driver_class.open()
        self.assertEqual(
            [('parameters.port', 'it must be at least 1'),
             ('parameters.prot', 'the driver has no such parameter; it has port, mode, key')],
            [(one.path, one.message)
             for one in driver.validate(context=context(), cluster=of, plan=plan)],
        )  # fmt: skip
        leaving = (PlannedGroup(name='a', removed=(node(group='a'),)),)
        nothing = PlannedChange(kind=OperationKind.DELETE, groups=leaving)
        self.assertEqual((), driver.validate(context=context(), cluster=of, plan=nothing))

    def test_001_17_an_operator_overrides_one_template(self):
        overrides = self.directory.parent / 'overrides'
        overrides.mkdir()
        (overrides / 'start.sh').write_text('#!/bin/sh\nours={{ node.name }}\n')
        driver = self.driver_class.open(overrides=overrides)
        found = driver.bootstrap(context=context(), cluster=cluster(), node=node())
        self.assertEqual(b'#!/bin/sh\nours=blue-work-1\n', found.user_data)
        self.assertEqual('/etc/web.conf', found.files[0].path)
        (overrides / 'start.sh').write_text('{{ nope }}')
        with self.assertRaises(InvalidClusterDriver):
            self.driver_class.open(overrides=overrides)

    def test_the_json_schema_accepts_valid_files_and_refuses_mistakes(self):
        schema = DRIVER.schema()
        jsonschema.Draft202012Validator.check_schema(schema)
        validator = jsonschema.Draft202012Validator(schema)
        for text in (WHOLE, (NODES_V1 / MANIFEST).read_text()):
            self.assertEqual([], list(validator.iter_errors(yaml.safe_load(text))))
        whole = yaml.safe_load(WHOLE)
        for wrong in ({'base': 'magic'}, {'beta': 'yes'}, {'ready': {'tcp': 0}}, {'x': 1},
                      {'files': {'/a': {}}}, {'provides': [['vm']]}):  # fmt: skip
            self.assertTrue(list(validator.iter_errors(whole | wrong)), wrong)

    def test_a_declared_driver_can_be_written_and_read_again(self):
        written = DRIVER.write(self.driver_class.declared)
        self.assertEqual('0600', written['files']['/etc/web.key']['mode'])
        self.write(json.dumps(written | {'provides': [list(x) for x in written['provides']]}))
        self.assertEqual(self.driver_class.declared, load_directory(self.directory).declared)


class Layouts(DirectoryCase):
    def test_001_1_a_driver_directory_can_be_at_any_path(self):
        for name in ('one_v1', 'two_v1'):
            place = self.directory.parent / 'anywhere' / name
            shutil.copytree(NODES_V1, place, ignore=shutil.ignore_patterns('__*'))
            manifest = (place / MANIFEST).read_text().replace('nodes_v1', name)
            (place / MANIFEST).write_text(manifest)
            self.assertEqual(name, load_directory(place).name)

    def test_001_1_a_path_with_dots_names_the_same_driver(self):
        self.write(WHOLE)
        found = load_directory(self.directory / '..' / self.name / '.')
        self.assertEqual('web_v1', found.name)

    def test_001_6_a_base_replaces_driver_py_and_is_nodes_by_default(self):
        for base in ('', 'base: nodes\n'):
            self.write(f'name: web_v1\nversion: 1.0.0\n{base}provides: [[vm, x, web]]\n')
            self.assertTrue(issubclass(load_directory(self.directory), NodeClusterDriver))

    def test_001_4_templates_are_required_only_if_driver_yaml_names_them(self):
        bare = 'name: web_v1\nversion: 1.0.0\nprovides: [[vm, x, web]]\n'
        shutil.rmtree(self.directory / 'templates')
        (self.directory / MANIFEST).write_text(bare)
        self.assertIsNone(load_directory(self.directory).declared.user_data)
        (self.directory / MANIFEST).write_text(bare + 'user_data: start.sh\n')
        with self.assertRaisesRegex(InvalidClusterDriver, "there is no 'start.sh' in templates"):
            load_directory(self.directory)

    def test_001_23_mappings_in_yaml_replace_template_def_py(self):
        self.write(WHOLE)
        definition = load_directory(self.directory).open().template_definition
        self.assertEqual(['port', 'mode', 'key', 'host'], list(definition.parameters))
        self.assertEqual(['/etc/web.conf', '/etc/web.key'], list(definition.files))
        self.assertEqual(['urls'], list(definition.outputs))

    def test_001_19_a_coe_can_have_any_name(self):
        for coe in ('kubernetes', 'my own', 'Ω', 'nodes'):
            self.write(WHOLE.replace('coe: web', f'coe: {coe}'))
            self.assertEqual(coe, load_directory(self.directory).provides[1].coe)

    def test_b5_the_in_tree_driver_has_at_most_30_lines_and_one_template(self):
        lines = (NODES_V1 / MANIFEST).read_text().splitlines()
        self.assertLessEqual(len(lines), 30)
        self.assertEqual(1, len(list((NODES_V1 / 'templates').iterdir())))

    def test_each_readiness_rule_can_be_written_in_yaml(self):
        rules = {
            'active': WhenActive(),
            '{tcp: 22}': WhenTcp(22),
            '{http: 80}': WhenHttp(80),
            '{http: 80, path: /x}': WhenHttp(80, '/x'),
            "{console: '^done: .*$'}": WhenConsole(re.compile('^done: .*$')),
        }
        for text, rule in rules.items():
            # As an author writes the rule, and as kiln writes it.
            for written in (text, json.dumps(DRIVER.fields['ready'].kind.write(rule))):
                self.write(WHOLE.replace('{http: 80, path: /health}', written))
                self.assertEqual(rule, load_directory(self.directory).ready)


class Mistakes(DirectoryCase):
    def test_all_mistakes_are_reported_at_once_with_line_and_column(self):
        manifest, places = marked(
            """\
            name: @other_v1
            version: @1
            @provids: []
            beta: @yes
            base: @magic
            parameters:
              @Foo: {type: @strin, minimum: 3}
              a: {type: integer, default: @x, minimum: 3, maximum: @2}
              b: {secret: true, default: @q}
              c: {from: @node.nam}
              d: @5
              e: {minimum: @low, choices: @[], required: @1}
              f: {type: list, default: [7, @010, {a: @1_0}]}
              @Big: {}
            user_data: @nope.yaml
            files:
              @relative: start.sh
              /etc/a: {template: @../x, mode: @0999, owner: 'web'}
              /etc/b: @{}
              /etc/c: @[start.sh]
              /etc/d: {template: start.sh, owner: @'; rm'}
            outputs:
              o: {text: 'x', role: @3}
              p: {text: @'{{ a', help: @[]}
            ready: {console: @'('}
            """
        )
        self.assertEqual(places, self.places(manifest))

    def test_a_problem_names_the_file_and_what_to_write(self):
        (problem,) = self.problems(WHOLE.replace('beta: true', 'beta: maybe'))
        self.assertEqual(
            f"{self.directory / MANIFEST}:3:7: beta: 'maybe' is text; write true or false",
            str(problem),
        )

    def test_mistakes_in_templates_are_reported_at_lines_of_the_template(self):
        found = self.problems(
            WHOLE,
            **{'start.sh': '#!/bin/sh\nA="{{ host | shell }}"\n{{ prot }}', 'web.conf': '{{ mode'},
        )
        self.assertEqual(
            {
                ('start.sh', 2, 4),
                ('start.sh', 3, 1),
                ('web.conf', 1, 1),
                # The placeholder of this parameter is broken, so no template uses it.
                ('driver.yaml', 10, 3),
            },
            {(pathlib.Path(one.file).name, one.line, one.column) for one in found},
        )

    def test_an_unused_parameter_is_reported_at_its_key(self):
        (problem,) = self.problems(WHOLE, **{'web.conf': ''})
        self.assertEqual(
            (10, 3, "parameter 'mode' is in no template"),
            (problem.line, problem.column, problem.message),
        )

    def test_each_wrong_readiness_rule_is_reported_at_its_line(self):
        wrong = (
            'soon', '{tcp: 0}', '{tcp: 22, http: 80}', '{http: 80, path: x}', '{http: x}',
            '{path: /x}', '{}', '[]', '3', "{console: '*'}", '{console: 3}', '~',
        )  # fmt: skip
        for text in wrong:
            with self.subTest(text):
                (found,) = self.places(WHOLE.replace('{http: 80, path: /health}', text))
                self.assertEqual(19, found[0])

    def test_each_wrong_value_of_provides_is_reported_at_its_line(self):
        for text in ('[]', '3', '[vm]', '[[vm, x]]', '[[vm, x, 3]]', '[{os: x, coe: y}]',
                     "[{server_type: vm, os: x, coe: ''}]"):  # fmt: skip
            with self.subTest(text):
                (found,) = self.places(f'name: web_v1\nversion: 1.0.0\nprovides: {text}\n')
                self.assertEqual(3, found[0])

    def test_a_file_that_is_not_a_driver_is_reported_with_line_and_reason(self):
        for manifest, message in (
            ('', 'the file is empty'),
            ('- a', 'this is a list'),
            ('a: [b', 'not closed'),
            ('a:\n\tb: 1', 'tab'),
            (f'{WHOLE}---\nname: x\n', 'driver.yaml has a single document'),
        ):
            with self.subTest(manifest[-9:]):
                found = self.problems(manifest)
                self.assertTrue(any(message in one.message for one in found), found)
                self.assertTrue(all(one.line for one in found))

    def test_a_directory_without_driver_yaml_is_reported(self):
        for place in (self.directory, self.directory / 'absent'):
            with self.assertRaisesRegex(InvalidClusterDriver, 'No such file'):
                load_directory(place)

    def test_the_refused_default_of_a_secret_is_not_shown(self):
        (problem,) = self.problems(
            WHOLE.replace('{secret: true}', '{secret: true, default: hunter2}')
        )
        self.assertNotIn('hunter2', str(problem))


SCALARS = st.sampled_from(
    [
        '', '~', '1', '0x1f', '010', '1.5', 'true', 'no', 'x', '{{ a }}', "'{{'", '"\\ud800"',
        '*a', '&a b', '!!int x', '.nan', '2026-11-21', '- -', '[', '{', '"\\0"', 'templates',
        '..', '/', '(', "''",
    ]
)  # fmt: skip
KEYS = st.sampled_from([*DRIVER.fields, 'type', 'from', 'template', 'a', '/a', 'http', 'coe'])
TREES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f'[{", ".join(items)}]')
        | st.dictionaries(KEYS, inner, max_size=3).map(
            lambda entries: f'{{{", ".join(f"{key}: {value}" for key, value in entries.items())}}}'
        )
    ),
    max_leaves=6,
)


class Fuzz(DirectoryCase):
    def load(self, text):
        (self.directory / MANIFEST).write_bytes(text)
        try:
            load_directory(self.directory)
        except InvalidClusterDriver as exc:
            for problem in exc.problems:
                self.assertGreater(problem.line, 0, problem)
                self.assertGreater(problem.column, 0, problem)

    def setUp(self):
        super().setUp()
        self.write(WHOLE)

    @settings(deadline=None, max_examples=examples(60))
    @given(st.dictionaries(st.sampled_from(list(DRIVER.fields)), TREES, max_size=8))
    def test_no_value_of_a_key_raises_an_untyped_error(self, values):
        lines = {'name': 'web_v1', 'version': '1.0.0', 'provides': '[[a, b, c]]'} | values
        self.load('\n'.join(f'{key}: {value}' for key, value in lines.items()).encode())

    @settings(deadline=None, max_examples=examples(60))
    @given(st.integers(0, len(WHOLE)), st.integers(0, 30), st.binary(max_size=6))
    def test_no_damaged_file_raises_an_untyped_error(self, at, length, junk):
        whole = WHOLE.encode()
        self.load(whole[:at] + junk + whole[at + length :])
