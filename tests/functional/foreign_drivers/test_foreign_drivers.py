"""What the guide promises to authors of cluster drivers, from a file to a node."""

import shlex

from kiln.cli.exit_codes import ExitCode
from tests.unit.cli.cluster.machines_shell import MachinesShell
from tests.unit.plugins.credentials import given

GUARDED = """\
parameters:
  admin_password: {secret: true, required: true}
user_data: start.sh
outputs:
  greeting: {text: 'welcome to {{ node.name }}'}
"""
START = """\
#!/bin/sh
PASSWORD={{ admin_password | shell }}
exec serve --password "$PASSWORD"
"""
#: Needs quotes in every language.
VALUE = "correct 'horse' $battery"
NAMED = 'parameters: {admin_password: web-admin}\n'


class Secrets(MachinesShell):
    def setUp(self):
        super().setUp()
        self.driver('guarded_v1', GUARDED, **{'start.sh': START})

    def test_a_node_is_given_the_secret_that_a_parameter_names(self):
        self.keep('web-admin', f'{VALUE}\n')
        shown = self.ok('up', self.page(NAMED), '-v', '-v')
        self.assertIn(shlex.quote(VALUE), self.given()['m1'])
        for said in (shown, self.err, self.ok('cluster', 'show', 'web', '-f', 'json')):
            self.assertNotIn(VALUE, said)

    def test_the_value_of_a_secret_is_stored_nowhere(self):
        self.keep('web-admin', 'hunter2-battery')
        self.ok('up', self.page(NAMED))
        self.assertIn('hunter2-battery', self.given()['m1'])
        self.assertNotIn(b'hunter2-battery', self.stored())
        self.assertIn(b'web-admin', self.stored())

    def test_a_new_value_is_given_to_the_next_node(self):
        self.keep('web-admin', 'first')
        self.ok('up', self.page(NAMED))
        self.keep('web-admin', 'second')
        self.ok('cluster', 'scale', 'web', '2')
        passwords = {text.splitlines()[1] for text in self.given().values()}
        self.assertEqual({'PASSWORD=first', 'PASSWORD=second'}, passwords)

    def test_a_secret_that_cannot_be_used_is_refused_before_anything_is_built(self):
        self.keep('web-admin', 'hunter2')
        open_to_all = NAMED.replace('web-admin', 'open')
        self.keep('open', 'hunter2', mode=0o644)
        for more, said in (
            (NAMED.replace('web-admin', 'absent'), 'The named secret in \\S+ does not exist'),
            (NAMED.replace('web-admin', '"hunter2!"'), 'cannot be the name of a secret'),
            (open_to_all, 'chmod 600'),
        ):
            with self.subTest(more):
                error = self.fails(ExitCode.USAGE, 'up', self.page(more))
                self.assertRegex(error, rf'^{self.folder}/web.yaml:\d+:\d+: .*{said}')
                self.assertIn('admin_password', error)
                self.assertNotIn('hunter2', error)
        self.assertEqual([], self.json('cluster', 'list'))
        self.assertEqual({}, self.given())

    def test_a_site_without_a_store_says_which_option_to_set(self):
        self.configure('')
        error = self.fails(ExitCode.USAGE, 'up', self.page(NAMED))
        self.assertIn('This site has no store of secrets', error)
        self.assertIn('Set option [secrets] directory', error)

    def test_the_credentials_of_a_service_are_its_secrets(self):
        self.configure('')
        directory = given(self, secrets_db=f'{VALUE}\n', other='x')
        self.ok('up', self.page(NAMED.replace('web-admin', 'db')))
        self.assertIn(shlex.quote(VALUE), self.given()['m1'])
        error = self.fails(ExitCode.USAGE, 'up', self.page(NAMED.replace('web-admin', 'other')))
        self.assertIn(f'The named secret in {directory} does not exist', error)

    def test_a_directory_that_is_not_safe_is_refused(self):
        self.secrets.chmod(0o707)
        self.assertIn('chmod go-w', self.fails(ExitCode.USAGE, 'cluster', 'list'))
        self.configure(f'[secrets]\ndirectory = {self.folder}/nowhere\n')
        self.assertIn(
            'nowhere, set in [secrets] directory: No such file',
            self.fails(ExitCode.USAGE, 'cluster', 'list'),
        )
        self.configure(f'[secrets]\ndirectory = {self.config}\n')
        self.assertIn('is not a directory', self.fails(ExitCode.USAGE, 'cluster', 'list'))


OUTPUTS = """\
parameters:
  port: {type: integer, default: 80}
user_data: start.sh
outputs:
  entry: {text: 'http://{{ node.address }}:{{ port }}/'}
  nodes: {each: true, text: '{{ node.name }}'}
  head: {role: control, text: '{{ node.address }}'}
"""
ODD = """\
parameters:
  title: {help: The title of the page.}
outputs:
  page: {text: '<{{ title }}>'}
"""


class Outputs(MachinesShell):
    def setUp(self):
        super().setUp()
        self.driver('shown_v1', OUTPUTS, **{'start.sh': '#!/bin/sh\nserve {{ port }}\n'})

    def outputs(self):
        return self.json('cluster', 'show', 'web')['outputs']

    def test_up_ends_with_the_outputs(self):
        shown = self.ok('up', self.page(count=2)).splitlines()
        (first, second) = sorted(self.json('node', 'list', 'web'), key=lambda one: one['since'])
        names = self.outputs()['nodes']
        self.assertEqual({first['name'], second['name']}, set(names))
        address = next(one['address'] for one in (first, second) if one['name'] == names[0])
        end = [
            f'web: entry: http://{address}:80/',
            f'web: nodes: {", ".join(names)}',
            'web: head: -',
        ]
        self.assertEqual(end, shown[-3:])
        self.assertEqual(end, self.ok('up', self.page(count=2)).splitlines()[-3:])

    def test_show_has_the_outputs_as_text_and_as_json(self):
        self.ok('up', self.page())
        (node,) = self.json('node', 'list', 'web')
        expected = {
            'entry': f'http://{node["address"]}:80/', 'nodes': [node['name']], 'head': None,
        }  # fmt: skip
        self.assertEqual(expected, self.outputs())
        self.assertIn(f'entry: {expected["entry"]}', self.ok('cluster', 'show', 'web'))
        (said,) = self.json('up', self.page())
        self.assertEqual(expected, said['outputs'])

    def test_outputs_follow_the_nodes(self):
        self.ok('up', self.page(count=2))
        for command in (
            ('cluster', 'scale', 'web', '1', '--yes'),
            ('node', 'replace', 'web', self.outputs()['nodes'][0], '--yes'),
            ('cluster', 'reboot', 'web'),
        ):
            self.sh(*command)
            names = [node['name'] for node in self.json('node', 'list', 'web')]
            self.assertEqual(names, self.outputs()['nodes'], command)

    def test_a_value_that_does_not_fit_an_output_is_refused_before_anything_is_built(self):
        self.driver('odd_v1', ODD, 'odd')
        page = self.page('parameters: {title: a b}\n', coe='odd')
        error = self.fails(ExitCode.USAGE, 'up', page)
        self.assertIn("output 'page': title has characters that need quotes", error)
        self.assertEqual({}, self.given())


REPORTING = """
from kiln.cluster_drivers.base import ClusterDriver, NodeClusterDriver
from kiln.cluster_drivers.templates.definition import TemplateDefinition
from kiln.cluster_drivers.values import Bootstrap, Progress, StatusReport


class Common:
    name, version = 'said_v1', '1.0.0'
    provides = [('*', '*', 'said')]


class Nodes(Common, NodeClusterDriver):
    def get_template_definition(self):
        return TemplateDefinition(directory=None)

    def bootstrap(self, context, cluster, node):
        return Bootstrap(user_data=b'x')

    def update_cluster_status(self, context, cluster):
        return StatusReport(outputs=outputs(context))


class Engine(Common, ClusterDriver):
    def create_cluster(self, context, cluster, cluster_create_timeout):
        return StatusReport(progress=Progress.IN_PROGRESS, driver_handle='stack')

    def update_cluster(self, context, cluster, scale_manager=None, rollback=False):
        return StatusReport(progress=Progress.COMPLETE)

    def delete_cluster(self, context, cluster):
        return StatusReport(progress=Progress.COMPLETE)

    def update_cluster_status(self, context, cluster):
        return StatusReport(progress=Progress.COMPLETE, outputs=outputs(context))
"""


class ReportedOutputs(MachinesShell):
    """Outputs that the code of a driver reports, with nodes and with an engine of its own."""

    def reported(self, base, function):
        """Create a cluster whose driver reports outputs; return what is shown of it."""
        code = f'{REPORTING}\n\ndef outputs(context):\n    {function}\n'
        code += f'\n\nclass Driver({base}):\n    pass\n'
        self.keep('cloud', 'horse-battery')
        self.code('said_v1', code)
        self.shown = self.ok('up', self.page('credentials: cloud\n', coe='said'))
        return self.json('cluster', 'show', 'web')['outputs']

    def check_masked(self, base):
        found = self.reported(
            base,
            "key = context.secrets.get(context.credentials); return {'url': 'http://x/?k=' + key, "
            "'exact': [key], 'proxy': 'http://me:hunter2@proxy/', 'deep': {'api_key': 4711}, "
            "'site': context.site}",
        )
        self.assertEqual(
            {
                'url': 'http://x/?k=***', 'exact': ['***'], 'proxy': 'http://me:***@proxy/',
                'deep': {'api_key': '***'}, 'site': 'us',
            },
            found,
        )  # fmt: skip
        self.assertIn('web: exact: ***\n', self.shown)
        for secret in (b'horse-battery', b'hunter2', b'4711'):
            self.assertNotIn(secret, self.stored())

    def test_secrets_are_masked_in_the_outputs_of_a_driver_for_nodes(self):
        self.check_masked('Nodes')

    def test_secrets_are_masked_in_the_outputs_of_an_engine(self):
        self.check_masked('Engine')

    def test_an_engine_that_reports_none_keeps_the_outputs(self):
        self.assertEqual({'site': 'us'}, self.reported('Engine', "return {'site': context.site}"))
        self.ok('up', self.page('credentials: cloud\n', coe='said', count=2))
        self.assertEqual({'site': 'us'}, self.json('cluster', 'show', 'web')['outputs'])

    def test_outputs_that_are_not_plain_data_are_an_event(self):
        self.assertEqual({}, self.reported('Nodes', "return {'thing': object()}"))
        said = self.ok('cluster', 'events', 'web')
        self.assertIn('The outputs of web are not known', said)
        self.assertIn('its outputs.thing is of type object, which JSON does not have', said)

    def test_an_error_of_the_driver_is_an_event_and_the_cluster_is_ready(self):
        self.assertEqual({}, self.reported('Nodes', "return {}['x']"))
        self.assertEqual('ready', self.json('cluster', 'show', 'web')['state'])
        said = self.ok('cluster', 'events', 'web')
        self.assertIn('Cluster driver said_v1 failed in update_cluster_status: KeyError', said)


FAILING = """
from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.templates.definition import TemplateDefinition
from kiln.cluster_drivers.values import Bootstrap
from kiln.clusters.exceptions import ClusterDriverError


class Driver(NodeClusterDriver):
    name, version = 'failing_v1', '1.0.0'
    provides = [('*', '*', 'failing')]

    def get_template_definition(self):
        return TemplateDefinition(directory=None)

    def bootstrap(self, context, cluster, node):
        {bootstrap}
        return Bootstrap(user_data=b'x')

    def pre_delete_cluster(self, context, cluster, operation):
        raise ClusterDriverError('The archive is not written.', retryable=True)
"""


class Errors(MachinesShell):
    def failing(self, bootstrap):
        self.code('failing_v1', FAILING.format(bootstrap=bootstrap))
        return self.page(coe='failing')

    def why(self, error):
        """Return the explanation of a cluster whose driver raises an error for each node."""
        self.assertNotEqual(0, self.sh('up', self.failing(f'raise {error}'), '--timeout', '1'))
        self.assertIn('No licence is left.', self.out)
        return self.ok('why', 'web')

    def test_the_hint_of_an_error_is_what_users_are_advised_to_do(self):
        said = self.why("ClusterDriverError('No licence is left.', 'Buy one.')")
        self.assertIn('because: No licence is left.\n', said)
        self.assertIn('you: Buy one.\n', said)

    def test_an_error_without_a_hint_refers_to_none(self):
        said = self.why("ClusterDriverError('No licence is left.')")
        self.assertIn('because: No licence is left.\n', said)
        self.assertNotIn('hint', said)

    def test_an_operation_that_only_its_hooks_hold_up_says_so(self):
        self.ok('up', self.failing('pass'))
        self.sh('cluster', 'delete', 'web', '--yes', '--timeout', '1')
        self.assertIn('by its deadline: its hooks are not done: Hook pre_delete', self.err)
