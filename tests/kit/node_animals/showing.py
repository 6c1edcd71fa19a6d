"""Drivers that tell wrong things of their machines, or lose them; after a model."""

from kiln.cluster_drivers.monitor import Metric, Monitor
from kiln.cluster_drivers.parameters import Parameter
from kiln.cluster_drivers.scale import DefaultScaleManager
from kiln.cluster_drivers.values import READY, join_token
from kiln.cluster_drivers.verbs import Verb
from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import NodeState
from tests.kit.node_animals.talking import Agent, Talking


class Bench(Talking.bench):
    """Agents whose author says what is told of them, and that can lose one of them."""

    recovery = 'recover'
    least = {}  # noqa: RUF012

    def __init__(self, clock):
        super().__init__(clock)
        self._dead = set()

    def boot(self, machine):
        super().boot(machine)
        self._dead.discard(machine.node.name)

    def die(self, machine):
        self._dead.add(machine.node.name)

    def stop(self, machine):
        super().stop(machine)
        self._dead.discard(machine.node.name)

    @staticmethod
    def staying(nodes):
        return ()

    def answers(self, folder):
        yield 'members', {}, {'members': sorted(self._counted)}
        yield 'recover', {'node': 'nobody'}, None

    def readings(self):
        return {'members': len(self._counted)}

    def order(self, nodes):
        return nodes

    def troubles(self):
        return self._dead

    def lose(self, name):
        self._counted.pop(name, None)


def _agents(context, cluster):
    for node in context.nodes:
        if node.state is NodeState.READY:
            agent = Agent(context, cluster, node)
            try:
                yield agent, agent.get('/member')['joined']
            except ClusterDriverError:
                yield agent, None


def _seen(context, cluster):
    for agent, _ in _agents(context, cluster):
        try:
            return agent.get('/cluster')['members']
        except ClusterDriverError:
            continue
    raise ClusterDriverError('No member answers.')


def members(context, cluster, arguments):
    return {'members': _seen(context, cluster)}


def recover(context, cluster, arguments):
    if arguments['node'] not in [node.name for node in context.nodes]:
        raise ClusterDriverError('There is no such node.')
    return {}


def few(context, cluster, arguments):
    return {'members': _seen(context, cluster)[1:]}


def helpless(context, cluster, arguments):
    raise ClusterDriverError('Nobody can help.')


NODE = Parameter(name='node', required=True, help='The node to go on with.')


class Members(Monitor):
    metrics = (Metric('members', 'members', 'Members of the cluster.'),)
    more = 0

    def pull(self):
        return {'members': len(_seen(self.context, self.cluster)) + self.more}


class TooMany(Members):
    more = 1


class Backwards(DefaultScaleManager):
    def order(self, nodegroup, nodes):
        return nodes[::-1]


class Showing(Talking):
    """Correct."""

    bench = Bench
    verbs = {  # noqa: RUF012
        'members': Verb(run=members, help='Show the members.'),
        'recover': Verb(run=recover, help='Go on with one member.', parameters=(NODE,)),
    }

    def tend(self, context, cluster):
        super().tend(context, cluster)
        self._bring_back(context, cluster)
        silent = [one.node.name for one, joined in _agents(context, cluster) if joined is None]
        if silent:
            raise ClusterDriverError(f'{", ".join(silent)} does not answer.')

    def _bring_back(self, context, cluster):
        there = list(_agents(context, cluster))
        leaders = [agent for agent, joined in there if joined]
        for agent, joined in there:
            if joined is False and leaders:
                token = {'token': join_token(context, agent.node)}
                leaders[0].put(f'/members/{agent.node.name}', token)
                agent.put('/member', {'join': leaders[0].node.address})

    def get_monitor(self, context, cluster):
        return Members(context, cluster)

    def get_scale_manager(self, context, cluster):
        return DefaultScaleManager(context, cluster)


class Premature(Showing):
    """Takes a node for a member once it was asked to join."""

    def is_ready(self, context, cluster, node):
        found = super().is_ready(context, cluster, node)
        return READY if 'joins' in found.reason else found


class Boasting(Showing):
    """Measures one member too many."""

    def get_monitor(self, context, cluster):
        return TooMany(context, cluster)


class Modest(Showing):
    """Shows all members but the first."""

    verbs = {**Showing.verbs, 'members': Verb(run=few, help='Show the members.')}  # noqa: RUF012


class Reticent(Showing):
    """Has forgotten a verb."""

    verbs = {'recover': Showing.verbs['recover']}  # noqa: RUF012


class Contrary(Showing):
    """Lets the youngest node go first."""

    def get_scale_manager(self, context, cluster):
        return Backwards(context, cluster)


class Discreet(Showing):
    """Says nothing of a member that does not answer."""

    def tend(self, context, cluster):
        try:
            super().tend(context, cluster)
        except ClusterDriverError:
            return


class Helpless(Showing):
    """Cannot go on with one node."""

    verbs = {  # noqa: RUF012
        **Showing.verbs,
        'recover': Verb(run=helpless, help='Go on with one member.', parameters=(NODE,)),
    }


class Neglecting(Showing):
    """Leaves a node outside that the cluster has lost."""

    def _bring_back(self, context, cluster):
        pass
