"""Contract of cluster drivers: the calls of the engine, the hooks of an author.

Four members are required. Overriding any other method declares the capability. The engine
calls every method by keyword. A method declares or starts something and returns at once:
waiting, retrying and deadlines are the engine's. The engine can repeat every call, also
after a crash; a repeated call must have the same effect as one call.

A driver raises :class:`~kiln.clusters.exceptions.ClusterDriverError` and nothing else. Any
other error, and an answer of another kind than the method names, is reported as a
:class:`~kiln.clusters.exceptions.ClusterDriverDefect`, with the driver, the method and the
place. An error before the first entry of an operation's journal leaves the cluster as it was.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self

from kiln.cluster_drivers.monitor import Monitor
from kiln.cluster_drivers.readiness import ReadyRule, WhenActive
from kiln.cluster_drivers.records import ClusterType
from kiln.cluster_drivers.scale import DefaultScaleManager, ScaleManager
from kiln.cluster_drivers.templates.definition import TemplateDefinition
from kiln.cluster_drivers.values import (
    DRAINED,
    METHODS,
    Bootstrap,
    Cap,
    Context,
    Drained,
    Existing,
    PlannedChange,
    Readiness,
    StatusReport,
    join_token,
)
from kiln.cluster_drivers.verbs import Verb
from kiln.clusters.exceptions import MissingCapability, Problem
from kiln.clusters.models import Cluster, Node, Operation
from kiln.clusters.spec import ClusterTemplate, NodeGroupSpec, Strategy
from kiln.plugins.signatures import differing_signatures

#: Increased when a driver written for the old contract can no longer work.
CONTRACT_VERSION = 1


def _definition_violations(driver_class: type[ClusterDriver]) -> Iterator[str]:
    """Yield the violations that also an abstract driver class must not have."""
    contract = next(one for one in driver_class.__mro__[1:] if one.__module__ == __name__)
    names = [name for name in dir(contract) if not name.startswith('_')]
    yield from differing_signatures(contract, driver_class, names)


def _overridden(driver_class: type, name: str) -> bool:
    return getattr(driver_class, name) is not getattr(ClusterDriver, name)


class ClusterDriver(abc.ABC):
    """Builds clusters of some types on any engine: Heat, Terraform, an API of its own.

    A driver keeps no state between calls. It returns its data about a cluster in reports,
    as ``driver_handle`` and ``driver_state``, and reads them from the cluster later. The
    handle has at most 255 characters, and JSON can hold the state and the outputs.
    """

    contract_version: ClassVar[int] = CONTRACT_VERSION
    #: The name of the driver's directory and entry point.
    name: ClassVar[str]
    #: Three numbers such as ``1.0.0``; clusters stay with the version that built them.
    version: ClassVar[str]
    beta: ClassVar[bool] = False
    #: Capabilities beside create, update and delete; derived from the overridden methods.
    capabilities: ClassVar[frozenset[Cap]] = frozenset()
    #: Inherited capabilities that this driver does not have.
    missing_capabilities: ClassVar[frozenset[Cap]] = frozenset()
    #: Operations of this driver only, by name: ``kiln x DRIVER VERB``.
    verbs: ClassVar[Mapping[str, Verb]] = MappingProxyType({})

    # Capabilities that kiln's engine provides for all drivers of a base class.
    _by_engine: ClassVar[frozenset[Cap]] = frozenset()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if 'capabilities' in vars(cls):
            raise TypeError(
                f'{cls.__name__} says its capabilities twice: they follow from what it overrides. '
                f'To take one away, name it in missing_capabilities.'
            )
        if wrong := list(_definition_violations(cls)):
            raise TypeError(f'{cls.__name__} breaks the contract: {"; ".join(wrong)}')
        overridden = {cap for cap, name in METHODS.items() if _overridden(cls, name)}
        cls.capabilities = (cls._by_engine | overridden) - cls.missing_capabilities

    @classmethod
    def open(cls, *, overrides: Path | None = None) -> Self:
        """Return the driver, ready for calls from many threads, without network access.

        :param overrides: A directory of the operator's templates; each replaces the
            driver's template of the same name.
        :raises InvalidClusterDriver: the templates cannot be used.
        """
        return cls()

    def require(self, cap: Cap) -> None:
        """Check that the driver has a capability; called before anything is changed.

        :raises MissingCapability: the driver lacks the capability.
        """
        if cap in self.capabilities:
            return
        can = ', '.join(sorted({'create', 'update', 'delete', *self.capabilities}))
        raise MissingCapability(
            f'Cluster driver {self.name} cannot {cap.value.replace("_", " ")}.', f'It can: {can}.'
        )

    # ---- the four required members -----------------------------------------

    @property
    @abc.abstractmethod
    def provides(self) -> Sequence[ClusterType | tuple[str, str, str] | Mapping[str, str]]:
        """The types of cluster: (server_type, os, coe), where ``*`` is any.

        Read without creating a driver, so it must depend on the class alone; a plain
        class attribute is enough.
        """

    @abc.abstractmethod
    def create_cluster(
        self, context: Context, cluster: Cluster, cluster_create_timeout: float
    ) -> StatusReport | None:
        """Start to create a cluster; do nothing if it was started already.

        :param cluster_create_timeout: Seconds after which the engine gives up, for a
            driver whose own engine needs the value.
        :returns: A first report, with the handle; None where kiln's engine builds the cluster.
        :raises ClusterDriverError: the creation cannot be started.
        """

    @abc.abstractmethod
    def update_cluster(
        self,
        context: Context,
        cluster: Cluster,
        scale_manager: ScaleManager | None = None,
        rollback: bool = False,
    ) -> StatusReport | None:
        """Start to bring the cluster to ``cluster.spec``, also its new and dropped groups.

        :param scale_manager: Influences which nodes are removed when a group shrinks.
        :param rollback: A change failed or was not wanted: ``cluster.spec`` is that of the last
            operation that succeeded.
        :raises ClusterDriverError: the update cannot be started.
        """

    @abc.abstractmethod
    def delete_cluster(self, context: Context, cluster: Cluster) -> StatusReport | None:
        """Start to remove everything of a cluster; succeed if the cluster is gone already.

        kiln removes the row when the driver reports COMPLETE and kiln's own records have
        no resources left.

        :raises ClusterDriverError: the deletion cannot be started.
        """

    # ---- optional: reports --------------------------------------------------

    def update_cluster_status(self, context: Context, cluster: Cluster) -> StatusReport | None:
        """Return the progress of the driver's own engine; None where kiln's engine works.

        The engine polls this method every 5 seconds until an operation is COMPLETE or
        FAILED, so it must be one cheap request. If the driver's engine does not answer,
        report UNKNOWN; if it does not have the cluster, FAILED, or COMPLETE once its deletion
        was requested. A check of the cluster calls it too, and fails at FAILED and UNKNOWN.
        """
        return None

    def validate(
        self, context: Context, cluster: Cluster, plan: PlannedChange
    ) -> Sequence[Problem]:
        """Return all problems of the desired cluster, before the first side effect.

        Each with a message, and with its place in the cluster file as the path. The call has
        no effect, and does not wait.
        """
        return ()

    def preview_cluster(
        self, context: Context, cluster: Cluster, plan: PlannedChange
    ) -> Sequence[str]:
        """Return what the driver's own engine would do for a change, a line for each kind.

        First of all what would be lost: each line by which nodes are lost is a ``Loss``, which
        users are asked to confirm. Shown with a plan, before anything happens; for a driver with
        an engine of its own. The call has no effect, and is one request at most.

        :raises ClusterDriverError: the engine cannot foresee it now; the plan says so.
        """
        return ()

    def find_existing(self, context: Context, cluster: Cluster, reference: str) -> Existing:
        """Return what exists in the driver's own engine, for a cluster that goes on with it.

        The cluster is created with the ``driver_state`` of the answer: that keeps what fits, and
        a deletion leaves alone what no creation has reached. The call has no effect.

        :param reference: What users call it, such as the name or the id of a stack.
        :raises ClusterDriverError: it is not there, is another cluster's, or cannot change now.
        """
        raise MissingCapability(
            f'Cluster driver {self.name} goes on with nothing that exists.', 'Name one that does.'
        )

    def get_monitor(self, context: Context, cluster: Cluster) -> Monitor | None:
        """Return the monitor of the cluster's utilisation.

        A driver that overrides the method has one for each cluster; the default is None.
        """
        return None

    def get_scale_manager(self, context: Context, cluster: Cluster) -> ScaleManager:
        """Return the scale manager; the default follows the group's rules alone."""
        return DefaultScaleManager(context, cluster)

    # ---- optional: capabilities ---------------------------------------------

    def resize_cluster(
        self,
        context: Context,
        cluster: Cluster,
        *,
        nodegroup: NodeGroupSpec,
        node_count: int,
        nodes_to_remove: Sequence[str] = (),
    ) -> StatusReport | None:
        """Start to bring a group to a count; remove the named nodes.

        :param nodes_to_remove: The nodes that a user named, as the driver's engine calls them.
        :raises ClusterDriverError: the engine has no such node.
        """
        self.require(Cap.RESIZE)
        return None

    def upgrade_cluster(
        self,
        context: Context,
        cluster: Cluster,
        *,
        cluster_template: ClusterTemplate,
        nodegroups: Sequence[NodeGroupSpec],
        strategy: Strategy,
    ) -> StatusReport | None:
        """Start to replace the nodes of some groups by nodes of another template.

        :param nodegroups: The groups to upgrade; each has a strategy of its own.
        :param strategy: The strategy of the first of them.
        """
        self.require(Cap.UPGRADE)
        return None

    def rebuild_cluster(
        self, context: Context, cluster: Cluster, *, nodes: Sequence[str] | None = None
    ) -> StatusReport | None:
        """Start to rebuild nodes in their places, a few at a time; None means all nodes.

        :param nodes: The nodes that a user named, as the driver's engine calls them.
        """
        self.require(Cap.REBUILD)
        return None

    def reboot_cluster(
        self,
        context: Context,
        cluster: Cluster,
        *,
        hard: bool = False,
        nodes: Sequence[str] | None = None,
    ) -> StatusReport | None:
        """Start to reboot nodes, a few at a time; None means all, hard cuts the power.

        :param nodes: The nodes that a user named, as the driver's engine calls them.
        """
        self.require(Cap.REBOOT)
        return None

    def rotate_credential(self, context: Context, cluster: Cluster) -> StatusReport | None:
        """Start to give the cluster new credentials for the cloud.

        While the report is IN_PROGRESS, :meth:`update_cluster_status` is polled. To renew twice
        is allowed, as after a crash. A driver of nodes can return None once it is done; of its
        report only the progress and the reason count.
        """
        self.require(Cap.ROTATE_CREDENTIAL)
        return None

    def rotate_ca_certificate(self, context: Context, cluster: Cluster) -> StatusReport | None:
        """Start to give the cluster a new certificate authority; as for credentials."""
        self.require(Cap.ROTATE_CA_CERTIFICATE)
        return None

    # ---- optional: before and after ----------------------------------------

    def pre_create_cluster(self, context: Context, cluster: Cluster, operation: Operation) -> None:
        """Prepare before anything is built; an error ends the operation."""

    def post_create_cluster(
        self, context: Context, cluster: Cluster, operation: Operation
    ) -> None:
        """Finish once all groups are as desired."""

    def pre_update_cluster(self, context: Context, cluster: Cluster, operation: Operation) -> None:
        """Prepare before anything changes; ``operation.kind`` is the kind of change."""

    def post_update_cluster(
        self, context: Context, cluster: Cluster, operation: Operation
    ) -> None:
        """Finish once everything has changed."""

    def pre_delete_cluster(self, context: Context, cluster: Cluster, operation: Operation) -> None:
        """Prepare before any node is removed; an error delays deletion up to a deadline."""

    def post_delete_cluster(
        self, context: Context, cluster: Cluster, operation: Operation
    ) -> None:
        """Finish once nothing is left; the row can still be read."""


class NodeClusterDriver(ClusterDriver):
    """Builds clusters of nodes through compute drivers; kiln's engine does the work.

    The declaration alone defines such a cluster. So the engine makes no calls that change
    it: it plans the actions, runs them, resumes them and rolls them back itself.
    A driver defines what a machine is given, and when the machine is a ready node.

    A driver that makes machines part of a cluster does so in polls, hooks and :meth:`tend`.
    Changes succeed also if a machine does what it is asked and its answer is lost, and if a
    node is dead, the oldest too. Nothing is wrong with the cluster at the end of an operation: a
    command that ends with it leaves tending to a conductor. Once the driver has tended the
    cluster, the cluster itself counts the nodes that kiln has.

    Calls of :meth:`bootstrap`, :meth:`is_ready` and :meth:`drain` about different nodes of a
    cluster run at the same time, each on a thread of its own, and after a crash one of another
    process can still be under way. A list of members that such a call reads, changes and
    writes back loses what another call wrote: write only if the list has not changed, let one
    leader write it, or hold a lock of the cluster's own engine.
    """

    #: The rule by which a node is ready.
    ready: ClassVar[ReadyRule] = WhenActive()
    #: True if no other node is built before a node of a control group is ready. Not needed
    #: where machines are given no data about each other: then all of them boot at once.
    control_first: ClassVar[bool] = True
    #: Ports such as ``7946/udp`` that each node must open to all others, and those that only
    #: nodes of control groups must. A plan is refused if security groups close some of them.
    open_ports: ClassVar[Sequence[str]] = ()
    control_ports: ClassVar[Sequence[str]] = ()

    _by_engine = frozenset({Cap.RESIZE, Cap.UPGRADE, Cap.REBUILD, Cap.REBOOT})
    _overrides: Path | None = None
    _definition: TemplateDefinition | None = None

    @classmethod
    def open(cls, *, overrides: Path | None = None) -> Self:
        """Return the driver with its templates read and checked."""
        driver = super().open()
        driver._overrides = overrides
        driver._definition = driver._loaded()
        return driver

    @property
    def template_definition(self) -> TemplateDefinition:
        """The template definition in use: read, checked, the same for all calls."""
        if self._definition is None:
            self._definition = self._loaded()
        return self._definition

    @property
    def changed_templates(self) -> str:
        """The digest of the templates if the operator replaced some; else empty.

        The driver's own templates are part of the pin of its clusters.
        """
        return self.template_definition.digest if self._overrides is not None else ''

    def _loaded(self) -> TemplateDefinition:
        definition = self.get_template_definition()
        definition.load(overrides=self._overrides)
        return definition

    # ---- what an author fills in -------------------------------------------

    @abc.abstractmethod
    def get_template_definition(self) -> TemplateDefinition:
        """Return a new definition of the templates; called when the driver is opened."""

    def compute_driver_for(self, cluster: Cluster, nodegroup: NodeGroupSpec) -> str | None:
        """Return the backend for the machines of a group.

        None leaves the choice to the cluster, its template and the site. By default the
        backend that the group names. The same for each call about a group, without waiting:
        the backend is part of what the nodes are made with, and where nodes are built. A name
        that the site does not have is refused before anything is built.
        """
        return nodegroup.machine.compute_driver

    def bootstrap(self, context: Context, cluster: Cluster, node: Node) -> Bootstrap:
        """Return what the machine of a node is given.

        The same for each call about one attempt of a node: after a crash the engine calls
        again and repeats the build with the result. Several calls can be under way at once,
        each on a thread of its own; a slow one delays only its own cluster.

        :raises ClusterDriverError: a value or secret is missing. Nothing is built for the
            node, and the operation fails unless the error is retryable.
        """
        definition = self.template_definition
        found = definition.extract_definition(context, cluster, node)
        token = join_token(context, node) if definition.joins else None
        return Bootstrap(user_data=found.user_data, files=found.files, join_token=token)

    def is_ready(self, context: Context, cluster: Cluster, node: Node) -> Readiness:
        """Return the readiness of a node; polled while its machine runs.

        Several calls can be under way at once, about one node each. An error counts as
        "not ready", and is shown as the reason.
        """
        return self.ready(context, node)

    def drain(self, context: Context, cluster: Cluster, node: Node) -> Drained:
        """Start to move a node's work away; return done once the node has none left.

        Polled until done, or until the ``drain_timeout`` of the group's strategy: then the
        node goes with its work. Several calls can be under way at once, about one node each.
        An error counts as "not done".
        """
        return DRAINED

    def tend(self, context: Context, cluster: Cluster) -> None:
        """Repair what has gone wrong in the whole cluster; one cheap check if nothing has.

        Called periodically by a conductor while no operation works on the cluster, and never
        after a failed change. Nothing else changes the cluster during the call;
        :func:`current_deadline` returns the deadline. A driver that does not override the
        method is not called.

        :raises ClusterDriverError: a problem that remains; it is shown until a later call
            finds nothing.
        """

    @property
    def tends(self) -> bool:
        """True if the driver overrides :meth:`tend`."""
        return type(self).tend is not NodeClusterDriver.tend

    # ---- implemented for all drivers of this base ----------------------------
    # The calls that change a cluster accept the change; the engine does the work.

    def validate(
        self, context: Context, cluster: Cluster, plan: PlannedChange
    ) -> Sequence[Problem]:
        """Return the problems in the parameters of the groups that get new nodes."""
        found = (
            problem
            for group in plan.groups
            if group.added
            for problem in self.template_definition.value_problems(context, cluster, group.name)
        )
        # A mistake in the cluster's own parameters affects every group; report it once.
        return tuple(dict.fromkeys(found))

    def update_cluster_status(self, context: Context, cluster: Cluster) -> StatusReport | None:
        """Return the outputs of the cluster; kiln's engine has the progress.

        Called once all nodes are as an operation wants them, before the operation ends, and
        again if a node has changed meanwhile. Only the outputs of the report are kept. An
        error leaves the stored outputs, and is shown as an event; the operation succeeds.
        """
        return StatusReport(outputs=self.template_definition.get_outputs(context, cluster))

    def create_cluster(
        self, context: Context, cluster: Cluster, cluster_create_timeout: float
    ) -> StatusReport | None:
        return None

    def update_cluster(
        self,
        context: Context,
        cluster: Cluster,
        scale_manager: ScaleManager | None = None,
        rollback: bool = False,
    ) -> StatusReport | None:
        return None

    def delete_cluster(self, context: Context, cluster: Cluster) -> StatusReport | None:
        return None
