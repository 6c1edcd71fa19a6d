"""Drivers with an engine of their own that make wrong clusters on purpose, each in one way.

The module imports little, as another process has to import it.
"""

from kiln.cluster_drivers.values import Existing, Progress, StatusReport
from kiln.clusters.exceptions import ClusterDriverError
from tests.kit.own_engine_animals import Reported, altered
from tests.kit.own_engine_stack import EngineAway, NoSuchStack, Right

# ---- what was asked ------------------------------------------------------------------------


class Deaf(Right):
    """Updates nothing."""

    def update_cluster(self, context, cluster, scale_manager=None, rollback=False):
        return StatusReport(progress=Progress.COMPLETE)


class Restarting(Right):
    """Removes all nodes before each update."""

    def update_cluster(self, context, cluster, scale_manager=None, rollback=False):
        with self.engine.open() as content:
            content['stacks'][self.name_of(cluster)]['nodes'] = {}
        return self.wanted(context, cluster)


class Vanishing(Right):
    """Takes a stack without nodes for one that is lost."""

    def progress(self, stack):
        nodes = sum(group['count'] for group in stack['groups'].values())
        return super().progress(stack) if nodes else Progress.FAILED


class Countless(Right):
    """Makes one node for each group."""

    def groups(self, context, cluster):
        found = super().groups(context, cluster)
        return {name: of | {'count': 1} for name, of in found.items()}


class Set(Right):
    """Keeps the image that a stack began with."""

    def groups(self, context, cluster):
        return {
            name: of | {'image': 'kit-1'} for name, of in super().groups(context, cluster).items()
        }


class Plain(Right):
    """Drops the parameters."""

    def groups(self, context, cluster):
        return {
            name: of | {'parameters': {}} for name, of in super().groups(context, cluster).items()
        }


class Leveller(Right):
    """Knows the values of the cluster, and none of a group."""

    def groups(self, context, cluster):
        image = cluster.spec.machine.image
        return {
            name: of | {'image': image} for name, of in super().groups(context, cluster).items()
        }


class Hoarder(Right):
    """Keeps the groups that are dropped."""

    def groups(self, context, cluster):
        found = super().groups(context, cluster)
        try:
            return self.engine.get(self.name_of(cluster))['groups'] | found
        except NoSuchStack:
            return found


class Blind(Right):
    """Removes any nodes, and not the named ones."""

    def resize_cluster(self, context, cluster, *, nodegroup, node_count, nodes_to_remove=()):
        super().resize_cluster(
            context=context, cluster=cluster, nodegroup=nodegroup, node_count=node_count,
            nodes_to_remove=nodes_to_remove,
        )  # fmt: skip
        return self.wanted(context, cluster)


class Trusting(Right):
    """Takes any name for that of a node."""

    def resize_cluster(self, context, cluster, *, nodegroup, node_count, nodes_to_remove=()):
        return self.wanted(context, cluster, remove=nodes_to_remove)


class Sweeping(Right):
    """Renews every node in a resize."""

    def resize_cluster(self, context, cluster, *, nodegroup, node_count, nodes_to_remove=()):
        nodes = self.engine.get(self.name_of(cluster))['nodes']
        return self.wanted(context, cluster, remove=nodes)


class Wholesale(Right):
    """Upgrades all groups to what one is to have."""

    def upgrade_cluster(self, context, cluster, *, cluster_template, nodegroups, strategy):
        groups = self.groups(context, cluster)
        image = groups[nodegroups[0].name]['image']
        groups = {name: of | {'image': image} for name, of in groups.items()}
        self.engine.want(self.name_of(cluster), groups)
        return self.started(cluster)


class Onward(Right):
    """Does not go back."""

    def update_cluster(self, context, cluster, scale_manager=None, rollback=False):
        if rollback:
            return StatusReport(progress=Progress.COMPLETE)
        return super().update_cluster(context=context, cluster=cluster)


class Rough(Right):
    """Replaces the nodes that it is to reboot."""

    def reboot_cluster(self, context, cluster, *, hard=False, nodes=None):
        there = self.engine.get(self.name_of(cluster))['nodes']
        return self.wanted(context, cluster, remove=there if nodes is None else nodes)


class Lazy(Right):
    """Reboots, rebuilds and rotates nothing."""

    def reboot_cluster(self, context, cluster, *, hard=False, nodes=None):
        return StatusReport(progress=Progress.COMPLETE)

    def rebuild_cluster(self, context, cluster, *, nodes=None):
        return StatusReport(progress=Progress.COMPLETE)

    def rotate_credential(self, context, cluster):
        return StatusReport(progress=Progress.COMPLETE)

    def rotate_ca_certificate(self, context, cluster):
        return StatusReport(progress=Progress.COMPLETE)


class Zealous(Right):
    """Reboots and rebuilds all nodes, whichever were named."""

    def named(self, cluster, nodes):
        super().named(cluster, nodes)
        return super().named(cluster, None)


class Idle(Right):
    """Never comes to the end of an update."""

    def update_cluster(self, context, cluster, scale_manager=None, rollback=False):
        with self.errors(context), self.engine.open() as content:
            self.engine._work(content, self.name_of(cluster))
            content['works'][self.name_of(cluster)]['left'] = 1e9
        return self.started(cluster)


class Restless(Reported):
    """Is at work again after the end."""

    def changed(self, report, context, cluster):
        if report.progress is not Progress.COMPLETE:
            return report
        if cluster.driver_state.get('done'):
            return altered(report, progress=Progress.IN_PROGRESS)
        return altered(report, driver_state={**cluster.driver_state, 'done': True})


class Vengeful(Right):
    """Lets no name be used again."""

    used = {}  # noqa: RUF012

    def create_cluster(self, context, cluster, cluster_create_timeout):
        if self.used.setdefault(cluster.name, cluster.id) != cluster.id:
            raise ClusterDriverError('The name was used before.')
        return super().create_cluster(context=context, cluster=cluster, cluster_create_timeout=0)


class Renewing(Right):
    """Replaces every node in an update."""

    def update_cluster(self, context, cluster, scale_manager=None, rollback=False):
        return self.wanted(
            context, cluster, remove=self.engine.get(self.name_of(cluster))['nodes']
        )


class Meddler(Right):
    """Updates all stacks to what one is to be."""

    def update_cluster(self, context, cluster, scale_manager=None, rollback=False):
        groups = self.groups(context, cluster)
        with self.engine.open() as content:
            names = list(content['stacks'])
        for name in names:
            self.engine.want(name, groups)
        return self.started(cluster)


class Stuck(Right):
    """Never comes to the end of what it is asked for beside an update."""

    def touched(self, context, cluster):
        with self.errors(context), self.engine.open() as content:
            self.engine._work(content, self.name_of(cluster))
            content['works'][self.name_of(cluster)]['left'] = 1e9
        return self.started(cluster)

    def resize_cluster(self, context, cluster, *, nodegroup, node_count, nodes_to_remove=()):
        return self.touched(context, cluster)

    def upgrade_cluster(self, context, cluster, *, cluster_template, nodegroups, strategy):
        return self.touched(context, cluster)

    def reboot_cluster(self, context, cluster, *, hard=False, nodes=None):
        return self.touched(context, cluster)

    def rebuild_cluster(self, context, cluster, *, nodes=None):
        return self.touched(context, cluster)

    def rotate_credential(self, context, cluster):
        return self.touched(context, cluster)

    def rotate_ca_certificate(self, context, cluster):
        return self.touched(context, cluster)


# ---- beside each other, left over, remembered -----------------------------------------------


class Namesake(Right):
    """Names a stack after the cluster's name, which others can have too."""

    def name_of(self, cluster):
        return f'kiln-{cluster.name}'


class Gossip(Reported):
    """Tells of each cluster to all others."""

    seen = []  # noqa: RUF012

    def changed(self, report, context, cluster):
        self.seen.append(cluster.name)
        return altered(report, outputs={'seen': list(self.seen)})


class Bully(Right):
    """Deletes whatever is in the engine."""

    def delete_cluster(self, context, cluster):
        report = super().delete_cluster(context=context, cluster=cluster)
        with self.engine.open() as content:
            for name in list(content['stacks']):
                self.engine._work(content, name, drop=True)
        return report


class Messy(Right):
    """Leaves a network."""

    def create_cluster(self, context, cluster, cluster_create_timeout):
        with self.engine.open() as content:
            content['stacks'][f'network-of-{cluster.id}'] = {'nodes': {}, 'groups': {}}
        return super().create_cluster(context=context, cluster=cluster, cluster_create_timeout=0)


class Planner(Right):
    """Begins when it is asked whether it could."""

    def validate(self, context, cluster, plan):
        self.wanted(context, cluster)
        return ()


class Keeper(Right):
    """Knows its clusters by itself."""

    def __init__(self):
        self.known = set()

    def create_cluster(self, context, cluster, cluster_create_timeout):
        self.known.add(cluster.id)
        return super().create_cluster(context=context, cluster=cluster, cluster_create_timeout=0)

    def update_cluster_status(self, context, cluster):
        if cluster.id not in self.known:
            return StatusReport(progress=Progress.FAILED, reason='what cluster?')
        return super().update_cluster_status(context=context, cluster=cluster)


class Local(Keeper):
    """Knows its clusters in one process."""

    known = set()  # noqa: RUF012

    def __init__(self):
        """Leave what is known to the class."""


class Nowhere(Right):
    """Raises whatever its engine raises."""

    def update_cluster_status(self, context, cluster):
        try:
            return super().update_cluster_status(context=context, cluster=cluster)
        finally:
            with self.engine.open(checked=False) as content:
                if content['away']:
                    raise EngineAway('away')


# ---- what exists ---------------------------------------------------------------------------


class Credulous(Right):
    """Goes on with whatever users call."""

    def find_existing(self, context, cluster, reference):
        return Existing(driver_state={'existing': reference})


class Grasping(Right):
    """Takes what other clusters have."""

    def find_existing(self, context, cluster, reference):
        with self.errors(context):
            self.engine.get(reference)
        return Existing(driver_state={'existing': reference})


class Marking(Right):
    """Makes something with a look."""

    def find_existing(self, context, cluster, reference):
        found = super().find_existing(context=context, cluster=cluster, reference=reference)
        self.engine.want(f'kiln-{cluster.id}', {})
        return found


class Beginner(Right):
    """Begins with a stack of its own, whatever exists."""

    def name_of(self, cluster):
        return f'kiln-{cluster.id}'


class Impatient(Right):
    """Goes on once: a creation that is repeated finds that the stack has an owner."""

    def create_cluster(self, context, cluster, cluster_create_timeout):
        existing = cluster.driver_state.get('existing')
        if existing and self.engine.get(existing)['owner']:
            raise ClusterDriverError(f'Stack {existing} belongs to a cluster.')
        return super().create_cluster(
            context=context, cluster=cluster, cluster_create_timeout=cluster_create_timeout
        )


class Ravenous(Right):
    """Deletes what existed, although no creation has reached it."""

    def has_reached(self, cluster):
        return True
