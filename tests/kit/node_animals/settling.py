"""A driver that leaves a cluster wrong until it is tended; after a model."""

from kiln.cluster_drivers.values import READY
from kiln.clusters.models import NodeState
from kiln.testing.clusters import Response
from tests.kit.node_animals.talking import Agent, Talking


class Bench(Talking.bench):
    """Agents that anybody can let join until they are closed."""

    def __init__(self, clock):
        super().__init__(clock)
        self._closed = set()

    def stop(self, machine):
        super().stop(machine)
        self._closed.discard(machine)

    def answer(self, machine, request):
        if request.path == '/closed':
            self._closed.add(machine)
            return Response(body='{}')
        return super().answer(machine, request)

    def wrongs(self):
        yield from super().wrongs()
        for machine in self._since.keys() - self._closed:
            if self._joined(machine):
                yield f'{machine.node.name} is open to everybody'


class Settling(Talking):
    """Correct: closes a node before it is ready."""

    bench = Bench

    def is_ready(self, context, cluster, node):
        found = super().is_ready(context, cluster, node)
        if found == READY:
            Agent(context, cluster, node).put('/closed', {})
        return found


class Postponing(Talking):
    """Closes the nodes when it tends the cluster."""

    bench = Bench

    def tend(self, context, cluster):
        super().tend(context, cluster)
        for node in context.nodes:
            if node.state is NodeState.READY:
                Agent(context, cluster, node).put('/closed', {})
