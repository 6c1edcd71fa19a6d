"""The driver class: it asks the engine for a stack, and reports what the engine does."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.monitor import Metric, Monitor
from kiln.cluster_drivers.parameters import Parameter
from kiln.cluster_drivers.scale import ScaleManager
from kiln.cluster_drivers.values import Context, PlannedChange, Progress, StatusReport
from kiln.clusters.exceptions import ClusterDriverError, Problem
from kiln.clusters.models import Cluster
from kiln.clusters.spec import NodeGroupSpec

from . import version as manifest
from .engine import CONFIG, Engine

PARAMETERS = {
    'theme': Parameter(name='theme', choices=('light', 'dark'), help='How its pages look.'),
}


class Driver(ClusterDriver):
    """Builds each cluster as a stack of the engine that operators have configured.

    The stack has a name that follows from the cluster, so that it is found again without a
    handle, and by every process.
    """

    name = manifest.driver
    version = manifest.version
    provides = manifest.provides  # pyright: ignore  # a property in the contract
    #: How the kit reaches an engine for tests; nothing else imports it.
    bench = '.bench:StackBench'
    #: The file that names the engine.
    config = CONFIG

    def create_cluster(
        self, context: Context, cluster: Cluster, cluster_create_timeout: float
    ) -> StatusReport:
        """Ask for a stack; for an existing one this changes nothing."""
        return self._apply(context, cluster)

    def update_cluster(
        self,
        context: Context,
        cluster: Cluster,
        scale_manager: ScaleManager | None = None,
        rollback: bool = False,
    ) -> StatusReport:
        """Ask for all that the cluster is to be, which a rollback is, too."""
        return self._apply(context, cluster)

    def resize_cluster(
        self,
        context: Context,
        cluster: Cluster,
        *,
        nodegroup: NodeGroupSpec,
        node_count: int,
        nodes_to_remove: Sequence[str] = (),
    ) -> StatusReport:
        """Ask for another number of machines; the engine chooses which go."""
        if nodes_to_remove:
            raise ClusterDriverError(
                'The engine chooses itself which machines it removes.', 'Name none.'
            )
        return self._apply(context, cluster, {nodegroup.name: node_count})

    def delete_cluster(self, context: Context, cluster: Cluster) -> StatusReport:
        """Ask for the end of the stack; success if it is gone."""
        with self.connected(context) as engine:
            engine.delete(stack_of(cluster))
        # From now on it is right that there is no stack.
        return StatusReport(progress=Progress.IN_PROGRESS, driver_state={'deleted': True})

    def update_cluster_status(self, context: Context, cluster: Cluster) -> StatusReport:
        """Report how far the engine is."""
        try:
            with self.connected(context) as engine:
                stack = engine.look(stack_of(cluster))
        except ClusterDriverError as exc:
            return StatusReport(progress=Progress.UNKNOWN, reason=exc.reason)
        if stack is None:
            if cluster.driver_state.get('deleted'):
                return StatusReport(progress=Progress.COMPLETE)
            return StatusReport(progress=Progress.FAILED, reason='The engine has no such stack.')
        if trouble := stack.get('trouble'):
            return StatusReport(progress=Progress.FAILED, reason=trouble)
        built, wanted = stack['built'], stack['groups']
        reason = f'{sum(built.values())} machines exist, {sum(wanted.values())} are wanted.'
        complete = built == {name: count for name, count in wanted.items() if count}
        return StatusReport(
            progress=Progress.COMPLETE if complete else Progress.IN_PROGRESS,
            reason=reason,
            outputs={'machines': built, 'pages': f'http://{cluster.name}.example.com/'},
        )

    def rotate_credential(self, context: Context, cluster: Cluster) -> StatusReport:
        """Hand the stack over to the account whose password the site has now."""
        return self._apply(context, cluster)

    def validate(
        self, context: Context, cluster: Cluster, plan: PlannedChange
    ) -> Sequence[Problem]:
        """Report parameters that do not exist or do not fit."""
        found = []
        for name, value in cluster.spec.machine.parameters.items():
            known = PARAMETERS.get(name)
            wrong = known.wrong(value) if known else f'it has only {", ".join(PARAMETERS)}'
            if wrong:
                found.append(Problem(message=wrong, path=f'parameters.{name}'))
        for group in cluster.spec.groups:
            if group.machine.parameters:
                wrong = f'group {group.name} has parameters of its own: a stack has one theme'
                found.append(Problem(message=wrong, path=f'nodegroups[{group.name}].parameters'))
        return found

    def get_monitor(self, context: Context, cluster: Cluster) -> Monitor:
        """Return the monitor that counts machines."""
        return StackMonitor(context, cluster, self)

    @contextlib.contextmanager
    def connected(self, context: Context) -> Iterator[Engine]:
        """Connect to the engine.

        :raises ClusterDriverError: it is away, or the credentials do not exist.
        """
        password = context.secrets.get(context.credentials) if context.credentials else ''
        try:
            yield Engine(self.config, password)
        except OSError as exc:
            raise ClusterDriverError(
                f'The stack engine does not answer: {exc.strerror}.',
                'Check it, and /etc/stack/client.conf.',
                retryable=True,
            ) from exc

    def _apply(
        self, context: Context, cluster: Cluster, counts: Mapping[str, int] | None = None
    ) -> StatusReport:
        groups = {one.name: one.shape.count for one in cluster.spec.groups}
        theme = cluster.spec.machine.parameters.get('theme', 'light')
        with self.connected(context) as engine:
            engine.apply(stack_of(cluster), {**groups, **(counts or {})}, theme=theme)
        return StatusReport(
            progress=Progress.IN_PROGRESS, driver_handle=stack_of(cluster), driver_state={}
        )


class StackMonitor(Monitor):
    """Counts the machines of a stack."""

    metrics = (Metric('machines', 'machines', 'Machines that the engine has built.'),)

    def __init__(self, context: Context, cluster: Cluster, driver: Driver) -> None:
        super().__init__(context, cluster)
        self._driver = driver

    def pull(self) -> Mapping[str, float | None]:
        """Return the number; nothing without a stack."""
        with self._driver.connected(self.context) as engine:
            stack = engine.look(stack_of(self.cluster))
        return {} if stack is None else {'machines': sum(stack['built'].values())}


def stack_of(cluster: Cluster) -> str:
    """Return the name of a cluster's stack."""
    return f'kiln-{cluster.id}'
