"""A site, built from its configuration: store, drivers, backends and engine."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kiln.clock import SYSTEM_CLOCK, Clock, Deadline
from kiln.cluster_drivers.discovery.activation import DiscoverySettings
from kiln.cluster_drivers.discovery.discovery import discover
from kiln.cluster_drivers.monitor import Reading
from kiln.cluster_drivers.selection.matching import preferences_of
from kiln.cluster_drivers.values import Cap, Context, NoSecrets, Secrets
from kiln.cluster_service.drivers import SiteDrivers
from kiln.cluster_service.planning import Planning
from kiln.cluster_service.preflight import Preflight
from kiln.cluster_service.service import Clusters
from kiln.cluster_service.verbs import run_verb
from kiln.cluster_service.views import ClusterView
from kiln.clusters.exceptions import (
    ClusterDriverError,
    ClusterDriverMismatch,
    MissingCapability,
)
from kiln.clusters.limits import DEFAULT_LIMITS, NodeLimits
from kiln.clusters.models import Cause, Cluster, Node
from kiln.db.store import Store
from kiln.engine.conductor import Conductor
from kiln.engine.context import (
    Backends,
    CountOperation,
    EngineSettings,
    ExportReadings,
    Parts,
)
from kiln.engine.driver_context import DriverContexts, existing
from kiln.engine.health.outages import find_outages
from kiln.engine.health.silence import unseen
from kiln.engine.measuring import Meter
from kiln.engine.nodes.join_key import known_key
from kiln.engine.work_sources.base import WorkSource
from kiln.engine.work_sources.database import DatabaseSource
from kiln.engine.work_sources.opening import TlsFiles, open_source
from kiln.fairness.threads import FairThreads
from kiln.hooks.registry import Hooks

if TYPE_CHECKING:
    from kiln.compute.facade import Compute

#: Calls of cluster drivers that are under way at once: of all clusters, and of one.
DRIVER_CALLS = 64
CALLS_EACH = 8
#: Seconds that rounds and calls under way have when conducting ends: a poll of a node takes two
#: at most.
LEAVE_S = 3.0
#: Seconds from the end of conducting until all is closed: what lasts longer is left. Nothing is
#: lost by that, as after a crash.
END_S = 4.0
#: Seconds that the work source and the backends have in any case.
LEAST_S = 0.5


class Site:
    """The clusters of one kiln installation, and an engine for processes that run one."""

    def __init__(
        self,
        store: Store,
        drivers: SiteDrivers,
        backends: Backends,
        *,
        name: str = 'kiln',
        clock: Clock = SYSTEM_CLOCK,
        settings: EngineSettings | None = None,
        open_hooks: Callable[[], Hooks] = Hooks,
        work_source: WorkSource | None = None,
        operation_timeout_s: float = 3600.0,
        check_timeout_s: float = 30.0,
        secrets: Secrets | None = None,
        credentials: str | None = None,
        export_readings: ExportReadings | None = None,
        count_operation: CountOperation | None = None,
        limits: NodeLimits = DEFAULT_LIMITS,
    ) -> None:
        """Take the parts; store, backends and work source are closed with the site.

        :param export_readings: receives what the monitors of clusters measure while this
            process conducts; see :class:`~kiln.engine.context.Parts`.
        :param count_operation: counts the operations that this process has ended.
        """
        self.store = store
        self.drivers = drivers
        self.backends = backends
        self.name = name
        self._clock = clock
        self._open_hooks = open_hooks
        self._settings = settings or EngineSettings()
        self._work_source = work_source or DatabaseSource(store)
        self._meter = Meter(clock)
        self._export_readings = export_readings
        self._count_operation = count_operation
        self._ends: Deadline | None = None
        self._contexts = contexts = DriverContexts(
            store=store, backends=backends, site=name, secrets=secrets or NoSecrets(),
            credentials=credentials,
        )  # fmt: skip
        preflight = Preflight(drivers, backends, contexts, timeout_s=check_timeout_s)
        self.clusters = Clusters(
            store,
            Planning(
                store,
                drivers,
                preflight.image,
                clock=clock,
                contexts=contexts,
                meter=self._meter,
                zones=functools.partial(backends.zones, wait=True),
                limits=limits,
            ),
            preflight,
            clock=clock,
            offer=self._work_source.offer,
            operation_timeout_s=operation_timeout_s,
            limits=limits,
            lease_s=self._settings.lease_s,
        )

    def check_hooks(self) -> None:
        """Return if this process could run a conductor; call it before submitting an operation.

        :raises InvalidHooks: hooks are wrong, with a problem for each mistake.
        """
        self._open_hooks().close()

    def run_verb(
        self, driver: str, verb: str, cluster: str, arguments: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Run a verb, and return its answer; blocks as long as the driver takes.

        Can be repeated. It submits no operation, so nothing of it is journalled.

        :raises ClusterNotFound: the cluster does not exist.
        :raises ClusterDriverMismatch: the cluster belongs to another driver.
        :raises MissingCapability: the driver does not have the verb.
        :raises ClusterDriverError: an argument does not fit, or the verb failed.
        """
        there = self.store.clusters.get(cluster)
        if there.pin.name != driver:
            raise ClusterDriverMismatch(
                f'Cannot run {verb} of {driver}: cluster {there.name!r} belongs to '
                f'{there.pin.name}.'
            )
        context = self._context(there)
        return run_verb(self.drivers.open(there.pin), verb, context, there, arguments)

    def credentials(self, name: str | None) -> str:
        """Return the secret of a name, or the one of the site's own credentials.

        :raises ClusterDriverError: no name is given or set, or no secret has it.
        """
        name = name or self._contexts.credentials
        if name is None:
            raise ClusterDriverError(
                'No credentials are named.',
                'Name their secret as credentials of the cluster, or in [secrets] credentials.',
            )
        return self._contexts.secrets.get(name)

    def metrics(self, cluster: str) -> tuple[Reading, ...]:
        """Return what the driver of a cluster measures; blocks up to the monitor's deadline.

        :raises ClusterNotFound: the cluster does not exist.
        :raises MissingCapability: its driver does not measure it.
        :raises ClusterDriverError: the driver cannot return its monitor.
        """
        there = self.store.clusters.get(cluster)
        driver = self.drivers.open(there.pin)
        driver.require(Cap.MONITOR)
        readings = self._meter.read(driver, self._context(there), there)
        if readings is None:
            raise MissingCapability(
                f'Cluster driver {driver.name} does not measure cluster {there.name!r}.'
            )
        return readings

    def outages(self, view: ClusterView, node: Node | None = None) -> Mapping[str, Cause]:
        """Return by backend why the machines of a settled cluster cannot be polled now.

        Only the backend of ``node`` is asked, if one is given. Blocks until the backends have
        answered, and for a few seconds at most. Nothing is asked while an operation is under
        way: the conductor that works on it reports the same.
        """
        nodes = (view.nodes or ()) if node is None else (node,)
        found = find_outages(self.backends, nodes) if view.settled else {}
        return {name: unseen(name, cause) for name, cause in found.items()}

    def _context(self, cluster: Cluster) -> Context:
        return self._contexts.context(
            cluster,
            nodes=existing(self.store.nodes.of(cluster.id)),
            join_key=functools.partial(known_key, self.store, cluster.id),
            template=self._contexts.template(cluster),
        )

    @contextlib.contextmanager
    def conducting(self) -> Iterator[Conductor]:
        """Work on clusters in this process as long as the block lasts.

        What is under way at its end continues in the backends, and the next conductor
        continues from there.

        :raises InvalidHooks: hooks are wrong; nothing was begun.
        """
        with contextlib.closing(self._open_hooks()) as hooks:
            threads = FairThreads(DRIVER_CALLS, each=CALLS_EACH, name='kiln-cluster-driver')
            conductor = Conductor(
                Parts(
                    store=self.store,
                    backends=self.backends,
                    drivers=self.drivers,
                    clock=self._clock,
                    site=self.name,
                    settings=self._settings,
                    hooks=hooks,
                    secrets=self._contexts.secrets,
                    credentials=self._contexts.credentials,
                    meter=self._meter,
                    export_readings=self._export_readings,
                    count_operation=self._count_operation,
                    run=threads.run,
                ),
                source=self._work_source,
            )
            conductor.start()
            try:
                yield conductor
            finally:
                deadline, self._ends = Deadline.after(LEAVE_S), Deadline.after(END_S)
                threads.close()
                conductor.close(LEAVE_S)
                threads.join(deadline.remaining_s())

    def close(self) -> None:
        """Close everything, once offered work is passed on; safe to repeat."""
        self._work_source.close(self._left_s(5.0))
        self.backends.close(self._left_s(10.0))
        self.store.close()

    def _left_s(self, longest_s: float) -> float:
        """Return how long closing a part is allowed to take."""
        if self._ends is None:
            return longest_s
        return max(LEAST_S, min(longest_s, self._ends.remaining_s()))

    def __enter__(self) -> Site:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_site(
    store: Store,
    options: Any,
    *,
    name: str,
    open_backend: Callable[[str], Compute],
    default_backend: str,
    open_hooks: Callable[[], Hooks] = Hooks,
    clock: Clock = SYSTEM_CLOCK,
    secrets: Secrets | None = None,
    credentials: str | None = None,
    export_readings: ExportReadings | None = None,
    count_operation: CountOperation | None = None,
) -> Site:
    """Return the site that the options of [clusters] describe; no backend is opened.

    :raises ConfigurationError: an option cannot be used.
    """
    settings = DiscoverySettings.from_options(options)
    drivers = SiteDrivers(
        lambda: discover(settings),
        preferences=preferences_of(options),
        overrides=Path(options.template_path).expanduser() if options.template_path else None,
    )
    return Site(
        store,
        drivers,
        Backends(open_backend, default=default_backend),
        name=name,
        clock=clock,
        open_hooks=open_hooks,
        settings=EngineSettings(
            lease_s=options.lease,
            quiesce_s=options.quiesce,
            watch_s=options.watch,
            outage_check_s=options.outage_check,
            max_building=options.max_building,
        ),
        work_source=open_source(
            options.work_source, store, claim_s=options.lease, sweep_s=options.sweep_interval,
            files=TlsFiles(
                ca=options.work_source_ca, cert=options.work_source_cert,
                key=options.work_source_key,
            ),
            clock=clock,
        ),
        operation_timeout_s=options.operation_timeout,
        secrets=secrets,
        credentials=credentials,
        export_readings=export_readings,
        count_operation=count_operation,
        limits=NodeLimits(
            max_nodes_per_cluster=options.max_nodes_per_cluster,
            max_nodes_per_owner=options.max_nodes_per_owner,
            max_nodes_per_site=options.max_nodes_per_site,
            site_owner=credentials,
        ),
    )  # fmt: skip
