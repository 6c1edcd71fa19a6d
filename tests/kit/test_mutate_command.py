"""The command that makes wrong copies of a driver, and judges the kit by them."""

import json

from tests.unit.cli.shell import Shell

MINIMAL = 'kiln.testing.minimal:MinimalDriver'
SUITE = ('--suite', 'tests.unit.testing.mutants.part_of_kit:Deletes')
PLACE = f'{MINIMAL}._delete'


class Mutate(Shell):
    def mutate(self, *more):
        return ('driver', 'mutate', MINIMAL, *more)

    def listed(self, *more):
        return self.json(*self.mutate('--list', *more))

    def survivors(self, reason):
        path = self.folder / 'survivors.yaml'
        change = "self._lock -> __import__('contextlib').nullcontext()"
        entry = {'place': PLACE, 'operator': 'forget_lock', 'change': change, **reason}
        # JSON is YAML, too.
        path.write_text(json.dumps([entry]))
        return '--survivors', str(path)

    def test_one_that_is_caught_and_one_that_is_known_to_survive_are_reported(self):
        chosen = ('--operator', 'forget_lock', '--operator', 'return_early')
        (known, *_) = (one for one in self.listed(*chosen) if one['operator'] == 'forget_lock')
        self.assertEqual(1, self.sh(*self.mutate(*chosen, *SUITE, *self.survivors(
            {'missing': 'races'}))), self.err)  # fmt: skip
        self.assertIn(f'- place: {PLACE}\n  operator: forget_lock\n', self.out)
        self.assertIn('  # missing: races\n', self.out)
        self.assertRegex(self.out, r'9 mutants, \d caught .* 0 equivalent, \d unexplained')
        self.assertEqual(f'{MINIMAL}._build', known['place'])

    def test_mutants_are_listed_by_place_line_mistake_and_change(self):
        (one,) = self.listed('--operator', 'wrong_member')
        self.assertEqual((f'{MINIMAL}._build', 'ACTIVE -> ERROR'), (one['place'], one['change']))
        out = self.ok(*self.mutate('--list', '--operator', 'wrong_*'))
        self.assertRegex(out, r'MinimalDriver\._build, line \d+: wrong_member: ACTIVE -> ERROR')

    def test_a_sample_is_the_same_for_the_same_seed(self):
        some = ('--operator', 'drop_*', '--operator', 'ignore_*')
        first, again = (self.listed('--sample', '5', *some) for _ in range(2))
        self.assertEqual((5, first), (len(first), again))
        self.assertNotEqual(first, self.listed('--sample', '5', '--seed', '1', *some))
        every = self.listed(*some)
        self.assertEqual(first, [one for one in every if one in first])

    def test_modules_of_the_driver_are_chosen_and_its_bench_is_none(self):
        def modules(*more):
            found = self.json('driver', 'mutate', 'noop', '--list', *more)
            return {one['place'].partition(':')[0].rpartition('.')[2] for one in found}

        self.assertEqual({'groups'}, modules('--module', '*.groups', '--module', '*.bench'))
        self.assertEqual({'groups'}, modules('--module', '*.[gm]*', '--skip', '*.machines'))

    def test_what_does_not_exist_is_named(self):
        self.assertIn('choose from drop_field', self.fails(2, *self.mutate('--operator', 'hope')))
        self.assertIn(
            'has kiln.testing.minimal', self.fails(2, *self.mutate('--module', 'nothing'))
        )
        self.assertIn('Installed: ', self.fails(2, 'driver', 'mutate', 'tsunami'))
        said = self.fails(2, 'driver', 'mutate', 'tests.nothing:Driver')
        self.assertIn('Cannot find tests.nothing:Driver', said)
        said = self.fails(2, 'driver', 'mutate', 'tests.unit.cli.shell:Shell')
        self.assertIn('is not a subclass of AmphoraComputeDriver', said)
        self.assertIn('from 0 to 100', self.fails(2, *self.mutate('--least', '101')))
        said = self.fails(2, *self.mutate('--survivors', '/nowhere'))
        self.assertIn('/nowhere', said)


class MutateCluster(Shell):
    """Cluster drivers: by folder, by name, and by MODULE:CLASS."""

    DECLARATION = ('--suite', 'kiln.testing.clusters.behaviours.declaration:Declaration')

    def driver(self):
        folder = self.folder / 'web_v1'
        (folder / 'templates').mkdir(parents=True)
        (folder / 'driver.yaml').write_text(
            'name: web_v1\nversion: 1.0.0\nprovides: [["*", "*", web]]\nuser_data: start.sh\n'
        )
        (folder / 'templates' / 'start.sh').write_text('#!/bin/sh\nserve {{ node.name }}\n')
        return str(folder)

    def places(self, *argv):
        found = self.json('driver', 'mutate', *argv, '--list')
        return {one['place'].partition(':')[0] for one in found}

    def test_mutants_of_its_manifest_and_templates_are_judged_and_reported(self):
        chosen = ('--operator', 'wrong_fact', '--operator', 'drop_line')
        self.assertEqual(1, self.sh('driver', 'mutate', self.driver(), *chosen, *self.DECLARATION))
        self.assertIn(
            '- place: web_v1/templates/start.sh\n  operator: wrong_fact\n'
            '  change: "node.name -> cluster.name"\n',
            self.out,
        )
        self.assertRegex(self.out, r'7 mutants, 3 caught .* 4 survived')

    def test_its_files_are_chosen_by_name(self):
        self.assertEqual(
            {'web_v1/templates/start.sh'}, self.places(self.driver(), '--module', '*/templates/*')
        )

    def test_it_is_found_by_its_name_and_by_its_class(self):
        by_name = self.places('example_v1')
        self.assertEqual(by_name, self.places('kiln.cluster_drivers.example_v1.driver:Driver'))
        self.assertLess({'example_v1.driver', 'example_v1/templates/start.sh'}, by_name)

    def test_what_does_not_exist_is_named(self):
        self.assertIn('it is not a directory', self.fails(2, 'driver', 'mutate', './nothing'))
        said = self.fails(2, 'driver', 'mutate', self.driver(), '--operator', 'hope')
        self.assertIn('loosen_mode', said)
