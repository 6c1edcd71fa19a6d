"""A driver has in each of its calls what the guide says that a context has."""

import json

from kiln.cli.exit_codes import ExitCode
from tests.unit.cli.cluster.machines_shell import MachinesShell

#: Writes what each call can use to a file.
SEEN = """
import json
import pathlib

from kiln.cluster_drivers.base import ClusterDriver, NodeClusterDriver
from kiln.cluster_drivers.scale import DefaultScaleManager
from kiln.cluster_drivers.templates.definition import TemplateDefinition
from kiln.cluster_drivers.values import DRAINED, READY, Bootstrap, Progress, StatusReport
from kiln.cluster_drivers.verbs import Verb

SEEN = pathlib.Path('{folder}/seen')


def see(call, context):
    consoles = [context.console(node) for node in context.nodes if node.compute_id]
    seen = {{
        'call': call, 'site': context.site, 'template': context.template.name,
        'parameters': dict(context.template.machine.parameters),
        'credentials': context.secrets.get(context.credentials), 'nodes': len(context.nodes),
        'consoles': sorted(set(consoles)), 'key': context.join_key().hex(),
    }}
    with SEEN.open('a') as file:
        file.write(json.dumps(seen) + '\\n')


class Common:
    version = '1.0.0'
    verbs = {{'look': Verb(run=lambda context, cluster, arguments: see('verb', context) or {{}},
                          help='Look.')}}

    def validate(self, context, cluster, plan):
        see('validate', context)
        return ()

    def pre_create_cluster(self, context, cluster, operation):
        see('pre_create_cluster', context)

    def post_update_cluster(self, context, cluster, operation):
        see('post_update_cluster', context)

    def pre_delete_cluster(self, context, cluster, operation):
        see('pre_delete_cluster', context)

    def get_scale_manager(self, context, cluster):
        see('get_scale_manager', context)
        return DefaultScaleManager(context, cluster)
"""
NODES = """

class Driver(Common, NodeClusterDriver):
    name = 'seen_v1'
    provides = [('*', '*', 'seen')]

    def get_template_definition(self):
        return TemplateDefinition(directory=None)

    def bootstrap(self, context, cluster, node):
        see('bootstrap', context)
        return Bootstrap(user_data=b'hello\\n')

    def is_ready(self, context, cluster, node):
        see('is_ready', context)
        return READY

    def drain(self, context, cluster, node):
        see('drain', context)
        return DRAINED
"""
ENGINE = """

class Driver(Common, ClusterDriver):
    name = 'seen_v1'
    provides = [('*', '*', 'seen')]

    def create_cluster(self, context, cluster, cluster_create_timeout):
        see('create_cluster', context)
        return StatusReport(progress=Progress.IN_PROGRESS, driver_handle='stack')

    def update_cluster(self, context, cluster, scale_manager=None, rollback=False):
        see('update_cluster', context)
        return StatusReport(progress=Progress.COMPLETE)

    def delete_cluster(self, context, cluster):
        see('delete_cluster', context)
        return StatusReport(progress=Progress.COMPLETE)

    def update_cluster_status(self, context, cluster):
        see('update_cluster_status', context)
        return StatusReport(progress=Progress.COMPLETE)
"""
TEMPLATE = """\
---
template: base
parameters: {{colour: {colour}}}
"""


class Contexts(MachinesShell):
    def see(self, driver):
        self.code('seen_v1', SEEN.format(folder=self.folder) + driver)
        self.keep('cloud', 'user:pass')
        self.up(1)

    def up(self, count, colour='red'):
        page = self.page(
            f'template: base\ncredentials: cloud\n{TEMPLATE.format(colour=colour)}',
            coe='seen', count=count,
        )  # fmt: skip
        self.ok('up', page, '--yes')

    def seen(self):
        lines = [json.loads(line) for line in (self.folder / 'seen').read_text().splitlines()]
        (self.folder / 'seen').unlink()
        return lines

    def common(self, seen):
        """Check what is the same in each call; return the calls."""
        for one in seen:
            with self.subTest(one['call']):
                self.assertEqual(
                    ('us', 'base', 'user:pass'),
                    (one['site'], one['template'], one['credentials']),
                )
        return {one['call'] for one in seen}

    def test_the_calls_of_a_driver_for_nodes(self):
        self.see(NODES)
        created = self.seen()
        self.assertEqual(
            {'validate', 'pre_create_cluster', 'bootstrap', 'is_ready'}, self.common(created)
        )
        (ready,) = [one for one in created if one['call'] == 'is_ready']
        self.assertEqual((1, ['hello\n']), (ready['nodes'], ready['consoles']))
        self.ok('cluster', 'scale', 'web', '2')
        self.ok('cluster', 'scale', 'web', '1', '--yes')
        self.ok('x', 'seen_v1', 'look', 'web')
        self.ok('cluster', 'delete', 'web', '--yes')
        later = self.seen()
        self.assertEqual(
            {
                'validate', 'bootstrap', 'is_ready', 'post_update_cluster', 'get_scale_manager',
                'drain', 'verb', 'pre_delete_cluster',
            },
            self.common(later),
        )  # fmt: skip
        for one in later:
            self.assertIn('hello\n', one['consoles'], one['call'])
        # Only what was checked before the first node has a key of its own.
        self.assertEqual(1, len({one['key'] for one in (*created[1:], *later)}))

    def test_the_calls_of_a_driver_with_an_engine_of_its_own(self):
        self.see(ENGINE)
        self.assertEqual(
            {'validate', 'pre_create_cluster', 'create_cluster', 'update_cluster_status'},
            self.common(self.seen()),
        )
        self.up(2, colour='blue')
        self.ok('x', 'seen_v1', 'look', 'web')
        self.ok('cluster', 'delete', 'web', '--yes')
        later = self.seen()
        self.assertEqual(
            {
                'validate', 'get_scale_manager', 'update_cluster', 'post_update_cluster', 'verb',
                'pre_delete_cluster', 'delete_cluster',
            },
            self.common(later),
        )  # fmt: skip
        self.assertEqual({'blue'}, {one['parameters']['colour'] for one in later})

    def test_the_template_of_the_file_is_there_before_it_is_saved(self):
        self.see(NODES)
        self.assertEqual({'red'}, {one['parameters']['colour'] for one in self.seen()})
        page = self.page(
            f'template: base\ncredentials: cloud\n{TEMPLATE.format(colour="blue")}', coe='seen'
        )
        self.ok('plan', page)
        (checked,) = self.seen()
        self.assertEqual('blue', checked['parameters']['colour'])

    def test_a_template_that_is_changed_later_changes_no_cluster(self):
        self.see(NODES)
        path = self.folder / 'base.yaml'
        path.write_text('template: base\nimage: other\n')
        self.ok('template', 'save', str(path))
        self.ok('cluster', 'check', 'web')
        self.assertIn('0 of 1 nodes are made with an older spec', self.ok('cluster', 'events'))


class Credentials(MachinesShell):
    def test_credentials_that_do_not_exist_are_refused_with_their_line(self):
        page = self.page('credentials: cloud\n', coe='nodes')
        error = self.fails(ExitCode.USAGE, 'up', page)
        self.assertRegex(error, rf'^{page}:\d+:\d+: credentials: The named secret')

    def test_the_site_has_credentials_for_clusters_that_name_none(self):
        self.configure(f'[secrets]\ndirectory = {self.secrets}\ncredentials = cloud\n')
        self.keep('cloud', 'of the site')
        self.keep('own', 'of the owner')
        self.code('seen_v1', SEEN.format(folder=self.folder) + ENGINE)
        template = TEMPLATE.format(colour='red')
        for more, expected in (('', 'of the site'), ('credentials: own\n', 'of the owner')):
            self.ok('up', self.page(f'template: base\n{more}{template}', coe='seen'))
            lines = (self.folder / 'seen').read_text().splitlines()
            self.assertEqual(expected, json.loads(lines[-1])['credentials'])
