"""Template definitions: mappings judged by the template itself, and filled in."""

import dataclasses
import pathlib
import tempfile
import unittest

from kiln.cluster_drivers.heat.definition import TemplateDefinition
from kiln.cluster_drivers.heat.mappings import FACTS, OutputMapping, ParameterMapping
from kiln.cluster_drivers.heat.state import StackState
from kiln.cluster_drivers.parameters import ParameterType
from kiln.cluster_drivers.templates.mappings import Spot
from kiln.clusters.exceptions import ClusterDriverError, InvalidClusterDriver
from kiln.testing.clusters import samples
from tests.unit.cluster_drivers.heat.made import cluster_of, context

STACK = """\
heat_template_version: 2018-08-31
parameters:
  name: {type: string}
  count: {type: number}
  image: {type: string, default: debian}
  theme: {type: string, default: light}
  tags: {type: comma_delimited_list, default: ''}
  password: {type: string, hidden: true, default: ''}
resources: {}
outputs:
  names: {value: 1}
"""
FILE = """\
cluster: shop
image: debian-12
nodegroups:
  - {name: work, count: 3}
"""
HERE = Spot('driver.yaml', 9, 3)
LIST = ParameterType.LIST


class DefinitionCase(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / 'templates'
        self.folder.mkdir()
        (self.folder / 'stack.yaml').write_text(STACK)

    def definition(self, *more, outputs=(), without=()):
        found = TemplateDefinition(self.folder)
        mappings = {
            one.name: one
            for one in (
                ParameterMapping(name='name', source='cluster.name'),
                ParameterMapping(name='count', source='group.count', group='work'),
                ParameterMapping(name='image', source='cluster.image'),
                *more,
            )
        }
        for name, one in mappings.items():
            if name not in without:
                found.add_parameter(one, spot=HERE)
        for one in outputs:
            found.add_output(one, spot=HERE)
        return found

    def loaded(self, *more, **others):
        found = self.definition(*more, **others)
        found.load()
        return found

    def mistakes(self, *more, **others):
        with self.assertRaises(InvalidClusterDriver) as caught:
            self.loaded(*more, **others)
        return [(pathlib.Path(one.file).name, one.line, one.message)
                for one in caught.exception.problems]  # fmt: skip


class Mappings(DefinitionCase):
    def test_000_10_a_definition_has_parameters_and_outputs_and_fits_its_template(self):
        found = self.loaded(outputs=[OutputMapping(name='names')])
        self.assertEqual({'name', 'count', 'image'}, set(found.parameters))
        self.assertEqual({'names': [1]}, found.get_outputs({'names': [1], 'other': 2}))

    def test_a_parameter_that_the_template_lacks_is_a_mistake_in_the_mapping(self):
        ((file, line, message),) = self.mistakes(ParameterMapping(name='colour'))
        self.assertEqual(('driver.yaml', 9), (file, line))
        self.assertIn("has no parameter 'colour'; it has name, count", message)

    def test_a_parameter_without_value_is_a_mistake_in_the_template(self):
        ((file, line, message),) = self.mistakes(without=['count'])
        self.assertEqual(('stack.yaml', 4), (file, line))
        self.assertEqual("parameter 'count' has neither a mapping nor a default", message)

    def test_a_type_that_does_not_fit_is_a_mistake(self):
        ((_, _, message),) = self.mistakes(
            ParameterMapping(name='theme', type=ParameterType.INTEGER)
        )
        self.assertIn(
            "parameter 'theme' is of type integer here, and string in the template", message
        )

    def test_the_type_of_a_fact_counts_in_place_of_the_declared_one(self):
        ((_, _, message),) = self.mistakes(ParameterMapping(name='theme', source='cluster.count'))
        self.assertIn('is of type integer here', message)

    def test_a_secret_must_be_hidden_in_the_template(self):
        ((file, line, message),) = self.mistakes(ParameterMapping(name='theme', secret=True))
        self.assertEqual(('stack.yaml', 6), (file, line))
        self.assertIn('set hidden: true', message)

    def test_what_the_template_hides_must_be_a_secret(self):
        ((file, _, message),) = self.mistakes(ParameterMapping(name='password'))
        self.assertEqual('driver.yaml', file)
        self.assertIn('set secret: true', message)

    def test_an_output_that_the_template_lacks_is_a_mistake(self):
        ((_, _, message),) = self.mistakes(outputs=[OutputMapping(name='x', output='y')])
        self.assertEqual("the template has no output 'y'; it has names", message)

    def test_all_mistakes_are_told_together(self):
        found = self.mistakes(
            ParameterMapping(name='colour'), outputs=[OutputMapping(name='x')], without=['count']
        )
        self.assertEqual(3, len(found))

    def test_a_fact_of_a_group_needs_the_group_and_no_other_does(self):
        for one in (
            ParameterMapping(name='theme', source='group.image'),
            ParameterMapping(name='theme', source='cluster.image', group='work'),
            ParameterMapping(name='theme', source='node.name'),
            ParameterMapping(name='theme', source='site', required=True),
        ):
            with self.subTest(one):
                self.assertTrue(list(one.contradictions()))

    def test_a_template_that_cannot_be_read_is_a_mistake(self):
        (self.folder / 'stack.yaml').unlink()
        ((file, _, message),) = self.mistakes()
        self.assertEqual('stack.yaml', file)
        self.assertIn('cannot be read', message)

    def test_a_file_of_the_operator_replaces_one_of_the_driver(self):
        other = self.folder.parent / 'own'
        other.mkdir()
        (other / 'stack.yaml').write_text(STACK.replace('default: light', 'default: dark'))
        mine, theirs = self.definition(), self.definition()
        mine.load()
        theirs.load(overrides=other)
        self.assertNotEqual(mine.bundle.template, theirs.bundle.template)


class Removals(DefinitionCase):
    """A group of which any node can go: kiln numbers its nodes, and the template obeys."""

    STACK = STACK.replace('  image:', '  removed: {type: json, default: []}\n  image:').replace(
        'names: {value: 1}', 'workers: {value: 1}'
    )
    REMOVED = ParameterMapping(name='removed', source='group.removed', group='work')
    WORKERS = OutputMapping(name='workers', group='work')

    def setUp(self):
        super().setUp()
        (self.folder / 'stack.yaml').write_text(self.STACK)

    def removable(self):
        return self.loaded(self.REMOVED, outputs=[self.WORKERS])

    def changed(self, definition, cluster, text, *remove):
        spec, generation = cluster_of(text).spec, cluster.generation + 1
        cluster = dataclasses.replace(cluster, spec=spec, generation=generation)
        nodes = definition.planned(cluster, remove).write()
        return dataclasses.replace(cluster, driver_state=StackState(nodes=nodes).write())

    def test_003_6_the_template_is_told_the_numbers_that_no_node_has(self):
        found = self.removable()
        cluster = self.changed(found, cluster_of(FILE), FILE)
        told = found.extract_definition(context(), cluster).params
        self.assertEqual((3, ['0']), (told['count'], told['removed']))
        cluster = self.changed(found, cluster, FILE.replace('3', '2'), 'work-2')
        told = found.extract_definition(context(), cluster).params
        self.assertEqual((2, ['0', '2']), (told['count'], told['removed']))
        cluster = self.changed(found, cluster, FILE)
        told = found.extract_definition(context(), cluster).params
        self.assertEqual((3, ['0', '2']), (told['count'], told['removed']))

    def test_a_group_that_is_dropped_has_all_its_numbers_removed(self):
        found = self.removable()
        cluster = self.changed(found, cluster_of(FILE), FILE)
        cluster = self.changed(found, cluster, FILE.replace('work', 'other'))
        told = found.extract_definition(context(), cluster).params
        self.assertEqual((0, ['0', '1', '2', '3']), (told['count'], told['removed']))

    def test_an_output_of_the_group_has_the_names_of_its_nodes(self):
        found = self.removable()
        self.assertEqual(
            {'workers': {'work-1': '10.0.0.3', 'work-3': '10.0.0.4'}},
            found.get_outputs({'workers': {'1': '10.0.0.3', '3': '10.0.0.4'}}),
        )
        self.assertEqual({'workers': None}, found.get_outputs({}))

    def test_a_stack_with_other_nodes_than_the_ledger_is_not_what_was_wanted(self):
        found = self.removable()
        cluster = self.changed(found, cluster_of(FILE), FILE)
        self.assertEqual('', found.missed(cluster, {'workers': {'1': 'a', '2': 'b', '3': 'c'}}))
        self.assertEqual(
            'The stack has work-4, and lacks work-2.',
            found.missed(cluster, {'workers': {'1': 'a', '3': 'b', '4': 'c'}}),
        )
        for nothing in ({}, {'workers': None}, {'workers': 'none'}):
            with self.subTest(nothing):
                self.assertEqual(
                    'The stack has no others, and lacks work-1, work-2, work-3.',
                    found.missed(cluster, nothing),
                )

    def test_a_node_of_a_group_that_the_template_chooses_from_cannot_be_named(self):
        found = self.removable()
        text = FILE + '  - {name: other, count: 2}\n'
        cluster = self.changed(found, cluster_of(text), text)
        with self.assertRaisesRegex(
            ClusterDriverError, 'Cannot remove other-1: the template .* Name nodes of work.'
        ):
            found.planned(cluster, ['work-2', 'other-1'])
        with self.assertRaisesRegex(ClusterDriverError, 'has no node work-9'):
            found.planned(cluster, ['work-9'])

    def test_without_such_a_group_nothing_is_kept_and_no_node_can_be_named(self):
        (self.folder / 'stack.yaml').write_text(STACK)
        found = self.loaded()
        self.assertEqual({}, found.planned(cluster_of(FILE), ()).write())
        with self.assertRaisesRegex(ClusterDriverError, 'Name none.'):
            found.planned(cluster_of(FILE), ['work-1'])

    def test_what_kiln_needs_to_know_of_the_group_is_demanded(self):
        only = self.mistakes(self.REMOVED, without=['count'])
        self.assertEqual(
            [('stack.yaml', "parameter 'count' has neither a mapping nor a default"),
             ('driver.yaml', 'group work also needs a parameter from group.count'),
             ('driver.yaml', 'group work also needs an output with group: work, by which kiln '
                             'sees which nodes there are')],
            [(file, message) for file, _, message in only],
        )  # fmt: skip
        ((file, line, message),) = self.mistakes(outputs=[self.WORKERS])
        self.assertEqual(('driver.yaml', 9), (file, line))
        self.assertEqual('group work also needs a parameter from group.removed', message)


class Values(DefinitionCase):
    def made(self, *more, text=FILE, **changes):
        return self.loaded(*more).extract_definition(context(), cluster_of(text, **changes))

    def test_facts_come_from_the_cluster_and_its_groups(self):
        self.assertEqual({'name': 'shop', 'count': 3, 'image': 'debian-12'}, self.made().params)

    def test_every_fact_has_a_value_of_its_type_or_none(self):
        for name, kind in FACTS.items():
            group = 'work' if name.startswith('group.') else None
            mapping = ParameterMapping(name='theme', source=name, group=group)
            found = TemplateDefinition(self.folder)
            found.add_parameter(mapping)
            value = found.get_params(context(), cluster_of())['theme']
            with self.subTest(name):
                self.assertTrue(value is None or kind.takes(value), value)

    def test_a_group_that_is_dropped_has_no_nodes(self):
        self.assertEqual(0, self.made(text=FILE.replace('work', 'other')).params['count'])

    def test_a_value_that_nobody_sets_is_left_to_the_template(self):
        found = self.made(ParameterMapping(name='theme'), text=FILE.replace('image: ', '#'))
        self.assertEqual({'name', 'count'}, set(found.params))

    def test_a_value_of_the_cluster_wins_over_the_default(self):
        mapping = ParameterMapping(name='theme', default='light')
        self.assertEqual('light', self.made(mapping).params['theme'])
        text = FILE + 'parameters: {theme: dark}\n'
        self.assertEqual('dark', self.made(mapping, text=text).params['theme'])

    def test_a_secret_is_fetched_and_shown_by_its_name_alone(self):
        text = FILE + 'parameters: {password: shop-password}\n'
        found = self.made(ParameterMapping(name='password', secret=True), text=text)
        self.assertEqual(samples.SECRET, found.params['password'])
        self.assertEqual('shop-password', found.shown['password'])
        self.assertEqual((samples.SECRET,), found.secrets)
        self.assertNotIn(samples.SECRET, repr(found))

    def test_two_calls_give_the_same_definition(self):
        self.assertEqual(self.made(), self.made())

    def test_a_required_value_that_is_missing_is_an_error_that_names_it(self):
        definition = self.loaded(ParameterMapping(name='name'))
        with self.assertRaisesRegex(ClusterDriverError, 'Parameter name of the template is unset'):
            definition.extract_definition(context(), cluster_of(FILE))


class Problems(DefinitionCase):
    def problems(self, *more, text=FILE):
        found = self.loaded(*more).value_problems(context(), cluster_of(text))
        return [(one.path, one.message) for one in found]

    def test_a_right_cluster_has_no_problems(self):
        self.assertEqual([], self.problems())

    def test_an_unknown_or_wrong_parameter_is_told_with_its_place(self):
        theme = ParameterMapping(name='theme', choices=('light', 'dark'))
        text = FILE + 'parameters: {theme: blue, colour: red}\n'
        self.assertEqual(
            ['parameters.theme', 'parameters.colour'],
            [path for path, _ in self.problems(theme, text=text)],
        )

    def test_a_value_that_the_template_does_not_take_is_told(self):
        text = FILE.replace('image', 'keys: [mine]\nimage').replace(
            'count: 3', 'count: 3, image: other'
        )
        self.assertEqual(
            [('keys', 'the template takes no keys'),
             ('nodegroups[0].image', 'the template takes no image')],
            self.problems(text=text),
        )  # fmt: skip

    def test_a_group_that_the_template_does_not_have_is_told(self):
        text = FILE + '  - {name: other, count: 1}\n'
        self.assertEqual(
            [('nodegroups[1]', 'the template has no group other; it has work')],
            self.problems(text=text),
        )

    def test_a_parameter_of_the_cluster_in_a_group_is_told(self):
        text = FILE.replace('count: 3', 'count: 3, parameters: {theme: dark}')
        ((path, message),) = self.problems(ParameterMapping(name='theme'), text=text)
        self.assertEqual('nodegroups[0].parameters.theme', path)
        self.assertIn('for the whole cluster', message)

    def test_a_parameter_of_its_group_is_taken(self):
        text = FILE.replace('count: 3', 'count: 3, parameters: {theme: dark}')
        self.assertEqual(
            [], self.problems(ParameterMapping(name='theme', group='work'), text=text)
        )

    def test_counts_of_flavors_and_zones_are_told(self):
        for shape in ('flavors: {a: 1, b: 2}', 'count: 3, zones: [z1, z2]'):
            with self.subTest(shape):
                ((path, _),) = self.problems(text=FILE.replace('count: 3', shape))
                self.assertEqual('nodegroups[0]', path)

    def test_a_missing_secret_or_value_is_told_before_anything_is_done(self):
        definition = self.loaded(ParameterMapping(name='name', required=True))
        found = list(definition.value_problems(context(), cluster_of(FILE)))
        self.assertEqual('the driver needs parameter name', found[0].message)


class Subclass(DefinitionCase):
    def test_000_17_python_can_say_what_a_mapping_cannot(self):
        class Loud(TemplateDefinition):
            def get_params(self, context, cluster):
                return {**super().get_params(context, cluster), 'name': cluster.name.upper()}

        found = Loud(self.folder)
        found.add_parameter(ParameterMapping(name='name', source='cluster.name'))
        found.add_parameter(ParameterMapping(name='count', source='cluster.count'))
        found.load()
        made = found.extract_definition(context(), dataclasses.replace(cluster_of(FILE)))
        self.assertEqual('SHOP', made.params['name'])
