"""A right cluster driver with an engine of its own, the engine, and the bench of the kit.

The engine keeps stacks in a file, and works only while the clock of the kit moves.
"""

import contextlib
import copy
import json
import uuid

from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.monitor import Metric, Monitor
from kiln.cluster_drivers.parameters import Parameter, ParameterType
from kiln.cluster_drivers.values import Existing, Loss, Progress, StatusReport
from kiln.cluster_drivers.verbs import Verb
from kiln.clusters.exceptions import ClusterDriverError, Problem
from kiln.clusters.spec import MachineSpec
from kiln.testing.clusters import samples
from kiln.testing.clusters.engine_bench import EngineBench, EngineNode

#: Seconds that each piece of work takes.
WORK_S = 12.0
NOTHING = {'stacks': {}, 'works': {}, 'away': False, 'fails': ''}


class EngineAway(Exception):
    """The engine does not answer."""


class NoSuchStack(Exception):
    """The engine has no stack of that name."""


class StackEngine:
    """Stacks by name, in a file; what is requested is done some time later."""

    def __init__(self, file):
        self._file = file

    @contextlib.contextmanager
    def open(self, *, checked=True):
        """Yield everything, and write it back."""
        content = copy.deepcopy(NOTHING)
        if self._file.exists():
            content |= json.loads(self._file.read_text())
        if checked and content['away']:
            raise EngineAway('cannot connect to the engine')
        yield content
        self._file.write_text(json.dumps(content))

    def get(self, name):
        with self.open() as content:
            if name not in content['stacks']:
                raise NoSuchStack(name)
            return content['stacks'][name]

    def want(self, name, groups, owner='', remove=()):
        """Have a stack become what is wanted, and remove the named nodes."""
        with self.open() as content:
            stack = content['stacks'].setdefault(
                name, {'groups': {}, 'nodes': {}, 'owner': owner, 'secret': '', 'certificate': ''}
            )
            stack['groups'] = groups
            stack['owner'] = stack['owner'] or owner
            self._work(content, name, remove=list(remove))

    def drop(self, name):
        with self.open() as content:
            if name in content['stacks']:
                self._work(content, name, drop=True)

    def touch(self, name, *, boots=(), fresh=(), **change):
        """Change a stack that stands: boot some of its nodes, rebuild others."""
        self.get(name)
        with self.open() as content:
            stack = content['stacks'][name]
            stack |= change
            for node in boots:
                stack['nodes'][node]['boots'] += 1
            self._work(content, name, fresh=list(fresh))

    @staticmethod
    def _work(content, name, **work):
        fails, content['fails'] = content['fails'], ''
        stack = content['stacks'][name]
        stack['state'], stack['reason'] = 'working', 'the engine is at work'
        content['works'][name] = {'left': WORK_S, 'fails': fails, **work}

    # ---- what the engine does by itself ------------------------------------------------

    def work(self, seconds):
        with self.open(checked=False) as content:
            for name, work in list(content['works'].items()):
                work['left'] -= seconds
                if work['left'] <= 0:
                    del content['works'][name]
                    self._end(content, name, work)

    @staticmethod
    def _end(content, name, work):
        stack = content['stacks'][name]
        if work['fails']:
            stack['state'], stack['reason'] = 'failed', work['fails']
            return
        if work.get('drop'):
            del content['stacks'][name]
            return
        stack['state'], stack['reason'] = 'done', 'all is done'
        nodes, groups = stack['nodes'], stack['groups']
        for node, of in list(nodes.items()):
            group = groups.get(of['group'])
            if group is None or node in work.get('remove', ()):
                del nodes[node]
        for group_name, group in groups.items():
            members = sorted(one for one in nodes if nodes[one]['group'] == group_name)
            for surplus in members[group['count'] :]:
                del nodes[surplus]
            for _ in range(group['count'] - len(members)):
                name = f'{group_name}-{uuid.uuid4().hex[:6]}'
                nodes[name] = {'group': group_name, 'boots': 1}
        for name, of in nodes.items():
            made = {key: groups[of['group']][key] for key in ('image', 'flavor', 'parameters')}
            if of.get('made') != made or name in work.get('fresh', ()):
                of |= {'made': made, 'id': uuid.uuid4().hex}


class Units(Monitor):
    metrics = (Metric('units', 'count', 'nodes of the stack'),)
    driver = None

    def pull(self):
        return {'units': len(self.driver.engine.get(self.driver.name_of(self.cluster))['nodes'])}


def is_other(groups, node):
    """Return True if a node is not as its group is to be."""
    group = groups.get(node['group'], {})
    return any(value != group.get(key) for key, value in node['made'].items())


def words(context, cluster, arguments):
    return {'words': [arguments['word']] * 2, 'of': cluster.name}


class Right(ClusterDriver):
    """Correct in everything; each animal of the zoo differs in one defect."""

    name = 'stack_v1'
    version = '1.0.0'
    provides = (('*', '*', 'stack'),)
    bench = f'{__name__}:StackBench'
    verbs = {  # noqa: RUF012
        'words': Verb(
            run=words,
            help='Repeat a word.',
            parameters=(Parameter(name='word', type=ParameterType.STRING, required=True),),
        )
    }
    engine = None

    # ---- the engine ----------------------------------------------------------------------

    def name_of(self, cluster):
        return cluster.driver_state.get('existing') or f'kiln-{cluster.id}'

    def sign_in(self, context):
        if context.credentials is None:
            raise ClusterDriverError('The cluster file names no credentials.')
        context.secrets.get(context.credentials)

    @contextlib.contextmanager
    def errors(self, context):
        self.sign_in(context)
        try:
            yield
        except EngineAway as exc:
            raise ClusterDriverError(f'{exc}.', retryable=True) from exc
        except NoSuchStack as exc:
            raise ClusterDriverError(f'There is no stack {exc}.') from exc

    def groups(self, context, cluster):
        found = {}
        for group in cluster.spec.groups:
            machine = context.effective(cluster, group.name).machine
            found[group.name] = {
                'count': group.shape.count,
                'image': machine.image,
                'flavor': machine.flavor,
                'parameters': dict(machine.parameters),
            }
        return found

    def wanted(self, context, cluster, **more):
        with self.errors(context):
            groups = self.groups(context, cluster)
            self.engine.want(self.name_of(cluster), groups, cluster.name, **more)
        return self.started(cluster)

    def started(self, cluster, **state):
        existing = cluster.driver_state.get('existing', '')
        return StatusReport(
            progress=Progress.IN_PROGRESS,
            driver_handle=self.name_of(cluster),
            driver_state={'deleting': False, 'existing': existing} | state,
        )

    # ---- validation ------------------------------------------------------------------------

    def validate(self, context, cluster, plan):
        spec = cluster.spec
        found = self.unknown('parameters', spec.machine)
        for number, group in enumerate(spec.groups):
            found += self.unknown(f'nodegroups[{number}].parameters', group.machine)
        return found

    def unknown(self, place, machine):
        return [
            Problem(message=f'it has no {name}', path=f'{place}.{name}')
            for name in machine.parameters
            if name != 'size'
        ]

    def preview_cluster(self, context, cluster, plan):
        groups = self.groups(context, cluster)
        with self.errors(context), contextlib.suppress(NoSuchStack):
            nodes = self.engine.get(self.name_of(cluster))['nodes']
            rebuilt = [name for name, of in sorted(nodes.items()) if is_other(groups, of)]
            return [*(Loss(f'{name} is rebuilt') for name in rebuilt), 'the stack is changed']
        return ['a new stack']

    # ---- the contract ----------------------------------------------------------------------

    def create_cluster(self, context, cluster, cluster_create_timeout):
        return self.wanted(context, cluster)

    def update_cluster(self, context, cluster, scale_manager=None, rollback=False):
        return self.wanted(context, cluster)

    def delete_cluster(self, context, cluster):
        with self.errors(context):
            if not self.has_reached(cluster):
                return StatusReport(progress=Progress.COMPLETE)
            self.engine.drop(self.name_of(cluster))
        return self.started(cluster, deleting=True)

    def has_reached(self, cluster):
        """Return False for a stack that existed, and that the cluster has not taken so far."""
        existing = cluster.driver_state.get('existing')
        with contextlib.suppress(NoSuchStack):
            return not existing or self.engine.get(existing)['owner'] == cluster.name
        return True

    def find_existing(self, context, cluster, reference):
        with self.errors(context):
            stack = self.engine.get(reference)
        if stack['owner']:
            raise ClusterDriverError(f'Stack {reference} is that of cluster {stack["owner"]}.')
        return Existing(driver_state={'existing': reference}, facts=[f'stack {reference}'])

    def update_cluster_status(self, context, cluster):
        self.sign_in(context)
        try:
            stack = self.engine.get(self.name_of(cluster))
        except EngineAway as exc:
            return StatusReport(progress=Progress.UNKNOWN, reason=str(exc))
        except NoSuchStack:
            gone = cluster.driver_state.get('deleting')
            progress = Progress.COMPLETE if gone else Progress.FAILED
            return StatusReport(progress=progress, reason='there is no such stack')
        return StatusReport(
            progress=self.progress(stack),
            reason=stack['reason'],
            outputs={'url': f'http://{cluster.name}.example.com/'},
        )

    def progress(self, stack):
        words = {'working': Progress.IN_PROGRESS, 'done': Progress.COMPLETE}
        return words.get(stack['state'], Progress.FAILED)

    def resize_cluster(self, context, cluster, *, nodegroup, node_count, nodes_to_remove=()):
        with self.errors(context):
            nodes = self.engine.get(self.name_of(cluster))['nodes']
        done = len([one for one in nodes if nodes[one]['group'] == nodegroup.name])
        unknown = set(nodes_to_remove) - set(nodes)
        # A named node that is gone was removed by the first of two equal calls.
        if unknown and done != node_count:
            raise ClusterDriverError(f'The stack has no node {", ".join(sorted(unknown))}.')
        return self.wanted(context, cluster, remove=set(nodes_to_remove) - unknown)

    def upgrade_cluster(self, context, cluster, *, cluster_template, nodegroups, strategy):
        return self.wanted(context, cluster)

    def reboot_cluster(self, context, cluster, *, hard=False, nodes=None):
        with self.errors(context):
            self.engine.touch(self.name_of(cluster), boots=self.named(cluster, nodes))
        return self.started(cluster)

    def rebuild_cluster(self, context, cluster, *, nodes=None):
        with self.errors(context):
            self.engine.touch(self.name_of(cluster), fresh=self.named(cluster, nodes))
        return self.started(cluster)

    def named(self, cluster, nodes):
        there = self.engine.get(self.name_of(cluster))['nodes']
        if unknown := set(nodes or ()) - set(there):
            raise ClusterDriverError(f'The stack has no node {", ".join(sorted(unknown))}.')
        return there if nodes is None else nodes

    def rotate_credential(self, context, cluster):
        with self.errors(context):
            self.engine.touch(self.name_of(cluster), secret=uuid.uuid4().hex)
        return self.started(cluster)

    def rotate_ca_certificate(self, context, cluster):
        with self.errors(context):
            self.engine.touch(self.name_of(cluster), certificate=uuid.uuid4().hex)
        return self.started(cluster)

    def get_monitor(self, context, cluster):
        monitor = Units(context, cluster)
        monitor.driver = self
        return monitor


class StackBench(EngineBench):
    """Opens the driver on an engine in the folder of the kit."""

    refused = (MachineSpec(parameters={'colour': 'red'}), MachineSpec(parameters={'shape': 1}))

    def open(self):
        driver = super().open()
        driver.engine = self.engine
        return driver

    @property
    def engine(self):
        return StackEngine(self.folder / 'engine.json')

    def pass_time(self, seconds):
        self.engine.work(seconds)

    def fail(self, reason):
        self._set(fails=reason)

    def go_away(self):
        self._set(away=True)

    def come_back(self):
        self._set(away=False)

    def _set(self, **change):
        with self.engine.open(checked=False) as content:
            content |= change

    def make_existing(self, cluster):
        groups = Right().groups(samples.context(), cluster)
        self.engine.want('by-hand', groups)
        self.engine.work(WORK_S)
        return 'by-hand'

    def name_of(self, cluster):
        return cluster.driver_handle or f'kiln-{cluster.id}'

    def lose(self, cluster):
        with self.engine.open(checked=False) as content:
            del content['stacks'][self.name_of(cluster)]

    def nodes(self, cluster):
        with self.engine.open(checked=False) as content:
            stack = content['stacks'].get(self.name_of(cluster), {'nodes': {}})
            return [
                EngineNode(
                    name=name, id=of['id'], boots=of['boots'], group=of['group'], **of['made']
                )
                for name, of in stack['nodes'].items()
            ]

    def resources(self):
        with self.engine.open(checked=False) as content:
            stacks = content['stacks']
            return [*stacks, *(f'{one}/{node}' for one in stacks for node in stacks[one]['nodes'])]

    def outputs(self, cluster):
        return {'url': f'http://{cluster.name}.example.com/'}

    def credentials(self, cluster):
        return self.engine.get(self.name_of(cluster))['secret']

    def certificate(self, cluster):
        return self.engine.get(self.name_of(cluster))['certificate']
