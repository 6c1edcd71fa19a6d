"""The commands about clusters, nodes and templates."""

import dataclasses
import json
import subprocess

from kiln.cli.exit_codes import ExitCode
from kiln.cluster_file.fields import json_schema
from kiln.clusters.models import Node, NodeState
from kiln.clusters.spec import ClusterTemplate, Place
from kiln.engine.owners import new_owner
from tests.unit.cli.shell import Terminal
from tests.unit.cli.site_shell import SiteShell
from tests.unit.cluster_service.site import WEB


class Looking(SiteShell):
    def setUp(self):
        super().setUp()
        self.up()

    def test_list_and_show_have_stable_json(self):
        (listed,) = self.json('cluster', 'list')
        shown = self.json('cluster', 'show', 'web')
        self.assertEqual(
            ('web', 'ready', '5/5'), (listed['name'], listed['state'], listed['ready'])
        )
        self.assertLessEqual(set(listed), set(shown))
        self.assertEqual([2, 3], [group['count'] for group in shown['groups']])
        self.assertEqual('succeeded', shown['operation']['state'])
        self.assertEqual([{'kind': 'ready', 'cause': []}], shown['conditions'])

    def test_001_12_the_version_of_the_driver_is_in_list_and_show(self):
        self.assertRegex(self.ok('cluster', 'list'), r'nodes_v1 \d')
        self.assertRegex(self.ok('cluster', 'show', 'web'), r'nodes_v1 \d')

    def test_nodes_are_listed_and_shown(self):
        rows = self.nodes('--group', 'work')
        self.assertEqual(['work'] * 3, [row['group'] for row in rows])
        shown = self.json('node', 'show', 'web', rows[0]['name'])
        self.assertEqual(rows[0], shown)
        self.assertIn(rows[0]['name'], self.ok('node', 'list', 'web', '--long'))
        self.assertIn(rows[1]['address'], self.ok('node', 'show', 'web', rows[1]['id']))

    def test_the_console_of_a_node_is_the_console_of_its_machine(self):
        name = self.nodes()[0]['name']
        said = self.json('node', 'console', 'web', name, '--lines', '3')
        self.assertEqual(
            (name, self.ok('node', 'console', 'web', name, '--lines', '3')),
            (said['name'], said['console'] + '\n' * (not said['console'].endswith('\n'))),
        )

    def test_a_healthy_cluster_is_explained_in_two_lines(self):
        with self.site() as site:
            site.store.leases.claim('kiln.watch', 'host.1.watch', 30.0)
        self.assertEqual(2, len(self.ok('why', 'web').splitlines()))

    def test_a_healthy_cluster_that_no_conductor_watches_is_not_said_to_need_nothing(self):
        said = self.ok('why', 'web')
        self.assertIn('does not watch its nodes: no conductor runs', said)
        self.assertIn("'kiln cluster check web' polls them now", said)
        (said,) = self.json('cluster', 'why', 'web', self.nodes()[0]['name'])
        self.assertEqual(({'about', 'said', 'causes', 'next', 'do'}), set(said))

    def test_the_list_says_that_the_conductor_which_watched_is_gone(self):
        self.ok('cluster', 'list')
        self.assertEqual('', self.err)
        with self.site() as site:
            lease = site.store.leases.claim('kiln.watch', 'host.1.watch', 30.0)
            self.ok('cluster', 'list')
            self.assertEqual('', self.err)
            site.store.leases.release(lease)
        self.ok('cluster', 'list')
        self.assertIn('No conductor runs any more', self.err)

    def test_an_operation_without_a_wait_is_said_to_be_submitted(self):
        self.ok('cluster', 'scale', 'web', 'work=4', '--no-wait')
        self.assertIn('web: the operation is submitted, and a conductor continues it', self.err)

    def test_an_operation_of_a_paused_cluster_is_said_to_wait(self):
        self.ok('cluster', 'pause', 'web')
        self.ok('cluster', 'scale', 'web', 'work=5', '--no-wait')
        self.assertIn("web is paused, so its resize waits for 'kiln cluster resume web'", self.err)
        self.assertNotIn('submitted', self.err)

    def test_events_are_json_lines_with_fixed_keys(self):
        events = [
            json.loads(line) for line in self.ok('cluster', 'events', '-f', 'json').splitlines()
        ]
        keys = {
            'v', 'seq', 'at', 'kind', 'cluster', 'cluster_id', 'operation_id', 'node_id',
            'message', 'facts',
        }  # fmt: skip
        self.assertEqual({frozenset(keys)}, {frozenset(one) for one in events})
        self.assertEqual({(1, 'web')}, {(one['v'], one['cluster']) for one in events})
        after = self.ok('cluster', 'events', 'web', '--after', str(events[2]['seq']))
        self.assertEqual(len(events) - 3, len(after.splitlines()))

    def test_missing_objects_are_not_found(self):
        for argv in (
            ('cluster', 'show', 'nix'), ('cluster', 'receipt', 'nix'),
            ('cluster', 'delete', 'nix'), ('cluster', 'events', 'nix'),
            ('why', 'nix'), ('why', 'web', 'nix'),
            ('node', 'show', 'web', 'nix'), ('node', 'remove', 'web', 'nix', '--yes'),
            ('cluster', 'scale', 'web', 'nix=1'), ('template', 'show', 'nix'),
            ('template', 'remove', 'nix'), ('cluster', 'watch', 'nix'),
        ):  # fmt: skip
            with self.subTest(argv):
                self.fails(ExitCode.NOT_FOUND, *argv)

    def test_without_a_running_operation_watch_and_cancel_report_so(self):
        self.ok('cluster', 'watch', 'web')
        self.assertIn('nothing is running', self.err)
        self.ok('cluster', 'cancel', 'web')
        self.assertIn('nothing is running', self.err)


class Acting(SiteShell):
    def setUp(self):
        super().setUp()
        self.up()

    def test_003_4_named_nodes_are_removed_from_the_middle(self):
        before = {row['name'] for row in self.nodes()}
        gone = self.nodes('--group', 'work')[1]['name']
        self.ok('node', 'remove', 'web', gone, '--yes')
        self.assertEqual(before - {gone}, {row['name'] for row in self.nodes()})
        self.assertEqual('gone', self.json('node', 'show', 'web', gone)['state'])

    def test_scaling_a_group_keeps_other_groups(self):
        self.ok('cluster', 'scale', 'web', 'front=4')
        self.assertEqual(4, len(self.nodes('--group', 'front')))
        said = self.fails(ExitCode.CONFLICT, 'cluster', 'scale', 'web', '4')
        self.assertIn('the group is not clear', said)

    def test_scaling_down_removes_the_named_nodes(self):
        first, second = (row['name'] for row in self.nodes('--group', 'front'))
        self.ok('cluster', 'scale', 'web', 'front=1', '--remove', second, '--yes')
        self.assertEqual([first], [row['name'] for row in self.nodes('--group', 'front')])

    def test_a_machine_of_the_site_is_adopted(self):
        self.ok('compute', 'build', '--flavor', 'small', '--name', 'stray')
        (machine,) = [row for row in self.json('compute', 'list') if row['name'] == 'stray']
        self.ok('cluster', 'adopt', 'web', 'front', machine['id'])
        self.assertEqual(3, len(self.nodes('--group', 'front')))
        self.assertIn('stray', {row['name'] for row in self.nodes()})

    def test_000_7_an_operation_that_cannot_run_here_is_not_submitted(self):
        hooks = self.folder / 'hooks.yaml'
        hooks.write_text('hooks: [{name: one, point: no_such_point, exec: [/bin/true]}]\n')
        self.config.write_text(f'{self.config.read_text()}[hooks]\nfile = {hooks}\n')
        before = self.ok('cluster', 'events')
        said = self.fails(ExitCode.USAGE, 'cluster', 'scale', 'web', 'front=3')
        self.assertIn('no_such_point', said)
        self.assertEqual(before, self.ok('cluster', 'events'))

    def test_nodes_are_replaced_and_upgraded(self):
        old = self.nodes()[0]['name']
        self.ok('node', 'replace', 'web', old, '--yes')
        self.assertNotIn(old, {row['name'] for row in self.nodes()})
        plan = self.ok(
            'cluster', 'upgrade', 'web', '--image', 'debian-14', '--group', 'front', '--plan'
        )
        self.assertIn('front: ~2', plan)
        self.assertNotIn('work: ', plan)

    def test_every_changing_command_shows_its_plan(self):
        for argv in (
            ('cluster', 'scale', 'web', 'front=1'),
            ('cluster', 'reboot', 'web', '--hard'), ('cluster', 'rebuild', 'web'),
            ('cluster', 'check', 'web'), ('cluster', 'migrate-driver', 'web'),
            ('cluster', 'delete', 'web'), ('node', 'reboot', 'web', self.nodes()[0]['name']),
            ('cluster', 'upgrade', 'web', '--parameter', 'packages=["vim"]'),
        ):  # fmt: skip
            with self.subTest(argv):
                (said,) = self.json(*argv, '--plan')
                self.assertEqual('web', said['plan']['cluster'])
                self.assertIsNone(said['operation'])
        self.assertEqual(1, len({row['generation'] for row in self.json('cluster', 'list')}))

    def test_001_8_the_nodes_to_reboot_are_shown(self):
        shown = self.ok('cluster', 'reboot', 'web', '--plan')
        self.assertRegex(shown, r'front: !2 \(reboot\): web-front-\w+, web-front-\w+\n')
        self.assertIn('work: !3 (reboot)', shown)

    def test_001_8_only_named_nodes_are_rebooted(self):
        (victim, *_) = self.nodes()
        shown = self.ok('node', 'reboot', 'web', victim['name'], '--plan')
        self.assertIn(f'!1 (reboot): {victim["name"]}\n', shown)
        self.assertEqual(1, shown.count('(reboot)'))

    def test_parameters_are_json_or_text(self):
        for given, path in (('run=["a"]', 'run'), ('run=a[', 'run'), ('packages=vim', 'packages')):
            with self.subTest(given):
                asked = ('cluster', 'upgrade', 'web', '--parameter', given, '--plan')
                if self.sh(*asked):
                    self.assertIn(f'parameters.{path}', self.err)

    def test_an_invalid_size_is_refused(self):
        for size in ('', '=1', 'front=', '-1', 'front=-1', '1' * 10, 'ten'):
            with self.subTest(size):
                self.fails(ExitCode.USAGE, 'cluster', 'scale', 'web', size, '--plan')

    def test_a_node_without_a_machine_has_no_console(self):
        gone = self.nodes()[0]['name']
        with self.site() as site:
            view = site.clusters.show('web')
            node = next(one for one in view.nodes if one.name == gone)
            lease = site.store.leases.claim(view.cluster.id, 'host.1', 0.1)
            with site.store.writing(lease) as batch:
                batch.node(dataclasses.replace(node, id='new', name='web-new', compute_id=None))
        said = self.fails(ExitCode.CONFLICT, 'node', 'console', 'web', 'web-new')
        self.assertIn('does not have a machine', said)

    def test_10_from_the_deletion_to_the_receipt(self):
        said = self.fails(ExitCode.USAGE, 'cluster', 'delete', 'web')
        self.assertIn('cluster web is deleted with all of its nodes', said)
        names = {row['name'] for row in self.json('node', 'list', 'web')}
        self.ok('cluster', 'delete', 'web', '--yes')
        self.assertEqual([], self.json('cluster', 'list'))
        receipt = self.json('cluster', 'receipt', 'web')
        self.assertLessEqual(names, {one['node'] for one in receipt['gone']})
        told = self.ok('cluster', 'receipt', 'web')
        for one in receipt['gone']:
            self.assertIn(f'  node {one["node"]}, server {one["id"]} of east: gone', told)
        self.assertEqual((5, []), (len(receipt['gone']), receipt['abandoned']))
        self.assertIn('5 confirmed gone, 0 abandoned', self.ok('cluster', 'receipt', 'web'))
        self.assertIn('delete succeeded', self.ok('cluster', 'events', 'web'))


class Forcing(SiteShell):
    """On a backend that deletes nothing."""

    def setUp(self):
        super().setUp()
        self.up()
        config = self.config.read_text()
        self.config.write_text(config.replace('build_s', 'faults = delete:conflict\nbuild_s'))

    def asked(self, answer):
        app = self.app(stdin=Terminal(answer), stderr=Terminal())
        argv = '--config-file', str(self.config), 'cluster', 'delete', 'web', '--force'
        return self.run_bare(*argv, app=app)

    def test_pain_4_what_cannot_be_deleted_is_abandoned_named_and_found_again(self):
        ids = {row['id'] for row in self.json('compute', 'list')}
        self.assertEqual(ExitCode.OK, self.asked('web\n'), self.err)
        for one in ids:
            self.assertIn(f'server {one} of east was abandoned', self.err)
        receipt = self.json('cluster', 'receipt', 'web')
        self.assertEqual(ids, {one['id'] for one in receipt['abandoned']})
        self.config.write_text(self.config.read_text().replace('faults = delete:conflict', ''))
        found = self.json('orphans', '--grace', '0.2', '--delete')
        self.assertEqual({'given up with its cluster'}, {one['reason'] for one in found})
        self.assertEqual([], self.json('compute', 'list'))

    def test_nothing_is_abandoned_without_confirmation(self):
        for answer in ('y\n', 'shop\n', ''):
            with self.subTest(answer):
                self.assertEqual(ExitCode.USAGE, self.asked(answer))
                self.assertIn('Type its name to continue', self.err)
        said = self.fails(ExitCode.USAGE, 'cluster', 'delete', 'web', '--force')
        self.assertIn('what cannot be deleted is abandoned', said)
        shown = self.ok('cluster', 'delete', 'web', '--force', '--plan')
        self.assertIn('what cannot be deleted is abandoned', shown)
        self.assertEqual(5, len(self.nodes()))

    def test_without_force_a_deletion_is_confirmed_as_usual(self):
        self.ok('cluster', 'delete', 'web', '--yes', '--no-wait')
        self.ok('cluster', 'delete', 'web', '--yes', '--force', '--no-wait')
        self.assertNotIn('abandoned', self.err)


class Between(SiteShell):
    """With a submitted operation that no engine works on."""

    def setUp(self):
        super().setUp()
        self.up('--no-wait')

    def test_pain_1_an_operation_without_a_worker_is_explained(self):
        self.assertIn('waits for a conductor', self.ok('why', 'web'))

    def test_watch_continues_the_operation_to_its_end(self):
        self.assertIn('create succeeded', self.ok('cluster', 'watch', 'web'))
        self.assertEqual(5, len(self.nodes()))

    def test_pain_10_a_running_operation_can_be_cancelled(self):
        self.ok('cluster', 'cancel', 'web')
        self.assertEqual('cancelled', self.json('cluster', 'show', 'web')['operation']['state'])
        self.up()

    def test_a_cancelled_operation_can_be_retried(self):
        self.ok('cluster', 'cancel', 'web')
        self.assertIn("'kiln cluster retry web'", self.ok('why', 'web'))
        self.ok('cluster', 'retry', 'web', '--no-wait')
        self.assertEqual('queued', self.json('cluster', 'show', 'web')['operation']['state'])
        self.ok('cluster', 'cancel', 'web')
        self.assertIn('create succeeded', self.ok('cluster', 'retry', 'web'))
        self.assertEqual(5, len(self.nodes()))

    def test_a_failed_retry_reports_the_message_of_the_provider(self):
        self.ok('cluster', 'cancel', 'web')
        config = self.config.read_text()
        self.config.write_text(config.replace('build_s', 'faults = build:error\nbuild_s'))
        said = self.fails(ExitCode.UNAVAILABLE, 'cluster', 'retry', 'web', '--timeout', '0.5')
        self.assertIn('create failed', said)

    def test_an_operation_of_a_paused_cluster_can_be_cancelled(self):
        self.ok('cluster', 'pause', 'web')
        self.assertIn('create cancelled', self.ok('cluster', 'cancel', 'web'))

    def test_a_paused_cluster_is_not_waited_for(self):
        self.ok('cluster', 'pause', 'web')
        self.assertIn('the cluster is paused', self.ok('cluster', 'delete', 'web', '--plan'))
        self.ok('cluster', 'watch', 'web')
        self.assertIn('kiln cluster resume web', self.err)
        self.ok('cluster', 'resume', 'web')
        self.ok('cluster', 'watch', 'web')

    def test_a_second_change_is_refused(self):
        said = self.fails(ExitCode.CONFLICT, 'cluster', 'scale', 'web', 'front=3')
        self.assertIn('create', said)

    def test_pain_10_a_new_cluster_has_nothing_to_roll_back_to(self):
        said = self.fails(ExitCode.CONFLICT, 'cluster', 'rollback', 'web')
        self.assertIn('none of its operations has succeeded', said)

    def test_a_deletion_supersedes_the_running_operation(self):
        self.ok('cluster', 'delete', 'web', '--yes')
        self.assertEqual([], self.json('cluster', 'list'))


class Templates(SiteShell):
    def test_templates_are_saved_listed_shown_and_removed(self):
        path = self.page(WEB.replace('cluster: web', 'template: base'), 'base.yaml')
        self.ok('template', 'save', path)
        (row,) = self.json('template', 'list')
        self.assertEqual(
            ('base', 'debian-13', ['front', 'work']), (row['name'], row['image'], row['groups'])
        )
        again = self.page(self.ok('template', 'show', 'base'), 'again.yaml')
        self.ok('template', 'save', again)
        self.ok('template', 'remove', 'base')
        self.assertEqual([], self.json('template', 'list'))

    def test_a_file_without_templates_saves_none(self):
        self.assertIn(
            'it does not declare a template',
            self.fails(ExitCode.USAGE, 'template', 'save', str(self.path)),
        )

    def test_the_schema_is_printed_for_editors(self):
        self.assertEqual(json_schema(), json.loads(self.ok('schema')))


class Misspelt(SiteShell):
    east = 'delete_secs = 3'

    def test_an_unknown_option_of_a_backend_is_reported_once_by_each_command(self):
        self.up()
        said = 'kiln: Group [compute:east] has an unknown option, delete_secs; it is ignored. Did'
        self.assertEqual(1, self.err.count(said), self.err)
        self.ok('cluster', 'list')
        self.assertNotIn('unknown option', self.err)

    def test_unknown_groups_and_options_of_the_site_are_reported_by_each_command(self):
        self.config.write_text(
            f'{self.config.read_text()}\n[clusters]\nwatsh = 5\n[cluster]\n[octavia]\nx = 1\n'
        )
        for words in (('cluster', 'list'), ('compute', 'list')):
            self.ok(*words)
            self.assertEqual(
                'kiln: Group [cluster] is unknown, and is ignored. Did you mean [clusters]?\n'
                'kiln: Group [clusters] has an unknown option, watsh; it is ignored. Did you mean '
                'watch?\n',
                ''.join(line for line in self.err.splitlines(True) if 'delete_secs' not in line),
            )


class Facade(SiteShell):
    def test_the_facade_returns_templates_and_workers(self):
        self.up('--no-wait')
        with self.site() as site:
            clusters = site.clusters
            clusters.templates.save(ClusterTemplate(name='t'))
            self.assertEqual('t', clusters.templates.get('t').name)
            self.assertEqual('', clusters.attention('web').worker)
            lease = site.store.leases.claim(clusters.show('web').cluster.id, 'host.1', 30.0)
            self.assertEqual('host.1', clusters.attention('web').worker)
            site.store.leases.release(lease)
            self.assertEqual('', clusters.attention('web').worker)

    def test_the_facade_returns_that_a_worker_has_died_and_that_a_conductor_watches(self):
        self.up('--no-wait')
        with self.site() as site:
            clusters, leases = site.clusters, site.store.leases
            pid = subprocess.run(['sh', '-c', 'echo $$'], capture_output=True, text=True).stdout
            mine = new_owner().split('.')
            ended = '.'.join([*mine[:-2], pid.strip(), mine[-1]])
            leases.claim(clusters.show('web').cluster.id, ended, 30.0)
            attention = clusters.attention('web')
            self.assertEqual((ended, True, False),
                             (attention.worker, attention.died, attention.watched))  # fmt: skip
            leases.claim('kiln.watch', 'host.1.watch', 30.0)
            self.assertTrue(clusters.attention('web').watched)


class Orphans(SiteShell):
    def sweep(self):
        known = self.folder / 'known'
        known.write_text('nobody')
        rows = self.json('orphans', '--grace', '0.2', '--known', str(known))
        return {row['name'] for row in rows}

    def test_10_resources_of_a_cluster_are_not_orphans(self):
        self.up()
        self.build('stray')
        self.clock.sleep(0.25)
        self.assertEqual({'stray'}, self.sweep())

    def test_10_a_machine_that_a_killed_engine_requested_is_not_an_orphan(self):
        self.up('--no-wait')
        with self.site() as site:
            view = site.clusters.show('web')
            lease = site.store.leases.claim(view.cluster.id, 'killed', 0.1)
            node = Node(
                id='n', cluster_id=view.cluster.id, group='work', name='web-work-x',
                place=Place(), backend='east', state=NodeState.BUILDING,
            )  # fmt: skip
            with site.store.writing(lease) as batch:
                batch.node(node)
        self.build('asked-for', '--build-key', 'n.1')
        self.clock.sleep(0.25)
        self.assertEqual(set(), self.sweep())
