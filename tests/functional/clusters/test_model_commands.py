"""The models that authors copy work at the first ``kiln up``, by commands alone."""

import json
import os
import pathlib
import unittest.mock

from kiln.cli.exit_codes import ExitCode
from tests.unit.cli.cluster.machines_shell import MODELS, MachinesShell
from tests.unit.cli.cluster.quorum_agents import Agents

KEY = "correct 'horse' $battery"


class Mesh(MachinesShell):
    """A directory without Python."""

    machines = 3

    def setUp(self):
        super().setUp()
        self.model('mesh_v1')
        self.keep('net-key', KEY)
        self.program('console', 'echo mesh-agent: joined')
        parameters = 'parameters: {key: net-key, meeting_point: meet.example.com}\n'
        self.path = self.page(parameters, coe='mesh', count=2)

    def given_files(self):
        return [json.loads(text) for text in self.files().values()]

    def test_each_node_is_given_the_key_and_a_token_of_its_own(self):
        shown = self.ok('up', self.path)
        files = self.given_files()
        self.assertEqual([KEY] * 2, [one['key'] for one in files])
        self.assertEqual(2, len({one['token'] for one in files}))
        names = {node['name'] for node in self.json('node', 'list', 'web')}
        self.assertEqual(names, {one['node'] for one in files})
        for text in self.given().values():
            self.assertIn('MEET=meet.example.com\n', text)
            self.assertIn('--join "$MEET:7946"', text)
        self.assertNotIn(KEY, shown)
        self.assertNotIn(KEY.encode(), self.stored())

    def test_a_plan_can_be_made_before_the_cluster_has_a_key(self):
        self.assertIn('work: +2', self.ok('plan', self.path))
        self.assertEqual([], self.json('cluster', 'list'))

    def test_a_node_that_follows_later_is_given_a_token(self):
        self.ok('up', self.path)
        before = {one['node']: one['token'] for one in self.given_files()}
        self.ok('cluster', 'scale', 'web', '3')
        after = {one['node']: one['token'] for one in self.given_files()}
        self.assertLess(before.items(), after.items())
        self.assertEqual(3, len(set(after.values())))

    def test_a_node_is_ready_once_its_agent_says_so(self):
        self.program('console', 'echo mesh-agent: the key is wrong')
        said = self.fails(ExitCode.UNAVAILABLE, 'up', self.path, '--timeout', '30')
        self.assertIn('mesh-agent: joined', said)

    def test_outputs_follow_the_nodes(self):
        self.ok('up', self.path)
        self.ok('cluster', 'scale', 'web', '3')
        nodes = self.json('node', 'list', 'web')
        shown = self.json('cluster', 'show', 'web')['outputs']['nodes']
        self.assertEqual({f'{one["name"]}={one["address"]}:7946' for one in nodes}, set(shown))


class Quorum(MachinesShell):
    """A driver for nodes, with code; its agents run beside the test."""

    machines = 4
    network = '127.77.1'

    def setUp(self):
        addresses = [f'{self.network}.{number + 1}' for number in range(self.machines)]
        # Before the clock, which does not wait for threads that exist already.
        self.agents = Agents(addresses, self.given_at)
        self.addCleanup(self.agents.close)
        super().setUp()
        self.model('quorum_v1')
        self.keep('store-key', 'first')
        self.up(count=3)

    def given_at(self, address):
        text = self.files().get(f'm{address.rpartition(".")[2]}')
        return text and json.loads(text)

    def up(self, *more, count):
        parameters = f'parameters: {{key: store-key, port: {self.agents.port}}}\n'
        return self.ok('up', self.page(parameters, coe='quorum', count=count), *more)

    def names(self):
        return sorted(node['name'] for node in self.json('node', 'list', 'web'))

    def test_one_member_founds_the_cluster_and_the_others_join_it_with_their_tokens(self):
        self.assertEqual(1, self.agents.founded)
        self.assertEqual(self.names(), sorted(self.agents.counted))
        tokens = {one['member']: one['token'] for one in map(json.loads, self.files().values())}
        self.assertEqual(tokens, self.agents.counted)
        self.assertEqual(3, len(set(tokens.values())))

    def test_outputs_have_the_members_and_what_only_code_knows(self):
        outputs = self.json('cluster', 'show', 'web')['outputs']
        self.assertEqual(2, outputs['majority'])
        addresses = {node['address'] for node in self.json('node', 'list', 'web')}
        expected = {f'http://{one}:{self.agents.port}/' for one in addresses}
        self.assertEqual(expected, set(outputs['members']))

    def test_metrics_are_what_a_member_counts(self):
        found = {one['name']: one['value'] for one in self.json('cluster', 'metrics', 'web')}
        self.assertEqual({'members': 3, 'entries': 12}, found)

    def test_a_rotation_gives_every_member_the_new_key(self):
        self.assertEqual({'first'}, set(self.agents.members.values()))
        self.keep('store-key', 'second')
        self.ok('cluster', 'rotate', 'web', 'credential')
        self.assertEqual(['second'] * 3, list(self.agents.members.values()))
        self.assertNotIn(b'second', self.stored())

    def test_a_majority_stays(self):
        before = self.names()
        said = self.fails(ExitCode.CONFLICT, 'cluster', 'scale', 'web', '1', '--yes')
        self.assertIn('the driver allows 1', said)
        self.assertEqual(before, self.names())
        self.ok('cluster', 'scale', 'web', '2', '--yes')
        self.assertEqual(self.names(), sorted(self.agents.counted))

    def test_a_member_goes_once_it_has_handed_over_what_it_stores(self):
        (name, *_) = self.names()
        self.agents.busy.add(name)
        said = self.fails(
            ExitCode.UNAVAILABLE, 'node', 'remove', 'web', name, '--yes', '--timeout', '30'
        )
        self.assertIn('it hands over what it stores', said)
        self.agents.busy.clear()
        self.ok('cluster', 'retry', 'web')
        self.assertNotIn(name, self.agents.counted)

    def test_members_that_are_replaced_join_the_others(self):
        before = self.names()
        self.ok('cluster', 'upgrade', 'web', '--image', 'debian-14', '--yes')
        self.assertFalse(set(before) & set(self.names()))
        self.assertEqual(self.names(), sorted(self.agents.counted))
        self.assertEqual(1, self.agents.founded)

    def test_a_cluster_is_deleted_without_a_drain(self):
        self.agents.busy.update(self.names())
        self.ok('cluster', 'delete', 'web', '--yes')

    def test_a_cluster_without_members_is_refused(self):
        parameters = f'parameters: {{key: store-key, port: {self.agents.port}}}\n'
        page = pathlib.Path(self.page(parameters, coe='quorum', count=0))
        page.write_text(page.read_text().replace('cluster: web', 'cluster: shop'))
        self.assertIn('at least one member', self.fails(ExitCode.USAGE, 'plan', str(page)))


class Stack(MachinesShell):
    """A driver with an engine of its own."""

    def setUp(self):
        super().setUp()
        self.model('stack_v1')
        self.keep('stack-password', 'first')
        # The engine is found below the home of the user.
        home = {**os.environ, 'HOME': str(self.folder)}
        self.enterContext(unittest.mock.patch.dict(os.environ, home))
        self.engine = self.folder / '.stack'
        self.up(count=2)

    def up(self, *more, count, parameters='{theme: dark}'):
        page = f'credentials: stack-password\nparameters: {parameters}\n'
        return self.ok('up', self.page(page, coe='stack', count=count), *more)

    def stacks(self):
        return [json.loads(path.read_text()) for path in self.engine.glob('*.json')]

    def test_the_engine_builds_what_the_file_declares(self):
        (stack,) = self.stacks()
        self.assertEqual(({'work': 2}, 'dark'), (stack['built'], stack['theme']))
        (row,) = self.json('cluster', 'list')
        self.assertEqual('ready', row['state'])

    def test_outputs_and_metrics_are_what_the_engine_reports(self):
        outputs = self.json('cluster', 'show', 'web')['outputs']
        self.assertEqual({'machines': {'work': 2}, 'pages': 'http://web.example.com/'}, outputs)
        (metric,) = self.json('cluster', 'metrics', 'web')
        self.assertEqual(('machines', 2), (metric['name'], metric['value']))

    def test_the_cluster_grows_and_shrinks(self):
        self.up('--yes', count=3)
        self.assertEqual({'work': 3}, self.stacks()[0]['built'])
        self.ok('cluster', 'scale', 'web', '1', '--yes')
        self.assertEqual({'work': 1}, self.stacks()[0]['built'])
        said = self.fails(
            ExitCode.UNFORESEEN, 'cluster', 'scale', 'web', '0', '--remove', 'it', '--yes'
        )
        self.assertIn('chooses itself which machines', said)

    def test_a_rotation_hands_the_stack_to_the_new_account(self):
        before = self.stacks()[0]['account']
        self.keep('stack-password', 'second')
        self.ok('cluster', 'rotate', 'web', 'credential')
        self.assertNotEqual(before, self.stacks()[0]['account'])

    def test_a_check_tells_a_lost_stack_from_an_engine_that_is_away(self):
        self.ok('cluster', 'check', 'web')
        hidden = self.engine.rename(self.folder / 'hidden')
        self.engine.write_text('not a folder')
        said = self.fails(ExitCode.UNAVAILABLE, 'cluster', 'check', 'web')
        self.assertIn('does not answer: Not a directory', said)
        self.engine.unlink()
        said = self.fails(ExitCode.UNFORESEEN, 'cluster', 'check', 'web')
        self.assertIn('The engine has no such stack', said)
        hidden.rename(self.engine)
        self.ok('cluster', 'check', 'web')

    def test_a_deletion_ends_once_the_stack_is_gone(self):
        self.ok('cluster', 'delete', 'web', '--yes')
        self.assertEqual([], self.stacks())
        self.assertIn('1 confirmed gone', self.ok('cluster', 'receipt', 'web'))

    def test_wrong_parameters_are_refused_before_the_engine_is_asked(self):
        before = self.stacks()
        for parameters, said in (('{theme: blue}', 'theme'), ('{colour: red}', 'colour')):
            page = self.page(f'parameters: {parameters}\n', coe='stack')
            self.assertIn(said, self.fails(ExitCode.USAGE, 'plan', page))
        path = pathlib.Path(self.page('parameters: {theme: dark}\n', coe='stack'))
        of_group = path.read_text().replace(
            'name: work', 'name: work\n    parameters: {theme: dark}'
        )
        path.write_text(of_group)
        self.assertIn('parameters of its own', self.fails(ExitCode.USAGE, 'plan', str(path)))
        self.assertEqual(before, self.stacks())


class Lint(MachinesShell):
    def test_the_models_have_no_mistakes(self):
        for path in sorted(MODELS.iterdir()):
            if path.is_dir() and path.name[0] != '_':
                self.assertIn('no mistakes', self.ok('driver', 'lint', str(path)))
