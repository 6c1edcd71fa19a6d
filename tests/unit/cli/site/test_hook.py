"""The commands about hooks."""

import uuid

from kiln import conf as kiln_conf
from kiln.cli.site.stores import configured_site
from kiln.clusters.exceptions import InvalidHooks
from kiln.clusters.models import Cluster, DriverPin, Operation, OperationKind
from kiln.clusters.spec import ClusterSpec
from kiln.db.store import open_store
from kiln.hooks.run import SKIP_EVENT
from tests.unit.cli.shell import Shell

FILE = """\
cluster: web
nodegroups:
  - {name: work, count: 2}
"""


class HookShell(Shell):
    def setUp(self):
        super().setUp()
        self.url = f'sqlite:///{self.folder}/kiln.db'
        with self.config.open('a') as config:
            config.write(f'[db]\nurl = {self.url}\n[hooks]\ndirectory = {self.folder}/hooks.d\n')
        (self.folder / 'hooks.d').mkdir()
        self.file = self.folder / 'web.yaml'
        self.file.write_text(FILE)

    def program(self, place, body='exit 0', mode=0o755):
        path = self.folder / 'hooks.d' / place
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'#!/bin/sh\n{body}\n')
        path.chmod(mode)

    def operation(self):
        pin = DriverPin(name='d', version='1.0.0', origin='o', digest='d')
        cluster = Cluster(
            id=str(uuid.uuid4()), name='web', spec=ClusterSpec(name='web'), generation=1, pin=pin
        )
        operation = Operation(
            id=str(uuid.uuid4()), cluster_id=cluster.id, kind=OperationKind.CREATE
        )
        with open_store(self.url) as store:
            store.clusters.create(cluster, operation)
        return operation


class Listing(HookShell):
    def test_hooks_are_listed_in_the_order_of_their_calls(self):
        self.program('post_create/10-a')
        self.program('pre_create/20-b')
        self.program('pre_create/10-c')
        self.program('post_create/20-d')
        rows = self.json('hook', 'list')
        self.assertEqual(['c', 'b', 'd', 'a'], [row['name'] for row in rows])
        found = [rows[0][column] for column in ('point', 'on_failure', 'timeout')]
        self.assertEqual(['pre_create', 'fail', '30 s'], found)

    def test_all_mistakes_are_reported_at_once(self):
        self.program('pre_create/10-a', mode=0o644)
        self.program('pre_lunch/10-a')
        said = self.fails(2, 'hook', 'list')
        self.assertIn('not executable', said)
        self.assertIn('no such point', said)


class Conducting(HookShell):
    def site(self):
        return configured_site(kiln_conf.load([str(self.config)], [], environment={}))

    def test_nothing_starts_with_unusable_hooks(self):
        self.program('pre_create/10-a', mode=0o644)
        with self.site() as site, self.assertRaises(InvalidHooks), site.conducting():
            self.fail('it has begun')

    def test_with_valid_hooks_it_starts(self):
        self.program('pre_create/10-a')
        with self.site() as site, site.conducting() as conductor:
            conductor.wake()


class Testing(HookShell):
    def test_a_hook_is_called_with_a_sample_from_a_file(self):
        self.program('pre_create/10-a', f'cat > {self.folder}/copy; echo hello >&2')
        said = self.json('hook', 'test', 'a', '--cluster', str(self.file))
        self.assertEqual(('pre_create/a', 'ok'), (said['hook'], said['answer']))
        self.assertIn('"name": "web"', (self.folder / 'copy').read_text())

    def test_a_hook_is_called_with_a_sample_from_an_existing_cluster(self):
        self.operation()
        self.program('pre_create/10-a')
        self.ok('hook', 'test', 'pre_create/a', '--cluster', 'web')
        self.assertIn('web2', self.fails(3, 'hook', 'test', 'a', '--cluster', 'web2'))

    def test_the_answer_determines_the_exit_status(self):
        self.program('pre_create/10-later', 'echo wait >&2; exit 75')
        self.program('pre_create/10-bad', 'echo disk is full >&2; exit 4')
        argv = ('--cluster', str(self.file), '-f', 'json')
        self.assertEqual(6, self.sh('hook', 'test', 'later', *argv))
        self.assertIn('wait', self.out)
        self.assertEqual(1, self.sh('hook', 'test', 'bad', *argv))
        self.assertIn('disk is full', self.out)
        self.assertIn('"fail"', self.out)

    def test_an_ambiguous_or_unknown_name_is_refused(self):
        self.program('pre_create/10-a')
        self.program('post_create/10-a')
        said = self.fails(3, 'hook', 'test', 'a', '--cluster', str(self.file))
        self.assertIn('pre_create/a, post_create/a', said)
        said = self.fails(3, 'hook', 'test', 'b', '--cluster', str(self.file))
        self.assertIn('Existing hooks: pre_create/a', said)

    def test_a_file_without_a_cluster_is_refused(self):
        self.program('pre_create/10-a')
        self.file.write_text(FILE.replace('cluster: web', 'template: web'))
        said = self.fails(2, 'hook', 'test', 'a', '--cluster', str(self.file))
        self.assertIn('declares no cluster', said)


class Skipping(HookShell):
    def events(self):
        with open_store(self.url) as store:
            return store.events.after(kind=SKIP_EVENT)

    def test_the_user_and_the_reason_are_recorded(self):
        self.program('pre_create/10-a')
        operation = self.operation()
        self.ok('hook', 'skip', operation.id, 'a', '--reason', 'the rack is gone')
        (event,) = self.events()
        said = (event.operation_id, event.facts['hook'], event.facts['reason'])
        self.assertEqual((operation.id, 'a', 'the rack is gone'), said)
        self.assertTrue(event.facts['by'])

    def test_broken_hooks_of_this_host_do_not_prevent_a_skip(self):
        self.program('pre_create/10-a', mode=0o644)
        operation = self.operation()
        self.ok('hook', 'skip', operation.id, 'driver', '--reason', 'it is known')
        self.assertIn('not executable', self.err)
        self.assertEqual(1, len(self.events()))

    def test_a_hook_that_cannot_be_skipped_is_reported(self):
        operation = self.operation()
        self.fails(3, 'hook', 'skip', operation.id, 'none', '--reason', 'x')
        self.fails(3, 'hook', 'skip', 'no-such', 'driver', '--reason', 'x')
        self.fails(2, 'hook', 'skip', operation.id, 'driver', '--reason', ' ')
        self.assertEqual((), self.events())
