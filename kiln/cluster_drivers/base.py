"""The contract of cluster drivers: what the engine calls, and what an author fills in.

Four members are required; what else a class overrides it can do, and nothing is said
twice. The engine calls every method by keyword. A method declares, or starts
something, and returns at once: waiting, retrying and deadlines are the engine's.
Whatever is called may be called again, after a crash too, and must then do no more
than once would have.

A driver raises :class:`~kiln.clusters.exceptions.ClusterDriverError` and nothing else;
before the first entry of an operation's journal that leaves the cluster as it was.
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
    Bootstrap,
    Cap,
    Context,
    Drained,
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

#: Raised when a driver written for the old contract could no longer work.
CONTRACT_VERSION = 1

#: What a driver overrides to have a capability; all of it.
METHODS: Mapping[Cap, tuple[str, ...]] = {
    Cap.RESIZE: ('resize_cluster',),
    Cap.UPGRADE: ('upgrade_cluster',),
    Cap.REBUILD: ('rebuild_cluster',),
    Cap.REBOOT: ('reboot_cluster',),
    Cap.NODEGROUPS: ('create_nodegroup', 'update_nodegroup', 'delete_nodegroup'),
    Cap.ROTATE_CREDENTIAL: ('rotate_credential',),
    Cap.ROTATE_CA_CERTIFICATE: ('rotate_ca_certificate',),
    Cap.MONITOR: ('get_monitor',),
}


def _definition_violations(driver_class: type[ClusterDriver]) -> Iterator[str]:
    """Yield what no class of drivers may be, whether abstract or not."""
    contract = next(one for one in driver_class.__mro__[1:] if one.__module__ == __name__)
    names = [name for name in dir(contract) if not name.startswith('_')]
    yield from differing_signatures(contract, driver_class, names)
    for cap, methods in METHODS.items():
        lacking = [name for name in methods if not _overridden(driver_class, name)]
        if cap not in driver_class._by_engine and 0 < len(lacking) < len(methods):
            yield f'it lacks {", ".join(lacking)}, which belong to {methods[0]}'


def _overridden(driver_class: type, name: str) -> bool:
    return getattr(driver_class, name) is not getattr(ClusterDriver, name)


class ClusterDriver(abc.ABC):
    """Builds clusters of some types on any engine: Heat, Terraform, an API of its own.

    What it knows of a cluster between two calls it returns in reports, as
    ``driver_handle`` and ``driver_state``, and finds again on the cluster.
    """

    contract_version: ClassVar[int] = CONTRACT_VERSION
    #: The name of its directory and of its entry point.
    name: ClassVar[str]
    #: As ``1.0.0``; clusters stay with the version that built them.
    version: ClassVar[str]
    beta: ClassVar[bool] = False
    #: What it can do beside create, update and delete; follows from what it overrides.
    capabilities: ClassVar[frozenset[Cap]] = frozenset()
    #: What it inherits and cannot do all the same.
    missing_capabilities: ClassVar[frozenset[Cap]] = frozenset()
    #: Operations of its own, by name: ``kiln x DRIVER VERB``.
    verbs: ClassVar[Mapping[str, Verb]] = MappingProxyType({})

    # What kiln's own engine does for all drivers of a base.
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
        overridden = {cap for cap, names in METHODS.items() if _overridden(cls, names[0])}
        cls.capabilities = (cls._by_engine | overridden) - cls.missing_capabilities

    @classmethod
    def open(cls, *, overrides: Path | None = None) -> Self:
        """Return the driver, ready to be called by many threads; touch no network.

        :param overrides: A directory of the operator's templates, each of which takes
            the place of the driver's of the same name.
        :raises InvalidClusterDriver: its templates cannot be used.
        """
        return cls()

    def require(self, cap: Cap) -> None:
        """Return if the driver can do something; asked before anything is changed.

        :raises MissingCapability: it cannot.
        """
        if cap in self.capabilities:
            return
        can = ', '.join(sorted({'create', 'update', 'delete', *self.capabilities}))
        raise MissingCapability(
            f'Cluster driver {self.name} cannot {cap.value.replace("_", " ")}.', f'It can: {can}.'
        )

    # ---- the four of the founding note ------------------------------------

    @property
    @abc.abstractmethod
    def provides(self) -> Sequence[ClusterType | tuple[str, str, str] | Mapping[str, str]]:
        """What it builds: (server_type, os, coe), where ``*`` is any.

        Read without making a driver, so it may depend on nothing but the class;
        a plain class attribute is enough.
        """

    @abc.abstractmethod
    def create_cluster(
        self, context: Context, cluster: Cluster, cluster_create_timeout: float
    ) -> StatusReport | None:
        """Start a cluster; one that was started already is not started again.

        :param cluster_create_timeout: Seconds after which the engine gives up; for
            the information of a driver whose own engine wants to know.
        :returns: A first report, with the handle; None where kiln's engine builds it.
        :raises ClusterDriverError: it cannot be started.
        """

    @abc.abstractmethod
    def update_cluster(
        self,
        context: Context,
        cluster: Cluster,
        scale_manager: ScaleManager | None = None,
        rollback: bool = False,
    ) -> StatusReport | None:
        """Start what leads from the cluster as it is to ``cluster.spec``.

        :param scale_manager: Has a say in which nodes go where fewer are wanted.
        :param rollback: The last update failed; ``cluster.spec`` is the former one.
        :raises ClusterDriverError: it cannot be started.
        """

    @abc.abstractmethod
    def delete_cluster(self, context: Context, cluster: Cluster) -> StatusReport | None:
        """Start to remove everything of a cluster; one that is gone is a success.

        The row goes when the driver reports COMPLETE and nothing is left by kiln's own count.

        :raises ClusterDriverError: it cannot be started.
        """

    # ---- optional: what there is to say -----------------------------------

    def update_cluster_status(self, context: Context, cluster: Cluster) -> StatusReport | None:
        """Return how a foreign engine has come along; None where kiln's own knows.

        Polled, so it is one cheap look. An engine that does not answer is UNKNOWN.
        """
        return None

    def validate(
        self, context: Context, cluster: Cluster, plan: PlannedChange
    ) -> Sequence[Problem]:
        """Return all that is wrong with what is wanted, before the first side effect."""
        return ()

    def get_monitor(self, context: Context, cluster: Cluster) -> Monitor | None:
        """Return what measures the cluster's utilisation; None where nothing does."""
        return None

    def get_scale_manager(self, context: Context, cluster: Cluster) -> ScaleManager:
        """Return who has a say in which nodes go; by default the group's rules alone."""
        return DefaultScaleManager(context, cluster)

    # ---- optional: what can be done ---------------------------------------

    def resize_cluster(
        self,
        context: Context,
        cluster: Cluster,
        *,
        nodegroup: NodeGroupSpec,
        node_count: int,
        nodes_to_remove: Sequence[Node] = (),
    ) -> StatusReport | None:
        """Start to bring a group to a count; the named nodes are the ones that go."""
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
        """Start to replace the nodes of some groups by those of another template."""
        self.require(Cap.UPGRADE)
        return None

    def rebuild_cluster(
        self, context: Context, cluster: Cluster, *, nodes: Sequence[Node] | None = None
    ) -> StatusReport | None:
        """Start to make nodes anew in their places, a few at a time; None is all."""
        self.require(Cap.REBUILD)
        return None

    def reboot_cluster(
        self,
        context: Context,
        cluster: Cluster,
        *,
        hard: bool = False,
        nodes: Sequence[Node] | None = None,
    ) -> StatusReport | None:
        """Start to reboot nodes, a few at a time; None is all, hard is by the switch."""
        self.require(Cap.REBOOT)
        return None

    def create_nodegroup(
        self, context: Context, cluster: Cluster, nodegroup: NodeGroupSpec
    ) -> StatusReport | None:
        """Start a group that the cluster has not had."""
        self.require(Cap.NODEGROUPS)
        return None

    def update_nodegroup(
        self, context: Context, cluster: Cluster, nodegroup: NodeGroupSpec
    ) -> StatusReport | None:
        """Start what leads from a group as it is to what it should be."""
        self.require(Cap.NODEGROUPS)
        return None

    def delete_nodegroup(
        self, context: Context, cluster: Cluster, nodegroup: NodeGroupSpec
    ) -> StatusReport | None:
        """Start to remove a group with all of its nodes."""
        self.require(Cap.NODEGROUPS)
        return None

    def rotate_credential(self, context: Context, cluster: Cluster) -> StatusReport | None:
        """Start to give the cluster new credentials for the cloud."""
        self.require(Cap.ROTATE_CREDENTIAL)
        return None

    def rotate_ca_certificate(self, context: Context, cluster: Cluster) -> StatusReport | None:
        """Start to give the cluster a new certificate authority."""
        self.require(Cap.ROTATE_CA_CERTIFICATE)
        return None

    # ---- optional: before and after ----------------------------------------

    def pre_create_cluster(self, context: Context, cluster: Cluster, operation: Operation) -> None:
        """Do what must be before anything is built; an error ends the operation."""

    def post_create_cluster(
        self, context: Context, cluster: Cluster, operation: Operation
    ) -> None:
        """Do what must be once all groups are as wanted."""

    def pre_update_cluster(self, context: Context, cluster: Cluster, operation: Operation) -> None:
        """Do what must be before anything changes; ``operation.kind`` says what will."""

    def post_update_cluster(
        self, context: Context, cluster: Cluster, operation: Operation
    ) -> None:
        """Do what must be once everything has changed."""

    def pre_delete_cluster(self, context: Context, cluster: Cluster, operation: Operation) -> None:
        """Do what must be before any node goes; an error holds deletion up to a deadline."""

    def post_delete_cluster(
        self, context: Context, cluster: Cluster, operation: Operation
    ) -> None:
        """Do what must be once nothing is left; the row can still be read."""


class NodeClusterDriver(ClusterDriver):
    """Builds clusters of nodes through compute drivers; kiln's engine does the work.

    What such a cluster is follows from its declaration alone. So whatever changes it
    is accepted here, and nothing more: the engine plans the steps, takes them, resumes
    them and rolls them back. A driver says what a machine is given on its way, and
    when it is a node.
    """

    #: How a node is known to be ready.
    ready: ClassVar[ReadyRule] = WhenActive()
    #: Whether no other node is built before one of a control group is ready. Not needed
    #: where machines are told nothing of each other: then all of them boot at a time.
    control_first: ClassVar[bool] = True

    _by_engine = frozenset({Cap.RESIZE, Cap.UPGRADE, Cap.REBUILD, Cap.REBOOT, Cap.NODEGROUPS})
    _overrides: Path | None = None
    _definition: TemplateDefinition | None = None

    @classmethod
    def open(cls, *, overrides: Path | None = None) -> Self:
        """Return the driver, with its templates read and checked."""
        driver = super().open()
        driver._overrides = overrides
        driver._definition = driver._loaded()
        return driver

    @property
    def template_definition(self) -> TemplateDefinition:
        """The definition in use: read, checked, and the same for all calls."""
        if self._definition is None:
            self._definition = self._loaded()
        return self._definition

    @property
    def changed_templates(self) -> str:
        """The digest of the templates where the operator has some of his own; else empty.

        The driver's own are part of what its clusters are pinned to.
        """
        return self.template_definition.digest if self._overrides is not None else ''

    def _loaded(self) -> TemplateDefinition:
        definition = self.get_template_definition()
        definition.load(overrides=self._overrides)
        return definition

    # ---- what an author fills in -------------------------------------------

    @abc.abstractmethod
    def get_template_definition(self) -> TemplateDefinition:
        """Return a new definition of the templates; asked when the driver is opened."""

    def compute_driver_for(self, cluster: Cluster, nodegroup: NodeGroupSpec) -> str | None:
        """Return the backend for the machines of a group.

        None, which is what the group says where it says nothing, leaves it to the
        cluster, its template and the site.
        """
        return nodegroup.machine.compute_driver

    def bootstrap(self, context: Context, cluster: Cluster, node: Node) -> Bootstrap:
        """Return what the machine of a node is given.

        The same for each call about one attempt of a node, for the engine asks again
        after a crash and repeats the build with it.

        :raises ClusterDriverError: a value or secret is missing; nothing is built.
        """
        definition = self.template_definition
        found = definition.extract_definition(context, cluster, node)
        token = join_token(context, node) if definition.joins else None
        return Bootstrap(user_data=found.user_data, files=found.files, join_token=token)

    def is_ready(self, context: Context, cluster: Cluster, node: Node) -> Readiness:
        """Return whether a node does its work; asked again and again while its machine runs.

        An error counts as "not yet", and shows as the reason.
        """
        return self.ready(context, node)

    def drain(self, context: Context, cluster: Cluster, node: Node) -> Drained:
        """Start to take a node's work away, and return whether it has none left.

        Asked again until it has, or until the group's deadline.
        """
        return DRAINED

    def tend(self, context: Context, cluster: Cluster) -> None:
        """Put right what of a whole cluster has gone wrong by itself; one look where nothing has.

        Asked now and then while nobody works on the cluster, and never of one whose last
        change failed. Nobody else changes it meanwhile, and :func:`current_deadline` says
        until when. A driver that does not override it is not asked.

        :raises ClusterDriverError: what is wrong and stays so; people are shown it until
            a later call finds nothing.
        """

    @property
    def tends(self) -> bool:
        """Whether it has something to do for a cluster on which nobody works."""
        return type(self).tend is not NodeClusterDriver.tend

    # ---- what the engine does with that ------------------------------------

    def validate(
        self, context: Context, cluster: Cluster, plan: PlannedChange
    ) -> Sequence[Problem]:
        """Return what is wrong with the parameters of the groups that get new nodes."""
        found = (
            problem
            for group in plan.groups
            if group.added
            for problem in self.template_definition.value_problems(context, cluster, group.name)
        )
        # What the cluster says is wrong for each of its groups, and told once.
        return tuple(dict.fromkeys(found))

    def update_cluster_status(self, context: Context, cluster: Cluster) -> StatusReport | None:
        """Return what people are told of the cluster; how far it is, the engine knows."""
        outputs = self.template_definition.get_outputs(context, cluster)
        return StatusReport(outputs=outputs) if outputs else None

    def create_cluster(
        self, context: Context, cluster: Cluster, cluster_create_timeout: float
    ) -> StatusReport | None:
        """Accept."""
        return None

    def update_cluster(
        self,
        context: Context,
        cluster: Cluster,
        scale_manager: ScaleManager | None = None,
        rollback: bool = False,
    ) -> StatusReport | None:
        """Accept."""
        return None

    def delete_cluster(self, context: Context, cluster: Cluster) -> StatusReport | None:
        """Accept."""
        return None
