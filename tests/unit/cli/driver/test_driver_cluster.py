"""The commands about cluster drivers."""

import contextlib
import json
import shutil
from pathlib import Path

import kiln
from kiln.clusters.spec import ClusterTemplate
from kiln.db.store import open_store
from tests.unit.cli.shell import CONFIG, Shell
from tests.unit.cluster_drivers.command.folders import DRIVER, write_driver
from tests.unit.cluster_drivers.installed import Installed
from tests.unit.db.samples import cluster, operation

IN_TREE = Path(kiln.__file__).parent / 'cluster_drivers'
CLUSTERS = """
[clusters]
driver_path = {folder}/drivers
{more}
[db]
url = sqlite:///{folder}/kiln.db
"""


class ClusterShell(Shell):
    """A site with a folder for its own drivers."""

    #: More options of [clusters].
    more = ''

    def setUp(self):
        super().setUp()
        self.drivers = self.folder / 'drivers'
        self.drivers.mkdir()
        self.configure(self.more)

    def configure(self, more):
        text = CONFIG.format(folder=self.folder, more='')
        self.config.write_text(text + CLUSTERS.format(folder=self.folder, more=more))

    def new(self, name, form='directory', folder=None):
        self.ok('driver', 'new', 'cluster', name, '--form', form, '--output',
                str(folder or self.drivers))  # fmt: skip
        return (folder or self.drivers) / name

    def change(self, path, former, now):
        self.assertIn(former, path.read_text())
        path.write_text(path.read_text().replace(former, now))

    def rows(self, *argv):
        return {row['name']: row for row in self.json('driver', *argv)}


class Lists(ClusterShell):
    def test_001_12_both_kinds_are_listed_with_origin_version_and_state(self):
        rows = self.rows('list')
        self.assertEqual(
            ('cluster', '1.0.0', 'active', ['(*, *, nodes)']),
            tuple(rows['nodes_v1'][key] for key in ('kind', 'version', 'state', 'provides')),
        )
        self.assertEqual(('compute', 'active'), (rows['noop']['kind'], rows['noop']['state']))
        self.assertIn('package kiln-compute', rows['nodes_v1']['origin'])
        for kind in ('cluster', 'compute'):
            chosen = self.json('driver', 'list', '--kind', kind)
            self.assertEqual({kind}, {row['kind'] for row in chosen})

    def test_001_25_unusable_drivers_are_listed_with_the_reason(self):
        self.change(self.new('beta_v1') / 'driver.yaml', 'version:', 'beta: true\nversion:')
        self.new('broken_v1').joinpath('driver.yaml').write_text('name: [')
        self.configure('disabled_drivers = example_v1')
        rows = self.rows('list')
        states = {name: row['state'] for name, row in rows.items() if row['kind'] == 'cluster'}
        self.assertEqual(
            {'beta_v1': 'beta', 'broken_v1': 'broken', 'example_v1': 'disabled',
             'heat_generated_v1': 'active', 'heat_group_v1': 'active', 'nodes_v1': 'active',
             'swarm_debian_v1': 'active'},
            states,
        )  # fmt: skip
        self.assertIn('disabled_drivers', rows['example_v1']['reason'])
        self.assertIn('cannot be read', rows['broken_v1']['reason'])
        self.assertIn(f'directory {self.drivers}', rows['broken_v1']['origin'])

    def test_001_12_a_driver_shows_its_digest_and_what_it_can_do(self):
        shown = self.json('driver', 'show', 'example_v1')
        self.assertEqual({'port': 'integer', 'greeting': 'string'}, shown['parameters'])
        self.assertIn('reboot', shown['can'])
        self.assertEqual((['pages'], ['pages']), (shown['verbs'], shown['outputs']))
        self.assertEqual(16, len(shown['digest']))

    def test_a_driver_that_is_a_program_shows_what_it_takes(self):
        yaml = DRIVER + 'parameters:\n  size: {type: integer, default: 3}\n'
        write_driver(self.drivers, yaml=yaml)
        shown = self.json('driver', 'show', 'acme_v1')
        self.assertEqual(({'size': 'integer'}, True), (shown['parameters'], shown['runs_code']))

    def test_a_driver_with_an_engine_in_code_shows_what_it_can_do(self):
        shown = self.json('driver', 'show', 'heat_group_v1')
        self.assertIn('resize', shown['can'])

    def test_a_version_is_chosen_by_its_number(self):
        shown = self.json('driver', 'show', 'nodes_v1==1.0.0')
        self.assertEqual('1.0.0', shown['version'])
        err = self.fails(2, 'driver', 'show', 'nodes_v1==2.*')
        self.assertIn('Installed: example_v1 1.0.0, heat_generated_v1 1.0.0', err)

    def test_broken_and_disabled_drivers_can_be_shown(self):
        self.new('broken_v1').joinpath('driver.yaml').write_text('name: [')
        self.configure('disabled_drivers = example_v1')
        self.assertEqual('broken', self.json('driver', 'show', 'broken_v1')['state'])
        self.assertIn('reboot', self.json('driver', 'show', 'example_v1')['can'])

    def test_a_name_of_both_kinds_needs_the_kind(self):
        self.new('noop')
        self.assertIn('--kind cluster', self.fails(2, 'driver', 'show', 'noop'))
        self.assertEqual(
            'cluster', self.json('driver', 'show', 'noop', '--kind', 'cluster')['kind']
        )


class NeedsAnExtra(Installed, ClusterShell):
    """A package with a driver that needs an extra, and a broken driver."""

    def setUp(self):
        super().setUp()
        self.package(
            'kiln-driver-acme', 'acme_v1', 'import no_such_client',
            requires='Requires-Dist: no-such-client; extra == "cloud"\n',
        )  # fmt: skip
        self.command = "pip install 'kiln-driver-acme[cloud]'"

    def problems(self, code, *argv):
        self.assertEqual(code, self.sh('driver', 'check', *argv, '-f', 'json'), self.err)
        return [(row['name'], row['problem']) for row in json.loads(self.out)]

    def test_the_list_names_the_command_that_installs_it(self):
        self.package('kiln-driver-bad', 'bad_v1', 'import no_such_client')
        rows = self.rows('list')
        self.assertEqual(
            ('not installed', self.command),
            (rows['acme_v1']['state'], rows['acme_v1']['reason']),
        )
        self.assertEqual('broken', rows['bad_v1']['state'])
        self.assertNotIn('extra', rows['bad_v1']['reason'])

    def test_the_check_of_all_drivers_lists_it_and_does_not_fail(self):
        self.assertEqual([('acme_v1', 'not installed')], self.problems(0))
        self.assertIn(self.command, self.out)
        self.package('kiln-driver-bad', 'bad_v1', 'import no_such_client')
        self.assertEqual([('acme_v1', 'not installed'), ('bad_v1', 'broken')], self.problems(1))

    def test_the_check_of_this_driver_reports_that_it_cannot_be_used(self):
        self.assertEqual([('acme_v1', 'not installed')], self.problems(1, 'acme_v1'))
        self.assertIn(self.command, self.out)
        self.assertEqual([], self.problems(0, 'nodes_v1'))

    def test_a_driver_without_python_is_recognized_too(self):
        folder = self.drivers / 'code_v1'
        folder.mkdir()
        (folder / 'driver.yaml').write_text(
            'version: 1.0.0\nprovides: [[vm, ubuntu, kubernetes]]\n'
        )
        # A package of kiln's extra ironic, the smallest that has it; no module has this name.
        (folder / 'driver.py').write_text('import openstacksdk\n')
        row = self.rows('list')['code_v1']
        self.assertEqual(
            ('not installed', "pip install 'kiln-compute[ironic]'"), (row['state'], row['reason'])
        )
        self.assertEqual([('code_v1', 'not installed')], self.problems(1, 'code_v1'))

    def test_a_disabled_driver_is_listed_as_disabled(self):
        self.configure('disabled_drivers = acme_v1')
        row = self.rows('list')['acme_v1']
        self.assertEqual('disabled', row['state'])
        self.assertIn('disabled_drivers', row['reason'])


class Docs(ClusterShell):
    def test_000_18_a_driver_prints_its_own_guide(self):
        folder = self.new('acme_v1')
        (folder / 'README.rst').write_text('Where nodes never join, look at the proxy.')
        out = self.ok('driver', 'doc', 'acme_v1')
        for told in (
            'look at the proxy',
            'Text that each node prints',
            'Address of each node.',
        ):
            self.assertIn(told, out)

    def test_001_3_the_guide_lists_the_image_and_its_properties(self):
        out = self.ok('driver', 'doc', 'example_v1')
        self.assertIn('kiln_driver: example_v1', out)
        self.assertIn('How to build the image', out)
        self.assertIn('Python 3', out)

    def test_the_guide_is_also_json_and_compute_drivers_have_one(self):
        guide = json.loads(self.ok('driver', 'doc', 'noop', '-f', 'json'))
        self.assertEqual('Compute driver noop', guide['title'])
        self.assertIn('quota', guide['lists']['Options'])


class Writes(ClusterShell):
    def test_001_26_each_form_of_a_new_driver_works_unchanged(self):
        for form in ('directory', 'python'):
            folder = self.new(f'{form}_v1', form)
            self.assertIn('no mistakes', self.ok('driver', 'lint', str(folder)))
        self.ok('driver', 'new', 'cluster', 'acme_v1', '--form', 'package', '--output',
                str(self.folder))  # fmt: skip
        package = self.folder / 'kiln-driver-acme-v1'
        self.assertTrue((package / 'tests' / 'test_conformance.py').is_file())
        self.assertIn('no mistakes', self.ok('driver', 'lint', str(package / 'acme_v1')))
        self.assertEqual({'active'}, {self.rows('list')[f'{form}_v1']['state']
                                      for form in ('directory', 'python')})  # fmt: skip

    def test_001_13_a_fork_is_another_driver_with_a_version_of_its_own(self):
        for of in ('nodes_v1', 'example_v1'):
            name = f'mine_{of}'
            self.ok('driver', 'fork', of, name, '--new-version', '3.1.0', '--output',
                    str(self.drivers))  # fmt: skip
            self.assertIn('no mistakes', self.ok('driver', 'lint', str(self.drivers / name)))
            row = self.rows('list')[name]
            self.assertEqual(('3.1.0', 'active'), (row['version'], row['state']))

    def test_001_13_a_fork_can_have_only_the_templates(self):
        self.ok('driver', 'fork', 'example_v1', 'mine', '--templates', '--output',
                str(self.folder))  # fmt: skip
        copied = {path.name for path in (self.folder / 'mine').iterdir()}
        self.assertEqual({'start.sh', 'example.json'}, copied)

    def test_001_26_nothing_is_overwritten_and_no_wrong_name_is_written(self):
        self.new('acme_v1')
        here = ['--output', str(self.drivers)]
        self.assertIn('it exists', self.fails(2, 'driver', 'new', 'cluster', 'acme_v1', *here))
        self.assertIn('it exists', self.fails(2, 'driver', 'fork', 'nodes_v1', 'acme_v1', *here))
        self.assertIn('lower-case', self.fails(2, 'driver', 'new', 'cluster', 'Acme', *here))
        err = self.fails(2, 'driver', 'new', 'cluster', 'acme_v2', '--form', 'poem', *here)
        self.assertRegex(err, "'poem'.*choose from .*directory.*python.*package")
        self.fails(2, 'driver', 'fork', 'nodes_v1', 'x', '--new-version', '1', *here)
        self.fails(2, 'driver', 'fork', 'noop', 'x', '--kind', 'compute', *here)
        self.assertIn('Installed', self.fails(2, 'driver', 'fork', 'nobody', 'x', *here))


class Lints(ClusterShell):
    def test_001_26_all_mistakes_in_a_file_are_reported_at_once_with_their_places(self):
        folder = self.new('acme_v1')
        self.change(folder / 'driver.yaml', 'version: 1.0.0', 'version: one')
        self.change(folder / 'driver.yaml', 'ready: active', 'redy: active')
        self.fails(1, 'driver', 'lint', str(folder))
        lines = self.out.splitlines()
        self.assertEqual(2, len(lines), self.out)
        self.assertTrue(all(line.startswith(f'{folder}/driver.yaml:') for line in lines))
        self.fails(1, 'driver', 'lint', str(folder), '-f', 'json')
        self.assertEqual([3, 12], sorted(one['line'] for one in json.loads(self.out)))

    def test_show_reports_whether_a_driver_runs_code(self):
        for name, kind, runs in ('acme_v1', (), False), ('py_v1', ('python',), True):
            self.new(name, *kind)
            found = json.loads(self.ok('driver', 'show', name, '-f', 'json'))
            self.assertIs(runs, found['runs_code'])

    def test_code_in_a_folder_that_others_can_change_is_not_run(self):
        """Finding L3: the driver was imported from a folder of all users."""
        folder = self.new('py_v1', 'python')
        folder.chmod(0o777)
        self.fails(1, 'driver', 'lint', str(folder))
        self.assertIn('does not run its code: other users can change', self.out)

    def test_a_template_that_is_not_checked_is_reported_and_is_no_mistake(self):
        folder = self.new('acme_v1')
        start = folder / 'templates' / 'start.sh'
        start.write_text(start.read_text().replace('#!/bin/sh', '; settings'))
        self.change(folder / 'driver.yaml', 'start.sh', 'start.ini')
        start.rename(folder / 'templates' / 'start.ini')
        self.assertIn(
            'start.ini:2:10: kiln does not check', self.ok('driver', 'lint', str(folder))
        )

    def test_001_26_mistakes_in_python_are_reported_with_their_lines(self):
        for former, now, told in (
            ('class Driver', 'clas Driver', 'driver.py:15:6: SyntaxError'),
            (
                '    provides = manifest.provides',
                '    provides = 1 / 0',
                'driver.py:20:16: ZeroDivisionError',
            ),
            ('NodeClusterDriver):', 'object):', 'not a subclass of ClusterDriver'),
            ("'start.sh'", "'gone.sh'", 'gone.sh'),
        ):
            with self.subTest(now):
                shutil.rmtree(self.drivers / 'py_v1', ignore_errors=True)
                folder = self.new('py_v1', 'python')
                self.change(folder / 'driver.py', former, now)
                self.fails(1, 'driver', 'lint', str(folder))
                self.assertIn(told, self.out)

    def test_001_26_contradictions_of_files_and_class_are_reported(self):
        folder = self.new('py_v1', 'python')
        self.change(folder / 'driver.py', 'manifest.version', "'2.0.0'")
        self.fails(1, 'driver', 'lint', str(folder))
        self.assertIn('version is 1.0.0 here, and 2.0.0 in the class', self.out)
        self.change(folder / 'version.py', "'py_v1'", "'other'")
        self.fails(1, 'driver', 'lint', str(folder))
        self.assertIn('it calls itself other', self.out)

    def test_linting_a_missing_folder_is_refused(self):
        self.assertIn('not a directory', self.fails(2, 'driver', 'lint', '/nowhere'))
        empty = self.folder / 'empty'
        empty.mkdir()
        self.fails(1, 'driver', 'lint', str(empty))


class Checks(ClusterShell):
    def problems(self, code, *argv):
        self.assertEqual(code, self.sh('driver', 'check', *argv, '-f', 'json'), self.err)
        return [(row['name'], row['problem']) for row in json.loads(self.out)]

    def test_a_correct_site_is_status_0(self):
        self.assertEqual([], self.problems(0))

    def test_002_11_conflicts_are_status_1(self):
        shutil.copytree(IN_TREE / 'nodes_v1', self.drivers / 'nodes_v1')
        found = self.problems(1)
        self.assertEqual([('nodes_v1', 'conflict')], found)
        self.assertIn('driver_origin', self.out)

    def test_one_driver_is_checked_alone(self):
        self.change(self.new('acme_v1') / 'templates' / 'start.sh', 'greeting |', 'greting |')
        shutil.copytree(IN_TREE / 'nodes_v1', self.drivers / 'nodes_v1')
        self.assertEqual([('acme_v1', 'broken')], self.problems(1, 'acme_v1'))
        self.assertEqual([('nodes_v1', 'conflict')], self.problems(1, 'nodes_v1'))
        self.assertEqual([], self.problems(0, 'example_v1==1.*'))
        state = self.folder / 'digests.json'
        self.assertEqual([], self.problems(0, 'example_v1', '--state', str(state)))
        self.assertEqual({'example_v1 1.0.0'}, set(json.loads(state.read_text())['digests']))

    def test_an_unused_driver_is_checked_when_it_is_named(self):
        self.change(self.new('acme_v1') / 'templates' / 'start.sh', 'greeting |', 'greting |')
        self.configure('disabled_drivers = acme_v1')
        self.assertEqual([], self.problems(0))
        self.assertEqual([('acme_v1', 'broken')], self.problems(1, 'acme_v1'))

    def test_a_broken_template_is_reported(self):
        self.change(self.new('acme_v1') / 'templates' / 'start.sh', 'greeting |', 'greting |')
        self.new('broken_v1').joinpath('driver.yaml').write_text('name: [')
        self.assertEqual([('acme_v1', 'broken'), ('broken_v1', 'broken')], self.problems(1))
        self.assertIn('did you mean greeting', self.out)

    def test_001_13_a_change_without_a_new_version_is_reported_until_it_has_one(self):
        folder = self.new('acme_v1')
        state = ['--state', str(self.folder / 'digests.json')]
        self.assertEqual([], self.problems(0, *state))
        self.change(folder / 'templates' / 'start.sh', 'from', 'greets from')
        for _ in range(2):
            self.assertEqual([('acme_v1', 'changed')], self.problems(1, *state))
        self.change(folder / 'driver.yaml', '1.0.0', '1.0.1')
        self.assertEqual([], self.problems(0, *state))

    def test_001_13_a_file_without_digests_is_refused(self):
        for text in ('{', '[]', '{"digests": 1}'):
            (self.folder / 'digests.json').write_text(text)
            err = self.fails(2, 'driver', 'check', '--state', str(self.folder / 'digests.json'))
            self.assertIn('has no digests', err)
        self.fails(2, 'driver', 'check', '--state', str(self.folder))
        self.fails(2, 'driver', 'check', '--state', '/proc/none')

    def test_001_11_clusters_whose_driver_changed_are_reported(self):

        with open_store(f'sqlite:///{self.folder}/kiln.db') as store:
            one = cluster()
            store.clusters.create(one, operation('op-1'))
        self.assertEqual([], self.problems(0))
        found = self.problems(1, '--clusters')
        self.assertEqual([(one.pin.name, 'missing')], found)
        self.assertIn(one.name, self.out)
        self.assertEqual(found, self.problems(1, one.pin.name, '--clusters'))
        self.assertEqual([], self.problems(0, 'example_v1', '--clusters'))


class Explains(ClusterShell):
    def test_the_choice_is_explained_step_by_step(self):
        out = self.ok('driver', 'explain', '--coe', 'nodes')
        self.assertIn('candidates: nodes_v1 1.0.0', out)
        self.assertIn('pinned: nodes_v1 1.0.0, digest', out)
        told = self.json('driver', 'explain', '--coe', 'nodes')
        self.assertEqual('nodes_v1', told['pin']['name'])

    def test_a_failed_choice_is_explained_and_status_2(self):
        self.fails(2, 'driver', 'explain', '--coe', 'tea', '--property', 'kiln_distro=debian')
        self.assertIn('distro: debian (property kiln_distro of image', self.out)
        self.assertIn('error no_cluster_driver', self.out)
        self.fails(2, 'driver', 'explain', '--driver', 'nobody', '-f', 'json')
        self.assertEqual('cluster_driver_unknown', json.loads(self.out)['error'])

    def test_the_properties_of_a_backend_image_are_used(self):
        out = self.ok('driver', 'explain', '--coe', 'nodes', '--image', 'debian-12')
        self.assertIn('debian-12', out)

    def test_a_stored_template_is_used(self):

        with open_store(f'sqlite:///{self.folder}/kiln.db') as store:
            store.templates.save(ClusterTemplate(name='web', coe='nodes', driver='nodes_v1'))
        out = self.ok('driver', 'explain', '--template', 'web')
        self.assertIn('driver: nodes_v1 (the template)', out)


class Judges(ClusterShell):
    def test_a_folder_is_tested_by_the_kit_for_cluster_drivers(self):
        folder = self.new('acme_v1')
        out = self.ok('driver', 'test', str(folder), '--select', 'Declaration')
        self.assertRegex(out, r'acme_v1: [1-9]\d* behaviours shown, 0 failed')
        self.assertIn('0 failed', self.ok('driver', 'test', 'acme_v1', '--select', '*contract'))
        self.assertIn('0 failed', self.ok('driver', 'test', 'nodes_v1', '--select', '*contract'))

    def test_groups_of_the_kit_can_be_set(self):
        self.new('acme_v1')
        create = ('--select', '*several_roles*')
        self.ok('driver', 'test', 'acme_v1', '--group', 'boss=1', '--group', 'worker=2', *create)
        err = self.fails(2, 'driver', 'test', 'acme_v1', '--group', 'boss=many', *create)
        self.assertIn("boss=many: 'many' is not a count", err)

    def test_a_folder_is_tested_only_if_it_is_written_as_a_path(self):
        self.enterContext(contextlib.chdir(self.folder))
        for name in ('narrow', 'noop', 'example_v1', 'acme_v1'):
            (self.folder / name).mkdir()
        for name in ('narrow', 'noop'):
            out = self.ok('driver', 'test', name, '--select', '*find*')
            self.assertRegex(out, rf'{name}: [1-9]\d* behaviours shown, 0 failed')
        self.ok('driver', 'test', 'example_v1', '--select', '*contract')
        for kind in ([], ['--kind', 'cluster']):
            said = self.fails(2, 'driver', 'test', 'acme_v1', *kind)
            self.assertIn('To test the folder, write ./acme_v1.', said)
        self.fails(2, 'driver', 'test', './acme_v1')
        self.assertIn('acme_v1/driver.yaml', self.err)
        self.assertIn('it is not a directory', self.fails(2, 'driver', 'test', './gone_v1'))
        self.assertIn("Cannot lint '': it is not", self.fails(2, 'driver', 'lint', ''))

    def test_a_driver_that_breaks_a_promise_is_status_1(self):
        folder = self.new('py_v1', 'python')
        self.change(
            folder / 'driver.py', '    # Next: is_ready()', '    def is_redy(self): ...\n    #'
        )
        self.fails(1, 'driver', 'test', str(folder), '--select', '*almost*', '--kind', 'cluster')
        self.assertIn("did you mean ['is_ready']?", self.out)

    def test_values_of_parameters_are_passed_on(self):
        folder = self.new('acme_v1')
        select = ['--select', '*a_valid_cluster*']
        self.ok('driver', 'test', str(folder), *select, '--parameter', 'greeting=Hi')
        self.fails(1, 'driver', 'test', str(folder), *select, '--parameter', 'greeting=7')
        err = self.fails(2, 'driver', 'test', str(folder), '--select', 'xyzzy')
        self.assertIn('Cannot find a behaviour called xyzzy', err)
