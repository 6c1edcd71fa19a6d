"""Drivers whose scale managers choose the wrong nodes."""

from kiln.cluster_drivers.scale import DefaultScaleManager
from kiln.clusters.models import NodeState
from tests.kit.cluster_animals import Right


class Quorum(Right):
    """Correct: a majority of the nodes of a group stays."""

    def get_scale_manager(self, context, cluster):
        return Majority(context, cluster)


class Majority(DefaultScaleManager):
    def order(self, nodegroup, nodes):
        members = [one for one in self.context.nodes if one.group == nodegroup.name]
        ready = [one for one in members if self.works(one)]
        return nodes[: max(0, len(ready) - (len(members) // 2 + 1))]

    def works(self, node):
        return node.state is NodeState.READY and not node.doomed


class Grasping(Right):
    """Lets nodes of other groups go."""

    def get_scale_manager(self, context, cluster):
        return Anybody(context, cluster)


class Anybody(DefaultScaleManager):
    def order(self, nodegroup, nodes):
        return self.context.nodes[: len(nodes)]


class Greedy(Right):
    """Removes one more node than was asked for."""

    def get_scale_manager(self, context, cluster):
        return OneMore(context, cluster)


class OneMore(DefaultScaleManager):
    def victims(self, nodegroup, nodes, number):
        return tuple(nodes[: number + 1])


class Heedless(Quorum):
    """Counts nodes that go already as if they stayed."""

    def get_scale_manager(self, context, cluster):
        return Undoomed(context, cluster)


class Undoomed(Majority):
    def works(self, node):
        return node.state is NodeState.READY


class Trusting(Quorum):
    """Counts unhealthy nodes as if they worked."""

    def get_scale_manager(self, context, cluster):
        return Stateless(context, cluster)


class Stateless(Majority):
    def works(self, node):
        return not node.doomed


class Moody(Right):
    """Chooses others when it is asked again."""

    def get_scale_manager(self, context, cluster):
        Moody.asked = not getattr(Moody, 'asked', False)
        return (
            Backwards(context, cluster)
            if self.asked
            else super().get_scale_manager(context, cluster)
        )


class Backwards(DefaultScaleManager):
    def order(self, nodegroup, nodes):
        return nodes[::-1]


class Clinging(Right):
    """Lets no node be replaced, ever."""

    def get_scale_manager(self, context, cluster):
        return Never(context, cluster)


class Never(DefaultScaleManager):
    def replacement_order(self, nodegroup, nodes):
        return ()
