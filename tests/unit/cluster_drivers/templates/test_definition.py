"""Template definitions: templates, parameters, files and outputs."""

import pathlib
import tempfile
import unittest

from kiln.cluster_drivers.parameters import ParameterType
from kiln.cluster_drivers.secrets import FileSecrets
from kiln.cluster_drivers.templates.definition import TemplateDefinition
from kiln.cluster_drivers.templates.facts import FACTS
from kiln.cluster_drivers.templates.mappings import FileMapping, OutputMapping, ParameterMapping
from kiln.cluster_drivers.values import Context, join_token
from kiln.clusters.exceptions import ClusterDriverError, InvalidClusterDriver
from kiln.clusters.models import NodeState
from kiln.clusters.spec import MachineSpec, Place
from kiln.models import InjectedFile
from tests.unit.cluster_drivers import samples
from tests.unit.cluster_drivers.samples import cluster, context, group, node


class TemplateCase(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def write(self, name, text, *, under='templates'):
        path = self.directory / under / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def definition(self, user_data=None, *mappings, load=True, files=(), outputs=()):
        """Return a definition with one template, built as by Python code."""
        if user_data is not None:
            self.write('user_data', user_data)
        made = TemplateDefinition(
            self.directory / 'templates', None if user_data is None else 'user_data'
        )
        for mapping in mappings:
            made.add_parameter(mapping)
        for mapping in files:
            made.add_file(mapping)
        for mapping in outputs:
            made.add_output(mapping)
        if load:
            made.load()
        return made

    def user_data(self, definition, *, of=None, about=None, in_context=None):
        found = definition.extract_definition(
            context=in_context or context(), cluster=of or cluster(), node=about or node()
        )
        return found.user_data.decode()

    def problems(self, definition, **options):
        with self.assertRaises(InvalidClusterDriver) as caught:
            definition.load(**options)
        return caught.exception.problems


class Filling(TemplateCase):
    def test_000_10_parameters_and_facts_fill_user_data_and_files(self):
        self.write('motd', 'port {{ port }}\n')
        definition = self.definition(
            '{{ host }} {{ cluster.name }} {{ port }}',
            ParameterMapping(name='host', source='node.name'),
            ParameterMapping(name='port', type=ParameterType.INTEGER, default=80),
            files=[FileMapping(path='/etc/motd', template='motd', mode=0o600, owner='a:b')],
        )
        of = {'context': context(), 'cluster': cluster(), 'node': node()}
        found = definition.extract_definition(**of)
        self.assertEqual(b'blue-work-1 blue 80', found.user_data)
        files = (InjectedFile(path='/etc/motd', content=b'port 80\n', mode=0o600, owner='a:b'),)
        self.assertEqual(files, found.files)
        self.assertEqual(files, definition.get_env_files(**of))
        self.assertEqual({'host': 'blue-work-1', 'port': 80}, found.params)
        self.assertEqual(found.params, definition.get_params(**of))
        self.assertNotIn('80', repr(found))

    def test_every_fact_has_a_value(self):
        text = '\n'.join(f'{name}={{{{ {name} | json }}}}' for name in sorted(FACTS))
        of = cluster(group(role='control', image='i-1', flavor='big'), coe='swarm')
        about = node(place=Place(zone='az2'))
        in_context = context()
        found = self.user_data(self.definition(text), of=of, about=about, in_context=in_context)
        token = join_token(in_context, about)
        self.assertEqual(
            [
                'cluster.coe="swarm"', 'cluster.id="c-1"', 'cluster.name="blue"',
                'group.name="work"', 'group.role="control"', 'node.flavor="big"', 'node.id="n-1"',
                'node.image="i-1"', f'node.join_token="{token}"', 'node.name="blue-work-1"',
                'node.zone="az2"', 'site="east"',
            ],
            found.splitlines(),
        )  # fmt: skip

    def test_the_narrower_scope_takes_precedence_for_each_parameter(self):
        names = ('by_default', 'by_site', 'by_cluster', 'by_group', 'unset')
        definition = self.definition(
            ' '.join(f'{{{{ {name} }}}}' for name in names),
            *(ParameterMapping(name=name, default='d') for name in names),
        )
        scopes = {'site': names[1:], 'cluster': names[2:], 'group': names[3:4]}
        given = {scope: dict.fromkeys(has, scope[0]) for scope, has in scopes.items()}
        site = context(defaults=MachineSpec(parameters=given['site']))
        of = cluster(
            group(parameters=given['group'] | {'unset': None}), parameters=given['cluster']
        )
        self.assertEqual('d s c g d', self.user_data(definition, of=of, in_context=site))

    def test_001_18_each_group_has_its_own_image(self):
        of = cluster(group('a', image='gold'), group('b'), image='plain')
        definition = self.definition('{{ node.image }}')
        images = [self.user_data(definition, of=of, about=node(group=name)) for name in 'ab']
        self.assertEqual(['gold', 'plain'], images)

    def test_a_group_can_be_missing(self):
        definition = self.definition('{{ group.name }} {{ group.role }}')
        about = node(group='gone')
        self.assertEqual('gone worker', self.user_data(definition, about=about))

    def test_a_join_token_is_constant_within_an_attempt_and_new_for_the_next(self):
        definition = self.definition('{{ node.join_token }}')
        first = self.user_data(definition)
        self.assertEqual(first, self.user_data(definition))
        for other in (node(attempt=2), node(2)):
            self.assertNotEqual(first, self.user_data(definition, about=other))
        other_key = context(join_key=lambda: b'x')
        self.assertNotEqual(first, self.user_data(definition, in_context=other_key))
        self.assertTrue(definition.joins)
        self.assertTrue(
            self.definition('{{ t }}', ParameterMapping(name='t', source='node.join_token')).joins
        )
        self.assertFalse(self.definition('').joins)

    def test_a_join_token_without_a_key_is_an_error(self):
        with self.assertRaisesRegex(ClusterDriverError, 'no key for the join tokens'):
            self.user_data(self.definition('{{ node.join_token }}'), in_context=Context())

    def test_a_missing_required_value_is_an_error_that_names_the_node(self):
        definition = self.definition('{{ a }}', ParameterMapping(name='a', required=True))
        with self.assertRaisesRegex(ClusterDriverError, 'blue-work-1: parameter a is unset'):
            self.user_data(definition)


class Secrets(TemplateCase):
    def setUp(self):
        super().setUp()
        self.of = cluster(parameters={'password': 'db'})
        self.made = self.definition(
            '{{ password | json }}', ParameterMapping(name='password', secret=True)
        )

    def test_001_20_secrets_come_from_files_or_from_another_store(self):
        store = self.directory / 'secrets'
        store.mkdir()
        (store / 'db').write_text('hunter2\n')
        (store / 'db').chmod(0o600)
        for secrets in (samples.Secrets(db='hunter2'), FileSecrets(store)):
            found = self.user_data(self.made, of=self.of, in_context=context(secrets=secrets))
            self.assertEqual('"hunter2"', found)

    def test_only_the_name_of_a_secret_is_a_parameter(self):
        secrets = samples.Secrets(db='hunter2')
        of = {'context': context(secrets=secrets), 'cluster': self.of, 'node': node()}
        self.assertEqual({'password': 'db'}, self.made.get_params(**of))
        self.assertNotIn('hunter2', repr(self.made.extract_definition(**of)))

    def test_an_unset_secret_is_null(self):
        self.assertEqual('null', self.user_data(self.made))

    def test_a_secret_on_a_site_without_a_store_is_an_error(self):
        with self.assertRaisesRegex(ClusterDriverError, 'This site has no store of secrets'):
            self.user_data(self.made, of=self.of)

    def test_outputs_cannot_contain_secrets(self):
        for mapping, text in (
            (ParameterMapping(name='s', secret=True), '{{ s }}'),
            (ParameterMapping(name='s', source='node.join_token'), '{{ s }}'),
            (None, '{{ node.join_token }}'),
        ):
            definition = self.definition(
                '{{ s }}' if mapping else '',
                *([mapping] if mapping else []),
                outputs=[OutputMapping(name='o', text=text)],
                load=False,
            )
            (problem,) = self.problems(definition)
            self.assertIn('nothing is called', problem.message)


class Loading(TemplateCase):
    def test_all_mistakes_are_reported_at_once_with_their_file(self):
        definition = self.definition(
            'ok\n{{ unmapped }}\n{{ | }}',
            ParameterMapping(name='unused'),
            ParameterMapping(name='Bad', source='node.nam'),
            ParameterMapping(name='unused', source='node.id', required=True),
            files=[
                FileMapping(path='etc', template='absent', mode=0o77777, owner='; rm'),
                FileMapping(path='/a', template='../user_data'),
                FileMapping(path='/a', template='/etc/passwd'),
            ],
            outputs=[
                OutputMapping(name='X', text='{{'),
                OutputMapping(name='swapped', each='About each.', help=True),
                OutputMapping(name='o', text='{{ node.adress }}'),
            ],
            load=False,
        )
        (self.directory / 'templates' / 'binary').write_bytes(b'\xff')
        definition.add_file(FileMapping(path='/b', template='binary'))
        found = {(pathlib.Path(one.file).name, one.message) for one in self.problems(definition)}
        here = pathlib.Path(__file__).name
        nothing = 'nothing is called {} here'
        self.assertEqual(
            {
                (here, "parameter 'Bad', name: a name has lowercase letters, digits and "
                 "underscores, and begins with a letter"),
                (here, "parameter 'Bad', source: nothing is called 'node.nam' here"),
                (here, "parameter 'unused', source: a fact is neither required nor secret, and "
                 "has no default"),
                (here, "parameter 'unused' is there twice"),
                (here, "parameter 'unused' is in no template"),
                (here, "parameter 'Bad' is in no template"),
                (here, "file 'etc', path: it must be the absolute path of a file"),
                (here, "file 'etc', mode: it must be at most 7777, in octal"),
                (here, "file 'etc', owner: it must be the name of a user, or of a user and a "
                 "group: root:adm"),
                (here, "file '/a' is there twice"),
                (here, "template 'absent' cannot be read: No such file or directory"),
                (here, "template '../user_data' must be below the directory of the templates"),
                (here, "template '/etc/passwd' must be below the directory of the templates"),
                (here, "template 'binary' is not UTF-8 text"),
                (here, "output 'X', name: a name has lowercase letters, digits and "
                 "underscores, and begins with a letter"),
                (here, "output 'X', text: this is neither {{ name }} nor {{ name | filter }}"),
                (here, "output 'swapped', each: it must be true or false"),
                (here, "output 'swapped', help: it must be a text for people"),
                (here, "output 'o': " + nothing.format("'node.adress'")
                 + '; did you mean node.address?'),
                ('user_data', nothing.format("'unmapped'")),
                ('user_data', 'this is neither {{ name }} nor {{ name | filter }}'),
            },
            found,
        )  # fmt: skip

    def test_a_problem_names_the_line_that_is_wrong(self):
        definition = self.definition('\n  {{ nope }}', load=False)
        definition.add_parameter(ParameterMapping(name='unused'))
        line = self.test_a_problem_names_the_line_that_is_wrong.__code__.co_firstlineno + 2
        places = {(pathlib.Path(one.file).name, one.line, one.column)
                  for one in self.problems(definition)}  # fmt: skip
        self.assertEqual({('user_data', 2, 3), (pathlib.Path(__file__).name, line, 1)}, places)

    def test_misplaced_filters_are_found_at_load(self):
        definition = self.definition('#!/bin/sh\necho "{{ node.name | shell }}"', load=False)
        (problem,) = self.problems(definition)
        self.assertEqual(2, problem.line)

    def test_a_file_with_an_executable_mode_is_a_shell_script(self):
        self.write('run', 'A={{ node.name | json }}')
        for mode, count in ((0o755, 1), (0o644, 0)):
            definition = self.definition('', load=False)
            definition.add_file(FileMapping(path='/run', template='run', mode=mode))
            if count:
                self.assertEqual(count, len(self.problems(definition)))
            else:
                definition.load()
                self.assertEqual(1, len(list(definition.unchecked())))

    def test_001_17_an_operators_template_replaces_that_of_the_driver(self):
        definition = self.definition(
            'theirs {{ a }}', ParameterMapping(name='a', default='x'), load=False
        )
        definition.load()
        before = definition.digest
        self.write('user_data', 'ours {{ node.name }}', under='overrides')
        definition.load(overrides=self.directory / 'overrides')
        self.assertEqual('ours blue-work-1', self.user_data(definition))
        self.assertNotEqual(before, definition.digest)
        definition.load(overrides=self.directory / 'absent')
        self.assertEqual('theirs x', self.user_data(definition))
        self.assertEqual(before, definition.digest)

    def test_001_17_an_override_of_an_unknown_template_is_a_mistake(self):
        definition = self.definition('x', load=False)
        self.write('user_dta', 'x', under='overrides')
        (problem,) = self.problems(definition, overrides=self.directory / 'overrides')
        self.assertTrue(problem.file.endswith('user_dta'))
        self.assertIn('it has user_data', problem.message)

    def test_001_17_an_override_is_checked_like_any_template(self):
        definition = self.definition('x', load=False)
        path = self.write('user_data', '{{ nope }}', under='overrides')
        (problem,) = self.problems(definition, overrides=self.directory / 'overrides')
        self.assertEqual((str(path), 1), (problem.file, problem.line))


class Values(TemplateCase):
    def found(self, definition, of, **fields):
        return [
            (one.path, one.message)
            for one in definition.value_problems(context(**fields), of, of.spec.groups[-1].name)
        ]

    def test_wrong_values_are_reported_where_they_are_set(self):
        number = ParameterType.INTEGER
        definition = self.definition(
            '{{ a }}{{ b }}{{ c }}{{ d }}',
            *(ParameterMapping(name=name, type=number, maximum=5) for name in 'abc'),
            ParameterMapping(name='d', source='node.id'),
        )
        defaults = MachineSpec(parameters={'c': 9, 'e': 1})
        of = cluster(
            group('x'), group('y', parameters={'a': 'hunter2'}), parameters={'b': 6, 'd': 1}
        )
        none = 'the driver has no such parameter; it has a, b, c'
        self.assertEqual(
            {
                ('nodegroups[1].parameters.a', 'it must be a whole number, not a string'),
                ('parameters.b', 'it must be at most 5'),
                ('parameters.d', none),
                ('default.parameters.c', 'it must be at most 5'),
                ('default.parameters.e', none),
            },
            set(self.found(definition, of, defaults=defaults)),
        )

    def test_a_missing_required_parameter_is_reported(self):
        definition = self.definition('{{ a }}', ParameterMapping(name='a', required=True))
        self.assertEqual(
            [('nodegroups[0]', 'the driver needs parameter a')], self.found(definition, cluster())
        )
        self.assertEqual([], self.found(definition, cluster(parameters={'a': 'x'})))

    def test_a_value_for_a_driver_without_parameters_is_reported(self):
        found = self.found(self.definition(''), cluster(parameters={'a': 1}))
        self.assertEqual('the driver has no such parameter; it has none', found[0][1])

    def test_a_value_that_does_not_fit_its_place_is_reported_before_a_build(self):
        definition = self.definition('x\n {{ a }}', ParameterMapping(name='a'))
        of = cluster(parameters={'a': 'hunter2; rm'})
        (problem,) = definition.value_problems(context(), of, 'work')
        self.assertEqual((2, 2), (problem.line, problem.column))
        self.assertNotIn('hunter2', str(problem))

    def test_a_missing_secret_is_reported_before_a_build(self):
        definition = self.definition('{{ a | json }}', ParameterMapping(name='a', secret=True))
        of = cluster(parameters={'a': 'hunter2'})
        secrets = FileSecrets(self.directory)
        ((path, message),) = self.found(definition, of, secrets=secrets)
        self.assertEqual('nodegroups[0]', path)
        self.assertIn('does not exist', message)
        self.assertNotIn('hunter2', message)

    def test_a_problem_in_a_group_of_the_template_is_reported_there(self):
        definition = self.definition('{{ a }}', ParameterMapping(name='a', required=True))
        (problem,) = definition.value_problems(context(), cluster(), 'theirs')
        self.assertEqual('template.theirs', problem.path)


class Outputs(TemplateCase):
    def outputs(self, *mappings, nodes, **fields):
        definition = self.definition(
            '{{ port }}',
            ParameterMapping(name='port', type=ParameterType.INTEGER, default=80),
            outputs=mappings,
        )
        of = cluster(group('control', role='control', parameters={'port': 6443}), group())
        return definition.get_outputs(context(nodes=tuple(nodes), **fields), of)

    def test_an_output_comes_from_the_oldest_ready_node_or_from_each_one(self):
        nodes = [
            node(3, address='10.0.0.3'),
            node(2, address='10.0.0.2', group='control'),
            node(4, address='10.0.0.4'),
            node(1, address='10.0.0.1', state=NodeState.BOOTING),
            node(0),
        ]
        found = self.outputs(
            OutputMapping(name='api', role='control',
                          text='https://{{ node.address }}:{{ port }}/{{ cluster.name }}'),
            OutputMapping(name='all', each=True),
            OutputMapping(name='first'),
            nodes=nodes,
        )  # fmt: skip
        self.assertEqual(
            {
                'api': 'https://10.0.0.2:6443/blue',
                'all': ['10.0.0.2', '10.0.0.3', '10.0.0.4'],
                'first': '10.0.0.2',
            },
            found,
        )

    def test_an_output_without_ready_nodes_is_empty(self):
        found = self.outputs(OutputMapping(name='a'), OutputMapping(name='b', each=True), nodes=[])
        self.assertEqual({'a': None, 'b': []}, found)
