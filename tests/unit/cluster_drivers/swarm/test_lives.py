"""State machine test of a swarm: never two swarms, and kiln keeps the majority."""

import contextlib
import dataclasses

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kiln.cluster_drivers.swarm_debian_v1 import joining, leaving
from kiln.cluster_drivers.swarm_debian_v1.view import View
from kiln.cluster_drivers.values import Context, ReadyState
from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import NodeState
from tests.examples import examples

from .case import DEFINITION, a_cluster, a_node
from .sim import Sim

PICK = st.integers(0, 10**6)


class SwarmStateMachine(RuleBasedStateMachine):
    """kiln with its store, a former owner that acts on outdated reads, and machines."""

    def __init__(self):
        super().__init__()
        self.sim = Sim()
        self.cluster = a_cluster()
        self.nodes = {}
        self.number = 0
        self.views = []
        self.drained = set()

    def view(self, stale=None):
        known = len(self.views) - 1 if stale is None else stale % len(self.views)
        cluster, nodes = self.views[known]
        return View(Context(nodes=nodes), cluster, DEFINITION.get_params, self.sim.open)

    def write(self):
        self.views.append((self.cluster, tuple(self.nodes.values())))

    def of(self, pick, *states):
        found = [one for one in self.nodes.values() if one.state in states]
        return found[pick % len(found)] if found else None

    def change(self, node, **changes):
        self.nodes[node.id] = dataclasses.replace(node, **changes)
        self.write()

    @initialize()
    def begin(self):
        for _ in range(3):
            self.born('managers')

    @rule(group=st.sampled_from(['managers', 'workers']))
    def born(self, group):
        self.number += 1
        node = a_node(self.number, group, state=NodeState.JOINING)
        self.nodes[node.id] = node
        self.sim.boot(node)
        self.write()

    @rule(pick=PICK, stale=st.none() | PICK, lost=st.booleans())
    def ask(self, pick, stale, lost):
        view = self.view(stale)
        if not view.nodes:
            return
        node = view.nodes[pick % len(view.nodes)]
        if stale is not None and node.id in self.drained:
            # A node drained for a reset is in no swarm for a moment; see rules.
            return
        self.sim.lose_answer = lost
        with contextlib.suppress(ClusterDriverError):
            found = joining.ready(view, node)
            now = self.nodes.get(node.id)
            if stale is None and now is not None and found.state is ReadyState.READY:
                self.change(now, state=NodeState.READY)
        self.sim.lose_answer = False

    @rule(pick=PICK, stale=st.none() | PICK, lost=st.booleans())
    def drain(self, pick, stale, lost):
        node = self.of(pick, NodeState.READY, NodeState.DRAINING)
        if node is None:
            return
        self.change(node, state=NodeState.DRAINING, doomed='asked for')
        self.drained.add(node.id)
        had = self.quorum()
        self.sim.lose_answer = lost
        with contextlib.suppress(ClusterDriverError):
            done = leaving.drained(self.view(stale), node).done
            if done and stale is None:
                self.sim.destroy(self.nodes.pop(node.id))
                self.write()
        self.sim.lose_answer = False
        if not self.view().ending:
            assert self.quorum() or not had, 'kiln itself has broken the majority'

    @rule(pick=PICK)
    def die(self, pick):
        """A machine dies, and its backend reports that."""
        if node := self.of(pick, *NodeState):
            self.sim.destroy(self.nodes.pop(node.id))
            self.write()

    @rule(pick=PICK, up=st.booleans())
    def be_silent(self, pick, up):
        if node := self.of(pick, *NodeState):
            self.sim.of(node).up = up

    @precondition(lambda self: self.nodes)
    @rule()
    def succeed(self):
        """An operation succeeds: all nodes are ready."""
        if all(one.state is NodeState.READY for one in self.nodes.values()):
            self.cluster = dataclasses.replace(self.cluster, former=self.cluster.spec)
            self.write()

    def quorum(self):
        return any(swarm.has_quorum for swarm in self.sim.swarms if swarm.id in self.sim.living)

    @invariant()
    def there_are_never_two_swarms(self):
        assert len(self.sim.living) <= 1, [swarm.peers for swarm in self.sim.swarms]


TestSwarmStateMachine = SwarmStateMachine.TestCase
# Shrinking a failure takes minutes, and any failing sequence shows the defect.
TestSwarmStateMachine.settings = settings(
    max_examples=examples(12), stateful_step_count=50, deadline=None, phases=(Phase.generate,)
)
